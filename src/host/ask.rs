//! Waits for what a person types.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Signals;

/// Reads a line from a terminal; see [`line()`].
pub type Answer = fn(&Signals) -> io::Result<Option<String>>;

/// How long a signal may go unnoticed, in nanoseconds: one that comes just before the wait does not end it.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A line from stdin, without its end; `None` where a signal asked for the end before it came. The end of the input ends the
/// line.
///
/// An ordinary read would go on after Ctrl-C, since signals are only noted and system calls resumed.
///
/// # Errors
/// As `poll(2)` and `read(2)`.
pub fn line(signals: &Signals) -> io::Result<Option<String>> {
    let stdin = io::stdin();
    let mut typed = Vec::new();
    loop {
        if signals.received().is_some() {
            return Ok(None);
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK_UP)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut some = [0; 256];
        let length = rustix::io::read(&stdin, &mut some)?;
        typed.extend_from_slice(&some[..length]);
        if length == 0 || typed.contains(&b'\n') {
            let text = String::from_utf8_lossy(&typed);
            return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
        }
    }
}
