//! Machines without a cluster, or with another one than before: after `reset.yml`, after a new installation, workers, laptops.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use regex_lite::Regex;
use serde_json::Value;

use crate::monitoring::json::{CHECK, assert_fits, strict};
use crate::run::{by_config, run as run_job, site};
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tree::{Layout, Plan, Tree};

use super::states::{Still, now};
use super::{Checked, run};

const UNITS: &str = "/etc/systemd/system";
const BACKUPS: &str = "/var/lib/k8s-certs-renew/backups";

/// Checks a tree as root; the output is as wide as a terminal of 100 columns where that is asked for.
fn look_at(dir: &Path, args: &[&str], width: Option<u16>) -> Checked {
    let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "check".into(), "--root".into(), dir.into()];
    argv.extend(args.iter().map(OsString::from));
    run(&Still { now: now(), synchronised: Some(true) }, argv, &[], width, true)
}

fn look(dir: &Path) -> Checked {
    look_at(dir, &[], None)
}

/// A control plane as kubespray sets it up, with this program installed, on which the job has renewed everything once.
fn control_plane() -> Site {
    let site = site(5);
    let tree = &site.tree;
    install(tree);
    tree.write("/etc/default/k8s-certs-renew", "# K8S_CERTS_RENEW_DAYS_BUFFER=7\n");
    tree.write("/usr/local/bin/k8s-certs-renew", "the program\n");
    tree.write("/run/k8s-certs-renew.lock", "");
    tree.write("/var/lib/systemd/timers/stamp-k8s-certs-renew.timer", "");
    let ran = run_job(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(site.world.calls().contains(&by_config("all")));
    site
}

fn install(tree: &Tree) {
    tree.write(&format!("{UNITS}/k8s-certs-renew.service"), include_str!("../../../units/k8s-certs-renew.service"));
    tree.write(&format!("{UNITS}/k8s-certs-renew.timer"), include_str!("../../../units/k8s-certs-renew.timer"));
    tree.link(&format!("{UNITS}/k8s-certs-renew.timer"), &format!("{UNITS}/timers.target.wants/k8s-certs-renew.timer"));
}

/// What `reset.yml` does to the files of a node, and no more: our units go with kubespray's, which have the same names.
fn reset(tree: &Tree) {
    let kubespray = ["k8s-certs-renew.service", "k8s-certs-renew.timer"].map(|unit| format!("{UNITS}/{unit}"));
    let all = ["/etc/kubernetes", "/var/lib/kubelet", "/root/.kube", "/etc/ssl/etcd", "/proc"].map(str::to_owned);
    for path in all.iter().chain(&kubespray) {
        let path = tree.on_host(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
    }
    // and what it leaves
    tree.write("/tmp/releases/etcd-3.5.16-linux-amd64.tar.gz", vec![0; 2_000_000]);
    tree.write("/tmp/releases/images/pause.tar", vec![0; 500_000]);
    tree.write("/usr/local/bin/etcdutl", vec![0; 1000]);
}

fn snapshot(name: &str, text: &str) {
    let text = Regex::new(r"\b\d+(\.\d)? kB").unwrap().replace_all(text, "SIZE").into_owned();
    insta::with_settings!({ snapshot_path => "../snapshots/check", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

fn section(checked: &Checked) -> &str {
    checked.out.split_once("What stayed").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap())
}

#[test]
fn after_a_reset_it_says_what_was_here_and_what_stayed_with_the_commands() {
    let site = control_plane();
    reset(&site.tree);
    let checked = look_at(site.tree.dir(), &["--color=never"], Some(100));
    assert_eq!(checked.code, 1, "{}", checked.out);
    snapshot("after_reset_100", &checked.out);
    for line in checked.out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let report = assert_fits(&strict(CHECK), &look_at(site.tree.dir(), &["-o", "json"], None).out);
    assert_eq!((&report["machine"]["role"], &report["controlPlane"]), (&"none".into(), &false.into()));
    let places: Vec<&str> =
        report["remains"].as_array().unwrap().iter().map(|one| one["place"].as_str().unwrap()).collect();
    for place in [BACKUPS, "/tmp/releases", "/usr/local/bin/etcdutl", "/usr/local/bin/k8s-certs-renew", "host name"] {
        assert!(places.contains(&place), "'{place}' is not in {places:?}");
    }
    let releases = report["remains"].as_array().unwrap().iter().find(|one| one["place"] == "/tmp/releases").unwrap();
    assert_eq!((&releases["bytes"], &releases["files"]), (&Value::from(2_500_000), &Value::from(2)));
    let nagios = look_at(site.tree.dir(), &["-o", "nagios"], None);
    assert!(nagios.out.starts_with("K8S-CERTS-RENEW WARNING - /var/lib/k8s-certs-renew/backups: "), "{}", nagios.out);
}

#[test]
fn a_check_after_a_reset_changes_nothing_and_a_run_has_nothing_to_do() {
    let site = control_plane();
    reset(&site.tree);
    let before = crate::run::files(&site);
    assert_eq!(look(site.tree.dir()).out, look(site.tree.dir()).out);
    let ran = run_job(&site, &[]);
    assert_eq!((ran.code, ran.headlines().len()), (0, 1), "{}", ran.text());
    assert_eq!(crate::run::files(&site), before);
}

#[test]
fn mere_remains_are_no_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    std::fs::create_dir_all(at("tmp/releases")).unwrap();
    std::fs::write(at("tmp/releases/kubeadm-1.33.0-amd64"), "x").unwrap();
    let checked = look(dir.path());
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(checked.out.contains("/tmp/releases (1 file, 1 byte): kubespray's downloads"), "{}", checked.out);
    assert!(checked.out.contains("\n      rm -r /tmp/releases\n"), "{}", checked.out);
}

#[test]
fn a_directory_that_only_has_the_name_of_kubesprays_cache_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("tmp/releases/mine")).unwrap();
    std::fs::create_dir_all(dir.path().join("etc/cni/net.d")).unwrap();
    std::fs::write(dir.path().join("etc/cni/net.d/87-podman.conflist"), "{}").unwrap();
    std::fs::create_dir_all(dir.path().join("usr/local/bin")).unwrap();
    std::fs::write(dir.path().join("usr/local/bin/k8s-certs-renew"), "x").unwrap();
    let checked = look(dir.path());
    assert_eq!((checked.code, section(&checked)), (3, ""), "{}", checked.out);
    checked.expect("unknown", "node", "no certificate of a Kubernetes node");
    assert!(checked.out.contains("none: this is no node of a Kubernetes cluster, and"), "{}", checked.out);
}

#[test]
fn a_timer_that_systemd_still_has_loaded_is_told_though_its_file_is_gone() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    reset(&tree);
    tree.link("0123456789abcdef0123456789abcdef", "/run/systemd/units/invocation:k8s-certs-renew.timer");
    tree.link("../k8s-certs-renew.timer", &format!("{UNITS}/multi-user.target.wants/k8s-certs-renew.timer"));
    let checked = look(tree.dir());
    assert_eq!(checked.code, 1, "{}", checked.out);
    let words = "systemctl stop k8s-certs-renew.timer; systemctl daemon-reload";
    checked.expect("warning", "/run/systemd/units/invocation:k8s-certs-renew.timer", words);
    let link = format!("{UNITS}/multi-user.target.wants/k8s-certs-renew.timer: a link that starts");
    assert!(section(&checked).contains(&link), "{}", checked.out);
}

