//! Calendar expressions against what systemd 252 was seen to say of them.

use chrono::{DateTime, Datelike, TimeZone, Utc};
use k8s_certs_renew::calendar::{Calendar, zone_named};
use serde::Deserialize;

/// One expression, as `systemd-analyze calendar` 252 judged it.
#[derive(Debug, Deserialize)]
struct Vector {
    expr: String,
    /// The node's zone.
    tz: String,
    base: DateTime0,
    valid: bool,
    normalized: Option<String>,
    /// Up to five firings, each computed from the one before.
    next: Vec<DateTime0>,
    /// systemd departs from its own rule here.
    quirk: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct DateTime0(DateTime<Utc>);

impl TryFrom<String> for DateTime0 {
    type Error = chrono::ParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        DateTime::parse_from_rfc3339(&text).map(|time| Self(time.to_utc()))
    }
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("../data/oncalendar.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).filter(|vector: &Vector| vector.quirk.is_none()).collect()
}

fn firings(calendar: &Calendar, base: DateTime<Utc>, zone: chrono_tz::Tz, count: usize) -> Vec<DateTime<Utc>> {
    let mut after = base;
    std::iter::from_fn(|| calendar.next_after(after, zone).inspect(|next| after = *next)).take(count).collect()
}

#[test]
fn validity_normal_form_and_firings_are_those_of_systemd() {
    let (mut judged, mut valid, mut compared) = (0, 0, 0);
    let mut wrong = Vec::new();
    for vector in vectors() {
        judged += 1;
        let calendar = match Calendar::parse(&vector.expr) {
            Ok(calendar) => calendar,
            Err(error) => {
                if vector.valid {
                    wrong.push(format!("'{}' refused: {error}", vector.expr));
                }
                continue;
            }
        };
        if !vector.valid {
            wrong.push(format!("'{}' taken as '{calendar}'", vector.expr));
            continue;
        }
        valid += 1;
        if Some(calendar.to_string()) != vector.normalized {
            wrong.push(format!("'{}' is '{calendar}', not '{}'", vector.expr, vector.normalized.unwrap_or_default()));
            continue;
        }
        let zone = zone_named(&vector.tz).unwrap();
        let expected: Vec<_> = vector.next.iter().map(|next| next.0).collect();
        // all five, or all there are up to 2199: then there is no further one
        let mut found = firings(&calendar, vector.base.0, zone, 5);
        let mut expected = expected;
        // the zone database in use knows no summer time after 2099
        let known = |next: &DateTime<Utc>| next.year() <= 2099;
        if !expected.iter().all(known) {
            expected.retain(known);
            found.retain(known);
        }
        compared += expected.len();
        if found != expected {
            wrong.push(format!("'{}' in {} after {}: {found:?}, not {expected:?}", vector.expr, zone, vector.base.0));
        }
    }
    assert!(wrong.is_empty(), "{} of {judged} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((judged, valid), (2491, 1666));
    assert!(compared > 5000, "only {compared} firings compared");
}

#[test]
fn a_normal_form_means_the_same_as_what_it_was_made_of() {
    for vector in vectors().into_iter().filter(|vector| vector.valid) {
        let calendar = Calendar::parse(&vector.expr).unwrap();
        let normal = calendar.to_string();
        let again = Calendar::parse(&normal).unwrap();
        assert_eq!(again.to_string(), normal, "{}", vector.expr);
    }
}

#[test]
fn every_refusal_names_a_column_of_the_expression() {
    for vector in vectors().into_iter().filter(|vector| !vector.valid) {
        let error = Calendar::parse(&vector.expr).unwrap_err();
        let length = vector.expr.chars().count();
        assert!((1..=length + 1).contains(&error.column), "'{}': {error}", vector.expr);
        assert_eq!(error.found.is_empty(), error.column == length + 1, "'{}': {error}", vector.expr);
    }
}

#[test]
fn a_refusal_says_what_was_expected_and_how_to_write_it() {
    for (expression, message) in [
        ("*-*-* 03:60:00", "column 10: expected a minute from 0 to 59, found '60'"),
        ("*-*-* 24:00", "column 7: expected an hour from 0 to 23, found '24'"),
        (
            "*:*/15",
            "column 4: expected a field of its own for '*', found '/' (a step needs a first value: '0/15' for '*/15')",
        ),
        (
            "Mon, Tue 03:00",
            "column 6: expected a date, a time or the end, found 'Tue' (no blank may stand inside the list of weekdays)",
        ),
        ("Fri..Mon", "column 6: expected a weekday from Fri to Sun, found 'Mon'"),
        ("", "column 1: expected a weekday, a date, a time or a word such as 'daily', found the end"),
        (
            "'daily'",
            "column 1: expected a weekday, a date, a time or a word such as 'daily', found ''' (write it without quotation marks)",
        ),
        ("12:00 CEST", "column 7: expected 'UTC' or the name of a time zone, such as Europe/Berlin, found 'CEST'"),
        ("12", "column 3: expected ':' and the minutes, found the end"),
        ("*-13-01", "column 3: expected a month from 1 to 12, found '13'"),
        ("*-*~29", "column 5: expected a day from 1 to 28, counted from the end of the month, found '29'"),
        ("*:0/60", "column 5: expected a step that reaches another value, a minute from 0 to 59, found '60'"),
        ("daily\t", "column 6: expected letters, digits, punctuation and plain blanks only, found '\\t'"),
    ] {
        assert_eq!(Calendar::parse(expression).unwrap_err().to_string().replace("\\'", "'"), message, "{expression}");
    }
}

#[test]
fn an_expression_that_never_fires_says_so() {
    let base = Utc.with_ymd_and_hms(2026, 3, 2, 3, 10, 0).unwrap();
    for expression in
        ["*-02-30", "Thu 2027-01-01", "*-2,4,6,9,11-31", "2020-01-01", "@0", "2024-03-10 02:30 America/New_York"]
    {
        let calendar = Calendar::parse(expression).unwrap();
        assert_eq!(calendar.next_after(base, chrono_tz::UTC), None, "{expression}");
    }
    let past = Utc.with_ymd_and_hms(2024, 1, 1, 0, 0, 0).unwrap();
    let gap = Calendar::parse("2024-03-10 02:30 America/New_York").unwrap();
    assert_eq!(gap.next_after(past, chrono_tz::UTC), None);
}

#[test]
fn instants_far_off_are_answered_too() {
    let calendar = Calendar::parse("minutely").unwrap();
    assert_eq!(calendar.next_after(DateTime::<Utc>::MAX_UTC, chrono_tz::UTC), None);
    assert_eq!(calendar.next_after(DateTime::<Utc>::MIN_UTC, chrono_tz::UTC), Some(DateTime::UNIX_EPOCH));
    let last = Utc.with_ymd_and_hms(2199, 12, 31, 23, 59, 0).unwrap();
    assert_eq!(calendar.next_after(last, chrono_tz::UTC), None);
}

#[test]
fn fractions_fire_between_the_seconds() {
    let base = Utc.with_ymd_and_hms(2026, 3, 2, 3, 0, 0).unwrap();
    let calendar = Calendar::parse("*:*:0/0.25").unwrap();
    let found: Vec<_> =
        firings(&calendar, base, chrono_tz::UTC, 4).iter().map(|t| (*t - base).num_milliseconds()).collect();
    assert_eq!(found, [250, 500, 750, 1000]);
}

#[test]
fn an_open_step_loses_no_hit_at_a_carry() {
    // systemd 252 goes from 23:56 to 00:07
    let base = Utc.with_ymd_and_hms(2026, 3, 2, 23, 56, 0).unwrap();
    let calendar = Calendar::parse("*:0/7").unwrap();
    assert_eq!(calendar.next_after(base, chrono_tz::UTC), Utc.with_ymd_and_hms(2026, 3, 3, 0, 0, 0).single());
}

#[test]
fn a_day_that_a_zone_left_out_is_crossed_at_once() {
    // Apia had no 30 December 2011
    let base = Utc.with_ymd_and_hms(2011, 12, 30, 9, 59, 59).unwrap();
    let calendar = Calendar::parse("minutely").unwrap();
    let next = calendar.next_after(base, chrono_tz::Pacific::Apia);
    assert_eq!(next, Utc.with_ymd_and_hms(2011, 12, 30, 10, 0, 0).single());
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused_or_fires_strictly_later(
        text in "[ -~]{0,24}|[0-9*,./:~@ -]{0,24}|(Mon|Sun|\\*|[0-9]{1,2}|[-~:,./ ]|\\.\\.|é| Europe/Berlin){0,12}",
        seconds in 0_i64..7_300_000_000,
    ) {
        let Ok(calendar) = Calendar::parse(&text) else { return Ok(()) };
        let base = DateTime::from_timestamp(seconds, 0).unwrap();
        if let Some(next) = calendar.next_after(base, chrono_tz::Europe::Berlin) {
            proptest::prop_assert!(next > base, "{} after {base}: {next}", text);
        }
    }
}
