//! kube-controller-manager, which approves and signs.

use super::{expect, findings};
use crate::check::states::{self, State};
use crate::support::pki::{Algorithm, Ca, days};

const MANIFEST: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";

fn with(state: &State, flag: &str) {
    state.site.tree.edit(MANIFEST, |text| {
        text.replacen("    - --leader-elect=true\n", &format!("    - --leader-elect=true\n    - {flag}\n"), 1)
    });
}

// L08
#[test]
fn nothing_is_signed_without_a_ca_and_its_key() {
    let state = states::fresh();
    let tree = &state.site.tree;
    expect(&state, "signing-files", "ok", &["/etc/kubernetes/ssl/ca.crt"]);
    let whole = tree.read(MANIFEST);
    tree.edit(MANIFEST, |text| {
        text.lines().filter(|line| !line.contains("cluster-signing")).map(|line| format!("{line}\n")).collect()
    });
    expect(&state, "signing-files", "critical", &["is given no CA to sign with", "approved and not signed"]);
    tree.write(MANIFEST, &whole);
    let key = tree.read(&tree.pki("ca.key"));
    tree.write(&tree.pki("ca.key"), Algorithm::P256.key().serialize_pem());
    expect(&state, "signing-files", "critical", &["the private key is another certificate's"]);
    tree.remove(&tree.pki("ca.key"));
    expect(&state, "signing-files", "critical", &["its private key '/etc/kubernetes/ssl/ca.key' is missing"]);
    tree.write(&tree.pki("ca.key"), key);
    let other = Ca::new("other", Algorithm::P256, states::now() - days(1), states::now() + days(900));
    tree.write("/etc/kubernetes/ssl/other.crt", &other.pair.cert);
    tree.write("/etc/kubernetes/ssl/other.key", &other.pair.key);
    tree.edit(MANIFEST, |text| {
        text.replace("signing-cert-file=/etc/kubernetes/ssl/ca.crt", "signing-cert-file=/etc/kubernetes/ssl/other.crt")
            .replace("signing-key-file=/etc/kubernetes/ssl/ca.key", "signing-key-file=/etc/kubernetes/ssl/other.key")
    });
    expect(&state, "signing-files", "critical", &["which kube-apiserver does not trust for clients"]);
}

// L05
#[test]
fn the_lifetime_follows_from_the_flag_and_the_cas_end() {
    let table = [
        (None, "ok", "valid for 365d (the default)"),
        (Some("--cluster-signing-duration=24h0m0s"), "warning", "valid for 24h"),
        (Some("--cluster-signing-duration=87600h0m0s"), "ok", "but its CA '/etc/kubernetes/ssl/ca.crt' ends on"),
        (Some("--cluster-signing-duration=365d"), "critical", "no length of time to Go"),
        (Some("--experimental-cluster-signing-duration=4380h"), "ok", "valid for 182d"),
    ];
    for (flag, status, words) in table {
        let state = states::fresh();
        if let Some(flag) = flag {
            with(&state, flag);
        }
        expect(&state, "signing-duration", status, &[words]);
    }
    let mut plan = states::plan(40);
    plan.authorities_end = states::now() + days(60);
    expect(&State::new(plan), "signing-duration", "warning", &["valid for 60d", "each new one is shorter"]);
}

#[test]
fn flags_that_its_version_does_not_know_are_named() {
    let table = [
        ("v1.20.2", "--experimental-cluster-signing-duration=8760h", None),
        (
            "v1.25.0",
            "--experimental-cluster-signing-duration=8760h",
            Some("gone with 1.25; in its place: --cluster-signing-duration"),
        ),
        ("v1.18.9", "--cluster-signing-duration=8760h", Some("known from 1.19 on")),
        ("v1.27.1", "--pod-eviction-timeout=5m0s", Some("gone with 1.27")),
        ("v1.22.0", "--feature-gates=RotateKubeletClientCertificate=true", Some("gone after 1.21")),
        ("v1.36.2", "--feature-gates=RotateKubeletServerCertificate=true", None),
        ("latest", "--pod-eviction-timeout=5m0s", None),
    ];
    for (version, flag, words) in table {
        let state = states::fresh();
        with(&state, flag);
        state
            .site
            .tree
            .edit(MANIFEST, |text| text.replace("    - --port=0\n", "").replace(":v1.20.2", &format!(":{version}")));
        let found = findings(&state, "controller-manager-flags");
        match words {
            Some(words) => assert!(found.len() == 1 && found[0].contains(words), "{version} {flag}: {found:?}"),
            None => assert_eq!(found, Vec::<String>::new(), "{version} {flag}"),
        }
    }
}

#[test]
fn controllers_that_are_switched_off_are_named() {
    let table = [
        ("--controllers=*,bootstrapsigner,tokencleaner", "ok", "csrapproving, csrsigning"),
        ("--controllers=*,-csrapproving", "critical", "leaves csrapproving out"),
        ("--controllers=csrapproving,node", "critical", "leaves csrsigning out"),
        ("--controllers=*,-certificatesigningrequest-signing-controller", "critical", "leaves csrsigning out"),
    ];
    for (flag, status, words) in table {
        let state = states::fresh();
        with(&state, &format!("'{flag}'"));
        expect(&state, "csr-controllers", status, &[words]);
    }
}

#[test]
fn a_node_that_is_no_control_plane_has_no_say_in_it() {
    let state = states::fresh();
    let tree = &state.site.tree;
    for name in ["kube-controller-manager", "kube-apiserver", "kube-scheduler"] {
        tree.remove(&format!("/etc/kubernetes/manifests/{name}.yaml"));
    }
    for pid in std::fs::read_dir(tree.on_host("/proc")).unwrap() {
        let dir = pid.unwrap().path();
        let cmdline = std::fs::read_to_string(dir.join("cmdline")).unwrap_or_default();
        if cmdline.contains("kube-") && !cmdline.contains("kubelet") {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
    for id in ["signing-files", "signing-duration", "csr-controllers"] {
        assert_eq!(findings(&state, id), Vec::<String>::new());
    }
    expect(&state, "client-certificate", "ok", &[]);
}
