//! `k8s-certs-renew calendar`: what an expression means, and when it fires next.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;

use crate::calendar::{Calendar, zone_named};
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::node::zone::local_zone;
use crate::report::words::tame;
use crate::settings::timer::{DEFAULT_TIMER, TimerSettings};

/// Options of `calendar`.
#[derive(Debug, clap::Args)]
pub struct CalendarArgs {
    /// Expressions as OnCalendar= takes them, each in quotes; without any, the node's own timer is explained
    #[arg(value_name = "EXPR", allow_hyphen_values = false)]
    pub expressions: Vec<String>,

    /// Number of firings to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: u32,

    /// Look from this instant on, not from now (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub at: Option<DateTime<Utc>>,

    /// Zone for expressions without one [default: the one that /etc/localtime below the root names]
    #[arg(long, value_name = "TZ", value_parser = zone)]
    pub timezone: Option<Tz>,

    /// Timer to explain where no expression is given
    #[arg(long, value_name = "UNIT", default_value = DEFAULT_TIMER)]
    pub timer: String,

    /// Directory that holds the node
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// How to print
    #[arg(short, long, value_enum, default_value_t = CalendarOutput::Text)]
    pub output: CalendarOutput,
}

/// How `calendar` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CalendarOutput {
    /// For people
    Text,
    /// An array with an object for each expression
    Json,
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    DateTime::parse_from_rfc3339(text)
        .map(|time| time.to_utc())
        .map_err(|_| "not an instant of RFC 3339, such as 2026-03-02T03:00:00Z".to_owned())
}

fn zone(name: &str) -> Result<Tz, String> {
    zone_named(name).ok_or_else(|| "not the name of a time zone, such as Europe/Berlin".to_owned())
}

/// Explains the expressions, or the node's timer, as of `now`.
///
/// # Errors
/// 78: an expression or a file of the timer is not valid, or the node's zone cannot be told; 64: there is no such root.
/// All expressions are judged, and text shows the valid ones all the same.
pub fn run(args: &CalendarArgs, now: DateTime<Utc>, out: &mut dyn Write) -> Result<Exit, Failure> {
    let root = Root::new(&args.root)
        .map_err(|error| anyhow!("cannot use '{}' as the root: {error}", args.root.display()))
        .or_exit(Exit::Usage)?;
    let now = args.at.unwrap_or(now);
    let (timer, expressions, bad) = if args.expressions.is_empty() {
        let mut timer = TimerSettings::read(&root, &args.timer)?;
        let expressions = std::mem::take(&mut timer.calendars);
        (Some(timer), expressions, Vec::new())
    } else {
        let (good, bad) = parse_all(&args.expressions);
        (None, good, bad)
    };
    let needs_local = expressions.iter().any(|(_, calendar)| calendar.zone().is_none());
    let local = match args.timezone {
        Some(zone) => zone,
        None if needs_local => local_zone(&root).or_exit(Exit::Config)?,
        None => Tz::UTC,
    };
    let explained: Vec<Explained> = expressions
        .into_iter()
        .map(|(expression, calendar)| Explained::new(expression, calendar, args.iterations, now, local))
        .collect();
    // what could not be written is told at the end, as for every command
    let _ = match args.output {
        CalendarOutput::Json if bad.is_empty() => write_json(&explained, out),
        // half an array would look like all there is
        CalendarOutput::Json => Ok(()),
        CalendarOutput::Text => write_text(timer.as_ref(), &explained, args, now, out),
    };
    if bad.is_empty() {
        return Ok(Exit::Ok);
    }
    let what = if bad.len() == 1 { "not a calendar expression:" } else { "not calendar expressions:" };
    Err(Failure::new(Exit::Config, anyhow!("{what}\n{}", bad.join("\n"))))
}

/// The valid expressions, and for each other one why it is not, with a caret below the place.
fn parse_all(expressions: &[String]) -> (Vec<(String, Calendar)>, Vec<String>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for expression in expressions {
        match Calendar::parse(expression) {
            Ok(calendar) => good.push((expression.clone(), calendar)),
            Err(error) => bad.push(error.with_caret().to_string()),
        }
    }
    (good, bad)
}

struct Explained {
    expression: String,
    calendar: Calendar,
    zone: Tz,
    next: Vec<DateTime<Utc>>,
}

impl Explained {
    fn new(expression: String, calendar: Calendar, count: u32, now: DateTime<Utc>, local: Tz) -> Self {
        let mut after = now;
        let firings = std::iter::from_fn(|| {
            after = calendar.next_after(after, local)?;
            Some(after)
        });
        let next = firings.take(count as usize).collect();
        Self { zone: calendar.zone().unwrap_or(local), expression, calendar, next }
    }
}

/// One expression in JSON.
#[derive(serde::Serialize)]
struct Object<'a> {
    expression: &'a str,
    normalized: String,
    timezone: &'a str,
    /// RFC 3339, in UTC.
    next: Vec<String>,
}

