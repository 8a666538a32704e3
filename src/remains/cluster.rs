//! What stayed of a cluster that is not here any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::inventory::{Certificate, Inventory, Kind, Trust};
use crate::journal::Journal;
use crate::report::check_report::{Owner, Remain, Role, Status};
use crate::steps::backup::Backup;

use super::{Looked, quoted, remain, secrets, stands};

/// What a cluster leaves, and whether that is a node's alone. The rest other programs have too.
const DIRECTORIES: [(&str, &str, bool); 7] = [
    ("/etc/kubernetes", "configuration of a node", true),
    ("/var/lib/kubelet", "what kubelet keeps", true),
    ("/var/lib/etcd", "etcd's database: everything that was in the cluster, its Secrets too", true),
    ("/etc/ssl/etcd", "etcd's certificates", true),
    ("/etc/cni", "configuration of the pods' network", false),
    ("/opt/cni", "programs of the pods' network", false),
    ("/var/lib/cni", "addresses that the pods' network gave out", false),
];

/// What a control plane has below its PKI, and a worker must not: whoever has them makes certificates and tokens for the cluster.
const SIGNING: [&str; 4] = ["ca.key", "etcd/ca.key", "front-proxy-ca.key", "sa.key"];

/// Directories of a node on a machine that is none; on a worker the keys that only a control plane needs.
pub(super) fn remains(looked: &Looked<'_>, role: Role) -> Vec<Remain> {
    match role {
        Role::Nothing => directories(looked),
        Role::Worker => signing_keys(looked),
        Role::ControlPlane | Role::Stopped | Role::Etcd | Role::Hidden => Vec::new(),
    }
}

fn signing_keys(looked: &Looked<'_>) -> Vec<Remain> {
    let keys = SIGNING.iter().map(|name| looked.node.cert_dir.join(name));
    let told = |path: PathBuf| {
        let why = "whoever has it makes certificates or tokens for the cluster, and a worker needs none of that";
        let what = "a signing key of a control plane";
        Remain { status: Status::Warning, ..remain(Owner::Cluster, &path, what, why, format!("rm {}", quoted(&path))) }
    };
    keys.filter(|path| stands(&looked.node.root, path)).map(told).collect()
}

fn directories(looked: &Looked<'_>) -> Vec<Remain> {
    let root = &looked.node.root;
    let mut found: Vec<Remain> = Vec::new();
    for (dir, what, of_a_node) in DIRECTORIES {
        let dir = if dir == "/etc/kubernetes" { &looked.node.kubernetes_dir } else { Path::new(dir) };
        // podman, nomad and others have networks of that kind on machines that never were a node
        if !of_a_node && found.is_empty() {
            continue;
        }
        let Some((usage, mut keys)) = secrets::look(root, dir).filter(|(usage, _)| usage.files > 0 || !usage.complete)
        else {
            continue;
        };
        let is_database = dir == Path::new("/var/lib/etcd");
        keys |= is_database;
        let what = if keys && !is_database { format!("{what}, with private keys inside") } else { what.to_owned() };
        let why = match (is_database, keys, of_a_node) {
            (true, ..) => "whoever reads it has every Secret of that cluster, and the next etcd starts with it",
            (_, true, _) => "secrets of a cluster that is not here any more, and in the way of the next installation",
            (_, false, true) => "in the way of the next installation",
            (_, false, false) => "the next cluster's pods may get its network; podman or containerd may use it",
        };
        let status = if keys { Status::Warning } else { Status::Ok };
        // volumes of pods may still be mounted below
        let stay = if dir == Path::new("/var/lib/kubelet") { " --one-file-system" } else { "" };
        let remove = format!("rm -r{stay} {}", quoted(dir));
        found.push(Remain { status, usage: Some(usage), ..remain(Owner::Cluster, dir, &what, why, remove) });
    }
    found
}

/// Kubeconfigs and backups of a cluster that was here before the one that is here now: their CA is known, and is another.
pub(super) fn of_other_clusters(looked: &Looked<'_>, role: Role) -> Vec<Remain> {
    let here = authorities(looked.inventory);
    let gone = gone(looked, &here);
    let is_gone = |key: &str| gone.contains(key);
    let mut found: Vec<Remain> = Vec::new();
    for trust in looked.kubeconfigs.iter().filter(|trust| is_of_no_node(looked, trust)) {
        let keys: Vec<&str> = trust.authorities.iter().map(|leaf| leaf.key_sha256.as_str()).collect();
        if !keys.iter().any(|key| is_gone(key)) || keys.iter().any(|key| here.contains(*key)) {
            continue;
        }
        found.push(if keys.iter().all(|key| is_gone(key)) {
            of_gone(looked, trust, role)
        } else {
            let remove = format!("kubectl config --kubeconfig={} delete-cluster NAME", quoted(&trust.path));
            let what = "a kubeconfig with a cluster that is gone among others";
            remain(Owner::Cluster, &trust.path, what, "kubectl reaches nothing by that one", remove)
        });
    }
    if role == Role::ControlPlane {
        found.extend(backups(looked, &here));
    }
    found
}

/// A kubeconfig of a gone cluster alone. On a control plane the new cluster's is to be in its place.
fn of_gone(looked: &Looked<'_>, trust: &Trust, role: Role) -> Remain {
    let what = "a kubeconfig of a cluster that is gone, with a private key inside";
    if role == Role::ControlPlane {
        let why =
            "its CA is that of the cluster that was here before, so kubectl refuses this one's kube-apiserver with it";
        let new = quoted(&looked.node.kubernetes_dir.join("admin.conf"));
        let remove = format!("install -m 600 {new} {}", quoted(&trust.path));
        return Remain { remove, ..of_kubeconfig(trust, what, why) };
    }
    of_kubeconfig(trust, what, "its CA is that of the cluster that was here; kubectl reaches nothing with it")
}

