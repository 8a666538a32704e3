//! What is in use: for each component proof, or the lack of it, that it works with the certificates that are on disk.
//!
//! The strongest evidence at hand decides: the certificate that a component serves; else its start, against the moment at
//! which the credential that it reads only then appeared. A certificate's NotBefore is never taken for that moment: kubeadm
//! up to 1.30 gives a renewed leaf the CA's.

mod apiserver;
pub mod beyond;
mod etcd;
mod kubelet;
mod served;
mod started;
mod starters;
pub mod version;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::host::Deadline;
use crate::inventory::{Certificate, Inventory, Manager, Problem};
use crate::journal::{FirstSeen, serial_key};
use crate::node::proc::{Process, Processes};
use crate::node::{Manifest, Node, halves};

pub use apiserver::Loopback;
pub use etcd::client as etcd_client;
pub use served::Served;
pub use started::Moment;

use started::{Appeared, FileTimes, Start};

/// Whether a component works with what is on disk. In order of how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does.
    InUse,
    /// Nothing proves either.
    Unknown,
    /// It works with something older.
    Stale,
}

impl Verdict {
    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in use",
            Self::Unknown => "unknown",
            Self::Stale => "stale",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A component that works with certificates of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name, such as `kube-scheduler`.
    pub name: String,
    /// The judgement.
    pub verdict: Verdict,
    /// Why, in words that follow the name.
    pub reason: String,
    /// Its process; of several the one that the verdict is about.
    pub process: Option<ProcessFacts>,
    /// The certificate that it serves, where it was asked for one.
    pub served: Option<Served>,
    /// Names of the certificates that the verdict is about. What it reads beside them cannot be seen from outside.
    pub covers: Vec<String>,
    /// Names of those that it reads again by itself, which cannot be seen from outside.
    pub rereads: Vec<String>,
    /// Whether an unknown verdict is as it should be: no more can be seen of it, or it is about to take up new files.
    pub expected: bool,
}

/// A process of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// When it started: time since boot.
    pub started: Duration,
}

/// What is known of the use of the node's certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, etcd, kubelet, then the others by name.
    pub components: Vec<Component>,
    /// The certificate that kube-apiserver keeps in memory to talk to itself.
    pub loopback: Option<Loopback>,
}

impl Evidence {
    /// The component of this name.
    pub fn get(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }
}

/// What evidence is gathered from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its certificates.
    pub inventory: &'a Inventory,
    /// Its processes, if it shows any. On another root than `/` nothing is asked at a port whose process is not among them.
    pub processes: Option<&'a Processes>,
    /// When the journal saw each serial first ([`crate::journal::Journal::serials`]).
    pub first_seen: &'a BTreeMap<String, FirstSeen>,
    /// The id of the node's boot, if it can be seen.
    pub boot_id: Option<&'a str>,
    /// This moment by both clocks of the machine: file times are held against it, so it is never another instant to judge by.
    pub at: Moment,
    /// Clock ticks a second, in which `/proc` counts ([`ticks_per_second`]).
    pub ticks_per_second: u64,
    /// When the container runtime created a component's container (UTC), where the caller has asked it: stands in for a
    /// process that `/proc` does not show.
    pub created: &'a BTreeMap<String, DateTime<Utc>>,
    /// Components that this run has renewed for and not restarted yet: they are stale by definition.
    pub renewed_for: &'a [String],
    /// The time for all handshakes of one component.
    pub deadline: Duration,
}

/// How many clock ticks `/proc` counts a second on this machine.
pub fn ticks_per_second() -> u64 {
    match rustix::param::clock_ticks_per_second() {
        0 => 100,
        ticks => ticks,
    }
}

/// Gathers the evidence: one thread a component, each with its own deadline. Never fails; what cannot be seen is unknown.
pub fn gather(input: &Input<'_>) -> Evidence {
    let others = starters::others(input);
    let (mut components, loopback) = std::thread::scope(|scope| {
        let apiserver = scope.spawn(|| apiserver::look(input));
        let etcd = scope.spawn(|| etcd::look(input));
        let kubelet = scope.spawn(|| kubelet::look(input));
        let named: Vec<_> = ["kube-controller-manager", "kube-scheduler"]
            .into_iter()
            .filter_map(|name| input.node.manifest(name))
            .map(|manifest| scope.spawn(move || starters::look(input, manifest)))
            .collect();
        // a thread that panicked has nothing to say; the panic itself has been told on stderr
        let (apiserver, loopback) = apiserver.join().unwrap_or_default();
        let mut all: Vec<Component> = apiserver.into_iter().collect();
        all.extend(named.into_iter().filter_map(|thread| thread.join().ok()));
        all.extend(etcd.join().ok().flatten());
        all.extend(kubelet.join().ok().flatten());
        (all, loopback)
    });
    components.extend(others.into_iter().map(|manifest| starters::look(input, manifest)));
    for component in &mut components {
        if input.renewed_for.contains(&component.name) {
            component.verdict = Verdict::Stale;
            component.reason =
                "its certificates were renewed by this run, and it has not been restarted since".to_owned();
        }
    }
    Evidence { components, loopback }
}