fn write_json(explained: &[Explained], out: &mut dyn Write) -> io::Result<()> {
    let objects: Vec<Object<'_>> = explained
        .iter()
        .map(|one| Object {
            expression: &one.expression,
            normalized: one.calendar.to_string(),
            timezone: one.zone.name(),
            next: one.next.iter().map(|next| next.to_rfc3339_opts(SecondsFormat::AutoSi, true)).collect(),
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &objects)?;
    writeln!(out)
}

fn write_text(
    timer: Option<&TimerSettings>,
    explained: &[Explained],
    args: &CalendarArgs,
    now: DateTime<Utc>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(timer) = timer {
        write_timer(timer, out)?;
    }
    for (index, one) in explained.iter().enumerate() {
        if index > 0 || timer.is_some() {
            writeln!(out)?;
        }
        let whose = match (one.calendar.zone(), args.timezone) {
            (Some(_), _) => "the expression's",
            (None, Some(_)) => "as asked for",
            (None, None) => "the node's",
        };
        line(out, "Original form", &one.expression)?;
        line(out, "Normalized form", &one.calendar.to_string())?;
        line(out, "Time zone", &format!("{} ({whose})", one.zone.name()))?;
        if one.next.is_empty() {
            line(out, "Next firing", "never")?;
        }
        for (index, next) in one.next.iter().enumerate() {
            let label = if index == 0 { "Next firing" } else { "" };
            line(out, label, &format!("{}  {}", time_in(*next, one.zone), distance(*next - now)))?;
        }
    }
    let Some(timer) = timer else { return Ok(()) };
    let first = explained.iter().filter_map(|one| Some((one.next.first()?, one.zone))).min_by_key(|(next, _)| **next);
    let Some((first, zone)) = first else { return Ok(()) };
    let latest = TimeDelta::from_std(timer.latest_delay()).ok().and_then(|delay| first.checked_add_signed(delay));
    writeln!(out)?;
    if explained.len() > 1 {
        line(out, "First of all", &format!("{}  {}", time_in(*first, zone), distance(*first - now)))?;
    }
    line(out, "Random delay", &span(timer.randomized_delay))?;
    line(out, "Accuracy", &span(timer.accuracy))?;
    match latest {
        Some(latest) => line(out, "Latest start", &format!("{}  {}", time_in(latest, zone), distance(latest - now))),
        None => line(out, "Latest start", "out of sight"),
    }
}

fn write_timer(timer: &TimerSettings, out: &mut dyn Write) -> io::Result<()> {
    let state = match (timer.found, timer.masked) {
        (false, _) => " (not found: the default schedule is shown)",
        (true, true) => " (masked, it never fires: the default schedule is shown)",
        (true, false) => "",
    };
    line(out, "Timer", &format!("{}{state}", timer.unit))?;
    for (index, file) in timer.files.iter().enumerate() {
        line(out, if index == 0 { "Files" } else { "" }, &file.display().to_string())?;
    }
    if timer.other_triggers {
        line(out, "Note", "other settings trigger it too (OnBootSec= and the like); they are not shown")?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, label: &str, value: &str) -> io::Result<()> {
    let colon = if label.is_empty() { ' ' } else { ':' };
    writeln!(out, "{label:>15}{colon} {}", tame(value))
}

/// The wall clock's time with the zone's abbreviation, and the same in UTC where that differs.
fn time_in(time: DateTime<Utc>, zone: Tz) -> String {
    let (local, utc) = if time.timestamp_subsec_micros() == 0 {
        ("%a %Y-%m-%d %H:%M:%S %Z", "%a %Y-%m-%d %H:%M:%S UTC")
    } else {
        ("%a %Y-%m-%d %H:%M:%S%.6f %Z", "%a %Y-%m-%d %H:%M:%S%.6f UTC")
    };
    let (local, utc) = (time.with_timezone(&zone).format(local).to_string(), time.format(utc).to_string());
    if local == utc { local } else { format!("{local} = {utc}") }
}

/// `in 5 days 3 hours`.
fn distance(distance: TimeDelta) -> String {
    match distance.to_std() {
        Ok(ahead) => format!("in {}", span(ahead)),
        Err(_) => format!("{} ago", span(distance.abs().to_std().unwrap_or_default())),
    }
}

/// The two largest units of a span, with systemd's length of months and years.
fn span(span: Duration) -> String {
    const UNITS: [(&str, u64); 6] =
        [("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)];
    let mut left = span.as_secs();
    if left == 0 {
        return if span.is_zero() { "none".to_owned() } else { "less than a second".to_owned() };
    }
    let mut parts = Vec::new();
    for (index, (name, seconds)) in UNITS.iter().enumerate() {
        let count = left / seconds;
        left %= seconds;
        if count > 0 {
            parts.push((index, format!("{count} {name}{}", if count == 1 { "" } else { "s" })));
        }
    }
    // what comes after a gap is too small to matter: a month and 3 seconds is a month
    let first = parts.first().map_or(0, |(index, _)| *index);
    let near = parts.into_iter().filter(|(index, _)| *index <= first + 1).map(|(_, part)| part);
    near.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::span;

    #[test]
    fn a_span_is_told_in_its_two_largest_units() {
        for (seconds, text) in [
            (0, "none"),
            (1, "1 second"),
            (60, "1 minute"),
            (90, "1 minute 30 seconds"),
            (443_000, "5 days 3 hours"),
            (86_401, "1 day"),
            (86_400 * 35, "1 month 4 days"),
            (86_400 * 800, "2 years 2 months"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        assert_eq!(span(Duration::from_micros(1)), "less than a second");
    }
}
