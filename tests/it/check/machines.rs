//! Any machine, any tree.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

use k8s_certs_renew::files::Root;

use crate::support::net::{Server, listen};
use crate::support::pki::days;
use crate::support::tree::{Layout, Plan, Tree};

use super::states::{self, Still, now, plan};
use super::{Checked, State, check, run};

const CLOCK: fn() -> Still = || Still { now: now(), synchronised: Some(true) };

/// Checks a tree that nothing runs on.
fn look(dir: &Path, args: &[&str]) -> Checked {
    let mut argv: Vec<std::ffi::OsString> = vec!["k8s-certs-renew".into(), "check".into(), "--root".into(), dir.into()];
    argv.extend(args.iter().map(std::ffi::OsString::from));
    run(&CLOCK(), argv, &[], None, true)
}

fn only(tree: &Tree, keep: &[&str]) {
    for path in ["/etc/kubernetes/manifests", "/etc/kubernetes/ssl", "/root", "/etc/ssl"] {
        std::fs::remove_dir_all(tree.on_host(path)).unwrap();
    }
    for name in ["admin.conf", "controller-manager.conf", "scheduler.conf", "kubeadm-config.yaml", "pki"] {
        if !keep.contains(&name) {
            tree.remove(&format!("/etc/kubernetes/{name}"));
        }
    }
}

// D15
#[test]
fn a_worker_with_a_certificate_that_nobody_renews_is_told_of_it_and_of_no_timer() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    let ca = tree.ca.pair.cert.clone();
    let client = tree.ca.issue(&crate::support::pki::Spec::client(
        "kube-apiserver-etcd-client",
        &[],
        now() - days(300),
        now() + days(20),
    ));
    only(&tree, &[]);
    tree.write("/etc/kubernetes/ssl/ca.crt", ca);
    tree.write("/etc/kubernetes/ssl/apiserver-etcd-client.crt", client.cert);
    tree.write("/etc/kubernetes/ssl/apiserver-etcd-client.key", client.key);
    let checked = look(tree.dir(), &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.row("apiserver-etcd-client").ends_with("20d kubeadm - ends soon"), "{}", checked.out);
    checked.expect("warning", "apiserver-etcd-client", "as this is no control-plane node");
    assert!(checked.row("kubelet-client-current.pem").ends_with("ok"));
    for word in ["timer", "next run", "could renew", "root/.kube"] {
        assert!(!checked.out.contains(word), "'{word}' is in: {}", checked.out);
    }
    assert_eq!(look(tree.dir(), &["--warning", "10d"]).code, 0);
}

#[test]
fn a_worker_where_all_is_well_is_well() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    let ca = tree.ca.pair.cert.clone();
    only(&tree, &[]);
    tree.write("/etc/kubernetes/ssl/ca.crt", ca);
    let checked = look(tree.dir(), &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(checked.out.contains("none: this is no control-plane node"), "{}", checked.out);
}

#[test]
fn a_tree_without_anything_is_not_said_to_be_well() {
    let dir = tempfile::tempdir().unwrap();
    let checked = look(dir.path(), &[]);
    assert_eq!(checked.code, 3, "{}", checked.out);
    checked.expect("unknown", "node", "no certificate of a Kubernetes node");
    assert_eq!(look(Path::new("/nowhere/at/all"), &[]).code, 3);
}

#[test]
fn a_node_that_is_half_installed_shows_what_it_has_and_lacks() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    std::fs::remove_dir_all(tree.on_host("/etc/ssl")).unwrap();
    for name in ["admin.conf", "scheduler.conf", "kubelet.conf"] {
        tree.remove(&format!("/etc/kubernetes/{name}"));
    }
    let checked = look(tree.dir(), &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    for name in ["admin.conf", "scheduler.conf"] {
        assert!(checked.row(name).ends_with("missing"), "{}", checked.row(name));
        checked.expect("critical", name, "kubeadm init phase");
    }
    assert!(checked.row("apiserver").ends_with("ok"));
}

