//! Time, behind a trait so that tests own it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rtime_clock::adjtime::{Timex, adjtimex};

/// The kernel's largest error of the wall clock, in microseconds (`NTP_PHASE_LIMIT`, Linux `ntp.c`): what it starts with at
/// boot, and comes back to some nine hours after the last word of a time source, as the error grows by 500 ppm.
const NEVER_SET: i64 = 16_000_000;

/// The clocks that the program uses. The system's is [`SystemClock`]; tests bring one that never waits.
pub trait Clock: Sync + std::fmt::Debug {
    /// The wall clock, in UTC. Read once a run, then passed on.
    fn now(&self) -> DateTime<Utc>;
    /// Whether the kernel says that a time source has set the wall clock, and lately; `None` where it does not tell.
    fn synchronised(&self) -> Option<bool>;
    /// Time since boot, counting suspend (`CLOCK_BOOTTIME`): never steps, measures waits and deadlines.
    fn since_boot(&self) -> Duration;
    /// Waits.
    fn sleep(&self, how_long: Duration);
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> DateTime<Utc> {
        std::time::SystemTime::now().into()
    }

    /// By adjtimex(2), read only. What counts is the largest error, as for `timedatectl` (systemd 243 and later, `ntp_synced`): the
    /// flag `STA_UNSYNC`, and `TIME_ERROR` with it, is also set by a chrony that has synchronised the clock and is not to
    /// touch the hardware's (without `rtcsync`).
    fn synchronised(&self) -> Option<bool> {
        let mut timex = Timex::new();
        adjtimex(&mut timex).ok()?;
        Some(timex.0.maxerror < NEVER_SET)
    }

    fn since_boot(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
    fn sleep(&self, how_long: Duration) {
        std::thread::sleep(how_long);
    }
}
