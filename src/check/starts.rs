//! What starts renewals on this node, beside what the unit files of the timer say of themselves.

use std::path::Path;

use chrono::{DateTime, Utc};

use crate::decision::moment;
use crate::node::competing::competing;
use crate::run::Job;
use crate::run::survey::Survey;

/// Where systemd keeps when a timer with `Persistent=` last fired: the change time of a file for each (systemd.timer(5)).
const STAMPS: &str = "/var/lib/systemd/timers";

/// Other jobs that renew, and a timer that no longer fires: each with what it is about.
pub fn oddities(job: &Job<'_>, survey: &Survey) -> Vec<(&'static str, String)> {
    let others = competing(&job.root, job.wishes.timer).into_iter().map(|other| ("job", other.to_string()));
    others.chain(late(job, survey).map(|message| ("timer", message))).collect()
}

/// A timer that should have fired at least twice since it last did. A long delay that is drawn anew at each boot and reload may
/// keep it from ever firing (systemd #21166).
fn late(job: &Job<'_>, survey: &Survey) -> Option<String> {
    let timer = job.wishes.timer;
    let stamp = job.root.metadata(&Path::new(STAMPS).join(format!("stamp-{timer}"))).ok()?;
    let fired = DateTime::<Utc>::from(stamp.modified().ok()?);
    survey.schedule.missed(fired, job.now)?;
    // what the journal knows has been said already
    if survey.journal.last_run.is_some_and(|ran| survey.schedule.missed(ran, job.now).is_some()) {
        return None;
    }
    Some(format!(
        "{timer} last fired on {}, and should have fired at least twice since; see why: systemctl list-timers --all, systemctl status {timer}",
        moment(fired)
    ))
}
