//! What is ours, as it is told on a machine that is no control plane.

use std::path::Path;

use crate::files::{Root, is_absent};
use crate::journal;
use crate::report::check_report::{Owner, Remain, Status};

use super::ours::{Ours, Part};
use super::{Looked, backups, remain, secrets, stands, usage};

/// The one command for all of it.
const PURGE: &str = "k8s-certs-renew uninstall --purge";

/// What is ours. `evident`: something else shows that a cluster was here; where nothing does, a program that is merely installed is no
/// remain.
pub(super) fn remains(looked: &Looked<'_>, ours: &[Ours], evident: bool) -> Vec<Remain> {
    let root = &looked.node.root;
    let mut found: Vec<Remain> = Vec::new();
    let dir = looked.places.backup_dir;
    found.extend(unreadable(root, dir));
    match backups(ours) {
        0 => {}
        count => found.push(of_backups(root, dir, count)),
    }
    if !evident && found.is_empty() {
        return found;
    }
    for Ours { part, path } in ours {
        let (what, why) = match part {
            Part::Backup => continue,
            Part::Unit => ("a unit of this program", "it has nothing to do here"),
            Part::DropIn => ("a drop-in of this program", "it has nothing to do here"),
            Part::Link => ("a link by which the renewal starts at boot", "there is nothing to renew"),
            Part::Program => ("this program", "it has nothing to do here"),
            Part::Settings => ("its settings", "a later installation goes by them"),
            Part::State => ("its state: the journal of its runs", "of a cluster that is not here any more"),
            Part::Lock => ("its lock", "an empty file, gone after the next boot"),
            Part::Metrics => ("its metrics", "the collector reads on what was true at the last run"),
            Part::Stamp => {
                ("systemd's note of when the timer last fired", "a timer that is installed later goes by it")
            }
        };
        // told with the units that are gone
        if *part == Part::Link && root.metadata(path).is_err_and(|error| is_absent(&error)) {
            continue;
        }
        let usage = if *part == Part::Program { usage(root, path) } else { None };
        found.push(Remain { usage, ..remain(Owner::Ours, path, what, why, PURGE.to_owned()) });
    }
    found
}

fn of_backups(root: &Root, dir: &Path, count: usize) -> Remain {
    let looked = secrets::look(root, dir);
    let what = if count == 1 { "a backup".to_owned() } else { format!("{count} backups") };
    let what = format!("{what} of a control plane's files, with private keys inside");
    let why = "whoever reads them is admin of that cluster for as long as it, or one with its CA, is anywhere";
    let usage = looked.map(|(usage, _)| usage);
    Remain { status: Status::Warning, usage, ..remain(Owner::Ours, dir, &what, why, PURGE.to_owned()) }
}

/// A directory of ours into which only root can look: whether keys are inside cannot be told.
fn unreadable(root: &Root, backup_dir: &Path) -> Option<Remain> {
    let refused = |dir: &&Path| root.list(dir).is_err_and(|error| !is_absent(&error));
    let dir = [Path::new(journal::DIRECTORY), backup_dir].into_iter().find(refused)?;
    stands(root, dir).then(|| {
        let what = "state of this program that cannot be looked into";
        let why = "backups with private keys may be in it: look as root";
        Remain {
            status: Status::Unknown,
            ..remain(Owner::Ours, dir, what, why, "sudo k8s-certs-renew check".to_owned())
        }
    })
}
