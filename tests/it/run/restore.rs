//! Backups listed and put back by the command, and the run after it.

mod around;
mod cut_off;
mod refused;
mod shown;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use k8s_certs_renew::cli::Terminal;
use k8s_certs_renew::evidence::ticks_per_second;
use k8s_certs_renew::host::Clock;
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::steps::backup::Backup;

use super::seen::{Files, changed, files, owed, renewed_and_copied};
use super::{Ran, SKIP, now, run, run_by, site, stacked, start_at};
use crate::support::clock::StillClock;
use crate::support::site::Site;

const DIR: &str = "/var/lib/k8s-certs-renew/backups";
/// The backup of the first run at the moment of the tests, and of what comes next.
const FIRST: &str = "20260302T031000Z";
const SECOND: &str = "20260302T031000Z-2";

/// Runs `restore` with these arguments, nobody at the terminal.
fn restore(site: &Site, args: &[&str]) -> Ran {
    restore_at(Terminal::default(), site, args, &Signals::none())
}

fn restore_at(terminal: Terminal, site: &Site, args: &[&str], signals: &Signals) -> Ran {
    let argv = ["k8s-certs-renew", "restore"].iter().chain(args).map(Into::into);
    let argv = argv.chain(["--root".into(), site.tree.dir().into()]).collect();
    start_at(terminal, &StillClock::at(now()), argv, &[], signals)
}

