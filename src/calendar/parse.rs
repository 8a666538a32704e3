//! The grammar of calendar expressions.

use chrono::{Datelike, Timelike};

use super::error::ParseError;
use super::field::{Field, Item, MICROS};
use super::items::{RawField, finish};
use super::zones::Zone;
use super::{Form, Values};

/// Full names, Monday first; the first three letters are the short ones.
pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Words for whole expressions, and what they stand for (`anually` is systemd's own spelling).
const SHORTHANDS: [(&str, &str); 13] = [
    ("minutely", "*-*-* *:*"),
    ("hourly", "*-*-* *:00"),
    ("daily", "*-*-* 00:00"),
    ("weekly", "Mon *-*-* 00:00"),
    ("monthly", "*-*-01 00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00"),
    ("semiannually", "*-01,07-01 00:00"),
    ("semi-annually", "*-01,07-01 00:00"),
    ("biannually", "*-01,07-01 00:00"),
    ("bi-annually", "*-01,07-01 00:00"),
    ("yearly", "*-01-01 00:00"),
    ("annually", "*-01-01 00:00"),
    ("anually", "*-01-01 00:00"),
];

/// Reads an expression in systemd's order: the zone is taken off the end, then a shorthand, or weekdays, date and time.
pub(super) fn parse(expression: &str) -> Result<Form, ParseError> {
    if let Some(at) = expression.bytes().position(|byte| !(b' '..=b'~').contains(&byte)) {
        let cursor = Cursor { text: expression, end: expression.len(), at };
        return Err(cursor.error("letters, digits, punctuation and plain blanks only"));
    }
    let (head, suffix) = expression.rsplit_once(' ').unwrap_or((expression, ""));
    if head.len() < expression.len()
        && let Some(zone) = Zone::of_suffix(suffix)
    {
        return parse_unzoned(expression, head.len(), zone);
    }
    parse_unzoned(expression, expression.len(), Zone::Local).map_err(|error| {
        // where all before the last word is in order, it is the zone that is wrong
        let looks_like_a_zone = suffix.starts_with(|first: char| first.is_ascii_alphabetic() || "+-/".contains(first));
        let is_weekday = Cursor { text: suffix, end: suffix.len(), at: 0 }.peek_weekday().is_some();
        if looks_like_a_zone && !is_weekday && parse_unzoned(expression, head.len(), Zone::Local).is_ok() {
            ParseError {
                column: head.len() + 2,
                expected: "'UTC' or the name of a time zone, such as Europe/Berlin".to_owned(),
                found: suffix.to_owned(),
                hint: None,
                ..error
            }
        } else {
            error
        }
    })
}

fn parse_unzoned(text: &str, end: usize, zone: Zone) -> Result<Form, ParseError> {
    let word = text.get(..end).unwrap_or_default();
    if let Some((_, meaning)) = SHORTHANDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Cursor { text: meaning, end: meaning.len(), at: 0 }.form(zone);
    }
    Cursor { text, end, at: 0 }.form(zone)
}

/// A place in an expression.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    /// Where the zone's suffix starts, or the end of the text.
    end: usize,
    at: usize,
}

