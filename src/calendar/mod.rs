//! systemd calendar expressions (`OnCalendar=`): parsed, printed in normal form and evaluated in-process.
//!
//! The rules are those of `systemd.time(7)` and of `systemd-analyze calendar` 252. Two of that program's faults are left
//! out on purpose: an open-ended step (`0/7`) never loses a hit at a carry, and a firing next to a change of the clock is
//! found where the wall clock has it.

mod error;
mod field;
mod items;
mod next;
mod normal;
mod parse;
mod zones;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

pub use error::ParseError;
pub use zones::zone_named;

use field::Item;
use next::Lowered;
use zones::Zone;

/// A valid calendar expression.
///
/// It is printed in systemd's normal form. Two expressions are equal if their normal forms say the same.
#[derive(Debug, Clone)]
pub struct Calendar {
    form: Form,
    /// `None`: no date that exists fits, so it never fires.
    lowered: Option<Lowered>,
}

impl Calendar {
    /// Reads an expression as `OnCalendar=` takes it.
    ///
    /// Of the time zones, `UTC` (any case) and the names of the IANA database are known. An abbreviation that systemd
    /// would take from the node's own zone (`CEST` in Berlin) is refused: systemd itself does not evaluate those reliably.
    ///
    /// # Errors
    /// The expression is not one that systemd 252 accepts: where, what was expected and what was found.
    ///
    /// ```
    /// use k8s_certs_renew::calendar::Calendar;
    ///
    /// let calendar = Calendar::parse("Mon *-*-1..7 3:00")?;
    /// assert_eq!(calendar.to_string(), "Mon *-*-01..07 03:00:00");
    ///
    /// let error = Calendar::parse("*-*-* 03:60:00").unwrap_err();
    /// assert_eq!(error.to_string(), "column 10: expected a minute from 0 to 59, found '60'");
    /// # Ok::<(), k8s_certs_renew::calendar::ParseError>(())
    /// ```
    pub fn parse(expression: &str) -> Result<Self, ParseError> {
        let form = parse::parse(expression)?;
        let lowered = Lowered::new(&form);
        Ok(Self { form, lowered })
    }

    /// The zone that the expression itself names; `None` where it runs in the node's own.
    pub fn zone(&self) -> Option<Tz> {
        self.form.zone.tz()
    }

    /// The first firing strictly after `after`, to the microsecond; `None` if there is none up to the year 2199.
    ///
    /// `local` is the node's zone, for an expression that names none. A wall time that a change of the clock leaves out is
    /// no firing; one that comes twice is a firing once, in its first pass if that is still to come.
    pub fn next_after(&self, after: DateTime<Utc>, local: Tz) -> Option<DateTime<Utc>> {
        next::next_after(self.lowered.as_ref()?, after, self.zone().unwrap_or(local))
    }
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form
    }
}

impl Eq for Calendar {}

/// What an expression says, field by field, in the order and the spelling of the normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Form {
    /// Bit 0 is Monday; 0 is any day.
    weekdays: u8,
    year: Values,
    month: Values,
    day: Values,
    /// `day` counts from the end of the month: 1 is its last day.
    from_month_end: bool,
    hour: Values,
    minute: Values,
    /// Microseconds within the minute; `*` is the item from 0 in steps of one second.
    second: Vec<Item>,
    zone: Zone,
}

/// The values of one field: sorted items, or `None` for `*`.
type Values = Option<Vec<Item>>;
