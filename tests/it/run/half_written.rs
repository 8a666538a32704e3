//! kubeadm and the run killed together, in the middle of a file.

use std::fs;
use std::path::PathBuf;

use k8s_certs_renew::host::Signals;
use k8s_certs_renew::journal::Journal;

use super::cut_off::{Ends, killed_at, processes, wait_for};
use super::seen::{APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, owed, renewed_and_copied};
use super::{SKIP, now, run, run_by, site};
use crate::support::clock::StillClock;
use crate::support::faults::Renewal;
use crate::support::site::Site;

const WORDS: &str = "half-written by a run that was cut off";

/// The order in which kubeadm renews, and how many files each has.
const ORDER: [(&str, usize); 6] = [
    ("admin.conf", 1),
    ("apiserver", 2),
    ("apiserver-kubelet-client", 2),
    ("controller-manager.conf", 1),
    ("front-proxy-client", 2),
    ("scheduler.conf", 1),
];

/// A node where both were killed as kubeadm had come to `name` and had emptied its file.
fn killed_in(name: &str, file: &str, left: &[u8]) -> Site {
    let site = site(5);
    site.world.fault(|faults| faults.renewals = vec![Renewal::HangsAt(name.to_owned())]);
    let kubeadm = Ends(&site, "kubeadm");
    let before = files(&site);
    killed_at(&site, RENEW_ALL);
    let done = ORDER.iter().take_while(|(one, _)| *one != name).map(|(_, files)| files).sum::<usize>();
    wait_for("kubeadm has come there", || changed(&before, &files(&site)).len() == done);
    drop(kubeadm);
    wait_for("kubeadm has ended", || processes(&site, "kubeadm").is_empty());
    fs::write(site.tree.on_host(file), left).unwrap();
    site.world.fault(|_| {});
    site.world.forget_calls();
    site
}

fn saved_as(site: &Site, file: &str) -> String {
    let (journal, _) = Journal::read(&site.tree.root());
    let id = journal.open.unwrap().backup.unwrap();
    fs::read_to_string(site.tree.on_host(&format!("/var/lib/k8s-certs-renew/backups/{id}{file}"))).unwrap()
}

#[test]
fn what_kubeadm_was_killed_in_is_put_back_and_renewed_by_the_next_run() {
    let table = [
        ("controller-manager.conf", "/etc/kubernetes/controller-manager.conf", &b""[..]),
        ("scheduler.conf", "/etc/kubernetes/scheduler.conf", b"apiVersion: v1\nkind: Con"),
        ("apiserver", "/etc/kubernetes/ssl/apiserver.crt", b""),
        ("front-proxy-client", "/etc/kubernetes/ssl/front-proxy-client.key", b"-----BEGIN RSA"),
    ];
    for (name, file, left) in table {
        let site = killed_in(name, file, left);
        let before = files(&site);
        let ran = run(&site, &["--dry-run", "--detailed-exitcode"]);
        assert_eq!(ran.code, 11, "{name}: {}", ran.text());
        assert!(ran.text().contains(WORDS), "{name}: {}", ran.text());
        assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
        let serials = site.serials();
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.text());
        assert!(ran.err.contains(&format!("{name}: {WORDS}; put back from the backup")), "{}", ran.err);
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
        assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
        assert_ne!(site.serials(), serials);
        assert_eq!(owed(&site), None);
        let ran = run(&site, &[]);
        assert_eq!((ran.code, ran.headlines().contains(&SKIP)), (0, true), "{}", ran.text());
    }
}

#[test]
fn a_good_new_file_is_never_taken_back() {
    let site = killed_in("scheduler.conf", "/etc/kubernetes/scheduler.conf", b"");
    let new = site.tree.read("/etc/kubernetes/admin.conf");
    assert_ne!(new, saved_as(&site, "/etc/kubernetes/admin.conf"));
    // kubeadm is not there to renew once more: what is put back is seen as it is
    fs::remove_file(site.world.tool("kubeadm")).unwrap();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 69, "{}", ran.text());
    assert_eq!(site.tree.read("/etc/kubernetes/admin.conf"), new);
    assert_eq!(site.tree.read("/etc/kubernetes/scheduler.conf"), saved_as(&site, "/etc/kubernetes/scheduler.conf"));
}

