//! Whether a certificate can do what it stands there for: the certain part of kubeadm's specifications, which holds for certificates of
//! an operator's own too.

use super::{Certificate, Leaf, Manager, Problem};

const SERVER: &str = "serverAuth";
const CLIENT: &str = "clientAuth";

/// What a certificate of this name is used for at least (kubeadm `certs/certlist.go`; a kubeconfig is a client's). etcd's two are clients
/// too, but only with other members or its gateway, so that they are no alarm where they are a server's alone.
const USES: [(&str, &str); 13] = [
    ("admin.conf", CLIENT),
    ("apiserver", SERVER),
    ("apiserver-etcd-client", CLIENT),
    ("apiserver-kubelet-client", CLIENT),
    ("controller-manager.conf", CLIENT),
    ("etcd-healthcheck-client", CLIENT),
    ("etcd-peer", SERVER),
    ("etcd-server", SERVER),
    ("front-proxy-client", CLIENT),
    ("kubelet-client-current.pem", CLIENT),
    ("kubelet.conf", CLIENT),
    ("scheduler.conf", CLIENT),
    ("super-admin.conf", CLIENT),
];

/// Who kubeadm makes these for; kube-apiserver's own roles are bound to these names.
const USERS: [(&str, &str); 2] =
    [("controller-manager.conf", "system:kube-controller-manager"), ("scheduler.conf", "system:kube-scheduler")];

/// Notes at the certificate what it cannot do.
pub(super) fn note(certificate: &mut Certificate) {
    if !matches!(certificate.manager, Manager::Kubeadm | Manager::Kubelet) {
        return;
    }
    let Some(leaf) = &certificate.leaf else { return };
    let found = problems(&certificate.name, leaf);
    if !found.is_empty() {
        certificate.problems.extend(found);
        certificate.problems.sort();
    }
}

fn problems(name: &str, leaf: &Leaf) -> Vec<Problem> {
    let mut found = Vec::new();
    let of = |table: &[(&str, &'static str)]| table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let Some(lacks) = of(&USES) else { return found };
    if !leaf.usages.is_empty() && !leaf.usages.iter().any(|usage| usage == lacks || usage == "any") {
        found.push(Problem::WrongUsage { lacks });
    }
    if lacks == SERVER && leaf.sans.is_empty() {
        found.push(Problem::NoNames);
    }
    let is_admin = leaf.organizations.iter().any(|one| one == "system:masters" || one == "kubeadm:cluster-admins");
    if let Some(usual) = of(&USERS).filter(|usual| *usual != leaf.common_name && !is_admin) {
        found.push(Problem::LogsInAs { user: leaf.common_name.clone(), usual });
    }
    found
}
