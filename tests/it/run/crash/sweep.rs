//! Every instant: a run is killed at each system call by which it changes something on the disk, one after another, until
//! it comes through. The names of the table are what a reader thinks of; this is what is there.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_certs_renew::steps::backup::{About, Backup};

use super::super::NOW;
use super::kubeadm::kill;
use super::site::{ARGS, BACKUPS, Killed, finishes, node};
use crate::support::events::Point;
use crate::support::fake::say;
use crate::support::site::Site;

/// The calls that change something; those that open a file are covered by the first one that writes to it.
const CALLS: &str = "write,pwrite64,ftruncate,fallocate,rename,renameat,renameat2,link,linkat,symlinkat,unlink,unlinkat,rmdir,\
                     mkdir,mkdirat,chmod,fchmod,fchmodat,chown,fchown,fchownat,setxattr,fsetxattr,fsync,fdatasync,utimensat";

/// An old backup, which the next one takes the place of.
fn with_an_old_backup(site: &Site) {
    let about = About {
        created: "2026-01-01T03:00:00Z".to_owned(),
        reason: "renewal".to_owned(),
        program: "0.0.0".to_owned(),
        ca_key_hashes: BTreeMap::new(),
    };
    let files = ["/etc/kubernetes/admin.conf", "/etc/kubernetes/ssl/apiserver.key"].map(Into::into);
    let manifests = Path::new("/etc/kubernetes/manifests");
    Backup::make(&site.tree.root(), Path::new(BACKUPS), manifests, "20260101T030000Z", &files, &about).unwrap();
}

/// The program under strace with this option.
fn traced(site: &Site, output: &Path, option: &str) -> Output {
    let mut command = Command::new("strace");
    command.args(["-qq", "-o"]).arg(output).args(["-e", &format!("trace={CALLS}"), "-e", option]);
    command.arg(env!("CARGO_BIN_EXE_k8s-certs-renew")).arg("run").args(site.options()).args(["--at", NOW]);
    command.args(&ARGS[1..]).args(["-q", "--keep-backups", "1"]).stdin(Stdio::null());
    command.output().unwrap()
}

/// Every call of a whole run that changes something: its name, and how many of that name were before.
fn calls(site: &Site) -> Vec<(String, usize)> {
    let trace = site.world.dir().join("trace");
    let output = traced(site, &trace, "signal=none");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::<String, usize>::new();
    let mut count = |name: &str| {
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        (name.to_owned(), *count)
    };
    let trace = std::fs::read_to_string(trace).unwrap();
    trace.lines().filter_map(|line| Some(count(line.split_once('(')?.0))).collect()
}

/// Kills at one of these calls after another, two runs at a time, each on a node that `prepare` makes.
fn sweep(what: &str, calls: &[(String, usize)], prepare: impl Fn() -> (Site, Killed) + Sync) {
    say(format!("{what}: killed before each of {} system calls", calls.len()));
    let (next, through) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((name, number)) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (site, before) = prepare();
            // strace counts the calls of each name
            let output = traced(&site, Path::new("/dev/null"), &format!("inject={name}:signal=KILL:when={number}"));
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("{what}, killed before {name} number {number}");
            // one call more or less of a library's own, and the last of a name does not come
            if output.status.success() {
                through.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            assert_eq!(output.status.signal(), Some(9), "{what}: {}: {said}", output.status);
            finishes(&site, &what, &before, None);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let through = through.into_inner();
    assert!(through <= 3, "{what}: {through} runs came through");
}

fn renewal() -> (Site, Killed) {
    let site = node();
    with_an_old_backup(&site);
    let before = Killed::before(&site);
    (site, before)
}

/// A node on which a run and its kubeadm were killed in the middle of a file.
fn half_written() -> (Site, Killed) {
    let (site, _) = renewal();
    let before = kill(&site, Vec::new(), "certs renew all", Point::Emptied("apiserver.crt".to_owned()));
    (site, before)
}

#[test]
#[ignore = "takes two minutes, and needs strace; .ci/run has it as a step of its own"]
fn killed_before_any_system_call_a_run_is_finished_by_the_next() {
    let all = calls(&renewal().0);
    assert!(all.len() > 100, "{all:?} cannot be all");
    sweep("a renewal", &all, renewal);
    // up to its own backup, which the sweep above has
    let calls = calls(&half_written().0);
    let first = calls.iter().position(|(name, _)| name == "mkdirat").unwrap();
    assert!(first > 10, "{calls:?}");
    sweep("what puts back what a run was killed in", &calls[..first], half_written);
}
