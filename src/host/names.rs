//! Host names.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

/// The addresses of a host, by the machine's own resolver (`/etc/hosts`, then DNS, as the machine has it). It is waited for no longer than
/// `deadline`; a resolver that hangs then goes on in a thread of its own, which ends with the program.
///
/// # Errors
/// It has no address, or the resolver did not answer in time.
pub fn resolve(name: &str, port: u16, deadline: Duration) -> Result<Vec<SocketAddr>> {
    let (tell, told) = mpsc::channel();
    let host = (name.to_owned(), port);
    std::thread::spawn(move || {
        let found: Result<Vec<SocketAddr>> = (host.0.as_str(), host.1).to_socket_addrs().map(Iterator::collect);
        // nobody listens any more after the deadline
        let _ = tell.send(found);
    });
    match told.recv_timeout(deadline) {
        Ok(Ok(found)) if found.is_empty() => Err(Error::new(ErrorKind::NotFound, "it has no address")),
        Ok(found) => found,
        Err(_) => Err(Error::new(ErrorKind::TimedOut, "the resolver does not answer in time")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::resolve;

    #[test]
    fn a_name_has_addresses_and_what_is_none_has_not() {
        let found = resolve("localhost", 6443, Duration::from_secs(5)).unwrap();
        assert!(found.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 6443), "{found:?}");
        assert!(resolve("no such host", 1, Duration::from_secs(5)).is_err());
    }
}
