//! The addresses of a name, where there is nothing but a name to go by.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

/// Addresses that are tried of one name.
const MOST: usize = 8;

/// The addresses of `host`, by `/etc/hosts` and the resolvers of this machine; none where they do not answer within `deadline`.
///
/// Who answers there has to prove who it is by its certificate: a resolver is believed nothing. It is asked in a thread of its own, since
/// nothing else can bound getaddrinfo(3); one that hangs is left behind, and ends by its own time-outs.
pub fn resolve(host: &str, port: u16, deadline: Duration) -> Vec<SocketAddr> {
    let (tell, told) = mpsc::channel();
    let host = host.to_owned();
    std::thread::spawn(move || {
        let addrs: Vec<SocketAddr> =
            (host.as_str(), port).to_socket_addrs().map(|addrs| addrs.take(MOST).collect()).unwrap_or_default();
        // nobody waits any more: nothing to be told
        let _ = tell.send(addrs);
    });
    told.recv_timeout(deadline).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::resolve;

    #[test]
    fn an_address_is_its_own_answer_and_what_is_no_name_has_none() {
        let deadline = Duration::from_secs(10);
        let told: Vec<String> = resolve("192.0.2.1", 6443, deadline).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["192.0.2.1:6443"]);
        assert_eq!(resolve("", 6443, deadline), []);
    }
}
