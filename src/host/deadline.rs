//! A moment of real time by which something that the machine does (a child, a connection) must have ended.

use std::time::Duration;

use super::clock::{Clock, SystemClock};

/// An instant on the machine's own clock since boot.
///
/// Children and sockets live in real time, so this is not measured by the clock that is handed in for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Duration,
}

impl Deadline {
    /// The deadline that passes after this long, counted from now.
    pub fn after(how_long: Duration) -> Self {
        Self { at: SystemClock.since_boot().saturating_add(how_long) }
    }

    /// The time that is left; `None` once it has passed.
    pub fn left(&self) -> Option<Duration> {
        self.at.checked_sub(SystemClock.since_boot()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Deadline;

    #[test]
    fn a_deadline_has_time_left_until_it_passes() {
        assert_eq!(Deadline::after(Duration::ZERO).left(), None);
        let left = Deadline::after(Duration::from_secs(60)).left().unwrap();
        assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60));
        assert!(Deadline::after(Duration::MAX).left().is_some());
    }
}