#[test]
fn kubesprays_own_job_is_told_as_kubesprays() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    reset(&tree);
    install(&tree);
    tree.write(
        &format!("{UNITS}/k8s-certs-renew.service"),
        "[Service]\nType=oneshot\nExecStart=/usr/local/bin/k8s-certs-renew.sh\n",
    );
    tree.write(&format!("{UNITS}/k8s-certs-renew.timer"), "[Timer]\nOnCalendar=Mon *-*-1,2,3,4,5,6,7 03:00:00\n");
    tree.write("/usr/local/bin/k8s-certs-renew.sh", "#!/bin/bash\n");
    let checked = look_at(tree.dir(), &["-o", "json"], None);
    assert_eq!(checked.code, 1, "{}", checked.out);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    let remains = report["remains"].as_array().unwrap();
    let timer = remains.iter().find(|one| one["status"] == "warning").unwrap();
    assert_eq!(
        (&timer["owner"], &timer["place"]),
        (&"kubespray".into(), &format!("{UNITS}/k8s-certs-renew.timer").into())
    );
    assert!(timer["why"].as_str().unwrap().contains("'/usr/local/bin/k8s-certs-renew.sh'"), "{timer}");
    assert_eq!(report["machine"]["was"][0], "kubespray's '/usr/local/bin/k8s-certs-renew.sh' is here");
}