impl Cursor<'_> {
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.rest().as_bytes().first().copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Whether `token` stands here.
    pub(super) fn next_is(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Steps over `token` if it stands here.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let here = self.next_is(token);
        if here {
            self.at += token.len();
        }
        here
    }

    /// Steps over as many of these characters as stand here.
    pub(super) fn eat_while(&mut self, accept: impl Fn(char) -> bool) -> &str {
        let from = self.at;
        let rest = self.rest();
        self.at += rest.find(|character| !accept(character)).unwrap_or(rest.len());
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// The error that something else than `expected` stands here.
    pub(super) fn error(&self, expected: impl Into<String>) -> ParseError {
        self.error_at(self.at, expected)
    }

    /// The error that something else than `expected` stands at `at`.
    pub(super) fn error_at(&self, at: usize, expected: impl Into<String>) -> ParseError {
        let rest = self.text.get(at..).unwrap_or_default();
        let word = rest.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let found = match word {
            0 => rest.chars().take(1).collect(),
            word => rest.chars().take(word.min(32)).collect(),
        };
        ParseError { expression: self.text.to_owned(), column: at + 1, expected: expected.into(), found, hint: None }
    }

    fn form(mut self, zone: Zone) -> Result<Form, ParseError> {
        let weekdays = self.weekdays()?;
        let mut form = Form {
            // all seven are no restriction
            weekdays: if weekdays == Some(0x7f) { 0 } else { weekdays.unwrap_or(0) },
            year: None,
            month: None,
            day: None,
            from_month_end: false,
            hour: only(0),
            minute: only(0),
            second: vec![Item::single(0)],
            zone,
        };
        if self.eat("@") {
            return self.unix_time(form);
        }
        if weekdays.is_some() && self.peek().is_none() {
            return Ok(form);
        }
        if !self.peek().is_some_and(|byte| byte == b'*' || byte.is_ascii_digit()) {
            return Err(self.no_start(weekdays.is_some()));
        }
        if self.date_comes() {
            self.date(&mut form)?;
            if self.peek().is_none() {
                return Ok(form);
            }
            if !self.eat(" ") {
                return Err(self.error("a blank and the time, or the end"));
            }
            self.eat_while(|character| character == ' ');
            if self.peek().is_none() {
                return Ok(form);
            }
        }
        self.time(&mut form)?;
        Ok(form)
    }

    /// `None` if the expression does not start with weekdays; else at least one, and the blanks behind it are gone.
    fn weekdays(&mut self) -> Result<Option<u8>, ParseError> {
        if self.peek_weekday().is_none() {
            return Ok(None);
        }
        let mut days = 0;
        loop {
            let first = self.weekday(0)?;
            let last = if self.eat("..") || self.eat("-") { self.weekday(first)? } else { first };
            days |= (first..=last).fold(0_u8, |bits, day| bits | 1 << day);
            let comma = self.eat(",");
            match self.peek() {
                None => break,
                Some(b' ') => {
                    self.eat_while(|character| character == ' ');
                    if comma && self.peek_weekday().is_some() {
                        let mut error = self.error("a date, a time or the end");
                        error.hint = Some("no blank may stand inside the list of weekdays");
                        return Err(error);
                    }
                    break;
                }
                Some(_) if comma => {}
                Some(_) => return Err(self.error("',' and another weekday, or a blank and a date or time")),
            }
        }
        Ok(Some(days))
    }

    /// A weekday that is not before `least`, counted from Monday as 0.
    fn weekday(&mut self, least: usize) -> Result<usize, ParseError> {
        let expected = || match least {
            0 => "a weekday such as Mon or Monday".to_owned(),
            6 => "Sun".to_owned(),
            _ => format!("a weekday from {} to Sun", WEEKDAYS[least].get(..3).unwrap_or_default()),
        };
        match self.peek_weekday() {
            Some((day, length)) if day >= least => {
                self.at += length;
                Ok(day)
            }
            _ => Err(self.error(expected())),
        }
    }

    /// The weekday that stands here, in any case, and the length of its name.
    fn peek_weekday(&self) -> Option<(usize, usize)> {
        let rest = self.rest();
        let length = rest.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = rest.get(..length)?;
        if !matches!(rest.as_bytes().get(length), None | Some(b' ' | b',' | b'-' | b'.')) {
            return None;
        }
        let is = |name: &str| {
            name.eq_ignore_ascii_case(word) || name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(word))
        };
        Some((WEEKDAYS.iter().position(|name| is(name))?, length))
    }

    fn no_start(&self, after_weekdays: bool) -> ParseError {
        let mut error = self.error(if after_weekdays {
            "a date or a time"
        } else {
            "a weekday, a date, a time or a word such as 'daily'"
        });
        if matches!(self.peek(), Some(b'"' | b'\'')) {
            error.hint = Some("write it without quotation marks");
        }
        error
    }

    /// Whether a date stands here: a first field that is not followed by `:` or the end.
    fn date_comes(&self) -> bool {
        let rest = self.rest();
        let field = rest.find(|character: char| !character.is_ascii_digit() && !".,/*".contains(character));
        field.is_some_and(|length| rest.as_bytes().get(length) != Some(&b':'))
    }

    /// `year-month-day` or `month-day`; `~` in place of the last `-` counts the day from the end of the month.
    fn date(&mut self, form: &mut Form) -> Result<(), ParseError> {
        let first = RawField::read(self, false)?;
        let mut from_end = self.eat("~");
        if !from_end && !self.eat("-") {
            return Err(self.error("'-' and the rest of a date, or ':' and the minutes of a time"));
        }
        let mut day = RawField::read(self, false)?;
        let mut month = first;
        if !from_end && matches!(self.peek(), Some(b'-' | b'~')) {
            form.year = finish(self, month, Field::Year)?;
            from_end = self.eat("~") || !self.eat("-");
            month = day;
            day = RawField::read(self, false)?;
        }
        form.month = finish(self, month, Field::Month)?;
        form.day = finish(self, day, if from_end { Field::DayFromMonthEnd } else { Field::Day })?;
        form.from_month_end = from_end && form.day.is_some();
        Ok(())
    }

    /// `hour:minute` or `hour:minute:second`, up to the end.
    fn time(&mut self, form: &mut Form) -> Result<(), ParseError> {
        let hour = RawField::read(self, false)?;
        form.hour = finish(self, hour, Field::Hour)?;
        if !self.eat(":") {
            return Err(self.error("':' and the minutes"));
        }
        let minute = RawField::read(self, false)?;
        form.minute = finish(self, minute, Field::Minute)?;
        let seconds = self.eat(":");
        if seconds {
            let second = RawField::read(self, true)?;
            form.second = finish(self, second, Field::Second)?.unwrap_or_else(|| vec![Item::every(0, MICROS)]);
        }
        match self.peek() {
            None => Ok(()),
            Some(_) if seconds => Err(self.error("the end, or one blank and a time zone")),
            Some(_) => Err(self.error("':' and the seconds, the end, or one blank and a time zone")),
        }
    }

    /// Whole seconds since the epoch, read as C's `strtoul` does; always in UTC.
    fn unix_time(mut self, mut form: Form) -> Result<Form, ParseError> {
        let expected = "whole seconds since 1970, up to the year 2199";
        self.eat_while(|character| character == ' ');
        self.eat("+");
        let at = self.at;
        let digits = self.eat_while(|character| character.is_ascii_digit()).parse().ok();
        let time = digits.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
        let Some(time) = time.filter(|time| time.year() <= 2199) else {
            return Err(self.error_at(at, expected));
        };
        if self.peek().is_some() {
            return Err(self.error("the end"));
        }
        form.year = only(time.year().unsigned_abs());
        form.month = only(time.month());
        form.day = only(time.day());
        form.hour = only(time.hour());
        form.minute = only(time.minute());
        form.second = vec![Item::single(time.second() * MICROS)];
        form.zone = Zone::Named { tz: chrono_tz::UTC, posix: false };
        Ok(form)
    }
}

fn only(value: u32) -> Values {
    Some(vec![Item::single(value)])
}
