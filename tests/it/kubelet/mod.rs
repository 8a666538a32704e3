//! `kubelet check` on whole nodes.

mod client;
mod conf;
mod reports;
mod services;
mod serving;
mod settings;
mod signing;
mod whole;
mod worker;

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::check::states::State;
use crate::check::{Checked, run};

pub const PKI: &str = "/var/lib/kubelet/pki";
pub const CONFIG: &str = "/etc/kubernetes/kubelet-config.yaml";

/// Gives the node's kube-apiserver a healthy cluster of 1.20: its Node, kubeadm's bindings, and no requests.
pub fn with_cluster(state: State) -> State {
    let list = |items: Value| json!({ "kind": "List", "metadata": {}, "items": items }).to_string();
    let page = |path: &str, items: Value| {
        let body = list(items);
        for limit in [1, 200] {
            state.site.servers.apiserver.page(&format!("GET {path}?limit={limit}"), 200, body.clone());
        }
    };
    state.site.servers.apiserver.page("GET /version", 200, r#"{"gitVersion":"v1.20.2"}"#);
    page("/api/v1/nodes", json!([{ "metadata": { "name": "node1" } }]));
    page("/apis/certificates.k8s.io/v1/certificatesigningrequests", json!([]));
    page("/apis/apps/v1/deployments", json!([]));
    page("/apis/rbac.authorization.k8s.io/v1/rolebindings", json!([]));
    let requests = "certificatesigningrequests";
    let rights = [
        ("system:bootstrappers:kubeadm:default-node-token", requests.to_owned()),
        ("system:bootstrappers:kubeadm:default-node-token", format!("{requests}/nodeclient")),
        ("system:nodes", format!("{requests}/selfnodeclient")),
    ];
    let roles = rights.iter().map(|(_, resource)| {
        json!({ "metadata": { "name": resource }, "rules": [{ "apiGroups": ["certificates.k8s.io"],
            "resources": [resource], "verbs": ["create", "get", "list", "watch"] }] })
    });
    page("/apis/rbac.authorization.k8s.io/v1/clusterroles", roles.collect());
    let bindings = rights.iter().map(|(group, resource)| {
        json!({ "metadata": { "name": format!("b:{resource}") }, "roleRef": { "kind": "ClusterRole", "name": resource },
            "subjects": [{ "kind": "Group", "name": group }] })
    });
    page("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", bindings.collect());
    state
}

/// Checks kubelet on a node in a state, with these arguments behind `kubelet check`.
pub fn check(state: &State, args: &[&str]) -> Checked {
    check_at(state, args, None)
}

/// Likewise, on a terminal of so many columns.
pub fn check_at(state: &State, args: &[&str], width: Option<u16>) -> Checked {
    run(&state.clock, command_line(state, args), &[], width, true)
}

/// The command line of a check of kubelet on this node.
pub fn command_line(state: &State, args: &[&str]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = ["k8s-certs-renew", "kubelet", "check"].map(OsString::from).to_vec();
    argv.extend(args.iter().map(OsString::from));
    argv.extend([OsString::from("--root"), state.site.tree.dir().into()]);
    argv
}

/// The findings of this id, each as `STATUS: ABOUT: SEEN | WHY | MEND`.
pub fn findings(state: &State, id: &str) -> Vec<String> {
    let checked = check(state, &["-o", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap_or_else(|_| panic!("{}{}", checked.out, checked.err));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or("-").to_owned();
    let all = report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id);
    all.map(|one| {
        let [status, about, seen, why, mend] = ["status", "about", "seen", "why", "mend"].map(|field| text(one, field));
        // the one thing that loses a node for good
        let deletes = mend.contains("rm ") && mend.contains("kubelet-client");
        assert!(!deletes, "{mend}");
        format!("{status}: {about}: {seen} | {why} | {mend}")
    })
    .collect()
}

/// The only finding of this id.
pub fn finding(state: &State, id: &str) -> String {
    let mut found = findings(state, id);
    assert_eq!(found.len(), 1, "{id}: {found:?}");
    found.remove(0)
}

/// Asserts that the only finding of this id has this status, and these words.
pub fn expect(state: &State, id: &str, status: &str, words: &[&str]) {
    let found = finding(state, id);
    assert!(found.starts_with(&format!("{status}: ")), "{status} {id}: {found}");
    for word in words {
        assert!(found.contains(word), "'{word}' is not in: {found}");
    }
}