#[test]
fn what_a_reset_could_not_delete_is_told_with_its_keys() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    // the machine runs, and neither a kubelet nor a unit for one is there
    std::fs::remove_dir_all(tree.on_host("/etc/kubernetes/manifests")).unwrap();
    std::fs::remove_file(tree.on_host("/etc/kubernetes/admin.conf")).unwrap();
    tree.write("/proc/1/cmdline", "/sbin/init\0");
    tree.write("/proc/1/stat", "1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 1 1 1");
    tree.write("/var/lib/etcd/member/snap/db", "secrets");
    tree.write("/opt/cni/bin/bridge", "x");
    let checked = look(tree.dir());
    assert_eq!(checked.code, 1, "{}", checked.out);
    for (dir, what) in [
        ("/etc/kubernetes", "with private keys inside"),
        ("/var/lib/kubelet", "with private keys inside"),
        ("/etc/ssl/etcd", "with private keys inside"),
        ("/var/lib/etcd", "etcd's database"),
    ] {
        checked.expect("warning", dir, what);
        let file_system = if dir == "/var/lib/kubelet" { " --one-file-system" } else { "" };
        let command = format!("\n      rm -r{file_system} {dir}\n");
        assert!(section(&checked).contains(&command), "{dir}: {}", checked.out);
    }
    assert!(section(&checked).contains("/opt/cni (1 file, 1 byte): programs"), "{}", checked.out);
    assert!(
        section(&checked).contains("host name: 'node1', the name that this machine had as a node"),
        "{}",
        checked.out
    );
}

#[test]
fn of_a_control_plane_that_is_only_stopped_nothing_is_called_a_remain() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    install(&tree);
    tree.remove("/etc/kubernetes/manifests/kube-apiserver.yaml");
    tree.write("/var/lib/etcd/member/snap/db", "secrets");
    tree.write(&format!("{BACKUPS}/20260302T031000Z/manifest.json"), "x");
    let checked = look(tree.dir());
    assert_eq!((checked.code, section(&checked)), (1, ""), "{}", checked.out);
    assert!(checked.out.contains("nothing is renewed until it is back"), "{}", checked.out);
}

#[test]
fn on_a_control_plane_nothing_stayed() {
    let site = control_plane();
    site.tree.write("/tmp/releases/kubeadm-1.33.0-amd64", "x");
    site.tree.write("/usr/local/bin/etcdutl", "x");
    let report: Value = serde_json::from_str(&look_at(site.tree.dir(), &["-o", "json"], None).out).unwrap();
    assert_eq!(report["remains"], Value::Array(Vec::new()));
    assert_eq!(report["machine"], serde_json::json!({"role": "control plane", "was": []}));
}

/// A node that was reset and built anew with the same inventory: other CAs, and our state of before.
fn built_anew() -> Tree {
    let old = control_plane();
    let anew = Plan::new(Layout::Kubespray, now()).build();
    install(&anew);
    let copied = std::process::Command::new("cp")
        .args(["-a", "--parents", "var/lib/k8s-certs-renew", "root/.kube/config"])
        .arg(anew.dir())
        .current_dir(old.tree.dir())
        .status()
        .unwrap();
    assert!(copied.success());
    anew
}

#[test]
fn after_a_new_installation_the_kubeconfig_and_the_backups_of_the_old_cluster_are_told() {
    let tree = built_anew();
    snapshot("after_reinstall_100", &look_at(tree.dir(), &["--color=never"], Some(100)).out);
    let checked = look(tree.dir());
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "/root/.kube/config", "a kubeconfig of a cluster that is gone");
    let told = section(&checked);
    assert!(told.contains("another CA, with private keys inside: 2026"), "{}", checked.out);
    assert!(told.contains("restore refuses it"), "{}", checked.out);
    // the timer and the program are at work here
    for word in ["uninstall", "stamp", "host name"] {
        assert!(!told.contains(word), "'{word}' is in: {}", checked.out);
    }
}

