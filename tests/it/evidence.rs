//! What is in use: real TLS servers, processes below the node's own `/proc`, and the journal's memory.

mod components;
mod servers;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_certs_renew::evidence::{Component, Evidence, Input, Moment, Verdict, gather};
use k8s_certs_renew::inventory::{Extra, Inventory};
use k8s_certs_renew::journal::Journal;
use k8s_certs_renew::node::proc::{Processes, boot_id};

use crate::support::pki::at;
use crate::support::site::Site;
use crate::support::tls_server::{Role, Shows};
use crate::support::tree::{Layout, Plan};
use crate::support::world::demo;

const BOOT: &str = "5f0c1c7e-8f8b-4d6e-9a53-1f8f4a3d2b10";

fn now() -> DateTime<Utc> {
    at("2026-03-02T03:10:00Z")
}

/// A healthy node: its kubelet has run since 10 s after boot, its static pods since a few seconds later.
struct Node {
    site: Site,
    journal: Journal,
    /// The wall clock, at [`Node::UP`] after boot.
    now: DateTime<Utc>,
    created: BTreeMap<String, DateTime<Utc>>,
    renewed_for: Vec<String>,
}

impl Node {
    /// Seconds from boot to the look.
    const UP: u64 = 10_000;

    /// One whose certificates the journal saw 5 s after boot, before anything had started.
    fn new(layout: Layout) -> Self {
        let mut node = Self::without_journal(layout);
        node.note(5);
        node
    }

    fn without_journal(layout: Layout) -> Self {
        let site = Site::new(&demo(), Plan::new(layout, now()));
        Self { site, journal: Journal::default(), now: now(), created: BTreeMap::new(), renewed_for: Vec::new() }
    }

    /// The journal notes what is on disk, so many seconds after boot.
    fn note(&mut self, second: u64) {
        let inventory = self.site.tree.inventory();
        let on_disk = inventory.certificates.iter().filter_map(|one| Some((&*one.name, &*one.leaf.as_ref()?.serial)));
        self.journal.note_serials(on_disk, BOOT, Duration::from_secs(second));
    }

    fn look(&self) -> Evidence {
        let node = self.site.tree.node();
        let inventory = Inventory::read(&node, &Extra::default(), now());
        let processes = Processes::read(&node.root);
        gather(&Input {
            node: &node,
            inventory: &inventory,
            processes: processes.as_ref(),
            first_seen: &self.journal.serials,
            boot_id: boot_id(&node.root).as_deref(),
            at: Moment { now: self.now, since_boot: Duration::from_secs(Self::UP) },
            ticks_per_second: 100,
            created: &self.created,
            renewed_for: &self.renewed_for,
            deadline: Duration::from_secs(5),
        })
    }

    fn component(&self, name: &str) -> Component {
        self.look().get(name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    /// Issues certificates anew, as somebody's `kubeadm certs renew` does, so many seconds after boot. The journal saw the old
    /// ones ten seconds before, and sees the new ones now.
    fn renew(&mut self, names: &[&str], second: u64) {
        self.note(second - 10);
        for name in names {
            self.site.tree.issue(name, now() + chrono::Duration::days(365));
        }
        self.note(second);
    }

    /// A further process, started so many seconds after boot.
    fn process(&self, pid: u32, argv: &[&str], second: u64) {
        let comm = argv[0].rsplit('/').next().unwrap();
        let cmdline: String = argv.iter().map(|word| format!("{word}\0")).collect();
        let ticks = second * 100;
        self.site.tree.write(&format!("/proc/{pid}/cmdline"), cmdline);
        let stat = format!("{pid} ({comm}) S 1 {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 {ticks} 0 0\n");
        self.site.tree.write(&format!("/proc/{pid}/stat"), stat);
    }

    fn pid(&self, program: &str) -> u32 {
        Processes::read(&self.site.tree.root()).unwrap().find_named(program)[0].pid
    }

    /// Ends the processes of a program, or starts them at another moment.
    fn end(&self, program: &str) {
        std::fs::remove_dir_all(self.site.tree.on_host(&format!("/proc/{}", self.pid(program)))).unwrap();
    }

    fn restart(&self, program: &str, second: u64) {
        let pid = self.pid(program);
        self.process(pid, &[program], second);
    }

    /// Sets the clock so that a file was last changed at this second after boot.
    fn changed_at(&mut self, path: &str, second: i64) {
        let metadata =
            std::fs::metadata(self.site.tree.root().on_host(&self.site.tree.node().real(path.as_ref()))).unwrap();
        let changed =
            DateTime::from_timestamp(metadata.ctime(), u32::try_from(metadata.ctime_nsec()).unwrap()).unwrap();
        self.now = changed + chrono::Duration::seconds(i64::try_from(Self::UP).unwrap() - second);
    }
}

/// A server of these files that reads them at its start only.
fn frozen(component: &'static str, certificate: &str, key: &str) -> Role {
    let shows = Shows::Files { certificate: certificate.into(), key: key.into(), reloads: false };
    Role { component, shows, client_ca: None, loopback_ends: None }
}

fn verdicts(evidence: &Evidence) -> Vec<(&str, Verdict)> {
    evidence.components.iter().map(|one| (one.name.as_str(), one.verdict)).collect()
}
