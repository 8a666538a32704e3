//! This very program, as the kernel runs it.

use std::io;
use std::path::PathBuf;

/// Where it is: what `/proc/self/exe` leads to, links resolved.
///
/// # Errors
/// As `readlink(2)`.
pub fn path() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Its bytes: those that run, also after the file was replaced or removed.
///
/// # Errors
/// As `open(2)` and `read(2)`.
#[expect(clippy::disallowed_methods, reason = "the program is the host's, never below another root")]
pub fn bytes() -> io::Result<Vec<u8>> {
    std::fs::read("/proc/self/exe")
}
