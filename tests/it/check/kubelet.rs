//! kubelet: its certificates, what its kubeconfig points to, and whether it knows kube-apiserver.

use crate::support::pki::days;

use super::check;
use super::states::{self, State, now, plan};

// D09
#[test]
fn an_expired_kubelet_client_makes_a_node_bad_on_which_all_of_kubeadms_are_good() {
    let state = State::new(plan(363).ends("kubelet-client-current.pem", now() - days(2)));
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    checked.expect("critical", "kubelet-client-current.pem", "k8s-certs-renew kubelet check says what to type");
    assert!(checked.row("apiserver").ends_with("363d kubeadm in use ok"));
}

// L05
#[test]
fn a_kubelet_is_judged_by_the_life_that_is_used_not_by_days() {
    for (left, code) in [(20, 0), (1, 1)] {
        let state = states::fresh();
        let (ca, mut spec) = state.site.tree.spec("kubelet-client-current.pem", now() + chrono::Duration::hours(left));
        spec.not_before = spec.not_after - days(1);
        state.site.tree.put("kubelet-client-current.pem", &ca.issue(&spec));
        state.make_old();
        let checked = check(&state, &[]);
        assert_eq!(checked.code, code, "{left} h: {}", checked.out);
        assert_eq!(checked.says("warning", "kubelet.conf", "more than nine tenths of its life"), left == 1);
        assert!(checked.out.contains("a run now     would skip"), "{}", checked.out);
    }
}

// L01
#[test]
fn a_kubelet_conf_with_a_certificate_of_its_own_fails_at_the_next_start_and_that_is_said() {
    let of = |left: i64| {
        let state = states::fresh();
        state.site.tree.issue("kubelet.conf", now() + days(left));
        state.make_old();
        check(&state, &[])
    };
    let checked = of(100);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.row("kubelet.conf").ends_with("not rotated"), "{}", checked.row("kubelet.conf"));
    checked.expect("warning", "kubelet.conf", "let client-certificate and client-key in kubelet.conf name that file");
    let checked = of(-1);
    assert_eq!(checked.code, 2, "{}", checked.out);
    checked.expect(
        "critical",
        "kubelet.conf",
        "kubelet goes on with the one that it rotates, and fails at its next start",
    );
}

#[test]
fn an_old_self_signed_serving_certificate_is_a_warning_and_no_more() {
    let state = states::fresh();
    let own = crate::support::pki::Ca::new(
        "node1-ca@1",
        crate::support::pki::Algorithm::P256,
        now() - days(400),
        now() + days(1),
    );
    let (_, mut spec) = state.site.tree.spec("kubelet.crt", now() - days(30));
    spec.not_before = now() - days(395);
    state.site.tree.put("kubelet.crt", &own.issue(&spec));
    state.make_old();
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "kubelet.crt", "delete it and its key");
}

// K11
#[test]
fn a_kubelet_that_does_not_know_kube_apiservers_login_is_told_from_a_kube_apiserver_that_is_not_ready() {
    let state = states::fresh();
    let asked = |state: &State| state.servers[1].requests().pop().map(|request| (request.path, request.status));
    assert_eq!(check(&state, &[]).code, 0);
    assert_eq!(asked(&state), Some(("/healthz".to_owned(), 200)));
    // the new pair is of a CA that kubelet does not know yet
    let ca = crate::support::pki::Ca::new(
        "kubernetes",
        crate::support::pki::Algorithm::P256,
        now() - days(1),
        now() + days(900),
    );
    state.site.tree.write("/etc/kubernetes/kubelet-ca.crt", ca.pair.cert);
    let state = State {
        servers: [states::etcd(&state.site), states::kubelet_knowing(&state.site, "/etc/kubernetes/kubelet-ca.crt")],
        ..state
    };
    state.make_old();
    let checked = check(&state, &[]);
    assert_eq!(asked(&state), Some(("/healthz".to_owned(), 401)));
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "kubelet", "answers 401 to apiserver-kubelet-client");
    checked.expect("warning", "kubelet", "however ready kube-apiserver is");
    assert!(checked.row("apiserver-kubelet-client").ends_with("in use ok"));
}

// R11, as far as a check asks: a refusal for want of rights is no fault of a certificate
#[test]
fn what_is_known_and_may_not_read_is_no_finding() {
    let state = states::fresh();
    state.servers[1].script(|script| script.first = vec![crate::support::tls_server::Answer::Status(403)]);
    let checked = check(&state, &[]);
    assert_eq!(state.servers[1].requests().pop().unwrap().status, 403);
    assert_eq!(checked.code, 0, "{}", checked.out);
}
