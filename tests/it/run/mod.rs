//! The whole job on a whole node: real files, real TLS servers, stand-in tools, a clock that does not wait.

mod around;
mod backups;
pub mod binary;
mod broken_copies;
mod broken_files;
mod clock;
mod copies;
mod crash;
mod cut_off;
mod disks;
mod etcd;
mod events;
mod faults;
mod ground;
mod half_written;
mod hooks;
mod images;
mod json;
mod kubeadm;
mod quorum;
mod reading;
mod rehearsal;
mod reliability;
mod renewing;
mod restarting;
mod restore;
mod schedule;
pub mod seen;
mod settings;
mod story;
mod turns;
mod waiting;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::run::LOCK;

use crate::support::clock::StillClock;
use crate::support::pki::at;
use crate::support::site::Site;
use crate::support::tree::{Layout, Plan};
use crate::support::world::demo;

/// A Monday in March 2026, ten minutes after the timer has fired; it fires next on 6 April at 03:00, and the threshold is on
/// 13 April at 03:31.
pub const NOW: &str = "2026-03-02T03:10:00Z";

/// The headline of a run that has nothing to do.
pub const SKIP: &str = "Skip cert renew and K8S container restart, since all residualTimes are beyond threshold";

/// The headlines of a run that does everything.
pub const DONE: [&str; 6] = [
    "Check Expiration before renewal",
    "Renewing certificates managed by kubeadm",
    "Restarting control plane pods managed by kubeadm",
    "Updating /root/.kube/config",
    "Waiting for apiserver to be up again",
    "Expiration after renewal",
];

/// The restarts of such a run, in order.
pub const RESTARTS: [&str; 3] = [
    "crictl -t 60s rmp -f kube-apiserver@1",
    "crictl -t 60s rmp -f kube-controller-manager@1",
    "crictl -t 60s rmp -f kube-scheduler@1",
];

/// A kubeadm call with the node's configuration file.
pub fn by_config(name: &str) -> String {
    format!("kubeadm certs renew {name} --config /etc/kubernetes/kubeadm-config.yaml")
}

/// A kubeadm call with the directory alone.
pub fn by_dir(name: &str) -> String {
    format!("kubeadm certs renew {name} --cert-dir /etc/kubernetes/ssl")
}

/// Calls and what follows them.
pub fn acts(calls: &[String], rest: &[&str]) -> Vec<String> {
    calls.iter().cloned().chain(rest.iter().map(|&call| call.to_owned())).collect()
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// Exit code.
    pub code: u8,
    /// stdout.
    pub out: String,
    /// stderr.
    pub err: String,
    /// How long it waited by the clock.
    pub slept: Duration,
}

impl Ran {
    /// Both outputs, for assertions on words that may stand in either.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// The headlines, without their marks.
    pub fn headlines(&self) -> Vec<&str> {
        self.out.lines().filter_map(|line| line.strip_prefix("## ")?.strip_suffix(" ##")).collect()
    }
}

pub fn now() -> DateTime<Utc> {
    at(NOW)
}

/// A kubespray node where what kubeadm renews lasts for so many days more.
pub fn site(days: i64) -> Site {
    Site::new(&demo(), plan(days))
}

/// The plan of such a node. What kubeadm does not renew lasts longer than any threshold.
pub fn plan(days: i64) -> Plan {
    let end = now() + chrono::Duration::days(days);
    let names = [
        "admin.conf",
        "apiserver",
        "apiserver-kubelet-client",
        "controller-manager.conf",
        "front-proxy-client",
        "scheduler.conf",
    ];
    names.into_iter().fold(Plan::new(Layout::Kubespray, now()), |plan, name| plan.ends(name, end))
}

/// Runs the program on the node with the stand-in tools and these arguments behind `run`.
pub fn run(site: &Site, args: &[&str]) -> Ran {
    run_with(site, args, &[], &Signals::none())
}

/// Runs it with this environment and these signals.
pub fn run_with(site: &Site, args: &[&str], environment: &[(&str, &str)], signals: &Signals) -> Ran {
    start(command_line(site, args), environment, signals)
}

