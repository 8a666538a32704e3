//! What kubespray leaves beside the cluster itself.

use std::path::{Path, PathBuf};

use crate::files::Root;
use crate::node::unit_files::{DIRECTORIES, Unit};
use crate::report::check_report::{Owner, Remain, Role};
use crate::settings::timer::DEFAULT_TIMER;

use super::ours::{SERVICE, is_our_unit};
use super::{Looked, quoted, remain, stands, usage};

/// Where kubespray puts programs (`bin_dir`): Flatcar has the second.
const PROGRAMS: [&str; 2] = ["/usr/local/bin", "/opt/bin"];
/// Where it keeps what it has downloaded (`local_release_dir`).
const RELEASES: &str = "/tmp/releases";
/// Units that it, or kubeadm's packages, enable on a node; a link that starts one at boot and leads nowhere is of a cluster that is gone.
const UNITS: [&str; 9] = [
    SERVICE,
    DEFAULT_TIMER,
    "containerd.service",
    "cri-dockerd.service",
    "cri-dockerd.socket",
    "crio.service",
    "etcd-events.service",
    "etcd.service",
    "kubelet.service",
];

/// kubespray's own job, a script; it is put on control planes only (its role `kubernetes/control-plane`).
pub(super) fn scripts(root: &Root) -> Vec<PathBuf> {
    let all = PROGRAMS.iter().map(|dir| Path::new(dir).join("k8s-certs-renew.sh"));
    all.filter(|path| stands(root, path)).collect()
}

/// What stayed of it.
pub(super) fn remains(looked: &Looked<'_>, role: Role) -> Vec<Remain> {
    let root = &looked.node.root;
    let rm = |path: &Path| format!("rm {}", quoted(path));
    let mut found = Vec::new();
    for path in scripts(root) {
        let why =
            "it renews certificates of a control plane, and this is none; it does no harm unless a timer starts it";
        found.push(remain(Owner::Kubespray, &path, "kubespray's renewal script", why, rm(&path)));
    }
    for path in units(root) {
        let remove =
            if path.starts_with("/etc") { format!("{}; systemctl daemon-reload", rm(&path)) } else { rm(&path) };
        let what = "a unit of the renewal job that is not this program's, such as kubespray's";
        found.push(remain(Owner::Kubespray, &path, what, "there is nothing to renew here", remove));
    }
    for (link, unit) in dangling(root) {
        let what = format!("a link that starts {unit} at boot, and the unit is gone");
        let why = "systemd passes over it; a unit of that name that is installed later starts by itself";
        let remove = format!("{}; systemctl daemon-reload", rm(&link));
        found.push(remain(Owner::Kubespray, &link, &what, why, remove));
    }
    for dir in PROGRAMS.map(Path::new) {
        let tool = dir.join("etcdutl");
        if role != Role::Etcd && stands(root, &tool) && !stands(root, &dir.join("etcd")) {
            let why = "kubespray's reset.yml deletes etcd and etcdctl and leaves this one; it does no harm";
            found.push(remain(Owner::Kubespray, &tool, "etcd's tool etcdutl", why, rm(&tool)));
        }
    }
    if role == Role::Nothing
        && let Some(releases) = releases(root)
    {
        found.push(releases);
    }
    found
}

/// The cache of downloads, known by what is in it: the directory's name is anybody's.
fn releases(root: &Root) -> Option<Remain> {
    let path = Path::new(RELEASES);
    if root.symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        return None;
    }
    let names = root.list(path).ok()?;
    let known =
        |name: &String| ["kubeadm", "kubelet", "kubectl", "etcd-", "cni-plugins"].iter().any(|of| name.starts_with(of));
    names.iter().find(|name| known(name))?;
    let why = "space; kept so that kubespray installs faster the next time";
    let remove = format!("rm -r {RELEASES}");
    Some(Remain { usage: usage(root, path), ..remain(Owner::Kubespray, path, "kubespray's downloads", why, remove) })
}

/// Unit files of our names that are not ours.
fn units(root: &Root) -> Vec<PathBuf> {
    let all = DIRECTORIES.iter().flat_map(|dir| [SERVICE, DEFAULT_TIMER].map(|unit| Path::new(dir).join(unit)));
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen = Vec::new();
    for path in all.filter(|path| root.metadata(path).is_ok_and(|metadata| metadata.is_file())) {
        let real = root.canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !seen.contains(&real) && !is_our_unit(root, &path) {
            found.push(path);
        }
        seen.push(real);
    }
    found
}

/// Links below `*.wants` to units of [`UNITS`] that are gone, each with its unit.
fn dangling(root: &Root) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for dir in DIRECTORIES.map(Path::new) {
        let below = root.list(dir).unwrap_or_default();
        for wants in below.iter().filter(|name| name.ends_with(".wants")) {
            for unit in UNITS {
                let link = dir.join(wants).join(unit);
                let is_link = root.symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink());
                let is_known =
                    found.iter().any(|(known, _): &(PathBuf, _)| known.ends_with(Path::new(wants).join(unit)));
                if is_link && !is_known && Unit::load(root, unit).is_ok_and(|unit| !unit.found) {
                    found.push((link, unit));
                }
            }
        }
    }
    found
}
