//! Time, behind a trait so that tests own it.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// The clocks that the program uses. The system's is [`SystemClock`]; tests bring one that never waits.
pub trait Clock: Sync + std::fmt::Debug {
    /// The wall clock, in UTC. Read once a run, then passed on.
    fn now(&self) -> DateTime<Utc>;
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

    fn since_boot(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
    fn sleep(&self, how_long: Duration) {
        std::thread::sleep(how_long);
    }
}
