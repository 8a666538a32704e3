//! What follows from several certificates together: whether kubeadm can renew, whether kubelet starts with the right one.

use crate::node::Node;

use super::{Certificate, Kind, Manager, NotRenewable, Problem, purpose};

/// Notes at each certificate what its authority and its neighbours say about it.
pub(super) fn note(certificates: &mut [Certificate], authorities: &[Certificate], node: &Node) {
    for certificate in certificates.iter_mut() {
        let authority = certificate.ca_name.as_deref().and_then(|name| authorities.iter().find(|ca| ca.name == name));
        certificate.externally_managed =
            certificate.manager == Manager::Kubeadm && authority.is_some_and(|authority| authority.externally_managed);
        certificate.not_renewable = not_renewable(certificate, authority);
    }
    for certificate in certificates.iter_mut() {
        purpose::note(certificate);
    }
    kubelet_start(certificates);
    server_names(certificates, node);
}

fn not_renewable(certificate: &Certificate, authority: Option<&Certificate>) -> Option<NotRenewable> {
    if certificate.manager != Manager::Kubeadm {
        return Some(NotRenewable::NotKubeadm(certificate.manager));
    }
    if certificate.missing {
        return Some(NotRenewable::Missing);
    }
    if certificate.leaf.is_none() {
        return Some(NotRenewable::Unreadable);
    }
    if matches!(&certificate.kind, Kind::Kubeconfig { certificate, key, .. } if certificate.is_some() || key.is_some())
    {
        return Some(NotRenewable::NotEmbedded);
    }
    let ca = certificate.ca_name.clone().unwrap_or_default();
    let Some(authority) = authority else {
        return Some(NotRenewable::CaUnusable { ca, why: "missing".to_owned() });
    };
    if authority.externally_managed {
        return Some(NotRenewable::ExternalCa { ca });
    }
    let unusable = |problem: &&Problem| {
        (problem.is_unreadable() && !matches!(problem, Problem::CannotBeJudged(_))) || **problem == Problem::KeyMismatch
    };
    let why = authority.problems.iter().find(unusable)?;
    Some(NotRenewable::CaUnusable { ca, why: why.to_string() })
}

/// kubelet.conf that holds a certificate of its own, while kubelet rotates another: kubelet.conf counts at its next start
/// (kubeadm before 1.17 and kubespray of that time left it so).
fn kubelet_start(certificates: &mut [Certificate]) {
    let rotated = certificates.iter().find(|certificate| certificate.name == "kubelet-client-current.pem");
    let Some((path, Some(serial))) = rotated.map(|rotated| (rotated.path.clone(), serial(rotated))) else { return };
    if let Some(conf) = certificates.iter_mut().find(|certificate| certificate.name == "kubelet.conf")
        && self::serial(conf).is_some_and(|own| own != serial)
    {
        conf.problems.push(Problem::NotTheRotated { rotated: path });
    }
}

fn serial(certificate: &Certificate) -> Option<String> {
    certificate.leaf.as_ref().map(|leaf| leaf.serial.clone())
}

/// A kubeconfig whose server is not among the names that kube-apiserver's certificate has: kubeadm renews with the names of
/// the old certificate, whatever its configuration says. Not told where `--tls-sni-cert-key` serves further ones.
fn server_names(certificates: &mut [Certificate], node: &Node) {
    let Some(manifest) = node.manifest("kube-apiserver") else { return };
    if manifest.flag("--tls-sni-cert-key").is_some() {
        return;
    }
    let served = manifest.flag_path("--tls-cert-file").unwrap_or_else(|| node.cert_dir.join("apiserver.crt"));
    let real = node.real(&served);
    let is_served = |certificate: &Certificate| {
        !matches!(certificate.kind, Kind::Kubeconfig { .. })
            && (certificate.path == served || node.real(&certificate.path) == real)
    };
    let Some(names) =
        certificates.iter().find(|&certificate| is_served(certificate)).and_then(|served| served.leaf.as_ref())
    else {
        return;
    };
    let names = names.sans.clone();
    for certificate in certificates.iter_mut().filter(|certificate| certificate.manager == Manager::Kubeadm) {
        if let Kind::Kubeconfig { server: Some(server), .. } = &certificate.kind
            && let Some(host) = host_of(server)
            && !names.iter().any(|name| covers(name, host))
        {
            certificate.problems.push(Problem::ServerNotNamed { host: host.to_owned() });
        }
    }
}

/// The host of `https://host:port/path`; brackets of an IPv6 address taken off.
fn host_of(server: &str) -> Option<&str> {
    let authority = server.strip_prefix("https://")?.split('/').next()?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    }
}

/// Whether a name of a certificate covers a host: case does not count, and `*.` stands for one label (RFC 6125).
fn covers(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
        None => {
            name.eq_ignore_ascii_case(host) || name.parse::<std::net::IpAddr>().is_ok_and(|ip| host.parse() == Ok(ip))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{covers, host_of};

    #[test]
    fn a_server_is_matched_with_names_as_clients_do() {
        assert_eq!(host_of("https://192.0.2.1:6443"), Some("192.0.2.1"));
        assert_eq!(host_of("https://[2001:db8::1]:6443/x"), Some("2001:db8::1"));
        assert_eq!(host_of("https://lb.example"), Some("lb.example"));
        assert_eq!(host_of("http://lb.example"), None);
        assert!(covers("LB.example", "lb.EXAMPLE") && covers("*.example", "lb.example"));
        assert!(covers("2001:db8::1", "2001:DB8:0::1"));
        assert!(!covers("*.example", "a.lb.example") && !covers("lb.example", "example"));
    }
}
