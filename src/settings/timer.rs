//! The timer that starts the job: when it fires next, and how late the job may then start.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use crate::calendar::Calendar;
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::node::timespan::{self, Timespan};
use crate::node::unit_files::{Assignment, Unit};

use super::layers::short;

/// When the job runs where no timer says it: kubespray's own, the first Monday of the month.
pub const DEFAULT_ON_CALENDAR: &str = "Mon *-*-1,2,3,4,5,6,7 03:00:00";

/// The timer's unit, if no other is named.
pub const DEFAULT_TIMER: &str = "k8s-certs-renew.timer";

/// systemd's own default (`DefaultTimerAccuracySec=`).
const DEFAULT_ACCURACY: Duration = Duration::from_secs(60);

/// Triggers of a timer that count from another event; an empty one resets all of a timer's triggers.
const MONOTONIC: [&str; 5] = ["OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec"];

/// What the timer's unit file and its drop-ins say.
#[derive(Debug, Clone)]
pub struct TimerSettings {
    /// The unit's name.
    pub unit: String,
    /// The files read, in the order in which they apply, as paths of the node.
    pub files: Vec<PathBuf>,
    /// Whether there is such a unit. If not, the rest is the default.
    pub found: bool,
    /// Whether it is masked, so that it never fires. The rest is then the default.
    pub masked: bool,
    /// Each `OnCalendar=` as it is written, and what it means.
    pub calendars: Vec<(String, Calendar)>,
    /// Whether something else than a calendar triggers it too (`OnBootSec=` and its like).
    pub other_triggers: bool,
    /// `RandomizedDelaySec=`: by how much a firing may be put off.
    pub randomized_delay: Duration,
    /// `AccuracySec=`: by how much more, to save wake-ups.
    pub accuracy: Duration,
    /// `Persistent=`: whether a firing that was missed is made up for at boot.
    pub persistent: bool,
}

impl TimerSettings {
    /// Reads the timer below the root; the default schedule where there is none, or a masked one.
    ///
    /// # Errors
    /// All end with 78: a file cannot be read, a setting does not parse, no `OnCalendar=` among the triggers.
    pub fn read(root: &Root, unit: &str) -> Result<Self, Failure> {
        match Self::read_beside(root, unit)? {
            (settings, None) => Ok(settings),
            (_, Some(failure)) => Err(failure),
        }
    }

    /// Like [`TimerSettings::read`], for a caller with expressions of its own: what is wrong with the timer's expressions
    /// comes as a second value, and those that do parse are there.
    ///
    /// # Errors
    /// All end with 78: a file cannot be read, or a delay does not parse.
    pub fn read_beside(root: &Root, unit: &str) -> Result<(Self, Option<Failure>), Failure> {
        if !unit.ends_with(".timer") {
            let error = anyhow!("'{}' is not the name of a timer, such as '{DEFAULT_TIMER}'", short(unit));
            return Err(Failure::new(Exit::Config, error));
        }
        let loaded = Unit::load(root, unit).or_exit(Exit::Config)?;
        let mut settings = Self {
            unit: unit.to_owned(),
            files: loaded.files.clone(),
            found: loaded.found,
            masked: loaded.masked,
            calendars: Vec::new(),
            other_triggers: false,
            randomized_delay: Duration::ZERO,
            accuracy: DEFAULT_ACCURACY,
            persistent: false,
        };
        if !loaded.found || loaded.masked {
            let calendar = Calendar::parse(DEFAULT_ON_CALENDAR).or_exit(Exit::Fault)?;
            settings.calendars.push((DEFAULT_ON_CALENDAR.to_owned(), calendar));
            return Ok((settings, None));
        }

        let mut calendars: Vec<&Assignment> = Vec::new();
        let (mut monotonic, mut on_change) = (false, false);
        for setting in loaded.assignments("Timer") {
            match setting.key.as_str() {
                key if (key == "OnCalendar" || MONOTONIC.contains(&key)) && setting.value.is_empty() => {
                    calendars.clear();
                    monotonic = false;
                }
                "OnCalendar" => calendars.push(setting),
                key if MONOTONIC.contains(&key) => monotonic = true,
                "OnClockChange" | "OnTimezoneChange" => on_change |= is_yes(&setting.value),
                // an empty value is an error to systemd for these, and what was set before stays
                "RandomizedDelaySec" if !setting.value.is_empty() => settings.randomized_delay = span(setting)?,
                "AccuracySec" if !setting.value.is_empty() => settings.accuracy = span(setting)?,
                "Persistent" if !setting.value.is_empty() => settings.persistent = is_yes(&setting.value),
                _ => {}
            }
        }
        settings.other_triggers = monotonic || on_change;

        let mut failure = None;
        for setting in calendars {
            match Calendar::parse(&setting.value) {
                Ok(calendar) => settings.calendars.push((setting.value.clone(), calendar)),
                Err(error) => failure = failure.or_else(|| Some(refused(setting, &error.to_string()))),
            }
        }
        if settings.calendars.is_empty() && failure.is_none() {
            let error = anyhow!(
                "timer '{unit}' has no OnCalendar=, so its next firing cannot be told; say with --on-calendar when the job runs"
            );
            failure = Some(Failure::new(Exit::Config, error));
        }
        Ok((settings, failure))
    }

