//! A node for the crash table, how a run on it is killed, and what is demanded of the runs after it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use k8s_certs_renew::journal::Journal;
use k8s_certs_renew::steps::backup::Backup;

use super::super::binary::program;
use super::super::seen::{Files, RENEWED, changed, files, owed};
use super::super::{SKIP, lock_is_free, run};
use super::host;
use super::table::{At, Boundary, How, Next};
use crate::support::events::{Act, Event, Point};
use crate::support::faults::then;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, TlsServer};

/// The copies of admin.conf on it.
pub const COPIES: [&str; 2] = ["/root/.kube/config", "/home/ops/.kube/config"];
/// The arguments of every run.
pub const ARGS: [&str; 5] = ["-v", "--kubeconfig-copy", COPIES[0], "--kubeconfig-copy", COPIES[1]];
/// Where its backups are.
pub const BACKUPS: &str = "/var/lib/k8s-certs-renew/backups";

/// A node where everything is due, with two copies of admin.conf.
pub fn node() -> Site {
    let site = super::super::site(5);
    site.tree.write(COPIES[1], site.tree.read("/etc/kubernetes/admin.conf"));
    site
}

/// Lets the next run on the node be killed at this boundary, if that is done by a tool or a server.
pub fn prepare(site: &Site, row: &Boundary) {
    match row.how {
        How::Said(_) | How::InWrite(..) => site.world.fault(|_| {}),
        How::Tool(call, number, at) => {
            let (point, act) = match at {
                At::Before => (Point::Before, Act::KillsBoth),
                At::BeforeToolGoesOn => (Point::Before, Act::KillsRun),
                At::After => (Point::After, Act::KillsBoth),
            };
            site.world.fault(|faults| faults.events = vec![Event { call: call.to_owned(), number, point, act }]);
        }
        How::Asked(component, before) => {
            server(site, component).script(|script| script.first = then(before, Answer::Ready, Answer::KillsRun));
        }
        How::AskedAgain(component, before) => {
            // the first is for its health, the others are the wait's
            let mut answers = vec![Answer::Ready; before.min(1)];
            answers.extend(vec![Answer::Status(500); before.saturating_sub(1)]);
            answers.push(Answer::KillsRun);
            server(site, component).script(|script| script.restarted = answers);
        }
    }
}

fn server<'a>(site: &'a Site, component: &str) -> &'a TlsServer {
    match component {
        "kube-apiserver" => &site.servers.apiserver,
        "kube-controller-manager" => &site.servers.controller_manager,
        _ => &site.servers.scheduler,
    }
}

/// What a node was before a run was killed on it.
pub struct Killed {
    /// Serials by name.
    pub serials: BTreeMap<String, String>,
    /// Its files.
    pub files: Files,
}

impl Killed {
    /// Looks.
    pub fn before(site: &Site) -> Self {
        Self { serials: site.serials(), files: files(site) }
    }
}

/// Runs the program, and sees it killed at the boundary.
pub fn killed(site: &Site, row: &Boundary) {
    let (status, said) = match row.how {
        How::Said(words) | How::InWrite(words, _) => host::killed_at(site, &ARGS, words),
        How::Tool(..) | How::Asked(..) | How::AskedAgain(..) => ended(site),
    };
    assert_eq!(status.signal(), Some(9), "{}: not killed, {status}: {said}", row.name);
    if let How::InWrite(_, path) = row.how {
        site.tree.write(path, "apiVersion: v1\nclus");
    }
}

