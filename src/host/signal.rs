//! Signals that ask the run to end: noted here, acted upon between two steps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals that ask the program to end, so that a run stops between steps and never inside of one.
///
/// SIGTERM is how systemd stops a service, SIGINT is Ctrl-C, SIGHUP a terminal that went away. SIGPIPE needs nothing
/// here: Rust's runtime ignores it, so writing to a reader that has left is an `io::ErrorKind::BrokenPipe` for the
/// writer to handle. A renewal that is under way must not die because a `| head` closed its pipe.
#[derive(Debug, Clone)]
pub struct Signals {
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Notes SIGTERM, SIGINT and SIGHUP from now on instead of dying of them.
    ///
    /// # Errors
    /// As `sigaction(2)`.
    pub fn install() -> io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or(0);
            signal_hook::flag::register_usize(signal, Arc::clone(&last), number)?;
        }
        Ok(Self { last })
    }

    /// Signals that never come, for tests and for commands that change nothing.
    pub fn none() -> Self {
        Self { last: Arc::new(AtomicUsize::new(0)) }
    }

    /// A signal that has already come, for tests.
    pub fn already(signal: i32) -> Self {
        let signals = Self::none();
        signals.note(signal);
        signals
    }

    /// Notes a signal as if it had come just now, for tests.
    pub fn note(&self, signal: i32) {
        self.last.store(usize::try_from(signal).unwrap_or(0), Ordering::SeqCst);
    }

    /// The number of the last signal that asked for the end, if one did.
    pub fn received(&self) -> Option<i32> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGHUP, SIGTERM};

    use super::Signals;

    #[test]
    fn a_signal_is_noted_and_does_not_end_the_process() {
        let signals = Signals::install().unwrap();
        assert_eq!(signals.received(), None);
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert_eq!(signals.received(), Some(SIGHUP));
    }

    #[test]
    fn a_preset_signal_is_there_from_the_start() {
        assert_eq!(Signals::none().received(), None);
        assert_eq!(Signals::already(SIGTERM).received(), Some(SIGTERM));
    }
}
