//! The client certificate that kubelet rotates.

use chrono::Duration;

use super::{PKI, expect, findings};
use crate::check::states::{self, State, now, plan};
use crate::support::pki::{Pair, days};

const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
const NAME: &str = "kubelet-client-current.pem";

/// A node whose client certificate began and ends so.
fn lasting(from: chrono::DateTime<chrono::Utc>, to: chrono::DateTime<chrono::Utc>) -> State {
    let state = states::fresh();
    let (ca, mut spec) = state.site.tree.spec(NAME, to);
    spec.not_before = from;
    state.site.tree.put(NAME, &ca.issue(&spec));
    state.make_old();
    state
}

fn pem(pair: &Pair) -> String {
    format!("{}{}", pair.cert, pair.key)
}

// L05, L13
#[test]
fn the_life_that_is_used_is_judged_and_not_days() {
    let table = [
        // hours of life, of them used: status, words
        (24, 4, "ok", "the next one is asked for between 2026-03-11 and 2026-03-11"),
        (24, 19, "ok", "the next one is asked for by"),
        (24, 23, "warning", "the next one was to be asked for by"),
        (8760, 8000, "warning", "the clock was set forward"),
        (8760, 8761, "critical", "expired on"),
        (24, -1, "critical", "is not valid before"),
    ];
    for (life, used, status, words) in table {
        let from = now() - Duration::hours(used);
        let state = lasting(from, from + Duration::hours(life));
        expect(&state, "client-certificate", status, &[words]);
    }
}

// L14
#[test]
fn one_that_has_expired_is_got_back_by_a_control_plane_and_never_deleted() {
    let state = State::new(plan(300).ends(NAME, now() - days(2)));
    let put =
        "mv -b -S .old /etc/kubernetes/kubelet.conf.new /etc/kubernetes/kubelet.conf && systemctl restart kubelet";
    let make = "(umask 077; kubeadm alpha kubeconfig user --org system:nodes --client-name system:node:node1";
    let words = ["kubeadm certs renew does not renew it".to_owned()];
    // kubespray keeps kubeadm's configuration on the node
    let here =
        format!("{make} --config /etc/kubernetes/kubeadm-config.yaml > /etc/kubernetes/kubelet.conf.new) && {put}");
    expect(&state, "client-certificate", "critical", &[&words[0], &here]);
    // else it is in the cluster
    let tree = &state.site.tree;
    tree.remove("/etc/kubernetes/kubeadm-config.yaml");
    expect(&state, "client-certificate", "critical", &[&format!("{make} --config <(kubectl "), put]);
    // up to 1.20 the command is an alpha one, and before 1.20 it takes no configuration
    let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
    let of = |version: &str| tree.edit(manifest, |text| text.replace("v1.20.2", version));
    of("v1.19.7");
    expect(&state, "client-certificate", "critical", &[&format!("{make} > /etc/kubernetes/kubelet.conf.new)")]);
    tree.edit(manifest, |text| text.replace("v1.19.7", "v1.21.0"));
    expect(&state, "client-certificate", "critical", &["(umask 077; kubeadm kubeconfig user --org", " --config <("]);
}

// L03
#[test]
fn a_file_a_dangling_link_and_nothing_have_a_finding_each() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let good = tree.read(CURRENT);
    tree.remove(CURRENT);
    expect(&state, "client-certificate", "critical", &["is missing", "kubeadm alpha kubeconfig user"]);
    tree.link("/var/lib/kubelet/pki/gone.pem", CURRENT);
    // the rotated file is still there, so that the link alone is to be mended
    let words = [
        "a link to '/var/lib/kubelet/pki/gone.pem', where nothing is",
        "ln -sfn '/var/lib/kubelet/pki/kubelet-client-2026",
    ];
    expect(&state, "client-certificate", "critical", &words);
    tree.remove(&format!("{PKI}/kubelet-client-2026-01-01-00-00-00.pem"));
    expect(&state, "client-certificate", "critical", &["where nothing is", "kubeadm alpha kubeconfig user"]);
    tree.remove(CURRENT);
    tree.write(CURRENT, good);
    expect(&state, "client-link", "warning", &["a file where kubelet's rotation needs a link", "ln -s "]);
    expect(&state, "client-certificate", "ok", &[]);
}

#[test]
fn a_newer_file_beside_the_one_in_use_is_a_link_that_was_not_moved() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let (ca, mut spec) = tree.spec(NAME, now() + days(360));
    spec.not_before = now() - days(5);
    let newer = format!("{PKI}/kubelet-client-2026-03-05-00-00-00.pem");
    tree.write(&newer, pem(&ca.issue(&spec)));
    expect(&state, "client-newest", "warning", &[&format!("ln -sfn '{newer}' '{CURRENT}'")]);
    // one that is newer by its name alone is an old one that was copied
    spec.not_before = now() - days(300);
    tree.write(&newer, pem(&ca.issue(&spec)));
    assert_eq!(findings(&state, "client-newest"), Vec::<String>::new());
}

#[test]
fn another_nodes_name_another_group_and_another_key_are_told_apart() {
    let of = |cn: &str, org: &str| {
        let state = states::fresh();
        let (ca, mut spec) = state.site.tree.spec(NAME, now() + days(300));
        (spec.cn, spec.orgs) = (cn.to_owned(), vec![org.to_owned()]);
        state.site.tree.put(NAME, &ca.issue(&spec));
        state
    };
    expect(&of("system:node:node1", "system:nodes"), "client-identity", "ok", &[]);
    expect(&of("system:node:old", "system:nodes"), "client-identity", "critical", &["is of 'system:node:old'"]);
    expect(&of("system:node:node1", "system:masters"), "client-identity", "critical", &["'system:masters'"]);
    let state = states::fresh();
    let tree = &state.site.tree;
    let (ca, spec) = tree.spec(NAME, now() + days(300));
    let (one, other) = (ca.issue(&spec), ca.issue(&spec));
    tree.put(NAME, &Pair { key: other.key, ..one });
    expect(&state, "client-certificate", "critical", &["the private key is another certificate's"]);
}