/// Kubeconfigs on a machine that is no node: which cluster they are of cannot be told.
pub(super) fn kubeconfigs(looked: &Looked<'_>) -> Vec<Remain> {
    let all = looked.inventory.certificates.iter().filter(|one| !one.missing);
    let servers: BTreeMap<&Path, &str> = all
        .filter_map(|one| match &one.kind {
            Kind::Kubeconfig { server: Some(server), .. } => Some((one.path.as_path(), server.as_str())),
            _ => None,
        })
        .collect();
    let mine = looked.kubeconfigs.iter().filter(|trust| is_of_no_node(looked, trust));
    let told = |trust: &Trust| {
        let server = servers.get(trust.path.as_path()).map(|server| format!(" at {server}")).unwrap_or_default();
        let why = format!("of no use if the cluster{server} was this machine's");
        Remain { status: Status::Ok, ..of_kubeconfig(trust, "a kubeconfig; its cluster is not on this machine", &why) }
    };
    mine.map(told).collect()
}

/// The host name, where it is the one that this machine had as a node: its certificates say so. kubespray sets it to the name in its
/// inventory (role `kubernetes/preinstall` and its `bootstrap-os`), and keeps no note of the one before.
pub(super) fn host_name(looked: &Looked<'_>) -> Option<Remain> {
    let name = looked.name;
    let is_it = |certificate: &Certificate| {
        let leaf = certificate.leaf.as_ref();
        leaf.is_some_and(|leaf| {
            leaf.common_name == format!("system:node:{name}") || leaf.sans.iter().any(|san| san == name)
        })
    };
    let in_backup = || saved_apiserver(looked).is_some_and(|certificate| is_it(&certificate));
    let of_kubelet = looked.inventory.certificates.iter().any(is_it);
    if name.is_empty() || !(of_kubelet || in_backup()) {
        return None;
    }
    let what = format!("'{name}', the name that this machine had as a node");
    let why = "kubespray gives a machine the name that its inventory has, and reset.yml leaves it";
    Some(remain(Owner::Kubespray, Path::new("host name"), &what, why, "hostnamectl set-hostname NAME".to_owned()))
}

fn saved_apiserver(looked: &Looked<'_>) -> Option<Certificate> {
    let Looked { node, places, .. } = looked;
    let backups = Backup::list(&node.root, places.backup_dir).ok()?;
    let backup = backups.last()?;
    let saved =
        backup.files().iter().find(|saved| saved.path.file_name().is_some_and(|name| name == "apiserver.crt"))?;
    let path = backup.dir().join(saved.path.strip_prefix("/").ok()?);
    // only its names are looked at
    Some(Inventory::read_pair(node, &path, &path, DateTime::<Utc>::UNIX_EPOCH))
}

fn of_kubeconfig(trust: &Trust, what: &str, why: &str) -> Remain {
    let remove = format!("rm {}", quoted(&trust.path));
    Remain { status: Status::Warning, ..remain(Owner::Cluster, &trust.path, what, why, remove) }
}

/// Whether a kubeconfig is none of the node's own, which go with its directory.
fn is_of_no_node(looked: &Looked<'_>, trust: &Trust) -> bool {
    !trust.path.starts_with(&looked.node.kubernetes_dir) && stands(&looked.node.root, &trust.path)
}

/// The keys of the CA that the node's cluster has now.
fn authorities(inventory: &Inventory) -> BTreeSet<String> {
    let of_cluster = inventory.authorities.iter().filter(|authority| authority.name == "ca");
    of_cluster.filter_map(|authority| Some(authority.leaf.as_ref()?.key_sha256.clone())).collect()
}

/// The keys of the CAs that this program remembers, and that are not here.
fn gone(looked: &Looked<'_>, here: &BTreeSet<String>) -> BTreeSet<String> {
    let root = &looked.node.root;
    let journals = [Some(Journal::read(root).0), Journal::of_other_cluster(root)];
    let of_journals = journals.into_iter().flatten().map(|journal| journal.ca_key_hashes);
    let backups = Backup::list(root, looked.places.backup_dir).unwrap_or_default();
    let of_backups = backups.iter().map(|backup| backup.about().ca_key_hashes.clone());
    of_journals
        .chain(of_backups)
        .filter_map(|hashes| hashes.get("ca").cloned())
        .filter(|key| !here.contains(key))
        .collect()
}

/// Backups of another cluster than the one that is here. On a control plane they are no alarm: later runs remove them in turn.
fn backups(looked: &Looked<'_>, here: &BTreeSet<String>) -> Option<Remain> {
    let dir = looked.places.backup_dir;
    let other = |backup: &Backup| backup.about().ca_key_hashes.get("ca").is_some_and(|key| !here.contains(key));
    let all = Backup::list(&looked.node.root, dir).unwrap_or_default();
    let ids: Vec<&str> = all.iter().filter(|backup| other(backup)).map(Backup::id).collect();
    if ids.is_empty() || here.is_empty() {
        return None;
    }
    let are = if ids.len() == 1 { "a backup" } else { "backups" };
    let what = format!("{are} of a cluster with another CA, with private keys inside: {}", ids.join(", "));
    let why = "restore refuses it; runs remove the oldest in turn (--keep-backups)";
    let paths: Vec<String> = ids.iter().map(|id| quoted(&dir.join(id))).collect();
    Some(remain(Owner::Ours, dir, &what, why, format!("rm -r {}", paths.join(" "))))
}