/// Runs the program to its end, whatever that is; gives it, and what was said.
pub fn ended(site: &Site) -> (ExitStatus, String) {
    let output = program(site, &ARGS).output().unwrap();
    (output.status, String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// What is demanded after a kill: a journal that tells of what was changed, a next run that does exactly what is left, where
/// that is known, and ends well, and a run after it that has nothing to do.
pub fn finishes(site: &Site, name: &str, before: &Killed, next: Option<Next>) {
    // what the tools of the killed run are still doing
    (0..5000).take_while(|_| tools_at_work(site)).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    lock_is_free(site.tree.dir());
    tells(site, name, before);
    clean(site);
    comes_round(site, name, before, next);
}

/// Demands that a run on a node where nothing goes wrong ends well with everything renewed and in use, and that the run after
/// it has nothing to do.
pub fn comes_round(site: &Site, name: &str, before: &Killed, next: Option<Next>) {
    let calls = site.world.acts().len();
    let ran = run(site, &ARGS);
    assert_eq!(ran.code, 0, "{name}: {}", ran.text());
    let all = site.world.acts();
    if let Some(next) = next {
        assert_eq!(did(&all[calls..], &ran.headlines()), next, "{name}: {}", ran.text());
    }
    let renewed = site.renewed_since(&before.serials);
    assert_eq!(renewed, site.tree.renewed_by_kubeadm(), "{name}");
    assert!(site.tree.inventory().certificates.iter().all(|one| !one.is_damaged()), "{name}");
    for copy in COPIES {
        assert_eq!(site.tree.read(copy), site.tree.read("/etc/kubernetes/admin.conf"), "{name}: {copy}");
    }
    assert_eq!(owed(site), None, "{name}");
    assert_eq!(leftovers(site), Vec::<PathBuf>::new(), "{name}");
    let last_renewal = all.iter().rposition(|act| act.starts_with("kubeadm"));
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let restarted = all.iter().rposition(|act| act.contains(&format!("rmp -f {component}@")));
        assert!(restarted > last_renewal, "{name}: {component} still uses what it read before: {all:?}");
    }

    let done = files(site);
    let ran = run(site, &[&ARGS[..], &["--detailed-exitcode"]].concat());
    assert_eq!((ran.code, ran.headlines().last()), (0, Some(&SKIP)), "{name}: {}", ran.text());
    assert_eq!(site.world.acts().len(), all.len(), "{name}");
    assert_eq!(changed(&done, &files(site)), Vec::<String>::new(), "{name}");
}

/// Demands of the journal and the backups that they are whole, and tell of what was changed.
fn tells(site: &Site, name: &str, before: &Killed) {
    let root = site.tree.root();
    let (journal, warning) = Journal::read(&root);
    assert_eq!(warning, None, "{name}: the journal is whole");
    let is_changed = changed(&before.files, &files(site)).iter().any(|path| RENEWED.contains(&path.as_str()));
    let is_over = journal.last_success.is_some();
    assert!(!is_changed || is_over || journal.open.is_some(), "{name}: changed, and the journal does not say so");
    for backup in Backup::list(&root, Path::new(BACKUPS)).unwrap() {
        assert!(!backup.files().is_empty(), "{name}: {}", backup.id());
    }
}

/// Nothing goes wrong on the node any more.
pub fn clean(site: &Site) {
    site.world.fault(|_| {});
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        server(site, component).script(|script| *script = crate::support::tls_server::Script::default());
    }
}

/// Whether a tool of this node runs.
fn tools_at_work(site: &Site) -> bool {
    let bin = site.world.tool("");
    let of_it = |line: Vec<u8>| line.starts_with(bin.as_os_str().as_encoded_bytes());
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok()).any(of_it)
}

/// What a run did.
fn did(acts: &[String], headlines: &[&str]) -> Next {
    let restarted = |component: &str| acts.iter().filter(|act| act.contains(&format!("rmp -f {component}@"))).count();
    let counts = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(restarted);
    let restarts = match counts {
        [1, 1, 1] => "acs",
        [0, 1, 1] => "cs",
        [0, 0, 1] => "s",
        [0, 0, 0] => "",
        _ => "something else",
    };
    Next {
        renews: acts.iter().any(|act| act.starts_with("kubeadm")),
        restarts,
        copies: headlines.iter().filter(|line| line.starts_with("Updating ")).count(),
    }
}

/// Files on the node that only a run at work may have: temporary ones, probes, backups without a name.
pub fn leftovers(site: &Site) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![site.tree.dir().to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') && (name.contains("k8s-certs-renew") || name.contains("partial")) {
                found.push(path.clone());
            }
            if path.is_dir() && !path.is_symlink() {
                dirs.push(path);
            }
        }
    }
    found
}
