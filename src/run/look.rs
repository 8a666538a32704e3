//! Looking at the node: everything that a decision is made from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decision::{CopyFact, Reader, Standing, kubeadm_leaves};
use crate::evidence::{Evidence, Input, Moment, gather, ticks_per_second};
use crate::host::Clock;
use crate::inventory::{Certificate, Extra, Inventory};
use crate::journal::{Journal, serial_key};
use crate::node::flags::flag;
use crate::node::proc::{Processes, boot_id};
use crate::node::{Node, halves, pem};
use crate::steps::kubeconfig::{CopyState, judge};

/// The node as it was found.
#[derive(Debug)]
pub struct Found {
    /// Its certificates.
    pub inventory: Inventory,
    /// Who reads which of them.
    pub readers: Vec<Reader>,
    /// The kubeconfig copies.
    pub copies: Vec<CopyFact>,
    /// Certificates of the cluster's CA (DER), old and new side by side where there are both.
    pub cas: Vec<Vec<u8>>,
    /// The node's name, lower case.
    pub node_name: String,
    /// Certificates that a run which was cut off left half-written, if any: put back from its backup, but for a dry run.
    pub half_written: Vec<String>,
}

/// Looks at a node. `copies` are the kubeconfig copies to keep up to date, `processes` its processes, if it shows any.
pub fn look(node: &Node, processes: Option<&Processes>, copies: &[PathBuf], now: DateTime<Utc>) -> Found {
    let inventory = inventory(node, copies, now);
    let cas = cluster_cas(node);
    let source = node.kubernetes_dir.join("admin.conf");
    let copies = copies
        .iter()
        .map(|path| CopyFact { path: path.clone(), standing: standing(judge(&node.root, &source, path, &cas)) })
        .collect();
    Found {
        half_written: Vec::new(),
        readers: readers(node, &inventory),
        copies,
        cas,
        node_name: node_name(node, processes),
        inventory,
    }
}

/// The node's name, as its kubelet has it, where that runs.
pub fn node_name(node: &Node, processes: Option<&Processes>) -> String {
    let kubelet = processes.and_then(Processes::find_kubelet);
    node.node_name(kubelet.as_ref().and_then(|kubelet| flag(&kubelet.argv, "--hostname-override")))
}

/// The certificates of a node.
pub fn inventory(node: &Node, copies: &[PathBuf], now: DateTime<Utc>) -> Inventory {
    Inventory::read(node, &Extra { kubeconfig_copies: copies.to_vec() }, now)
}

/// Notes in the journal which serials are on disk now.
pub fn note_serials(journal: &mut Journal, node: &Node, inventory: &Inventory, clock: &dyn Clock) {
    let Some(boot_id) = boot_id(&node.root) else { return };
    let serial =
        |certificate: &'_ Certificate| Some((certificate.name.clone(), certificate.leaf.as_ref()?.serial.clone()));
    let on_disk: Vec<(String, String)> = inventory.certificates.iter().filter_map(serial).collect();
    let on_disk = on_disk.iter().map(|(name, serial)| (name.as_str(), serial.as_str()));
    journal.note_serials(on_disk, &boot_id, clock.since_boot());
}

/// What is in use. `created` says when the runtime made a component's container, for one whose process `/proc` does not show.
pub fn evidence(
    node: &Node,
    processes: Option<&Processes>,
    inventory: &Inventory,
    journal: &Journal,
    created: &BTreeMap<String, DateTime<Utc>>,
    clock: &dyn Clock,
    deadline: Duration,
) -> Evidence {
    let boot_id = boot_id(&node.root);
    gather(&Input {
        node,
        inventory,
        processes,
        first_seen: &journal.serials,
        boot_id: boot_id.as_deref(),
        at: Moment { now: clock.now(), since_boot: clock.since_boot() },
        ticks_per_second: ticks_per_second(),
        created,
        renewed_for: &[],
        deadline,
    })
}

impl Found {
    /// The keys ([`serial_key`]) of the certificates that a component reads, as they are on disk now.
    pub fn serials_of(&self, component: &str, inventory: &Inventory) -> Vec<String> {
        let reads = |reader: &&Reader| reader.component == component;
        let names = self.readers.iter().filter(reads).flat_map(|reader| &reader.reads);
        let mut keys: Vec<String> =
            names.filter_map(|name| Some(serial_key(name, &inventory.get(name)?.leaf.as_ref()?.serial))).collect();
        keys.sort_unstable();
        keys
    }
}

/// What kubeadm's pods read by its defaults (kubeadm `manifests.go`), for one whose manifest cannot be read just now.
const USUAL: [(&str, &[&str]); 3] = [
    ("kube-apiserver", &["apiserver", "apiserver-etcd-client", "apiserver-kubelet-client", "front-proxy-client"]),
    ("kube-controller-manager", &["controller-manager.conf"]),
    ("kube-scheduler", &["scheduler.conf"]),
];

/// Which static pod reads which of kubeadm's certificates.
fn readers(node: &Node, inventory: &Inventory) -> Vec<Reader> {
    let leaves: Vec<(&str, Vec<PathBuf>)> = kubeadm_leaves(inventory)
        .map(|certificate| (certificate.name.as_str(), halves(node, &certificate.files())))
        .collect();
    let named = |wanted: &dyn Fn(&str, &[PathBuf]) -> bool| -> Vec<String> {
        leaves.iter().filter(|(name, files)| wanted(name, files)).map(|(name, _)| (*name).to_owned()).collect()
    };
    let shown = node.static_pods().iter().map(|manifest| {
        let reading = manifest.reading(node);
        Reader {
            component: manifest.component.clone(),
            reads: named(&|_, files| reading.reads(files)),
            // etcd reads its certificate and key again at each handshake (etcd 3.2 and later; measured with 3.4.23)
            rereads: manifest.component == "etcd",
        }
    });
    let hidden = USUAL.iter().filter(|(component, _)| node.is_hidden(component)).map(|(component, usual)| Reader {
        component: (*component).to_owned(),
        reads: named(&|name, _| usual.contains(&name)),
        rereads: false,
    });
    shown.chain(hidden).filter(|reader| !reader.reads.is_empty()).collect()
}

fn cluster_cas(node: &Node) -> Vec<Vec<u8>> {
    let text = node.root.read(&node.cert_dir.join("ca.crt")).unwrap_or_default();
    pem::read(&text).map(|pem| pem.certificates).unwrap_or_default()
}

fn standing(state: CopyState) -> Standing {
    match state {
        CopyState::SameFile => Standing::Same,
        CopyState::Current => Standing::Current,
        CopyState::Outdated { .. } => Standing::Outdated,
        CopyState::Missing { .. } => Standing::Missing,
        CopyState::Foreign(why) => Standing::Foreign(why),
        CopyState::Broken(why) | CopyState::SourceRefused(why) => Standing::Broken(why),
    }
}
