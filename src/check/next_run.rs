//! What the run at the next firing will do: it decides by the firing after that.

use crate::decision::{Facts, decide};
use crate::report::check_report::NextRun;
use crate::run::Job;
use crate::run::survey::Survey;
use crate::settings::schedule::schedule;

/// Decides as that run will, if nothing else happens before. None where the timer never fires again.
pub fn next_run(job: &Job<'_>, survey: &Survey) -> Option<NextRun> {
    let at = survey.schedule.threshold.next_firing?;
    let then = schedule(&job.root, &job.wishes, at).ok()?;
    let found = &survey.found;
    let owed = survey.journal.open.as_ref().map(|open| open.restart.clone()).unwrap_or_default();
    let decision = decide(&Facts {
        inventory: &found.inventory,
        threshold: then.threshold,
        now: at,
        // a clock that is wrong now may be right by then
        synchronised: None,
        last_run: None,
        force: false,
        readers: &found.readers,
        owed: &owed,
        cut_off: survey.journal.open.is_some(),
        copies: &found.copies,
        evidence: &survey.evidence,
        restart: job.restart,
        tried: &survey.tried,
        half_written: &found.half_written,
    });
    Some(NextRun {
        at,
        renew: decision.renew.into_iter().map(|item| item.name).collect(),
        restart: decision.restart.into_iter().map(|restart| restart.name).collect(),
        copy: decision.copy.into_iter().map(|item| item.name).collect(),
    })
}
