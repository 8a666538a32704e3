//! Calendar expressions against the `systemd-analyze` of this machine, over generated expressions.
//!
//! Left out of the generator are the two places where systemd departs from its own rules: open-ended steps that do not
//! divide their field, and changes of the clock at midnight or off the hour.

use std::collections::HashSet;
use std::io::Write;
use std::process::Command;

use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use k8s_certs_renew::calendar::Calendar;

const ZONES: [Tz; 6] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::Asia__Kolkata,
    Tz::Australia__Sydney,
    Tz::America__Los_Angeles,
];
const ITERATIONS: usize = 3;
const BATCHES: usize = 60;
const PER_BATCH: usize = 50;

/// A generator with a fixed seed (xorshift64*), so that every run compares the same expressions.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % limit
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }
}

/// A list for a field; open-ended steps only where they are `steps`.
fn field(random: &mut Random, low: usize, high: usize, steps: &[usize]) -> String {
    let mut items = Vec::new();
    for _ in 0..random.pick(&[1, 1, 1, 2, 3, 5]) {
        let start = random.between(low, high);
        items.push(match random.below(4) {
            0 if start < high => format!("{start}..{}", random.between(start + 1, high)),
            1 if start < high => format!("{start}..{}/{}", random.between(start, high), random.between(1, 9)),
            2 if !steps.is_empty() => {
                let step = random.pick(steps);
                format!("{}/{step}", low + random.below(step))
            }
            _ => format!("{start:0width$}", width = random.between(1, 3)),
        });
    }
    items.join(",")
}

fn star_or(random: &mut Random, times: usize, field: impl FnOnce(&mut Random) -> String) -> String {
    if random.one_in(times) { field(random) } else { "*".to_owned() }
}

fn expression(random: &mut Random) -> String {
    if random.one_in(20) {
        let word =
            random.pick(&["minutely", "Hourly", "daily", "WEEKLY", "monthly", "quarterly", "yearly", "bi-annually"]);
        return format!("{word}{}", random.pick(&["", "", " UTC", " Asia/Tokyo"]));
    }
    if random.one_in(40) {
        return format!("@{}", random.between(0, 4_000_000_000));
    }
    let mut parts = Vec::new();
    if random.one_in(3) {
        let names = ["Mon", "tue", "Wednesday", "Thu", "FRI", "saturday", "Sun"];
        let first = random.below(7);
        let last = random.between(first, 6);
        parts.push(match random.below(3) {
            0 => names[first].to_owned(),
            1 => format!("{}..{}", names[first], names[last]),
            _ => format!("{},{}", names[last], names[first]),
        });
    }
    if random.one_in(2) {
        let year = star_or(random, 8, |random| field(random, 2020, 2060, &[]));
        let month = star_or(random, 3, |random| field(random, 1, 12, &[3, 4, 6]));
        let day = match random.below(4) {
            0 => format!("~{}", field(random, 1, 19, &[])),
            1 => format!("~{}/1", random.between(2, 28)),
            _ => format!("-{}", star_or(random, 2, |random| field(random, 1, 28, &[]))),
        };
        parts.push(if year == "*" && random.one_in(2) {
            format!("{month}{day}")
        } else {
            format!("{year}-{month}{day}")
        });
    }
    if parts.is_empty() || random.one_in(2) {
        let hour = star_or(random, 2, |random| field(random, 0, 23, &[2, 3, 4, 6, 8, 12]));
        let minute = star_or(random, 2, |random| field(random, 0, 59, &[5, 10, 15, 20, 30]));
        parts.push(match random.below(5) {
            0 => format!("{hour}:{minute}:{}", field(random, 0, 59, &[10, 15, 30])),
            1 => format!("{hour}:{minute}:{}.{}", random.between(0, 59), random.between(0, 99_999_999)),
            _ => format!("{hour}:{minute}"),
        });
    }
    if random.one_in(4) {
        parts.push(random.pick(&["UTC", "utc", "Asia/Tokyo", "Europe/London", "GMT", "US/Eastern"]).to_owned());
    }
    parts.join(" ")
}

/// The expression with a few characters changed, most often into something invalid.
fn mutated(random: &mut Random, expression: &str) -> String {
    let mut characters: Vec<char> = expression.chars().collect();
    for _ in 0..random.between(1, 2) {
        let other =
            random.pick(&['0', '1', '7', '9', '*', ',', '-', '/', '.', ':', '~', ' ', 'M', 'o', 'n', 'U', '@', '+']);
        let at = random.below(characters.len() + 1);
        match random.below(3) {
            0 if at < characters.len() => characters[at] = other,
            1 if at < characters.len() => {
                characters.remove(at);
            }
            _ => characters.insert(at, other),
        }
    }
    characters.into_iter().collect()
}

/// What systemd says of one expression.
#[derive(Debug)]
struct Said {
    normalized: String,
    next: Vec<DateTime<Utc>>,
}

