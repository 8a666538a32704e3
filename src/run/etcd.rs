//! etcd's part in a run: what is put off for its cluster's sake, and its own restart.

use chrono::{DateTime, Utc};

use crate::decision::{Cause, Decision, kubeadm_leaves};
use crate::inventory::{Certificate, Inventory};
use crate::journal::Journal;
use crate::node::Manifest;
use crate::report::Console;
use crate::runtime::Runtime;
use crate::steps::preflight::Ground;
use crate::steps::quorum;
use crate::steps::restart::Restarted;
use crate::steps::stop::stop;

use super::Job;
use super::walk::Walk;

/// Whether waiting does harm: a certificate of kubeadm's has expired, or one has that an earlier run has replaced and a component
/// that is owed a restart still works with.
pub(super) fn is_urgent(inventory: &Inventory, journal: &Journal, now: DateTime<Utc>) -> bool {
    let on_disk = kubeadm_leaves(inventory).filter_map(Certificate::not_after);
    on_disk.chain(journal.open.as_ref().and_then(|open| open.expires)).any(|end| end < now)
}

/// How much it counts that another member is not healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Nothing: the others are not asked (`--alone`).
    None,
    /// A dry run: it would be waited for, and put off if it stays so.
    Told,
    /// A run: it is waited for with the turn.
    Waited,
}

impl Weight {
    pub(super) fn of(job: &Job<'_>) -> Self {
        match (job.turns.alone, job.dry_run) {
            (true, _) => Self::None,
            (false, true) => Self::Told,
            (false, false) => Self::Waited,
        }
    }
}

/// What is said of members that are down.
pub(super) fn nothing_is_restarted(down: &str) -> String {
    format!(
        "{down}, so nothing is restarted here: mend it, or take it out of the cluster (etcdctl member list), then run this again"
    )
}

/// Puts off every restart where another member of etcd's cluster is not healthy: a restart that goes wrong here would then be an
/// outage of the whole cluster. Not where waiting does more harm, and not where etcd cannot say how it is: then it is an outage
/// already, which new certificates may well end.
pub(super) fn weigh(ground: &mut Ground, urgent: bool, weight: Weight, console: &mut Console<'_>) {
    if ground.deferral.is_some() {
        return;
    }
    match ground.etcd.as_ref() {
        None => {}
        Some(Err(why)) => console.warn(&format!(
            "how the other members of etcd's cluster are is not known, and as long as that is so etcd itself is left running: {why}"
        )),
        Some(Ok(cluster)) => match cluster.down() {
            None => {}
            Some(down) if urgent => {
                console.warn(&format!("{down}; going on all the same, since a certificate has expired already"));
            }
            Some(down) => match weight {
                Weight::None => console.warn(&format!("{down}; going on all the same, with --alone")),
                Weight::Told => ground.deferral = Some(nothing_is_restarted(&down)),
                Weight::Waited => {}
            },
        },
    }
}

/// Why etcd's own restart will be put off, as far as a dry run can tell: not where it is likely not to need any.
pub(super) fn stays(ground: &Ground, decision: &Decision) -> Option<String> {
    decision.restart.iter().find(|item| item.rereads && item.cause != Cause::Renewed)?;
    let may_stop = ground.etcd.as_ref()?.as_ref().map_err(Clone::clone).and_then(quorum::Cluster::may_stop);
    // put off with all others, it is told with them
    may_stop.err().filter(|_| ground.deferral.is_none()).map(|why| left_running(&why))
}

fn left_running(why: &str) -> String {
    format!("the restart of etcd, which is left running: {why}")
}

impl Walk<'_> {
    /// Whether a component re-reads its files by itself; of kubeadm's static pods that is etcd.
    pub(super) fn rereads(&self, component: &str) -> bool {
        self.found.readers.iter().any(|reader| reader.component == component && reader.rereads)
    }

    /// Restarts etcd, if its cluster can do without this member for the moment. Asked anew: members may have gone since the preflight,
    /// and etcd may know the new login only.
    pub(super) fn stop_etcd(&self, runtime: &Runtime, manifest: &Manifest, console: &mut Console<'_>) -> Restarted {
        match quorum::look(&self.context, manifest).and_then(|cluster| cluster.may_stop()) {
            Err(why) => Restarted::Deferred(left_running(&why)),
            Ok(()) => {
                console.detail(&format!("stopping the container of '{}'", manifest.pod_name(self.context.node_name)));
                stop(&self.context, runtime, manifest, self.ground.kubelet.as_ref())
            }
        }
    }
}
