//! Which certificates a node is to have, and which it has beside them.

use std::path::{Path, PathBuf};

use crate::files::is_absent;
use crate::node::{EtcdKind, Node};

use super::read::{self, Found, Login, key_beside};
use super::{Certificate, Kind, Manager, Problem};

/// A certificate that is not judged yet, with what its files hold.
pub(super) type Entry = (Certificate, Found);

/// kubeadm's leaves: name, file below the PKI, CA, whether only with stacked etcd (kubeadm `certs/certlist.go`).
const LEAVES: [(&str, &str, &str, bool); 7] = [
    ("apiserver", "apiserver.crt", "ca", false),
    ("apiserver-etcd-client", "apiserver-etcd-client.crt", "etcd-ca", true),
    ("apiserver-kubelet-client", "apiserver-kubelet-client.crt", "ca", false),
    ("etcd-healthcheck-client", "etcd/healthcheck-client.crt", "etcd-ca", true),
    ("etcd-peer", "etcd/peer.crt", "etcd-ca", true),
    ("etcd-server", "etcd/server.crt", "etcd-ca", true),
    ("front-proxy-client", "front-proxy-client.crt", "front-proxy-ca", false),
];

/// kubeadm's kubeconfigs; the last one exists from 1.29 on, and only where `kubeadm init` ran.
const KUBECONFIGS: [&str; 4] = ["admin.conf", "controller-manager.conf", "scheduler.conf", "super-admin.conf"];

/// kubeadm's authorities: name, file, whether only with stacked etcd.
const AUTHORITIES: [(&str, &str, bool); 3] =
    [("ca", "ca.crt", false), ("etcd-ca", "etcd/ca.crt", true), ("front-proxy-ca", "front-proxy-ca.crt", false)];

/// Where kubelet keeps its certificates (kubelet's `--cert-dir`).
const KUBELET: &str = "/var/lib/kubelet/pki";

/// A certificate of which nothing is known but where it should be.
pub(super) fn blank(name: &str, path: &Path, kind: Kind, manager: Manager) -> Certificate {
    Certificate {
        name: name.to_owned(),
        path: path.to_path_buf(),
        kind,
        manager,
        ca_name: None,
        required: false,
        missing: false,
        externally_managed: false,
        not_renewable: None,
        leaf: None,
        problems: Vec::new(),
    }
}

/// Every certificate and kubeconfig that kubeadm can keep on a node and renew, there or not: its name and its files.
pub fn kubeadm_files(node: &Node) -> Vec<(&'static str, Vec<PathBuf>)> {
    let pairs = LEAVES.iter().map(|(name, file, _, _)| {
        let path = node.cert_dir.join(file);
        (*name, vec![key_beside(&path), path])
    });
    pairs.chain(KUBECONFIGS.iter().map(|name| (*name, vec![node.kubernetes_dir.join(name)]))).collect()
}

/// The node's authorities.
pub(super) fn authorities(node: &Node) -> Vec<Entry> {
    let mut all = Vec::new();
    for (name, file, stacked) in AUTHORITIES {
        if !stacked || node.etcd == EtcdKind::Stacked {
            all.push(authority(node, name, &node.cert_dir.join(file), Manager::Kubeadm, node.is_control_plane()));
        }
    }
    if node.etcd == EtcdKind::External {
        let named = node.manifest("kube-apiserver").and_then(|manifest| manifest.flag_path("--etcd-cafile"));
        let usual = node.etcd_cert_dir.join("ca.pem");
        if named.as_deref().is_none_or(|named| node.real(named) != node.real(&usual)) && node.root.exists(&usual) {
            all.push(authority(node, "ca.pem", &usual, Manager::Etcd, false));
        }
        if let Some(path) = named {
            let name = unused(file_name(&path), &path, &all);
            all.push(authority(node, &name, &path, Manager::Etcd, true));
        }
    }
    all
}

