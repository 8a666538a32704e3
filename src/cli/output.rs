//! stdout, as it really went.

use std::io::{self, ErrorKind, Write};

/// Hands everything on, and remembers whether it was taken. Who writes need not look: a full disk below a redirected stdout must not leave
/// a node half done.
pub struct Output<'a> {
    to: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl<'a> Output<'a> {
    /// Everything written to this goes there.
    pub fn new(to: &'a mut dyn Write) -> Self {
        Self { to, failed: None }
    }

    /// Why something was not taken, the first time. A reader that went away (`| head`) has read what it wanted.
    pub fn failed(self) -> Option<io::Error> {
        self.failed.filter(|error| error.kind() != ErrorKind::BrokenPipe)
    }

    fn remember<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failed.get_or_insert(error);
            kind.into()
        })
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.to.write(bytes) {
            // write_all tries this again
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            result => self.remember(result),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.to.flush();
        self.remember(result)
    }
}