/// systemd's answers, `None` for what it refuses; `Err` if its output is not complete.
fn ask(expressions: &[String], zone: Tz, base: DateTime<Utc>) -> Result<Vec<Option<Said>>, String> {
    let output = Command::new("systemd-analyze")
        .env("TZ", zone.name())
        .env("LC_ALL", "C")
        .args(["calendar", &format!("--iterations={ITERATIONS}")])
        .arg(format!("--base-time={}", base.format("%Y-%m-%d %H:%M:%S UTC")))
        .arg("--")
        .args(expressions)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let refused: HashSet<&str> = errors
        .lines()
        .filter_map(|line| line.strip_prefix("Failed to parse calendar specification '")?.rsplit_once("': "))
        .map(|(expression, _)| expression)
        .collect();
    let mut said: Vec<Said> = Vec::new();
    let mut is_local = false;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((label, value)) = line.trim_start().split_once(": ") else { continue };
        match (label, said.last_mut()) {
            ("Normalized form", _) => said.push(Said { normalized: value.to_owned(), next: Vec::new() }),
            ("(in UTC)", Some(last)) if is_local => *last.next.last_mut().unwrap() = utc(value).unwrap(),
            ("Next elapse", Some(last)) if value != "never" => {
                is_local = utc(value).is_none();
                last.next.push(utc(value).unwrap_or_default());
            }
            (label, Some(last)) if label.starts_with("Iter. #") => {
                is_local = utc(value).is_none();
                last.next.push(utc(value).unwrap_or_default());
            }
            _ => {}
        }
    }
    let mut said = said.into_iter();
    let answers = expressions
        .iter()
        .map(|one| if refused.contains(one.as_str()) { Some(None) } else { said.next().map(Some) })
        .collect::<Option<_>>();
    answers.filter(|_| said.next().is_none()).ok_or(errors)
}

fn utc(text: &str) -> Option<DateTime<Utc>> {
    let (_, time) = text.strip_suffix(" UTC")?.split_once(' ')?;
    Some(NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S").unwrap().and_utc())
}

fn is_missing() -> bool {
    let missing = Command::new("systemd-analyze").arg("--version").output().is_err();
    if missing {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "\n*** SKIPPED: no systemd-analyze here, so nothing was compared with systemd ***\n");
    }
    missing
}

fn firings(calendar: &Calendar, base: DateTime<Utc>, zone: Tz) -> Vec<DateTime<Utc>> {
    let mut after = base;
    let next = std::iter::from_fn(|| calendar.next_after(after, zone).inspect(|next| after = *next));
    next.take(ITERATIONS).collect()
}

#[test]
fn generated_expressions_mean_what_systemd_says() {
    if is_missing() {
        return;
    }
    let mut random = Random(0x5eed_0000_cafe_f00d);
    let (mut valid, mut fired, mut wrong) = (0, 0, Vec::new());
    for _ in 0..BATCHES {
        let zone = random.pick(&ZONES);
        let seconds = i64::try_from(random.between(700_000_000, 2_500_000_000)).unwrap();
        let base = DateTime::from_timestamp(seconds, 0).unwrap();
        let expressions: Vec<String> = (0..PER_BATCH).map(|_| expression(&mut random)).collect();
        // one that systemd gives up on costs it the answers to the others
        let answers = ask(&expressions, zone, base).unwrap_or_else(|_| {
            let alone = |one: &String| ask(std::slice::from_ref(one), zone, base).map(|mut said| said.remove(0));
            expressions
                .iter()
                .map(|one| alone(one).unwrap_or(Some(Said { normalized: String::new(), next: Vec::new() })))
                .collect()
        });
        for (expression, said) in expressions.iter().zip(answers) {
            let calendar = match (Calendar::parse(expression), said) {
                (Ok(calendar), Some(said)) => Some((calendar, said)),
                (Err(_), None) => None,
                (ours, said) => {
                    wrong.push(format!("'{expression}': {ours:?}, systemd {said:?}"));
                    None
                }
            };
            let Some((calendar, said)) = calendar else { continue };
            if said.normalized.is_empty() {
                continue;
            }
            valid += 1;
            let whole = |time: DateTime<Utc>| time - TimeDelta::nanoseconds(time.timestamp_subsec_nanos().into());
            let mut ours: Vec<_> = firings(&calendar, base, zone).into_iter().map(whole).collect();
            let mut theirs = said.next;
            // the zone database in use knows no summer time after 2099
            ours.retain(|next| next.year() < 2100);
            theirs.retain(|next| next.year() < 2100);
            fired += ours.len();
            if calendar.to_string() != said.normalized || ours != theirs {
                wrong.push(format!(
                    "'{expression}' in {zone} after {base}: '{calendar}' {ours:?}, systemd '{}' {theirs:?}",
                    said.normalized
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(valid > 2800 && fired > 8000, "only {valid} expressions and {fired} firings compared");
}

#[test]
fn changed_characters_are_refused_or_taken_as_systemd_does() {
    if is_missing() {
        return;
    }
    let mut random = Random(0xbad_c0de);
    let base = DateTime::from_timestamp(1_772_420_000, 0).unwrap();
    let (mut refused, mut taken, mut wrong) = (0, 0, Vec::new());
    for _ in 0..BATCHES {
        let expressions: Vec<String> = (0..PER_BATCH)
            .map(|_| {
                let expression = expression(&mut random);
                mutated(&mut random, &expression)
            })
            .collect();
        let Ok(answers) = ask(&expressions, Tz::UTC, base) else { continue };
        for (expression, said) in expressions.iter().zip(answers) {
            match (Calendar::parse(expression), said) {
                (Ok(calendar), Some(said)) if calendar.to_string() == said.normalized => taken += 1,
                (Err(_), None) => refused += 1,
                (ours, said) => wrong.push(format!("'{expression}': {ours:?}, systemd {said:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 2000 && taken > 200, "only {refused} refused and {taken} taken");
}
