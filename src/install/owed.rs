//! What a run that was cut off, or put its restarts off, still owes the node: it is not to be forgotten by taking the program away.

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::journal::{self, Journal};
use crate::node::Node;

use super::Job;

/// Refuses where a run owes something. On a machine that is no control plane any more nothing can be owed: there is no static pod to
/// restart, and no run would ever finish it. A journal that cannot be read says nothing, to a run neither.
///
/// # Errors
/// [`Exit::Busy`], with all that is owed.
pub fn nothing_owed(job: &Job<'_>) -> Result<(), Failure> {
    let (journal, _) = Journal::read(&job.root);
    let owed = owed(&journal);
    if owed.is_empty() {
        return Ok(());
    }
    let node = Node::look(job.root.clone(), &job.overrides);
    let hidden = node.findings.iter().any(|finding| finding.path == node.manifests_dir());
    if !node.is_control_plane() && !hidden {
        return Ok(());
    }
    let error = anyhow!(
        "a run still owes this node: {}; nothing was changed. Finish first: k8s-certs-renew. If that is never to be done, \
         'rm {}/state.json' forgets it, then uninstall again",
        owed.join("; "),
        journal::DIRECTORY
    );
    Err(Failure::new(Exit::Busy, error))
}

/// Each a few words.
fn owed(journal: &Journal) -> Vec<String> {
    let mut owed = Vec::new();
    if let Some(open) = &journal.open {
        if !open.restart.is_empty() {
            owed.push(format!("the restart of {}", open.restart.join(", ")));
        }
        if let Some(id) = &open.backup {
            owed.push(format!("a look at what kubeadm has written, with backup {id} to put back"));
        }
        if owed.is_empty() {
            owed.push("the end of a run that was cut off".to_owned());
        }
    }
    if !journal.turn.drained.is_empty() {
        owed.push(format!("the hook after the restart of {}", journal.turn.drained.join(", ")));
    }
    if journal.turn.held {
        owed.push("the turn, which other nodes wait for (Lease kube-system/k8s-certs-renew)".to_owned());
    }
    owed
}
