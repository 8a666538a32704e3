//! What stands on a machine where nothing is to be renewed: of this program, of kubespray, and of a cluster that is gone. It looks, and
//! removes nothing.
//!
//! What kubespray's `reset.yml` removes and leaves: its `roles/reset/tasks/main.yml` (v2.31); each of its deletions may fail and the rest
//! goes on (`ignore_errors`), so that anything of a node may have stayed.

mod cluster;
mod installed;
mod kubespray;
pub mod machine;
pub mod ours;
mod secrets;
mod timer;

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::{Root, Usage};
use crate::inventory::{Inventory, Trust};
use crate::node::Node;
use crate::node::proc::Processes;
use crate::report::check_report::{Machine, Owner, Remain, Role, Status};

use ours::{Ours, Places, ours};

/// Entries of one directory tree that are looked at; what is beyond is "at least".
const MOST: usize = 20_000;

/// What is known of the node.
#[derive(Debug, Clone, Copy)]
pub struct Looked<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its processes, if it shows any.
    pub processes: Option<&'a Processes>,
    /// Its certificates.
    pub inventory: &'a Inventory,
    /// The authorities inside its kubeconfigs.
    pub kubeconfigs: &'a [Trust],
    /// Its name.
    pub name: &'a str,
    /// Where settings put things.
    pub places: Places<'a>,
}

/// What stayed, the worst first, then by owner and place. On a control plane, and on one that is only stopped or cannot be seen, only what is of another
/// cluster: everything else is in use there, or will be.
pub fn remains(looked: &Looked<'_>, machine: &Machine) -> Vec<Remain> {
    let mut found = cluster::of_other_clusters(looked, machine.role);
    if !matches!(machine.role, Role::ControlPlane | Role::Stopped | Role::Hidden) {
        let ours = ours(&looked.node.root, &looked.places);
        found.extend(kubespray::remains(looked, machine.role));
        found.extend(cluster::remains(looked, machine.role));
        found.extend(timer::fires(looked, machine));
        let evident = !machine.was.is_empty() || !found.is_empty();
        found.extend(installed::remains(looked, &ours, evident));
        // a kubeconfig is a trace of a cluster only where there are others: people have them on any machine
        if evident && machine.role == Role::Nothing {
            let known: BTreeSet<String> = found.iter().map(|remain| remain.place.clone()).collect();
            found.extend(cluster::kubeconfigs(looked).into_iter().filter(|one| !known.contains(&one.place)));
            found.extend(cluster::host_name(looked));
        }
    }
    found.sort_by(|one, other| {
        let by = |remain: &Remain| (std::cmp::Reverse(remain.status), remain.owner);
        by(one).cmp(&by(other)).then_with(|| one.place.cmp(&other.place))
    });
    found
}

/// A remain that is no trouble by itself, its size not looked at.
fn remain(owner: Owner, place: &Path, what: &str, why: &str, remove: String) -> Remain {
    Remain {
        status: Status::Ok,
        owner,
        place: place.display().to_string(),
        what: what.to_owned(),
        usage: None,
        why: why.to_owned(),
        remove,
    }
}

/// How much is there; none where nothing is.
fn usage(root: &Root, path: &Path) -> Option<Usage> {
    root.walk(path, MOST, &mut |_| {}).ok()
}

/// Whether something stands at the path itself, a link that leads nowhere too.
fn stands(root: &Root, path: &Path) -> bool {
    root.symlink_metadata(path).is_ok()
}

/// A path as a word of a shell command.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The backups among what is ours.
fn backups(ours: &[Ours]) -> usize {
    ours.iter().filter(|one| one.part == ours::Part::Backup).count()
}