#[test]
fn a_worker_is_called_one_and_what_is_in_use_there_is_no_remain() {
    let tree = worker();
    tree.write("/tmp/releases/kubeadm-1.33.0-amd64", "x");
    tree.write("/opt/cni/bin/bridge", "x");
    let checked = look(tree.dir());
    assert_eq!((checked.code, section(&checked)), (0, ""), "{}", checked.out);
    assert!(checked.out.contains("no control-plane node but a worker"), "{}", checked.out);
    // installed on every node, which is no trouble on this one
    install(&tree);
    let checked = look(tree.dir());
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(section(&checked).contains("it fires in vain: k8s-certs-renew.service is passed over"), "{}", checked.out);
}

fn worker() -> Tree {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    let ca = tree.ca.pair.cert.clone();
    for path in ["/etc/kubernetes/manifests", "/etc/kubernetes/ssl", "/root", "/etc/ssl"] {
        std::fs::remove_dir_all(tree.on_host(path)).unwrap();
    }
    for name in ["admin.conf", "controller-manager.conf", "scheduler.conf", "kubeadm-config.yaml"] {
        tree.remove(&format!("/etc/kubernetes/{name}"));
    }
    tree.write("/etc/kubernetes/ssl/ca.crt", ca);
    tree
}

#[test]
fn a_worker_that_was_a_control_plane_is_told_of_the_keys_that_it_still_has() {
    let tree = worker();
    tree.write("/etc/kubernetes/ssl/sa.key", "not read\n");
    tree.write(&format!("{BACKUPS}/20260302T031000Z/etc/kubernetes/admin.conf"), "x");
    let checked = look(tree.dir());
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "/etc/kubernetes/ssl/sa.key", "a signing key of a control plane");
    checked.expect("warning", BACKUPS, "k8s-certs-renew uninstall --purge");
    assert!(checked.out.contains("  before        a control plane: a backup of"), "{}", checked.out);
}

#[test]
fn a_tree_made_to_hold_it_up_gets_its_answer() {
    let tree = Plan::new(Layout::Kubespray, now() - days(1)).build();
    reset(&tree);
    let big = tree.on_host("/tmp/releases");
    symlink(".", big.join("round")).unwrap();
    symlink("/", big.join("out")).unwrap();
    for number in 0..21_000 {
        std::fs::File::create(big.join(format!("f{number}"))).unwrap();
    }
    std::fs::File::create(big.join("huge")).unwrap().set_len(1 << 40).unwrap();
    symlink("backups", tree.on_host("/var/lib/k8s-certs-renew").parent().unwrap().join("k8s-certs-renew")).unwrap();
    symlink("etcdutl", tree.on_host("/opt")).unwrap_or_default();
    tree.write(&format!("{UNITS}/k8s-certs-renew.timer"), vec![0xff; 100]);
    let evil = "/etc/cni/\u{1b}[31mred\n";
    tree.write(evil, "x");
    let began = std::time::Instant::now();
    let checked = look(tree.dir());
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(section(&checked).contains("/tmp/releases (at least "), "{}", checked.out);
    assert!(!checked.out.contains('\u{1b}'), "{}", checked.out);
}

#[test]
fn state_that_only_root_can_read_is_not_called_empty() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    reset(&tree);
    tree.write(&format!("{BACKUPS}/20260302T031000Z/manifest.json"), "{}");
    tree.chmod("/var/lib/k8s-certs-renew", 0o700);
    let dir = tree.dir();
    let program = dir.join("k8s-certs-renew");
    let copied =
        std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_k8s-certs-renew")).arg(&program).status().unwrap();
    assert!(copied.success());
    for path in [dir, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = std::process::Command::new(&program);
    command.args(["check", "--at", super::states::NOW, "--root"]).arg(dir).current_dir("/").env_clear();
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(65_534).gid(65_534);
        let output = command.output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{out}");
        assert!(
            out.contains("/var/lib/k8s-certs-renew: stayed here: state of this program that cannot be looked into"),
            "{out}"
        );
    }
}