fn authority(node: &Node, name: &str, path: &Path, manager: Manager, required: bool) -> Entry {
    let key = key_beside(path);
    let found = read::pair(&node.root, path, Some(&key));
    let mut certificate = blank(name, path, Kind::Authority { key }, manager);
    certificate.required = required;
    // kubeadm's rule: the CA's certificate is here and its key is not
    certificate.externally_managed = manager == Manager::Kubeadm && !found.missing && found.key_missing;
    (certificate, found)
}

/// Every leaf and kubeconfig that the node is to have or has.
pub(super) fn leaves(node: &Node) -> Vec<Entry> {
    let mut all = kubeadm(node);
    if node.etcd == EtcdKind::External {
        host_etcd(node, &mut all);
    }
    named_by_apiserver(node, &mut all);
    kubelet(node, &mut all);
    all
}

fn kubeadm(node: &Node) -> Vec<Entry> {
    let mut all = Vec::new();
    let required = node.is_control_plane();
    for (name, file, ca, stacked) in LEAVES {
        if stacked && node.etcd == EtcdKind::External {
            continue;
        }
        let path = node.cert_dir.join(file);
        let mut entry = pair(node, name, &path, &key_beside(&path), Manager::Kubeadm);
        entry.0.ca_name = Some(ca.to_owned());
        entry.0.required = required;
        all.push(entry);
    }
    for name in KUBECONFIGS {
        let path = node.kubernetes_dir.join(name);
        for (index, login) in read::kubeconfig(&node.root, &path).into_iter().enumerate() {
            let mut entry = of_login(name, &path, login, index, Manager::Kubeadm);
            if index == 0 {
                entry.0.ca_name = Some("ca".to_owned());
                entry.0.required = required && name != "super-admin.conf";
            }
            all.push(entry);
        }
    }
    // a node that is no control plane is not to have these: what it has is told, what it lacks is not
    all.retain(|(_, found)| required || !found.missing);
    all
}

/// A login of a kubeconfig; kubeadm renews the current context's only, so the others are somebody else's.
pub(super) fn of_login(name: &str, path: &Path, login: Login, index: usize, manager: Manager) -> Entry {
    let Login { kind, found, user } = login;
    match index {
        0 => (blank(name, path, kind, manager), found),
        _ => (blank(&format!("{name}/{user}"), path, kind, Manager::External), found),
    }
}

fn host_etcd(node: &Node, all: &mut Vec<Entry>) {
    let dir = &node.etcd_cert_dir;
    let names = match node.root.list(dir) {
        Ok(names) => names,
        Err(error) if is_absent(&error) => return,
        Err(error) => {
            let mut certificate = blank(&dir.to_string_lossy(), dir, Kind::Bundle, Manager::Etcd);
            certificate.problems.push(Problem::Unreadable(error.to_string()));
            return all.push((certificate, Found::default()));
        }
    };
    let ours = |name: &&String| {
        ["member-", "admin-", "node-"].iter().any(|prefix| name.starts_with(prefix))
            && name.ends_with(".pem")
            && !name.ends_with("-key.pem")
    };
    for name in names.iter().filter(ours) {
        let path = dir.join(name);
        all.push(pair(node, name, &path, &key_beside(&path), Manager::Etcd));
    }
}

/// What kube-apiserver's flags name and no list above holds: its client certificate for etcd, a serving certificate of the
/// operator's.
fn named_by_apiserver(node: &Node, all: &mut Vec<Entry>) {
    let Some(manifest) = node.manifest("kube-apiserver") else { return };
    let flags = [
        ("--etcd-certfile", "--etcd-keyfile", Manager::Etcd),
        ("--tls-cert-file", "--tls-private-key-file", Manager::External),
    ];
    for (certificate, key, manager) in flags {
        let Some(path) = manifest.flag_path(certificate) else { continue };
        // the plain comparison first: it needs no look at the disk
        let index = all.iter().position(|(known, _)| known.path == path).or_else(|| {
            let real = node.real(&path);
            all.iter().position(|(known, _)| node.real(&known.path) == real)
        });
        if let Some(index) = index {
            all[index].0.required = true;
            continue;
        }
        let key = manifest.flag_path(key).unwrap_or_else(|| path.clone());
        let name = match manager {
            Manager::Etcd => unused(file_name(&path), &path, all),
            _ => path.to_string_lossy().into_owned(),
        };
        let mut entry = pair(node, &name, &path, &key, manager);
        entry.0.required = true;
        all.push(entry);
    }
}

