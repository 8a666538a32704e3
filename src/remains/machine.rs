//! What kind of machine this is, and was.

use std::path::Path;

use crate::decision::moment;
use crate::journal::Journal;
use crate::node::Node;
use crate::node::proc::Processes;
use crate::node::unit_files::Unit;
use crate::report::check_report::{Machine, Role};
use crate::steps::backup::Backup;

use super::kubespray;

/// Looks at what the tree shows. A kubelet's kubeconfig makes a worker, but for one that `reset.yml` could not delete: then neither a
/// kubelet runs, where processes show, nor is there a unit that starts one.
pub fn machine(node: &Node, processes: Option<&Processes>, backup_dir: &Path) -> Machine {
    let role = role(node, processes);
    let was = if role == Role::ControlPlane { Vec::new() } else { was(node, backup_dir) };
    Machine { role, was }
}

fn role(node: &Node, processes: Option<&Processes>) -> Role {
    let runs = |name: &str| processes.is_some_and(|all| !all.find_named(name).is_empty());
    let unit = |name: &str| Unit::load(&node.root, name).is_ok_and(|unit| unit.found && !unit.masked);
    let is_there = |file: &str| node.root.exists(&node.kubernetes_dir.join(file));
    match () {
        () if node.is_control_plane() => Role::ControlPlane,
        () if node.findings.iter().any(|finding| finding.path == node.manifests_dir()) => Role::Hidden,
        () if node.was_a_control_plane().is_some() => Role::Stopped,
        () if processes.and_then(Processes::find_kubelet).is_some() => Role::Worker,
        () if is_there("kubelet.conf") && (processes.is_none() || unit("kubelet.service")) => Role::Worker,
        () if runs("etcd") || unit("etcd.service") => Role::Etcd,
        () => Role::Nothing,
    }
}

/// What only a control plane has, and what only a run on one writes.
fn was(node: &Node, backup_dir: &Path) -> Vec<String> {
    let root = &node.root;
    let mut signs = Vec::new();
    let (journal, _) = Journal::read(root);
    match journal.last_run {
        Some(at) => signs.push(format!("the job ran here, last on {}", moment(at))),
        None if !journal.ca_key_hashes.is_empty() => signs.push("the job has run here".to_owned()),
        None => {}
    }
    match Backup::ids(root, backup_dir).map_or(0, |ids| ids.len()) {
        0 => {}
        1 => signs.push("a backup of a control plane's files is here".to_owned()),
        count => signs.push(format!("{count} backups of a control plane's files are here")),
    }
    signs.extend(kubespray::scripts(root).first().map(|path| format!("kubespray's '{}' is here", path.display())));
    signs
}