/// A node whose certificates are good for 300 days and were renewed by force all the same; with its files before that.
fn renewed() -> (Site, Files) {
    let site = site(300);
    let before = files(&site);
    let ran = run(&site, &["--force"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(ids(&site), [FIRST]);
    settle(&site);
    site.world.forget_calls();
    (site, before)
}

fn ids(site: &Site) -> Vec<String> {
    Backup::ids(&site.tree.root(), Path::new(DIR)).unwrap()
}

/// What the control plane runs started just now: after the runs so far, and before those that come. (In this world whatever is
/// started anew starts after every clock.)
fn settle(site: &Site) {
    let started = StillClock::at(now()).since_boot().as_secs() * ticks_per_second();
    for entry in std::fs::read_dir(site.tree.on_host("/proc")).unwrap() {
        let dir = entry.unwrap().path();
        let program = std::fs::read_to_string(dir.join("cmdline")).unwrap_or_default();
        if ALL.iter().any(|name| program.split('\0').next().is_some_and(|program| program.ends_with(name))) {
            let stat = std::fs::read_to_string(dir.join("stat")).unwrap();
            let mut fields: Vec<String> = stat.split(' ').map(str::to_owned).collect();
            fields[21] = started.to_string();
            std::fs::write(dir.join("stat"), fields.join(" ")).unwrap();
        }
    }
}

/// The restarts after the one that each component has behind it.
const RESTARTS: [&str; 3] = [
    "crictl -t 60s rmp -f kube-apiserver@2",
    "crictl -t 60s rmp -f kube-controller-manager@2",
    "crictl -t 60s rmp -f kube-scheduler@2",
];
const ALL: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The next run renews nothing, restarts just what works with what was replaced, and proves it; the one after it skips.
fn finishes(site: &Site, restarts: &[&str]) {
    let before = files(site);
    site.world.forget_calls();
    let ran = run(site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(site.world.acts(), restarts, "{}", ran.text());
    for component in restarts.iter().map(|act| act.rsplit(' ').next().unwrap().split('@').next().unwrap()) {
        let proven = |line: &str| line.starts_with(&format!("{component} restarted")) && line.ends_with("in use");
        assert!(ran.out.lines().any(proven), "{component}: {}", ran.out);
    }
    assert_eq!(changed(&before, &files(site)), Vec::<String>::new());
    assert_eq!(owed(site), None);
    settle(site);
    site.world.forget_calls();
    let last = run(site, &["--detailed-exitcode"]);
    assert_eq!(last.code, 0, "{}", last.text());
    assert!(last.headlines().contains(&SKIP));
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

#[test]
fn a_backup_is_put_back_whole_and_the_next_run_restarts_what_still_works_with_the_newer_files() {
    let (site, before) = renewed();
    let after = files(&site);
    assert_eq!(changed(&before, &after), renewed_and_copied());
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new(), "bytes and modes");
    assert_eq!(site.world.acts(), Vec::<String>::new(), "it restarts nothing");
    assert_eq!(owed(&site).unwrap(), ALL);
    assert!(
        ran.out.contains(
            "Next: `k8s-certs-renew run`. It restarts kube-apiserver, kube-controller-manager, kube-scheduler,"
        )
    );

    let ran = run(&site, &["--dry-run"]);
    for component in &ALL[1..] {
        let stale = format!("stale         {component}: reads ");
        assert!(ran.out.lines().any(|line| line.starts_with(&stale)), "{}", ran.out);
    }
    finishes(&site, &RESTARTS);
}

#[test]
fn what_was_there_is_kept_first_and_can_be_put_back_too() {
    let (site, _) = renewed();
    let after = files(&site);
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    finishes(&site, &RESTARTS);
    let kept = Backup::open(&site.tree.root(), Path::new(DIR), SECOND).unwrap();
    assert_eq!(kept.about().reason, format!("before restore of {FIRST}"));
    assert_eq!(ids(&site), [FIRST, SECOND]);

    let ran = restore(&site, &[SECOND, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(changed(&after, &files(&site)), Vec::<String>::new());
    finishes(&site, &RESTARTS.map(|act| act.replace("@2", "@3")).each_ref().map(String::as_str));
}

#[test]
fn no_backup_goes_however_many_there_are() {
    let (site, _) = renewed();
    for _ in 0..3 {
        for id in [FIRST, SECOND] {
            assert_eq!(restore(&site, &[id, "--yes"]).code, 0);
        }
    }
    assert_eq!(ids(&site).len(), 7);
}

#[test]
fn a_node_with_etcd_in_a_static_pod_gets_everything_back_and_etcd_re_reads_it() {
    let site = stacked(300);
    let before = files(&site);
    assert_eq!(run(&site, &["--force"]).code, 0);
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(owed(&site).unwrap(), ALL);
    // a backup of one file only, made by a restore of one file
    let server = site.tree.pki("etcd/server.crt");
    site.tree.chmod(&server, 0o600);
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    let last = ids(&site).pop().unwrap();
    site.tree.chmod(&server, 0o640);
    let ran = restore(&site, &[&last, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn a_certificate_that_is_due_is_put_back_and_renewed_by_the_next_run() {
    let site = site(5);
    assert_eq!(run(&site, &[]).code, 0);
    let serials = site.serials();
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    assert_eq!(site.renewed_since(&serials), site.tree.renewed_by_kubeadm());
    let serials = site.serials();
    site.world.forget_calls();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.renewed_since(&serials), site.tree.renewed_by_kubeadm());
    assert_eq!(site.world.acts()[1..], RESTARTS);
}

#[test]
fn only_what_differs_is_replaced_and_only_its_readers_are_restarted() {
    let (site, before) = renewed();
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    finishes(&site, &RESTARTS);
    site.tree.issue("scheduler.conf", now() + chrono::Duration::days(200));
    let inode = || site.tree.on_host("/etc/kubernetes/admin.conf").metadata().unwrap().ino();
    let untouched = inode();
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.out.contains("put back: scheduler.conf\n"), "{}", ran.out);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(inode(), untouched);
    assert_eq!(owed(&site).unwrap(), ["kube-scheduler"]);
    finishes(&site, &["crictl -t 60s rmp -f kube-scheduler@3"]);
}

// the last restart that is known was with the very certificates that are put back
#[test]
fn a_restart_with_the_same_certificates_long_ago_keeps_no_component_from_its_restart() {
    let site = site(300);
    assert_eq!(run(&site, &["--restart", "all"]).code, 0);
    let serials = site.serials();
    assert_eq!(run(&site, &["--force", "--restart", "none"]).code, 0);
    settle(&site);
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    assert_eq!(site.serials(), serials);
    finishes(&site, &RESTARTS);
}

#[test]
fn what_is_as_it_is_in_the_backup_is_left_and_no_other_is_made() {
    let (site, _) = renewed();
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    let before = files(&site);
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.out.contains("Nothing to put back"), "{}", ran.out);
    assert_eq!(ids(&site), [FIRST, SECOND]);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
}

#[test]
fn a_mode_is_put_back_and_nothing_is_restarted_for_it() {
    let (site, _) = renewed();
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    finishes(&site, &RESTARTS);
    let key = site.tree.pki("apiserver.key");
    let before = files(&site);
    site.tree.chmod(&key, 0o640);
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.out.contains("other mode"), "{}", ran.out);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(owed(&site), None);
    let ran = run_by(&StillClock::at(now()), &site, &["--detailed-exitcode"], &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
}
