//! systemd's time spans (`30min`, `1h 30m`, `90`), as `systemd-analyze timespan` 252 reads them.

use std::time::Duration;

/// A time span of a unit file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timespan {
    /// To the microsecond.
    Finite(Duration),
    /// `infinity`.
    Infinite,
}

/// The text is no time span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimespanError {
    /// It does not follow the grammar of `systemd.time(7)`.
    #[error("'{0}' is no time span such as '30min' or '1h 30m'")]
    Invalid(String),
    /// More microseconds than systemd can count (584,000 years).
    #[error("the time span '{0}' is too long")]
    TooLong(String),
}

/// Units in microseconds. A longer name stands before each shorter one that it starts with, so that the first match is right.
/// A month is 30.44 days, a year 365.25 days.
const UNITS: [(&str, u64); 29] = [
    ("seconds", 1_000_000),
    ("second", 1_000_000),
    ("sec", 1_000_000),
    ("s", 1_000_000),
    ("minutes", 60_000_000),
    ("minute", 60_000_000),
    ("min", 60_000_000),
    ("months", 2_629_800_000_000),
    ("month", 2_629_800_000_000),
    ("M", 2_629_800_000_000),
    ("msec", 1000),
    ("ms", 1000),
    ("m", 60_000_000),
    ("hours", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("h", 3_600_000_000),
    ("days", 86_400_000_000),
    ("day", 86_400_000_000),
    ("d", 86_400_000_000),
    ("weeks", 604_800_000_000),
    ("week", 604_800_000_000),
    ("w", 604_800_000_000),
    ("years", 31_557_600_000_000),
    ("year", 31_557_600_000_000),
    ("y", 31_557_600_000_000),
    ("usec", 1),
    ("us", 1),
    ("\u{b5}s", 1),
];

/// Reads a time span: numbers, each with a unit or in seconds, that add up; or `infinity`.
///
/// # Errors
/// The text is no time span, or too long a one.
pub fn parse(text: &str) -> Result<Timespan, TimespanError> {
    let invalid = || TimespanError::Invalid(text.to_owned());
    let too_long = || TimespanError::TooLong(text.to_owned());
    let mut rest = text.trim();
    if rest == "infinity" {
        return Ok(Timespan::Infinite);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let signed = rest.strip_prefix('+');
        let (whole, behind) = digits(signed.unwrap_or(rest));
        if whole.is_empty() && signed.is_some() {
            return Err(invalid());
        }
        let (fraction, behind) = match behind.strip_prefix('.').map(digits) {
            Some(("", _)) => return Err(invalid()),
            Some((fraction, behind)) => (fraction, behind),
            None if whole.is_empty() => return Err(invalid()),
            None => ("", behind),
        };
        let number_end = behind;
        let behind = behind.trim_start();
        let unit = UNITS.iter().find_map(|(name, micros)| Some((behind.strip_prefix(name)?, *micros)));
        // the Greek letter and the micro sign look the same
        let unit = unit.or_else(|| Some((behind.strip_prefix("\u{3bc}s")?, 1)));
        // without a unit, a number ends with a blank or with the text
        if unit.is_none() && !behind.is_empty() && behind.len() == number_end.len() {
            return Err(invalid());
        }
        let (behind, micros) = unit.unwrap_or((behind, 1_000_000));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
        let span = whole.checked_mul(micros).and_then(|span| span.checked_add(part_of(micros, fraction)));
        total = span.and_then(|span| total.checked_add(span)).ok_or_else(too_long)?;
        rest = behind.trim_start();
    }
    Ok(Timespan::Finite(Duration::from_micros(total)))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()))
}

/// The decimal fraction of a unit, each digit rounded down.
fn part_of(micros: u64, fraction: &str) -> u64 {
    let mut unit = micros;
    fraction.bytes().fold(0, |sum, digit| {
        unit /= 10;
        sum + u64::from(digit - b'0') * unit
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Timespan, TimespanError, UNITS, parse};

    #[test]
    fn spans_are_read_as_systemd_reads_them() {
        for (text, micros) in [
            ("30min", 1_800_000_000),
            ("1h 30m", 5_400_000_000),
            ("90", 90_000_000),
            ("5 minutes", 300_000_000),
            ("1.5h", 5_400_000_000),
            (".5h", 1_800_000_000),
            ("2d3h", 183_600_000_000),
            ("1month", 2_629_800_000_000),
            ("1.5 month", 3_944_700_000_000),
            ("1M", 2_629_800_000_000),
            ("1y", 31_557_600_000_000),
            ("1w", 604_800_000_000),
            ("5us", 5),
            ("5\u{b5}s", 5),
            ("5\u{3bc}s", 5),
            ("1.5us", 1),
            ("1min30sec", 90_000_000),
            ("1h3", 3_603_000_000),
            ("10 20", 30_000_000),
            ("+5", 5_000_000),
            ("5 .5", 5_500_000),
            ("5s+5", 10_000_000),
            (" 5 ", 5_000_000),
            ("1.0000001s", 1_000_000),
            ("250ms", 250_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Timespan::Finite(Duration::from_micros(micros))), "{text}");
        }
        assert_eq!(parse("infinity"), Ok(Timespan::Infinite));
    }

    #[test]
    fn what_systemd_refuses_is_refused() {
        for text in [
            "",
            " ",
            "5.",
            "1mo",
            "1,5h",
            "5ns",
            "1H",
            "-5",
            "5.5.5",
            "5+5",
            "+",
            "+.5",
            "1e3",
            "1h infinity",
            "infinity s",
            "h",
        ] {
            assert_eq!(parse(text), Err(TimespanError::Invalid(text.to_owned())), "{text}");
        }
        for text in ["600000y", "99999999999999999999"] {
            assert_eq!(parse(text), Err(TimespanError::TooLong(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn no_unit_hides_a_longer_one() {
        for (index, (name, _)) in UNITS.iter().enumerate() {
            assert!(!UNITS[..index].iter().any(|(earlier, _)| name.starts_with(earlier)), "{name}");
        }
    }
}
