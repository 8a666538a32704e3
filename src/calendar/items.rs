//! The lists of values in an expression: read first, judged once it is known which field they are.

use super::Values;
use super::error::ParseError;
use super::field::{Field, Item, MICROS};
use super::parse::Cursor;

/// systemd 252 refuses a list with more items.
const MOST_ITEMS: usize = 241;
/// systemd keeps values, and seconds in microseconds, in a C `int`.
const LARGEST: u64 = i32::MAX as u64;

/// A field as it is written: its items, or `None` for `*`.
#[derive(Debug)]
pub(super) struct RawField(Option<Vec<RawItem>>);

#[derive(Debug)]
struct RawItem {
    start: Number,
    end: Option<Number>,
    step: Option<Number>,
}

/// A number and where it stands.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: u32,
    at: usize,
}

impl RawField {
    /// Reads a field; of seconds, numbers may have a fraction and are kept in microseconds.
    pub(super) fn read(cursor: &mut Cursor<'_>, seconds: bool) -> Result<Self, ParseError> {
        if cursor.eat("*") {
            return match cursor.peek() {
                None | Some(b' ' | b'-' | b'~' | b':') => Ok(Self(None)),
                Some(next) => {
                    let mut error = cursor.error("a field of its own for '*'");
                    if next == b'/' {
                        error.hint = Some("a step needs a first value: '0/15' for '*/15'");
                    }
                    Err(error)
                }
            };
        }
        let mut items = Vec::new();
        loop {
            if items.len() == MOST_ITEMS {
                return Err(cursor.error(format!("no more than {MOST_ITEMS} values in a list")));
            }
            items.push(RawItem::read(cursor, seconds)?);
            if !cursor.eat(",") {
                break;
            }
        }
        match cursor.peek() {
            None | Some(b' ' | b'-' | b'~' | b':') => Ok(Self(Some(items))),
            Some(_) => Err(cursor.error("',' and another value, or the next field")),
        }
    }
}

impl RawItem {
    fn read(cursor: &mut Cursor<'_>, seconds: bool) -> Result<Self, ParseError> {
        let start = Number::read(cursor, seconds)?;
        let end = if cursor.eat("..") { Some(Number::read(cursor, seconds)?) } else { None };
        let step = if cursor.eat("/") { Some(Number::read(cursor, seconds)?) } else { None };
        Ok(Self { start, end, step })
    }
}

impl Number {
    fn read(cursor: &mut Cursor<'_>, seconds: bool) -> Result<Self, ParseError> {
        let at = cursor.position();
        let digits = cursor.eat_while(|character| character.is_ascii_digit());
        if digits.is_empty() {
            return Err(cursor.error("a number"));
        }
        let too_large = "a smaller number";
        let whole: u64 = digits.parse().ok().filter(|value| *value <= LARGEST).unwrap_or(LARGEST + 1);
        if !seconds {
            let value = u32::try_from(whole).ok().filter(|value| u64::from(*value) <= LARGEST);
            return value.map(|value| Self { value, at }).ok_or_else(|| cursor.error_at(at, too_large));
        }
        let mut micros = whole * u64::from(MICROS);
        if cursor.peek() == Some(b'.') && !cursor.next_is("..") {
            cursor.eat(".");
            let fraction = cursor.eat_while(|character| character.is_ascii_digit());
            if fraction.is_empty() {
                return Err(cursor.error("digits of a fraction"));
            }
            micros += rounded_micros(fraction);
        }
        let value = u32::try_from(micros).ok().filter(|value| u64::from(*value) <= LARGEST);
        value.map(|value| Self { value, at }).ok_or_else(|| cursor.error_at(at, too_large))
    }
}

/// The digits behind the point in microseconds, rounded by the seventh.
fn rounded_micros(fraction: &str) -> u64 {
    let digits = fraction.bytes().map(|digit| u64::from(digit - b'0')).chain(std::iter::repeat(0));
    let seven = digits.take(7).fold(0, |value, digit| value * 10 + digit);
    (seven + 5) / 10
}

/// Judges a field's items by its limits, and puts them into the form that systemd keeps: sorted, without duplicates.
pub(super) fn finish(cursor: &Cursor<'_>, raw: RawField, field: Field) -> Result<Values, ParseError> {
    let Some(raw) = raw.0 else { return Ok(None) };
    let mut items = Vec::with_capacity(raw.len());
    for item in &raw {
        items.push((finish_item(cursor, item, field)?, item.start.at));
    }
    items.sort_unstable();
    items.dedup_by_key(|(item, _)| *item);
    if field == Field::DayFromMonthEnd {
        check_month_end(cursor, &items)?;
    }
    Ok(Some(items.into_iter().map(|(item, _)| item).collect()))
}

fn finish_item(cursor: &Cursor<'_>, raw: &RawItem, field: Field) -> Result<Item, ParseError> {
    let (min, max) = field.limits();
    let start = full_year(raw.start.value, field);
    if !(min..=max).contains(&start) {
        return Err(cursor.error_at(raw.start.at, field.expected()));
    }
    if let Some(step) = raw.step
        && step.value == 0
    {
        return Err(cursor.error_at(step.at, "a step of at least 1"));
    }
    let Some(end) = raw.end else {
        let Some(step) = raw.step else { return Ok(Item::single(start)) };
        let fits = if field == Field::DayFromMonthEnd {
            start.checked_sub(step.value).is_some_and(|next| next >= min)
        } else {
            start.checked_add(step.value).is_some_and(|next| next <= max)
        };
        let expected = || format!("a step that reaches another value, {}", field.expected());
        return if fits { Ok(Item::every(start, step.value)) } else { Err(cursor.error_at(step.at, expected())) };
    };

    let last = full_year(end.value, field);
    if last < start {
        return Err(cursor.error_at(end.at, "the end of a range, not before its start"));
    }
    if field == Field::Second && raw.step.is_none() && last - start < MICROS {
        return Err(cursor.error_at(end.at, "the end of a range, at least one second after its start"));
    }
    let step = raw.step.map_or(field.unit(), |step| step.value);
    // the end counts as the last value that is hit, so it may lie beyond the limit where the step skips that
    let last = start + (last - start) / step * step;
    if last > max {
        return Err(cursor.error_at(end.at, field.expected()));
    }
    Ok(if last == start { Item::single(start) } else { Item { start, end: Some(last), step } })
}

/// Years below 100 are of 1970 to 2069.
fn full_year(value: u32, field: Field) -> u32 {
    match value {
        0..=69 if field == Field::Year => value + 2000,
        70..=99 if field == Field::Year => value + 1900,
        _ => value,
    }
}

/// A limit of systemd 252: of the days from a month's end, the n-th item of the list (from 0) reaches to 28 - 3n.
fn check_month_end(cursor: &Cursor<'_>, items: &[(Item, usize)]) -> Result<(), ParseError> {
    let mut most = 28_u32;
    for (item, at) in items {
        if item.start > most || item.end.is_some_and(|end| end > most) {
            let expected = format!("a day up to {most} at this place of a list that counts from the end of the month");
            return Err(cursor.error_at(*at, expected));
        }
        most = most.saturating_sub(3);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::rounded_micros;

    #[test]
    fn fractions_are_rounded_by_the_seventh_digit() {
        assert_eq!(rounded_micros("5"), 500_000);
        assert_eq!(rounded_micros("0000004"), 0);
        assert_eq!(rounded_micros("0000005"), 1);
        assert_eq!(rounded_micros("9999995"), 1_000_000);
        assert_eq!(rounded_micros("99999949"), 999_999);
    }
}
