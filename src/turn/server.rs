//! Whether what answers at an address is an API server of this cluster.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::api::resolve;
use crate::inventory::signature::{Signature, verify};
use crate::inventory::x509;
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{Node, pem};

/// What the certificate of an API server is judged by.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The cluster's CAs (DER).
    authorities: Vec<Vec<u8>>,
    /// The certificate that this node's own API server is to show (DER).
    own: Option<Vec<u8>>,
    /// The host that admin.conf names, where it is a name.
    host: Option<String>,
}

impl Judge {
    /// By the cluster's CA, that of admin.conf, and the certificate of the node's own API server.
    pub fn new(node: &Node, config: Option<&Kubeconfig>, own: Option<Vec<u8>>) -> Self {
        let read = |path: &Path| node.root.read(path).ok();
        let inside = config.and_then(|config| config.current_cluster().ok()?.ca.clone());
        let inside = match inside {
            Some(Source::Data(bytes)) => Some(bytes),
            Some(Source::File(path)) => read(&path),
            None => None,
        };
        let texts = [read(&node.cert_dir.join("ca.crt")), inside];
        let authorities =
            texts.iter().flatten().filter_map(|text| pem::read(text).ok()).flat_map(|pem| pem.certificates).collect();
        let host = config.and_then(server).map(|(host, _)| host).filter(|host| host.parse::<IpAddr>().is_err());
        Self { authorities, own, host }
    }

    /// Whether it is one of this cluster's API servers that shows this certificate at this address, by its CA and its names. Its dates
    /// do not matter here: one that has expired is still who it is.
    ///
    /// # Errors
    /// Not so: why, as what the certificate does or is.
    pub fn is_ours(&self, leaf: &[u8], ip: IpAddr) -> Result<(), String> {
        if self.own.as_deref() == Some(leaf) {
            return Ok(());
        }
        let certificate = x509::certificate(leaf)?;
        let parsed = x509::leaf(&certificate)?;
        let signed = self.authorities.iter().filter_map(|der| x509::certificate(der).ok()).any(|ca| {
            ca.subject().as_raw() == certificate.issuer().as_raw() && verify(&certificate, &ca) == Signature::Good
        });
        if !signed {
            return Err("the cluster's CA has not signed".to_owned());
        }
        // the serving certificate of any kubelet may be signed by the same CA
        let host = self.host.as_deref();
        let names_it = |name: &String| {
            name == "kubernetes" || name.parse() == Ok(ip) || host.is_some_and(|host| name.eq_ignore_ascii_case(host))
        };
        if !parsed.sans.iter().any(names_it) || !parsed.usages.iter().any(|usage| usage == "serverAuth") {
            return Err(format!("is not kube-apiserver's, nor for {ip}"));
        }
        Ok(())
    }

    /// Whether other clients accept it at `now`, by its dates.
    ///
    /// # Errors
    /// Not so: why.
    pub fn is_valid(leaf: &[u8], now: DateTime<Utc>) -> Result<(), String> {
        let certificate = x509::certificate(leaf)?;
        let leaf = x509::leaf(&certificate)?;
        if now > leaf.not_after {
            return Err("has expired".to_owned());
        }
        if now < leaf.not_before {
            return Err("is not valid yet, by this node's clock".to_owned());
        }
        Ok(())
    }
}

/// Host and port of the current cluster's server, an `https` URL.
pub fn server(config: &Kubeconfig) -> Option<(String, u16)> {
    let url = config.current_cluster().ok()?.server.clone()?;
    let authority = url.strip_prefix("https://")?.split('/').next()?.to_owned();
    if let Ok(addr) = authority.parse::<SocketAddr>() {
        return Some((addr.ip().to_string(), addr.port()));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && port.parse::<u16>().is_ok() => (host, port.parse().ok()?),
        _ => (authority.as_str(), 443),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// The addresses of that server. A name is resolved only where `may_resolve`, but for `localhost`.
pub fn addresses(config: &Kubeconfig, may_resolve: bool, deadline: Duration) -> Vec<SocketAddr> {
    let Some((host, port)) = server(config) else { return Vec::new() };
    match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) if host == "localhost" => vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)],
        Err(_) if may_resolve => resolve(&host, port, deadline),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::server;
    use crate::node::kubeconfig::Kubeconfig;

    #[test]
    fn the_server_of_a_kubeconfig_has_a_host_and_a_port() {
        let table = [
            ("https://192.0.2.10:6443", Some(("192.0.2.10", 6443))),
            ("https://[2001:db8::1]:6443/", Some(("2001:db8::1", 6443))),
            ("https://[2001:db8::1]", Some(("2001:db8::1", 443))),
            ("https://lb.example.com:6443", Some(("lb.example.com", 6443))),
            ("https://lb.example.com/k8s", Some(("lb.example.com", 443))),
            ("https://192.0.2.10", Some(("192.0.2.10", 443))),
            ("http://192.0.2.10:8080", None),
            ("https://", None),
        ];
        for (url, expected) in table {
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: '{url}'}}}}]\n"
            );
            let config = Kubeconfig::parse(text.as_bytes(), Path::new("/")).unwrap();
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(server(&config), expected, "{url}");
        }
    }
}
