//! Where this node's servers listen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::manifest::Manifest;

impl Manifest {
    /// The addresses at which kube-apiserver can be reached from its own node, the likeliest first.
    ///
    /// From `--bind-address` and `--secure-port` (defaults `::` resp. `0.0.0.0` and 6443): an address given is the only one.
    /// Bound to every IPv4 address, it is at 127.0.0.1; bound to `::`, at 127.0.0.1, then `::1` (IPv4 may be off), then
    /// at `--advertise-address`. Empty where the secure port is off or an address does not parse.
    pub fn serving(&self) -> Vec<SocketAddr> {
        let port = match self.flag("--secure-port").map_or(Ok(6443), str::parse) {
            Ok(port) if port != 0 => port,
            _ => return Vec::new(),
        };
        let bind = match self.flag("--bind-address") {
            None | Some("") => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Some(text) => match text.parse() {
                Ok(address) => address,
                Err(_) => return Vec::new(),
            },
        };
        let mut addresses = match bind {
            address if !address.is_unspecified() => return vec![SocketAddr::new(address, port)],
            IpAddr::V4(_) => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            IpAddr::V6(_) => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        };
        if bind.is_ipv6() {
            addresses.extend(self.flag("--advertise-address").and_then(|address| address.parse::<IpAddr>().ok()));
        }
        addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
    }
}

/// The addresses at which a listener of `host:port` (etcd's `--listen-client-urls`, without their scheme) is reached from its own
/// machine; none for a host name, which is the listener's to resolve.
pub fn reachable(authority: &str) -> Vec<SocketAddr> {
    let authority = authority.trim_end_matches('/');
    let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    if let Some(port) = authority.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return vec![SocketAddr::new(four, port), SocketAddr::new(six, port)];
    }
    match authority.parse::<SocketAddr>() {
        Ok(addr) if !addr.ip().is_unspecified() => vec![addr],
        Ok(addr) if addr.is_ipv4() => vec![SocketAddr::new(four, addr.port())],
        Ok(addr) => vec![SocketAddr::new(four, addr.port()), SocketAddr::new(six, addr.port())],
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Manifest, reachable};

    #[test]
    fn a_listener_is_reached_at_its_address_or_at_loopback() {
        let table: [(&str, &[&str]); 7] = [
            ("192.0.2.10:2379", &["192.0.2.10:2379"]),
            ("[fd00::1]:2379/", &["[fd00::1]:2379"]),
            ("0.0.0.0:2379", &["127.0.0.1:2379"]),
            ("[::]:2379", &["127.0.0.1:2379", "[::1]:2379"]),
            ("localhost:2379", &["127.0.0.1:2379", "[::1]:2379"]),
            ("etcd1.example.com:2379", &[]),
            ("", &[]),
        ];
        for (authority, expected) in table {
            let found: Vec<String> = reachable(authority).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{authority}");
        }
    }

    fn serving(flags: &[&str]) -> Vec<String> {
        let flags: String = flags.iter().map(|flag| format!("    - '{flag}'\n")).collect();
        let text = format!(
            "kind: Pod\nmetadata: {{name: kube-apiserver}}\nspec:\n  containers:\n  - name: a\n    command:\n    - kube-apiserver\n{flags}"
        );
        let manifest = Manifest::parse(Path::new("/m.yaml"), text.as_bytes()).unwrap();
        manifest.serving().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_addresses_follow_from_the_flags() {
        let cases: [(&[&str], &[&str]); 7] = [
            (&[], &["127.0.0.1:6443"]),
            (&["--bind-address=0.0.0.0", "--advertise-address=192.0.2.1"], &["127.0.0.1:6443"]),
            (&["--bind-address=192.0.2.10", "--secure-port=7443"], &["192.0.2.10:7443"]),
            (
                &["--bind-address=::", "--advertise-address=192.0.2.1"],
                &["127.0.0.1:6443", "[::1]:6443", "192.0.2.1:6443"],
            ),
            (&["--bind-address=2001:db8::1"], &["[2001:db8::1]:6443"]),
            (&["--secure-port=0"], &[]),
            (&["--bind-address=nonsense"], &[]),
        ];
        for (flags, expected) in cases {
            assert_eq!(serving(flags), expected, "{flags:?}");
        }
    }
}
