//! The next firing: a cron schedule for minute, hour, day, month and weekday, and filters for what cron lacks.
//!
//! The schedule runs on the wall clock, held as if it were UTC, so that it knows nothing of changes of the clock. A hit is
//! then mapped to an instant of the zone.

use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use cron_parser::Schedule;

use super::field::{Field, Item, LAST_YEAR, MICROS};
use super::{Form, Values};

/// An expression made ready for evaluation.
#[derive(Debug, Clone)]
pub(super) struct Lowered {
    schedule: Schedule,
    /// Sorted; `None` is any year.
    years: Option<Vec<i32>>,
    /// Bit n: the n-th last day of the month fits. `None`: the schedule's days are all there is to it.
    from_month_end: Option<u32>,
    seconds: Vec<Item>,
}

impl Lowered {
    /// `None` if no date that exists fits, whatever the year (`*-02-30`).
    pub(super) fn new(form: &Form) -> Option<Self> {
        let from_month_end = match &form.day {
            Some(items) if form.from_month_end => {
                let days = items.iter().flat_map(|item| item.values(Field::DayFromMonthEnd));
                Some(days.fold(0, |bits, day| bits | 1_u32 << day))
            }
            _ => None,
        };
        let days = match from_month_end {
            // the n-th last day of a month with 28 to 31 days
            Some(bits) => {
                let days = (1..=28).filter(|day| bits & (1 << day) != 0);
                list(days.flat_map(|day| 29 - day..=32 - day))
            }
            None => cron(&form.day, Field::Day),
        };
        let weekdays = match form.weekdays {
            0 => "*".to_owned(),
            // cron's week starts with Sunday as 0, bit 0 is Monday
            bits => list((0..7).filter(|day| bits & (1 << day) != 0).map(|day| (day + 1) % 7)),
        };
        let minutes = cron(&form.minute, Field::Minute);
        let (hours, months) = (cron(&form.hour, Field::Hour), cron(&form.month, Field::Month));
        // the fields are within their limits, so the one error left is that no such date exists
        let schedule = Schedule::parse(&format!("{minutes} {hours} {days} {months} {weekdays}")).ok()?;
        let years = form.year.as_ref().map(|items| {
            let values = items.iter().flat_map(|item| item.values(Field::Year));
            let mut years: Vec<i32> = values.filter_map(|year| i32::try_from(year).ok()).collect();
            years.sort_unstable();
            years.dedup();
            years
        });
        Some(Self { schedule, years, from_month_end, seconds: form.second.clone() })
    }

    /// The first wall time from `least` on.
    fn at_or_after(&self, least: NaiveDateTime) -> Option<NaiveDateTime> {
        let minute =
            least - TimeDelta::seconds(least.second().into()) - TimeDelta::nanoseconds(least.nanosecond().into());
        let within = least.second() * MICROS + least.nanosecond() / 1000;
        if self.year_from(minute.year()) == Some(minute.year())
            && self.fits_month_end(minute.date())
            && self.schedule.includes(&minute.and_utc())
            && let Some(hit) = self.second_from(within)
        {
            return Some(minute + TimeDelta::microseconds(hit.into()));
        }

        let mut after = minute;
        loop {
            let year = self.year_from(after.year())?;
            if year > after.year() {
                after = end_of_day(NaiveDate::from_ymd_opt(year - 1, 12, 31)?);
            }
            let hit = self.schedule.next_after(&after.and_utc())?.naive_utc();
            after = if self.year_from(hit.year())? != hit.year() {
                end_of_day(NaiveDate::from_ymd_opt(hit.year(), 12, 31)?)
            } else if !self.fits_month_end(hit.date()) {
                end_of_day(hit.date())
            } else {
                return Some(hit + TimeDelta::microseconds(self.second_from(0)?.into()));
            };
        }
    }

    /// The first year from `least` on in which it may fire.
    fn year_from(&self, least: i32) -> Option<i32> {
        let year = match &self.years {
            Some(years) => *years.get(years.partition_point(|year| *year < least))?,
            None => least,
        };
        (i64::from(year) <= i64::from(LAST_YEAR)).then_some(year)
    }

    fn fits_month_end(&self, date: NaiveDate) -> bool {
        self.from_month_end.is_none_or(|bits| {
            let from_end = u32::from(date.num_days_in_month()) + 1 - date.day();
            bits & (1 << from_end) != 0
        })
    }

    fn second_from(&self, least: u32) -> Option<u32> {
        let (_, max) = Field::Second.limits();
        self.seconds.iter().filter_map(|item| item.at_or_after(least, max)).min()
    }
}

/// The first firing strictly after `after` on the clock of `zone`.
pub(super) fn next_after(lowered: &Lowered, after: DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
    if i64::from(after.year()) > i64::from(LAST_YEAR) + 1 {
        return None;
    }
    // systemd's time starts with the epoch
    let after = after.max(DateTime::UNIX_EPOCH - TimeDelta::microseconds(1));
    let start = DateTime::from_timestamp_micros(after.timestamp_micros() + 1)?;
    let mut least = zone.from_utc_datetime(&start.naive_utc()).naive_local();
    loop {
        let wall = lowered.at_or_after(least)?;
        let hit = match zone.from_local_datetime(&wall) {
            MappedLocalTime::Single(hit) => hit,
            MappedLocalTime::Ambiguous(first, second) => {
                if first > after {
                    first
                } else {
                    second
                }
            }
            MappedLocalTime::None => {
                least = end_of_gap(zone, wall);
                continue;
            }
        };
        return Some(hit.to_utc());
    }
}

/// The first wall time after `missing` that exists: the clock jumps over both in one go.
fn end_of_gap(zone: Tz, missing: NaiveDateTime) -> NaiveDateTime {
    let exists = |seconds: i64| {
        let wall = missing + TimeDelta::seconds(seconds);
        !matches!(zone.from_local_datetime(&wall), MappedLocalTime::None)
    };
    let mut beyond = 60;
    while !exists(beyond) {
        beyond *= 2;
    }
    let mut within = 0;
    while beyond - within > 1 {
        let middle = within + (beyond - within) / 2;
        if exists(middle) { beyond = middle } else { within = middle }
    }
    // changes of the clock happen at whole seconds
    let end = missing + TimeDelta::seconds(beyond);
    end - TimeDelta::nanoseconds(end.nanosecond().into())
}

fn end_of_day(date: NaiveDate) -> NaiveDateTime {
    date.and_time(chrono::NaiveTime::MIN) + TimeDelta::minutes(24 * 60 - 1)
}

fn cron(values: &Values, field: Field) -> String {
    match values {
        None => "*".to_owned(),
        Some(items) => list(items.iter().flat_map(|item| item.values(field))),
    }
}

fn list(values: impl Iterator<Item = u32>) -> String {
    let values: std::collections::BTreeSet<u32> = values.collect();
    let values: Vec<String> = values.iter().map(u32::to_string).collect();
    values.join(",")
}
