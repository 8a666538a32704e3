//! Where a cluster's API server is, and whether what answers there is it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::api::Seen;
use crate::host::resolve;
use crate::inventory::signature::{Signature, verify};
use crate::inventory::x509;
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{Node, pem};

/// Where a server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its addresses.
    pub(super) addresses: Vec<SocketAddr>,
    /// The host name that they were found by; none where the kubeconfig or the manifest has an address.
    pub(super) name: Option<String>,
}

/// Where kube-apiserver is: this node's own by its manifest, else the kubeconfig's server.
pub(super) fn place(node: &Node, config: &Kubeconfig, deadline: Duration) -> Result<Place, String> {
    match node.manifest("kube-apiserver").map(crate::node::Manifest::serving) {
        Some(own) if !own.is_empty() => Ok(Place { addresses: own, name: None }),
        _ => match named(config)? {
            (Host::Address(addr), _) => Ok(Place { addresses: vec![addr], name: None }),
            // below another root this machine's resolver has nothing to say
            (Host::Name(name, _), server) if !node.root.is_host() => Err(format!(
                "'{server}' is a host name ('{name}'), which is looked up on the machine itself only; a kubeconfig with the address will do (--kubeconfig)"
            )),
            (Host::Name(name, port), server) => match resolve(&name, port, deadline) {
                Ok(addresses) => Ok(Place { addresses, name: Some(name) }),
                Err(error) => Err(format!("the host of '{server}' cannot be looked up: {error}")),
            },
        },
    }
}

/// Whether what answers is this cluster's API server.
pub(super) fn ours(
    seen: &Seen,
    on_disk: Option<&[u8]>,
    authorities: &[Vec<u8>],
    addr: (IpAddr, Option<&str>),
    now: DateTime<Utc>,
) -> Result<(), String> {
    if on_disk == Some(seen.leaf_der.as_slice()) {
        return Ok(());
    }
    let certificate = x509::certificate(&seen.leaf_der)?;
    let leaf = x509::leaf(&certificate)?;
    let signed = authorities.iter().filter_map(|der| x509::certificate(der).ok()).any(|ca| {
        ca.subject().as_raw() == certificate.issuer().as_raw() && verify(&certificate, &ca) == Signature::Good
    });
    if !signed {
        return Err("the cluster's CA has not signed".to_owned());
    }
    if now < leaf.not_before || now > leaf.not_after {
        return Err("is not valid now".to_owned());
    }
    // any kubelet's serving certificate is signed by the same CA
    let (ip, host) = addr;
    let is_it = |name: &String| name == "kubernetes" || Some(name.as_str()) == host || name.parse() == Ok(ip);
    let names_it = leaf.sans.iter().any(is_it);
    if !names_it || !leaf.usages.iter().any(|usage| usage == "serverAuth") {
        return Err(format!("is not kube-apiserver's, nor for {ip}"));
    }
    Ok(())
}

/// The CA of the kubeconfig's cluster, and the node's own.
pub(super) fn authorities(node: &Node, config: &Kubeconfig) -> Vec<Vec<u8>> {
    let inside = config.current_cluster().ok().and_then(|cluster| cluster.ca.clone());
    let text = match inside {
        Some(Source::Data(bytes)) => Some(bytes),
        Some(Source::File(path)) => node.root.read(&path).ok(),
        None => node.root.read(&node.cert_dir.join("ca.crt")).ok(),
    };
    text.and_then(|text| pem::read(&text).ok()).map_or_else(Vec::new, |pem| pem.certificates)
}

/// The host of a kubeconfig's server.
#[derive(Debug, PartialEq, Eq)]
enum Host {
    Address(SocketAddr),
    Name(String, u16),
}

/// The host and the whole URL of a kubeconfig's server. `localhost` is an address.
fn named(config: &Kubeconfig) -> Result<(Host, String), String> {
    let server = config.current_cluster().ok().and_then(|cluster| cluster.server.clone()).unwrap_or_default();
    let authority = server.strip_prefix("https://").ok_or_else(|| format!("'{server}' is no https address"))?;
    let authority = authority.split('/').next().unwrap_or(authority);
    let local = authority.replacen("localhost", &Ipv4Addr::LOCALHOST.to_string(), 1);
    let alone = || local.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 443));
    if let Some(addr) = local.parse().ok().or_else(alone) {
        return Ok((Host::Address(addr), server));
    }
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| format!("'{server}' has no port that is a number"))?),
        None => (authority, 443),
    };
    if name.is_empty() || name.contains([':', '@']) {
        return Err(format!("'{server}' names no host"));
    }
    Ok((Host::Name(name.to_owned(), port), server.clone()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Host, named};
    use crate::node::kubeconfig::Kubeconfig;

    #[test]
    fn the_server_of_a_kubeconfig_is_an_address_or_a_name() {
        let address = |text: &str| Some(Host::Address(text.parse().unwrap()));
        let name = |name: &str, port| Some(Host::Name(name.to_owned(), port));
        let table = [
            ("https://192.0.2.10:6443", address("192.0.2.10:6443")),
            ("https://[2001:db8::1]:6443/", address("[2001:db8::1]:6443")),
            ("https://localhost:8443", address("127.0.0.1:8443")),
            ("https://192.0.2.10", address("192.0.2.10:443")),
            ("https://lb.example.com:6443", name("lb.example.com", 6443)),
            ("https://lb.example.com/", name("lb.example.com", 443)),
            ("https://lb.example.com:https", None),
            ("https://user@lb.example.com", None),
            ("https://:6443", None),
            ("http://192.0.2.10:8080", None),
        ];
        for (server, expected) in table {
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
            );
            let config = Kubeconfig::parse(text.as_bytes(), Path::new("/")).unwrap();
            assert_eq!(named(&config).ok().map(|(host, _)| host), expected, "{server}");
        }
    }
}
