//! A TCP connection whose every read and write is bound by one deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::host::Deadline;

/// A connection that is over, whatever the peer does, when its deadline passes: a peer that sends a byte now and then
/// does not win time.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    deadline: Deadline,
}

impl Socket {
    #[expect(clippy::disallowed_methods, reason = "api makes every connection, with a deadline")]
    pub(super) fn connect(addr: SocketAddr, deadline: Deadline) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, deadline.left().ok_or_else(passed)?)?;
        // requests are single small writes; nothing is to wait for an acknowledgement
        stream.set_nodelay(true)?;
        Ok(Self { stream, deadline })
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.deadline.left().ok_or_else(passed)?))?;
            match self.stream.read(buffer) {
                // with a time-out set the kernel does not go on by itself after a signal, the end of a child for instance
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(timed_out),
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left().ok_or_else(passed)?))?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn passed() -> io::Error {
    io::Error::from(io::ErrorKind::TimedOut)
}

/// A socket's own time-out shows as `EAGAIN`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { passed() } else { error }
}
