//! A worker: no login but kubelet's own, and a kube-apiserver elsewhere.

use std::fs;

use serde_json::{Value, json};

use super::{PKI, check, expect, findings};
use crate::check::states::{self, State, now};
use crate::support::pki::days;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A worker whose API server is the state's, by its kubelet.conf: it has the Node and no requests, and says of renewals whether they are
/// granted.
fn worker(granted: bool) -> State {
    let state = states::fresh();
    let tree = &state.site.tree;
    fs::remove_dir_all(tree.on_host("/etc/kubernetes/manifests")).unwrap();
    for name in ["admin.conf", "controller-manager.conf", "scheduler.conf"] {
        tree.remove(&format!("/etc/kubernetes/{name}"));
    }
    for entry in fs::read_dir(tree.on_host("/proc")).unwrap().map(|entry| entry.unwrap().path()) {
        let comm = fs::read_to_string(entry.join("comm")).unwrap_or_default();
        if comm.starts_with("kube-") || comm.starts_with("etcd") {
            fs::remove_dir_all(entry).unwrap();
        }
    }
    let server = &state.site.servers.apiserver;
    server.script(|script| script.without_client = Some(401));
    server.page("GET /version", 200, r#"{"gitVersion":"v1.20.2"}"#);
    server.page("GET /api/v1/nodes/node1", 200, r#"{"metadata":{"name":"node1"}}"#);
    server.page(REVIEWS, 201, json!({ "status": { "allowed": granted } }).to_string());
    requests(&state, &json!([]));
    state
}

fn requests(state: &State, items: &Value) {
    let body = json!({ "kind": "List", "metadata": {}, "items": items }).to_string();
    state.site.servers.apiserver.page(&format!("GET {REQUESTS}?limit=200"), 200, body);
}

#[test]
fn where_all_that_can_be_seen_is_well_it_is_well_and_the_rest_is_told_once() {
    let state = worker(true);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    let last = checked.out.lines().last().unwrap();
    assert!(last.starts_with("not visible from a worker, and not judged: bootstrap-create, "), "{}", checked.out);
    for (id, words) in [
        ("renewal-approval", "granted, says kube-apiserver of this node's own login"),
        ("client-requests", "none is there"),
        ("serving-requests", "none is there"),
    ] {
        expect(&state, id, "ok", &[words]);
    }
    let report: Value = serde_json::from_str(&check(&state, &["-o", "json"]).out).unwrap();
    let hidden: Vec<&str> = report["notVisible"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(hidden.contains(&"signing-files") && hidden.contains(&"serving-approver"), "{hidden:?}");
    // what is hidden is not among what was judged
    for id in hidden {
        assert_eq!(findings(&state, id), Vec::<String>::new());
    }
}

#[test]
fn it_asks_by_the_certificate_that_rotates_even_where_kubelet_conf_holds_an_old_one() {
    let state = worker(true);
    state.site.tree.issue("kubelet.conf", now() - days(1));
    expect(&state, "client-requests", "ok", &["none is there"]);
    // and by kubelet.conf's where there is none yet
    let state = worker(true);
    state.site.tree.issue("kubelet.conf", now() + days(300));
    for entry in fs::read_dir(state.site.tree.on_host(PKI)).unwrap().map(|entry| entry.unwrap().path()) {
        fs::remove_file(entry).unwrap();
    }
    expect(&state, "client-requests", "ok", &["none is there"]);
}

#[test]
fn renewals_that_nobody_approves_and_requests_that_are_stuck_are_critical() {
    let state = worker(false);
    let words = ["not granted", "on a control plane: k8s-certs-renew kubelet rbac --diff | kubectl apply -f -"];
    expect(&state, "renewal-approval", "critical", &words);
    let state = worker(true);
    let request = |name: &str, signer: &str| {
        json!({ "metadata": { "name": name, "creationTimestamp": "2026-03-10T11:00:00Z" },
            "spec": { "username": "system:node:node1", "signerName": format!("kubernetes.io/{signer}") } })
    };
    requests(&state, &json!([request("c", "kube-apiserver-client-kubelet"), request("s", "kubelet-serving")]));
    assert_eq!(check(&state, &[]).code, 2);
    expect(&state, "client-requests", "critical", &["'c' is pending", "on a control plane: "]);
    expect(&state, "serving-requests", "warning", &["'s' is pending", "whether an approver is installed was not seen"]);
}

#[test]
fn what_the_api_does_not_tell_is_unknown() {
    let state = worker(true);
    let server = &state.site.servers.apiserver;
    server.page(REVIEWS, 403, "{}");
    server.page(&format!("GET {REQUESTS}?limit=200"), 403, "{}");
    server.page("GET /api/v1/nodes/node1", 404, "{}");
    assert_eq!(check(&state, &[]).code, 3);
    expect(&state, "renewal-approval", "unknown", &["403"]);
    expect(&state, "requests", "unknown", &["403"]);
    expect(&state, "node", "warning", &["has no Node of this name"]);
    let state = worker(true);
    state.site.tree.issue("kubelet-client-current.pem", now() - days(1));
    expect(&state, "api", "unknown", &["401", "see client-certificate"]);
    assert_eq!(check(&state, &[]).code, 2, "an expired login is worse than what it hides");
    let words = [
        "on a control plane, in bash: (umask 077; ",
        "> node1.conf)",
        "with that file here as '/etc/kubernetes/kubelet.conf.new'",
    ];
    expect(&state, "client-certificate", "critical", &words);
}

#[test]
fn its_login_goes_to_no_server_that_the_cluster_has_not_signed() {
    let state = worker(true);
    let tree = &state.site.tree;
    let (other, _) = tree.spec("front-proxy-client", now() + days(10));
    let text = tree.kubelet_conf(&format!("{PKI}/kubelet-client-current.pem"));
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    tree.write("/etc/kubernetes/kubelet.conf", text.replace(&encode(&tree.ca.pair.cert), &encode(&other.pair.cert)));
    expect(&state, "api", "unknown", &["the cluster's CA has not signed; nothing was sent to it"]);
    assert!(state.site.servers.apiserver.requests().is_empty());
}

#[test]
fn a_host_name_is_not_looked_up_for_another_root() {
    let state = worker(true);
    let tree = &state.site.tree;
    tree.edit("/etc/kubernetes/kubelet.conf", |text| text.replace(&tree.server(), "https://lb.example.com:6443"));
    expect(&state, "api", "unknown", &["'lb.example.com'", "on the machine itself only"]);
}