#[test]
fn a_mounted_image_is_judged_by_its_files_alone() {
    let tree = Plan::new(Layout::Kubeadm, now()).build();
    let checked = look(tree.dir(), &["--on-calendar", "monthly"]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(checked.row("apiserver").contains("kubeadm unknown ok"), "{}", checked.row("apiserver"));
    checked.expect("note", "timer", "k8s-certs-renew.timer is not installed");
    assert!(checked.out.contains("  - what is in use: no processes show below this root"), "{}", checked.out);
    // this machine's tools would tell of this machine
    assert!(!checked.out.contains("could renew"), "{}", checked.out);
}

#[test]
fn a_hostile_tree_gets_an_answer_and_leads_nowhere() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let fifo = tree.on_host("/etc/kubernetes/ssl/front-proxy-client.key");
    std::fs::remove_file(&fifo).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let of = |name: &str| {
        let path = tree.on_host(&format!("/etc/kubernetes/{name}"));
        std::fs::remove_file(&path).unwrap();
        path
    };
    symlink("/etc/kubernetes/admin.conf", of("admin.conf")).unwrap();
    symlink("../../../../../../../../etc/shadow", of("scheduler.conf")).unwrap();
    std::fs::File::create(of("controller-manager.conf")).unwrap().set_len(17 << 20).unwrap();
    let evil = "/srv/\u{1b}[31mred\nok  ok.pem";
    tree.write(evil, state.site.tree.read(&tree.pki("apiserver.crt")));
    symlink("/srv", tree.on_host("/srv/round")).unwrap();
    let checked = check(&state, &["--also", "/srv/*", "--also", "/srv/round/round/round/*.pem"]);
    assert_eq!(checked.code, 3, "{}", checked.out);
    assert!(!checked.out.contains('\u{1b}') && checked.out.contains("\\u{1b}[31mred\\nok  ok.pem"), "{}", checked.out);
    for name in ["admin.conf", "controller-manager.conf", "front-proxy-client"] {
        assert!(checked.says("unknown", name, "cannot be read"), "{name}: {}", checked.out);
    }
    assert!(checked.row("apiserver").ends_with("ok"), "{}", checked.out);
    // links stay below the root, where no such file is
    assert!(checked.says("unknown", "scheduler.conf", "where nothing is"), "{}", checked.out);
    assert!(Root::new(tree.dir()).unwrap().read(Path::new("/etc/kubernetes/scheduler.conf")).is_err());
}

#[test]
fn an_api_that_hangs_is_no_reason_to_wait() {
    let mut state = states::fresh();
    // one that takes connections, and never says a word
    let hanging = Server::start(listen(), |mut stream| stream.read_to_end(&mut Vec::new()).map(|_| ()));
    let (from, to) = (state.site.servers.apiserver.port(), hanging.port());
    state.site.tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace(&format!("--secure-port={from}"), &format!("--secure-port={to}"))
    });
    let began = std::time::Instant::now();
    let checked = check(&state, &[]);
    // every handshake has its deadline, and they pass side by side
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(checked.code, 3, "{}", checked.out);
    checked.expect("unknown", "kube-apiserver", "no answer in time");
    assert!(checked.row("controller-manager.conf").ends_with("in use ok"));
    state.site.servers.refuse_apiserver(&state.site.world);
}

#[test]
fn a_timer_that_does_not_parse_leaves_everything_else_judged() {
    let state = states::expired();
    state.site.tree.write("/etc/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=Mon 03:60\n");
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    checked.expect("unknown", "schedule", "03:60");
    assert!(checked.row("apiserver").ends_with("expired"));
    assert!(checked.out.contains("next run      cannot be told"), "{}", checked.out);
}

#[test]
fn a_job_that_has_not_run_for_two_firings_is_told() {
    let state = State::new(plan(300));
    let mut journal = state.journal();
    journal.last_run = Some(now() - days(80));
    state.write(&journal);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "job", "should have been started at least twice since");
}

#[test]
fn a_control_plane_whose_apiserver_manifest_was_moved_away_is_not_called_well() {
    let tree = Plan::new(Layout::Kubespray, now()).build();
    tree.remove("/etc/kubernetes/manifests/kube-apiserver.yaml");
    let checked = look(tree.dir(), &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    let words = "the manifest of kube-apiserver is not: if it was only moved away, nothing is renewed until it is back";
    assert!(checked.out.contains(words), "{}", checked.out);
}

#[test]
fn a_timer_that_never_fires_again_is_a_warning() {
    let state = states::fresh();
    let checked = check(&state, &["--on-calendar", "2000-01-01"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.out.contains("never fires again"), "{}", checked.out);
}