/// Likewise for kubelet alone. None on a node without any sign of one.
pub fn kubelet(input: &Input<'_>) -> Option<Component> {
    kubelet::look(input)
}

impl<'a> Input<'a> {
    /// The processes of a program, the one that started first before the others; empty where none can be seen.
    fn find(&self, program: &str) -> Vec<Process> {
        let mut found = self.processes.map(|processes| processes.find_named(program)).unwrap_or_default();
        found.sort_by_key(|process| (process.start_ticks, process.pid));
        found
    }

    /// Whether a server of these processes may be asked.
    fn may_ask(&self, processes: &[Process]) -> bool {
        self.node.root.is_host() || !processes.is_empty()
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.deadline)
    }

    fn facts(&self, process: &Process) -> ProcessFacts {
        let ticks = self.ticks_per_second.max(1);
        let rest = (process.start_ticks % ticks).saturating_mul(1000) / ticks;
        let started = Duration::from_secs(process.start_ticks / ticks) + Duration::from_millis(rest);
        ProcessFacts { pid: process.pid, started }
    }

    /// When a certificate, and what belongs to it, appeared on disk.
    fn appeared(&self, certificate: &Certificate) -> Appeared<'a> {
        let serial = certificate.leaf.as_ref().map(|leaf| serial_key(&certificate.name, &leaf.serial));
        let times = certificate
            .files()
            .into_iter()
            .map(|file| FileTimes::read(&self.node.root, file))
            .reduce(|one, other| Some(one?.latest(other?)))
            .flatten();
        Appeared { seen: serial.and_then(|key| self.first_seen.get(&key)), times }
    }

    /// Judges a process by its start and the certificates that it reads only then: the worst of them. None where there are none.
    fn judge_start<'c>(
        &self,
        start: Start,
        certificates: impl IntoIterator<Item = &'c Certificate>,
    ) -> Option<(Verdict, String)> {
        let mut worst: Option<(Verdict, String)> = None;
        for certificate in certificates {
            let (verdict, reason) = match broken(certificate) {
                // a restart would make it worse, and prove nothing
                Some(problem) => {
                    (Verdict::Unknown, format!("'{}' on disk cannot be used: {problem}", certificate.name))
                }
                None => {
                    let appeared = self.appeared(certificate);
                    let (verdict, reason) = started::judge(start, appeared, self.boot_id, &self.at);
                    (verdict, format!("reads {} at its start only; it {reason}", certificate.name))
                }
            };
            if worst.as_ref().is_none_or(|(so_far, _)| verdict > *so_far) {
                worst = Some((verdict, reason));
            }
        }
        worst
    }

    /// The certificate of the inventory that stands in this file of the node.
    fn at_path(&self, path: &Path) -> Option<&'a Certificate> {
        let all = || self.inventory.certificates.iter();
        all().find(|certificate| certificate.path == path).or_else(|| {
            let real = self.node.real(path);
            all().find(|certificate| self.node.real(&certificate.path) == real)
        })
    }

    /// kubeadm's certificates that a static pod reads.
    fn read_by(&self, manifest: &Manifest) -> Vec<&'a Certificate> {
        let reading = manifest.reading(self.node);
        let reads = |certificate: &&Certificate| {
            certificate.manager == Manager::Kubeadm
                && !certificate.missing
                && reading.reads(&halves(self.node, &certificate.files()))
        };
        self.inventory.certificates.iter().filter(reads).collect()
    }
}

/// Why a certificate on disk would not work for a process that reads it now: a restart would take away what still works.
fn broken(certificate: &Certificate) -> Option<String> {
    // a kind of key that we cannot check works all the same
    let unusable = |problem: &&Problem| {
        problem.is_damage() || (problem.is_unreadable() && !matches!(problem, Problem::CannotBeJudged(_)))
    };
    match certificate.problems.iter().find(unusable) {
        Some(problem) => Some(problem.to_string()),
        None if certificate.leaf.is_none() => Some("cannot be read".to_owned()),
        None => None,
    }
}

/// A component of which nothing is known.
fn unknown(name: &str, reason: impl Into<String>) -> Component {
    Component {
        name: name.to_owned(),
        verdict: Verdict::Unknown,
        reason: reason.into(),
        process: None,
        served: None,
        covers: Vec::new(),
        rereads: Vec::new(),
        expected: false,
    }
}

/// Why a component without a process is not looked at.
fn not_there(input: &Input<'_>, program: &str) -> String {
    match input.processes {
        Some(_) => format!("no process '{program}' runs on this node"),
        None => "the node shows no processes (no /proc)".to_owned(),
    }
}