#[test]
fn what_somebody_broke_before_the_run_began_or_after_it_had_ended_is_not_put_back() {
    // before: the backup holds the same
    let site = site(5);
    fs::write(site.tree.on_host("/etc/kubernetes/scheduler.conf"), "").unwrap();
    site.world.fault(|faults| faults.renewals = vec![Renewal::HangsAt("front-proxy-client".to_owned())]);
    let kubeadm = Ends(&site, "kubeadm");
    killed_at(&site, RENEW_ALL);
    drop(kubeadm);
    wait_for("kubeadm has ended", || processes(&site, "kubeadm").is_empty());
    site.world.fault(|_| {});
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(!ran.text().contains(WORDS), "{}", ran.text());
    // after: that run owes nothing of it
    let site = super::site(300);
    assert_eq!(run(&site, &["--force"]).code, 0);
    fs::write(site.tree.on_host("/etc/kubernetes/scheduler.conf"), "").unwrap();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 26, "{}", ran.text());
    assert!(!ran.text().contains(WORDS), "{}", ran.text());
}

#[test]
fn a_backup_that_is_damaged_gone_or_of_another_cluster_mends_nothing() {
    let id = |site: &Site| Journal::read(&site.tree.root()).0.open.unwrap().backup.unwrap();
    let dir = |site: &Site| site.tree.on_host(&format!("/var/lib/k8s-certs-renew/backups/{}", id(site)));
    type Damage = fn(PathBuf);
    let spoil_file = |dir: PathBuf| fs::write(dir.join("etc/kubernetes/scheduler.conf"), "x").unwrap();
    let remove = |dir: PathBuf| fs::remove_dir_all(dir).unwrap();
    let change_ca = |dir: PathBuf| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let index = names.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
        value["caKeyHashes"]["ca"] = "00".into();
        fs::write(index, value.to_string()).unwrap();
    };
    let damages: [(Damage, &str); 3] = [
        (spoil_file, "does not have its hash"),
        (remove, "half-written stays so"),
        (change_ca, "of a cluster with other CAs"),
    ];
    for (damage, words) in damages {
        let site = killed_in("scheduler.conf", "/etc/kubernetes/scheduler.conf", b"");
        damage(dir(&site));
        let ran = run(&site, &[]);
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
        assert_eq!(ran.code, 23, "{words}: {}", ran.text());
        assert_eq!(site.tree.read("/etc/kubernetes/scheduler.conf"), "");
    }
}

#[test]
fn the_journal_of_another_cluster_is_set_aside() {
    let site = killed_in("scheduler.conf", "/etc/kubernetes/scheduler.conf", b"");
    let path = site.tree.on_host("/var/lib/k8s-certs-renew/state.json");
    let mut journal: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    journal["caKeyHashes"]["ca"] = "00".into();
    let text = journal.to_string();
    fs::write(&path, &text).unwrap();
    let ran = run(&site, &["--dry-run"]);
    assert!(ran.err.contains("of a cluster with other CAs"), "{}", ran.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "a dry run changes nothing");
    for _ in 0..2 {
        let ran = run(&site, &[]);
        assert_ne!(ran.code, 0, "{}", ran.text());
        assert!(!ran.text().contains(WORDS), "its backup is not gone by: {}", ran.text());
        let aside = site.tree.on_host("/var/lib/k8s-certs-renew/state.json.other-cluster");
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
    }
}

#[test]
fn a_run_that_does_not_trust_the_clock_mends_nothing() {
    let site = killed_in("scheduler.conf", "/etc/kubernetes/scheduler.conf", b"");
    let before = files(&site);
    let early = StillClock::at(now() - chrono::Duration::days(400));
    let ran = run_by(&early, &site, &[], &Signals::none());
    assert_eq!(ran.code, 27, "{}", ran.text());
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(site.world.acts(), Vec::<String>::new());
}