    /// The timer's next firing strictly after `now`; `None` if it never fires again. `zone` is the node's.
    pub fn next_firing(&self, now: DateTime<Utc>, zone: Tz) -> Option<Firing> {
        next_firing(&self.calendars, self.latest_delay(), now, zone)
    }

    /// By how much a start may be later than its firing: random delay and accuracy.
    pub fn latest_delay(&self) -> Duration {
        self.randomized_delay.saturating_add(self.accuracy)
    }
}

/// A firing of the timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The expression that fires, as it is written.
    pub expression: String,
    /// When it fires.
    pub at: DateTime<Utc>,
    /// When the job has started at the latest.
    pub latest_start: DateTime<Utc>,
}

/// The earliest firing of all expressions strictly after `now`; `None` if none of them ever fires again.
///
/// `latest_delay` is by how much a start may be later; `zone` is the node's, for expressions without one.
pub fn next_firing(
    calendars: &[(String, Calendar)],
    latest_delay: Duration,
    now: DateTime<Utc>,
    zone: Tz,
) -> Option<Firing> {
    let firings = calendars.iter().filter_map(|(text, calendar)| Some((calendar.next_after(now, zone)?, text)));
    let (at, expression) = firings.min_by_key(|(at, _)| *at)?;
    Some(Firing { expression: expression.clone(), at, latest_start: later(at, latest_delay) })
}

/// The firing whose start is still to come at `now`, though it may have fired already: its latest start is after `now`.
pub fn pending_firing(
    calendars: &[(String, Calendar)],
    latest_delay: Duration,
    now: DateTime<Utc>,
    zone: Tz,
) -> Option<Firing> {
    let delay = TimeDelta::from_std(latest_delay).unwrap_or(TimeDelta::MAX);
    let since = now.checked_sub_signed(delay).unwrap_or(DateTime::UNIX_EPOCH);
    next_firing(calendars, latest_delay, since, zone)
}

/// Far in the future rather than out of range: what is added to it still has room.
fn later(at: DateTime<Utc>, delay: Duration) -> DateTime<Utc> {
    const FAR: i64 = 253_370_764_800; // 9999-01-01
    let far = DateTime::from_timestamp(FAR, 0).unwrap_or(DateTime::UNIX_EPOCH);
    TimeDelta::from_std(delay).ok().and_then(|delay| at.checked_add_signed(delay)).map_or(far, |later| later.min(far))
}

fn span(setting: &Assignment) -> Result<Duration, Failure> {
    match timespan::parse(&setting.value) {
        Ok(Timespan::Finite(span)) => Ok(span),
        Ok(Timespan::Infinite) => {
            Err(refused(setting, "the job may never start with an infinite delay; set a finite one"))
        }
        Err(error) => Err(refused(setting, &error.to_string())),
    }
}

fn refused(setting: &Assignment, cause: &str) -> Failure {
    let Assignment { key, value, file, line, .. } = setting;
    Failure::new(Exit::Config, anyhow!("{}, line {line}: {key}='{value}': {cause}", file.display()))
}

/// systemd's words for yes.
fn is_yes(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
