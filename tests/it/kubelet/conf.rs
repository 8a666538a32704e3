//! The kubeconfig that kubelet starts with.

use super::{PKI, expect};
use crate::check::states::{self, now};
use crate::support::pki::days;

const CONF: &str = "/etc/kubernetes/kubelet.conf";

// L01, both ways
#[test]
fn a_certificate_of_its_own_fails_at_the_next_start_once_it_has_expired() {
    let state = states::fresh();
    state.site.tree.issue("kubelet.conf", now() + days(10));
    let words = [
        "holds a certificate of its own",
        "rotation never writes it",
        "sed -E -i 's#client-(certificate|key)(-data)?: .*#client-\\1: /var/lib/kubelet/pki/kubelet-client-current.pem#' /etc/kubernetes/kubelet.conf && systemctl restart kubelet",
    ];
    expect(&state, "kubelet-conf", "warning", &words);
    state.site.tree.issue("kubelet.conf", now() - days(1));
    expect(&state, "kubelet-conf", "critical", &["asks for a bootstrap kubeconfig at its next start"]);
    // and the rotated one is still good
    expect(&state, "client-certificate", "ok", &[]);
    let tree = &state.site.tree;
    tree.issue("kubelet.conf", now() + days(300));
    tree.issue("kubelet-client-current.pem", now() - days(1));
    expect(&state, "client-certificate", "critical", &["expired"]);
}

// L02
#[test]
fn a_lost_file_and_one_that_the_next_boot_takes_are_named() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let file = "/var/run/kubernetes/kubelet-client.pem";
    tree.write(CONF, tree.kubelet_conf(file));
    expect(&state, "kubelet-conf", "critical", &[&format!("names '{file}', where nothing is"), "gone with each boot"]);
    tree.write(file, tree.read(&format!("{PKI}/kubelet-client-current.pem")));
    expect(&state, "kubelet-conf", "warning", &["gone with the next boot"]);
    tree.write(CONF, tree.kubelet_conf("/etc/kubernetes/ssl/kubelet-client.pem"));
    expect(&state, "kubelet-conf", "critical", &["'/etc/kubernetes/ssl/kubelet-client.pem', where nothing is"]);
}

#[test]
fn a_certificate_that_is_not_the_rotated_one_is_told() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let (ca, spec) = tree.spec("kubelet.conf", now() + days(90));
    let pair = ca.issue(&spec);
    tree.write("/etc/kubernetes/ssl/kubelet.pem", format!("{}{}", pair.cert, pair.key));
    tree.write(CONF, tree.kubelet_conf("/etc/kubernetes/ssl/kubelet.pem"));
    expect(&state, "kubelet-conf", "warning", &["which is not the certificate that kubelet rotates"]);
}

#[test]
fn without_it_the_node_is_lost_unless_it_can_bootstrap() {
    let state = states::fresh();
    let tree = &state.site.tree;
    tree.remove(CONF);
    expect(&state, "kubelet-conf", "critical", &["is missing, and there is no bootstrap kubeconfig either"]);
    tree.write(CONF, "");
    expect(&state, "kubelet-conf", "critical", &["unusable kubeconfig"]);
}
