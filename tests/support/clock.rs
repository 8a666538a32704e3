//! A clock that never waits.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_certs_renew::host::{Clock, Signals};

/// Time stands still but for what is slept.
pub struct StillClock {
    now: DateTime<Utc>,
    begin: Duration,
    synchronised: Option<bool>,
    slept_ms: AtomicU64,
    sleeps: AtomicU32,
    least: Duration,
    on_sleep: Box<dyn Fn(u32) + Send + Sync>,
}

impl StillClock {
    /// A clock that shows `now`.
    ///
    /// Each clock begins an hour after the one before, so that several runs on one node come one after another; and the first
    /// of them three years after the boot, so that they come after runs by the machine's own clock.
    pub fn at(now: DateTime<Utc>) -> Self {
        static HOURS: AtomicU64 = AtomicU64::new(0);
        Self {
            now,
            begin: Duration::from_secs(100_000_000 + 3600 * HOURS.fetch_add(1, Ordering::Relaxed)),
            synchronised: Some(true),
            slept_ms: AtomicU64::new(0),
            sleeps: AtomicU32::new(0),
            least: Duration::ZERO,
            on_sleep: Box::new(|_| {}),
        }
    }

    /// What the kernel says of its being synchronised: that it is, if nothing else is told.
    pub fn synchronised(self, synchronised: Option<bool>) -> Self {
        Self { synchronised, ..self }
    }

    /// Each sleep takes at least this long by it, so that a wait for what never comes is over after a few looks.
    pub fn oversleeping(self, least: Duration) -> Self {
        Self { least, ..self }
    }

    /// What happens meanwhile: called at each sleep, with its number from 1.
    pub fn meanwhile(self, act: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self { on_sleep: Box::new(act), ..self }
    }

    /// This signal comes at the sleep of this number.
    pub fn raising(self, signal: i32, at: u32, signals: &Signals) -> Self {
        let signals = signals.clone();
        self.meanwhile(move |number| {
            if number == at {
                signals.note(signal);
            }
        })
    }

    /// How long was slept by it.
    pub fn slept(&self) -> Duration {
        Duration::from_millis(self.slept_ms.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for StillClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StillClock").field("now", &self.now).field("slept", &self.slept()).finish_non_exhaustive()
    }
}

impl Clock for StillClock {
    fn now(&self) -> DateTime<Utc> {
        self.now
    }

    fn synchronised(&self) -> Option<bool> {
        self.synchronised
    }

    fn since_boot(&self) -> Duration {
        self.begin + self.slept()
    }

    fn sleep(&self, how_long: Duration) {
        let how_long = how_long.max(self.least);
        self.slept_ms.fetch_add(u64::try_from(how_long.as_millis()).unwrap(), Ordering::Relaxed);
        (self.on_sleep)(self.sleeps.fetch_add(1, Ordering::Relaxed) + 1);
        // others get the processor, so that a server in another thread can go on
        std::thread::yield_now();
    }
}