/// Runs it by this clock, with these signals.
pub fn run_by(clock: &StillClock, site: &Site, args: &[&str], signals: &Signals) -> Ran {
    start_by(clock, command_line(site, args), &[], signals)
}

fn command_line(site: &Site, args: &[&str]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "run".into()];
    argv.extend(args.iter().map(OsString::from));
    argv.extend(site.options());
    argv
}

/// Runs the program with exactly this command line.
pub fn start(argv: Vec<OsString>, environment: &[(&str, &str)], signals: &Signals) -> Ran {
    start_by(&StillClock::at(now()), argv, environment, signals)
}

/// Runs the program with exactly this command line, by this clock.
pub fn start_by(clock: &StillClock, argv: Vec<OsString>, environment: &[(&str, &str)], signals: &Signals) -> Ran {
    start_at(Terminal::default(), clock, argv, environment, signals)
}

/// Likewise, at this terminal.
pub fn start_at(
    terminal: Terminal,
    clock: &StillClock,
    argv: Vec<OsString>,
    environment: &[(&str, &str)],
    signals: &Signals,
) -> Ran {
    let process = Process {
        argv,
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        terminal,
        is_root: true,
        clock,
        signals,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = main(&process, &mut out, &mut err).code();
    if code != 75 {
        let_go_of_the_lock(&process.argv);
    }
    let slept = clock.slept();
    Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap(), slept }
}

/// Waits until nobody has the run's lock any more. Tests share a process: a tool that another test is just starting has, between
/// fork and exec, every file of this one open, and so holds the lock for a moment longer than the run did.
fn let_go_of_the_lock(argv: &[OsString]) {
    if let Some(root) = argv.iter().skip_while(|arg| *arg != "--root").nth(1) {
        lock_is_free(Path::new(root));
    }
}

/// Waits until nobody has the lock of the node below this root; what a killed run has left at work may take its time.
fn lock_is_free(root: &Path) {
    let Ok(file) = std::fs::File::open(root.join(LOCK.trim_start_matches('/'))) else { return };
    let is_held = || file.try_lock().map(|()| file.unlock()).is_err();
    (0..5000).take_while(|_| is_held()).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
}

/// Every file of the node with its mode and bytes, every link with its target; the lock, our own state and what runs left out.
pub fn files(site: &Site) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    collect(site.tree.dir(), site.tree.dir(), &mut found);
    found.retain(|path, _| !["run/", "proc/", "var/lib/k8s-certs-renew/"].iter().any(|own| path.starts_with(own)));
    found
}

fn collect(root: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode();
        if metadata.is_symlink() {
            found.insert(name, (mode, std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
        } else if metadata.is_dir() {
            collect(root, &path, found);
        } else {
            found.insert(name, (mode, std::fs::read(&path).unwrap()));
        }
    }
}

/// Asserts that a run with these arguments ends so, changes no file and calls no tool that changes something.
pub fn refused(site: &Site, args: &[&str], code: u8, words: &str) -> Ran {
    let before = files(site);
    let ran = run(site, args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.text());
    assert!(ran.text().contains(words), "{args:?}: '{words}' is not in: {}", ran.text());
    untouched(site, &before);
    ran
}

/// Asserts that the node's files are what they were, and that no tool changed anything.
pub fn untouched(site: &Site, before: &BTreeMap<String, (u32, Vec<u8>)>) {
    let now = files(site);
    let changed: Vec<_> =
        now.iter().filter(|(path, file)| before.get(*path) != Some(file)).map(|(path, _)| path).collect();
    assert_eq!(changed, Vec::<&String>::new(), "changed or new");
    assert_eq!(now.len(), before.len(), "removed");
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

/// A node as kubeadm sets it up, etcd a static pod, where everything lasts for so many days more.
pub fn stacked(days: i64) -> Site {
    Site::new(&demo(), Plan::new(Layout::Kubeadm, now()).all_end(now() + chrono::Duration::days(days)))
}
