//! The fields of an expression, their limits, and the items of their lists.

/// The first year that an expression can name.
pub(super) const FIRST_YEAR: u32 = 1970;
/// The last year in which systemd looks for a firing.
pub(super) const LAST_YEAR: u32 = 2199;
/// Seconds are kept in microseconds.
pub(super) const MICROS: u32 = 1_000_000;

/// A field of the date or the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Year,
    Month,
    Day,
    DayFromMonthEnd,
    Hour,
    Minute,
    /// In microseconds within the minute.
    Second,
}

impl Field {
    /// Smallest and largest value.
    pub(super) fn limits(self) -> (u32, u32) {
        match self {
            Self::Year => (FIRST_YEAR, LAST_YEAR),
            Self::Month => (1, 12),
            Self::Day => (1, 31),
            // every month has these
            Self::DayFromMonthEnd => (1, 28),
            Self::Hour => (0, 23),
            Self::Minute => (0, 59),
            Self::Second => (0, 60 * MICROS - 1),
        }
    }

    /// The step of a range that names none.
    pub(super) fn unit(self) -> u32 {
        if self == Self::Second { MICROS } else { 1 }
    }

    /// For messages: a value of this field.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Year => "a year from 1970 to 2199",
            Self::Month => "a month from 1 to 12",
            Self::Day => "a day from 1 to 31",
            Self::DayFromMonthEnd => "a day from 1 to 28, counted from the end of the month",
            Self::Hour => "an hour from 0 to 23",
            Self::Minute => "a minute from 0 to 59",
            Self::Second => "a second from 0 to 59.999999",
        }
    }
}

/// One item of a list: `a`, `a/step`, `a..b` or `a..b/step`. Its order is the order of the normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) start: u32,
    /// The last value that is hit.
    pub(super) end: Option<u32>,
    /// 0: only `start`.
    pub(super) step: u32,
}

impl Item {
    /// A single value.
    pub(super) fn single(start: u32) -> Self {
        Self { start, end: None, step: 0 }
    }

    /// Every value from `start` to the field's maximum, in these steps.
    pub(super) fn every(start: u32, step: u32) -> Self {
        Self { start, end: None, step }
    }

    /// All values; for [`Field::Second`], which has too many, see [`Item::at_or_after`].
    pub(super) fn values(self, field: Field) -> Vec<u32> {
        let step = self.step.max(1) as usize;
        match self.end {
            Some(end) => (self.start..=end).step_by(step).collect(),
            None if self.step == 0 => vec![self.start],
            // without an end, days from the month's end run towards that end
            None if field == Field::DayFromMonthEnd => {
                let (first, _) = field.limits();
                (first..=self.start).rev().step_by(step).collect()
            }
            None => (self.start..=field.limits().1).step_by(step).collect(),
        }
    }

    /// The smallest value from `least` on, up to `max`.
    pub(super) fn at_or_after(self, least: u32, max: u32) -> Option<u32> {
        if least <= self.start {
            return Some(self.start);
        }
        if self.step == 0 {
            return None;
        }
        let steps = (least - self.start).div_ceil(self.step);
        let value = self.start.checked_add(steps.checked_mul(self.step)?)?;
        (value <= self.end.unwrap_or(max)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Item};

    #[test]
    fn an_open_step_runs_to_the_maximum_and_from_the_month_end_to_its_last_day() {
        assert_eq!(Item::every(20, 15).values(Field::Minute), [20, 35, 50]);
        assert_eq!(Item::every(28, 9).values(Field::DayFromMonthEnd), [28, 19, 10, 1]);
        assert_eq!(Item { start: 3, end: Some(9), step: 3 }.values(Field::DayFromMonthEnd), [3, 6, 9]);
        assert_eq!(Item::single(7).values(Field::Day), [7]);
    }

    #[test]
    fn the_next_value_of_an_item_needs_no_list() {
        let (_, max) = Field::Second.limits();
        assert_eq!(Item::every(50_000, 7_300_000).at_or_after(50_001, max), Some(7_350_000));
        assert_eq!(Item::every(50_000, 7_300_000).at_or_after(58_450_001, max), None);
        assert_eq!(
            Item { start: 1_000_000, end: Some(4_000_000), step: 1_500_000 }.at_or_after(2_500_001, max),
            Some(4_000_000)
        );
        assert_eq!(Item::single(5).at_or_after(6, max), None);
    }
}