fn kubelet(node: &Node, all: &mut Vec<Entry>) {
    // kube-apiserver may take its clients from another CA than kubeadm's; then the one that signed is found by its name
    let clients = node.manifest("kube-apiserver").and_then(|manifest| manifest.flag_path("--client-ca-file"));
    let own = clients.is_none_or(|path| node.real(&path) == node.real(&node.cert_dir.join("ca.crt")));
    let cluster_ca = || own.then(|| "ca".to_owned());
    let conf = node.kubernetes_dir.join("kubelet.conf");
    let current = Path::new(KUBELET).join("kubelet-client-current.pem");
    let mut points_to_current = false;
    for (index, login) in read::kubeconfig(&node.root, &conf).into_iter().enumerate() {
        let mut entry = of_login("kubelet.conf", &conf, login, index, Manager::Kubelet);
        if index == 0 {
            if entry.1.missing && !node.is_control_plane() {
                continue;
            }
            points_to_current =
                matches!(&entry.0.kind, Kind::Kubeconfig { certificate: Some(path), .. } if *path == current);
            entry.0.ca_name = cluster_ca();
        }
        all.push(entry);
    }
    let link = node.root.symlink_metadata(&current);
    if link.is_ok() || points_to_current {
        let mut entry = pair(node, "kubelet-client-current.pem", &current, &current, Manager::Kubelet);
        entry.0.ca_name = cluster_ca();
        entry.0.required = points_to_current;
        if link.is_ok_and(|metadata| !metadata.is_symlink()) {
            entry.0.problems.push(Problem::NotALink);
        }
        all.push(entry);
    }
    let serving = Path::new(KUBELET).join("kubelet-server-current.pem");
    let self_signed = Path::new(KUBELET).join("kubelet.crt");
    if node.root.symlink_metadata(&serving).is_ok() {
        all.push(pair(node, "kubelet-server-current.pem", &serving, &serving, Manager::Kubelet));
    } else if node.root.symlink_metadata(&self_signed).is_ok() {
        all.push(pair(node, "kubelet.crt", &self_signed, &key_beside(&self_signed), Manager::Kubelet));
    }
}

/// A kubeconfig outside of the kubernetes directory: its first login that `ours` accepts, else the current one.
pub(super) fn copy(node: &Node, path: &Path, ours: impl Fn(&Found) -> bool) -> Entry {
    let mut logins = read::kubeconfig(&node.root, path);
    let index = logins.iter().position(|login| ours(&login.found)).unwrap_or(0);
    let Login { kind, found, .. } = logins.swap_remove(index);
    (blank(&path.to_string_lossy(), path, kind, Manager::External), found)
}

/// A certificate file that nothing but its path is known of, with the key beside it, if there is one.
pub(super) fn other(node: &Node, path: &Path) -> Entry {
    let key = key_beside(path);
    let name = path.to_string_lossy();
    if node.root.exists(&key) {
        return pair(node, &name, path, &key, Manager::External);
    }
    let mut certificate = blank(&name, path, Kind::Bundle, Manager::External);
    certificate.required = true;
    (certificate, read::pair(&node.root, path, None))
}

/// A certificate that a setting names, with its key.
pub(super) fn named(node: &Node, path: &Path, key: &Path) -> Entry {
    pair(node, &path.to_string_lossy(), path, key, Manager::External)
}

fn pair(node: &Node, name: &str, path: &Path, key: &Path, manager: Manager) -> Entry {
    let found = read::pair(&node.root, path, Some(key));
    (blank(name, path, Kind::Pair { key: PathBuf::from(key) }, manager), found)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The name, or the path where the name is another's.
fn unused(name: &str, path: &Path, all: &[Entry]) -> String {
    if all.iter().any(|(other, _)| other.name == name) { path.to_string_lossy().into_owned() } else { name.to_owned() }
}
