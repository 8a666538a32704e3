//! When the job runs next, and up to when a certificate has to last because of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::calendar::Calendar;
use crate::decision::{Threshold, moment};
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::node::zone::local_zone;

use super::layers::short;
use super::timer::{DEFAULT_ON_CALENDAR, Firing, TimerSettings, next_firing, pending_firing};

/// What the command line says about the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes<'a> {
    /// `--on-calendar`; empty where the timer's counts.
    pub on_calendar: &'a [String],
    /// `--timer`.
    pub timer: &'a str,
    /// `--timezone`.
    pub timezone: Option<&'a str>,
    /// `--days-buffer`.
    pub days_buffer: u32,
}

/// The schedule of the job.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The expressions, as they were written.
    pub expressions: Vec<String>,
    /// What they mean, where something starts the job by them; else none.
    starts: Vec<(String, Calendar)>,
    /// Where they come from, in words.
    pub source: String,
    /// The zone of expressions without one.
    pub zone: Tz,
    /// By how much the job may start later than its timer fires: random delay and accuracy together.
    pub slack: Duration,
    /// Next firing, latest start, buffer.
    pub threshold: Threshold,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

impl Schedule {
    /// When the job will have been started again at the latest, counted from when it last came to a decision: the latest start of
    /// the first firing since. None where nothing starts it by a calendar.
    pub fn expected(&self, last_run: DateTime<Utc>) -> Option<DateTime<Utc>> {
        next_firing(&self.starts, self.slack, last_run, self.zone).map(|firing| firing.latest_start)
    }

    /// The warning that the job was not run, if at `now` the latest start of at least two firings since `last_run` has passed. One
    /// may be missed by a node that is down; a timer whose delay is drawn anew at each boot or reload may never come to
    /// start the job (systemd #21166), and a failing service may never come to a decision.
    pub fn missed(&self, last_run: DateTime<Utc>, now: DateTime<Utc>) -> Option<String> {
        let first = next_firing(&self.starts, self.slack, last_run, self.zone)?;
        let second = next_firing(&self.starts, self.slack, first.at, self.zone)?;
        (second.latest_start < now).then(|| {
            format!(
                "the job last came to a decision on {}, and should have been started at least twice since ({}: {}); see why it was not, or failed (systemctl list-timers --all, journalctl -u k8s-certs-renew)",
                moment(last_run),
                self.source,
                self.expressions.join(" | ")
            )
        })
    }
}

/// Works out the schedule as of `now`.
///
/// # Errors
/// [`Exit::Config`]: an expression, a unit file or a zone is wrong; the message says which and where.
pub fn schedule(root: &Root, wishes: &Wishes<'_>, now: DateTime<Utc>) -> Result<Schedule, Failure> {
    schedule_by(root, wishes, now, next_firing)
}

/// Likewise, for one who only looks: a firing is still to come until its latest start has passed.
///
/// # Errors
/// As [`schedule`].
pub fn pending_schedule(root: &Root, wishes: &Wishes<'_>, now: DateTime<Utc>) -> Result<Schedule, Failure> {
    schedule_by(root, wishes, now, pending_firing)
}

/// Stands in for a schedule that cannot be told: the days-buffer alone counts, from now on.
pub fn unknown(days_buffer: u32, now: DateTime<Utc>) -> Schedule {
    Schedule {
        expressions: Vec::new(),
        starts: Vec::new(),
        source: "unknown".to_owned(),
        zone: Tz::UTC,
        slack: Duration::ZERO,
        threshold: Threshold { next_firing: Some(now), latest_start: Some(now), days_buffer },
        warnings: Vec::new(),
    }
}

fn schedule_by(
    root: &Root,
    wishes: &Wishes<'_>,
    now: DateTime<Utc>,
    firing: impl Fn(&[(String, Calendar)], Duration, DateTime<Utc>, Tz) -> Option<Firing>,
) -> Result<Schedule, Failure> {
    let zone = match wishes.timezone {
        Some(name) => name
            .parse::<Tz>()
            .map_err(|_| {
                anyhow::anyhow!(
                    "--timezone: no zone is called '{}'; expected a name such as Europe/Berlin",
                    short(name)
                )
            })
            .or_exit(Exit::Config)?,
        None => local_zone(root).or_exit(Exit::Config)?,
    };
    let mut warnings = Vec::new();
    let (timer, failure) = TimerSettings::read_beside(root, wishes.timer)?;
    let installed = timer.found && !timer.masked;
    match failure {
        Some(failure) if wishes.on_calendar.is_empty() => return Err(failure),
        // a schedule that is given does not need the timer's
        Some(failure) => warnings.push(format!("{failure}; going on with --on-calendar")),
        None => {}
    }
    let (calendars, source) = if !wishes.on_calendar.is_empty() {
        let given = wishes.on_calendar.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
        if installed && !same(&timer.calendars, &given) {
            let of_timer = timer.calendars.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("', '");
            warnings.push(format!("--on-calendar differs from what {} says: '{of_timer}'", wishes.timer));
        }
        (given, "--on-calendar".to_owned())
    } else if installed {
        (timer.calendars.clone(), timer.unit.clone())
    } else {
        let why = if timer.masked { "is masked" } else { "is not installed" };
        warnings.push(format!(
            "{} {why}, so nothing starts the job by itself; judging by the usual schedule, '{DEFAULT_ON_CALENDAR}'",
            wishes.timer
        ));
        (timer.calendars.clone(), "the default".to_owned())
    };
    let slack = timer.latest_delay();
    let firing = firing(&calendars, slack, now, zone);
    let threshold = Threshold {
        next_firing: firing.as_ref().map(|firing| firing.at),
        latest_start: firing.as_ref().map(|firing| firing.latest_start),
        days_buffer: wishes.days_buffer,
    };
    let day = 24 * 60 * 60;
    if slack.as_secs() / day > u64::from(wishes.days_buffer) {
        warnings.push(format!(
            "the timer may start the job up to {} days after its firing, which is more than the days-buffer of {}; the threshold counts both",
            slack.as_secs() / day,
            wishes.days_buffer
        ));
    }
    let expressions = calendars.iter().map(|(text, _)| text.clone()).collect();
    let starts = if installed || !wishes.on_calendar.is_empty() { calendars } else { Vec::new() };
    Ok(Schedule { expressions, starts, source, zone, slack, threshold, warnings })
}

fn parse(text: &str) -> Result<(String, Calendar), Failure> {
    let error = |error| anyhow::anyhow!("the OnCalendar expression '{}' is not valid: {error}", short(text));
    Ok((text.to_owned(), Calendar::parse(text).map_err(error).or_exit(Exit::Config)?))
}

fn same(one: &[(String, Calendar)], other: &[(String, Calendar)]) -> bool {
    let normal = |list: &[(String, Calendar)]| {
        let mut list: Vec<String> = list.iter().map(|(_, calendar)| calendar.to_string()).collect();
        list.sort_unstable();
        list
    };
    normal(one) == normal(other)
}
