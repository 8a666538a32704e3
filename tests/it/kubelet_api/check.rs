//! What `kubelet check` has from the API: rights, requests, approver, bootstrap token.

use base64::Engine;
use serde_json::{Value, json};

use super::api::{Api, DEPLOYMENTS, REQUESTS, deployment};
use super::csrs::Csr;

const TOKEN: &str = "abcdef.0123456789abcdef";
const SECRET: &str = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";

/// The findings of this id: status and what was seen.
fn found(api: &Api, id: &str) -> Vec<(String, String)> {
    let (_, report) = api.json(&["check"]);
    let all = report["findings"].as_array().unwrap();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    all.iter().filter(|one| one["id"] == id).map(|one| (text(one, "status"), text(one, "seen"))).collect()
}

#[track_caller]
fn expect(api: &Api, id: &str, status: &str, words: &str) {
    let found = found(api, id);
    assert!(
        found.iter().any(|(of, seen)| of == status && seen.contains(words)),
        "no {status} '{words}' in {id}: {found:?}"
    );
}

fn cluster() -> Api {
    let api = Api::new().with_own_roles();
    let all = api.kubelet(&["rbac"]).out;
    api.apply(&all);
    api
}

/// A secret of a bootstrap token.
fn secret(token: &str, expires: &str, usage: &str, group: &str) -> Value {
    let text = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    json!({ "data": {
        "token-secret": text(token),
        "expiration": text(expires),
        "usage-bootstrap-authentication": text(usage),
        "auth-extra-groups": text(group),
    } })
}

// L09
#[test]
fn each_binding_that_is_missing_is_named_and_what_is_there_is_ok() {
    let api = cluster();
    for id in ["bootstrap-create", "bootstrap-approval", "renewal-approval"] {
        expect(&api, id, "ok", "granted by ClusterRoleBinding 'kubeadm:");
    }
    let api = Api::new().with_own_roles();
    expect(&api, "bootstrap-create", "warning", "no ClusterRoleBinding grants it");
    expect(&api, "bootstrap-approval", "warning", "no ClusterRoleBinding grants it");
    expect(&api, "renewal-approval", "critical", "system:nodes");
    assert!(found(&api, "serving-approval").is_empty());
}

// L06, L08
#[test]
fn requests_that_are_stuck_are_told_apart() {
    let api = cluster();
    expect(&api, "client-requests", "ok", "none is there");
    api.add(REQUESTS, Csr::node1("csr-s").object());
    expect(&api, "serving-requests", "warning", "'csr-s' is pending, 60m old");
    expect(&api, "serving-approver", "warning", "no approver is installed");
    let client =
        |name: &str| Csr::node1(name).but(|csr| csr.signer = Some("kubernetes.io/kube-apiserver-client-kubelet"));
    let mut approved = client("csr-c").object();
    approved["status"] = json!({ "conditions": [{ "type": "Approved", "status": "True" }] });
    api.add(REQUESTS, approved);
    expect(&api, "client-requests", "critical", "'csr-c' is approved and never issued");
    // the first one is made by a bootstrap user
    api.add(REQUESTS, client("csr-b").but(|csr| csr.user = "system:bootstrap:abcdef".to_owned()).object());
    expect(&api, "client-requests", "critical", "'csr-b' is pending");
    api.add(DEPLOYMENTS, deployment("kubelet-csr-approver", "x", 2, 2));
    expect(&api, "serving-approver", "ok", "is at work (2 of 2 pods)");
}

// R11
#[test]
fn what_is_forbidden_or_down_is_unknown_and_never_ok() {
    let api = cluster();
    api.with(|state| state.forbidden.extend(["kubernetes-admin".to_owned(), "kubernetes-super-admin".to_owned()]));
    for id in ["rights", "requests", "serving-approver", "node"] {
        let found = found(&api, id);
        assert_eq!(found.len(), 1, "{id}");
        assert!(found[0].0 == "unknown" && found[0].1.contains("403"), "{found:?}");
    }
    api.tree.remove("/etc/kubernetes/admin.conf");
    api.tree.remove("/etc/kubernetes/super-admin.conf");
    expect(&api, "api", "unknown", "cannot read '/etc/kubernetes/admin.conf'");
    for id in ["rights", "requests", "renewal-approval", "client-requests"] {
        assert!(found(&api, id).is_empty(), "{id}");
    }
}

#[test]
fn a_bootstrap_token_is_good_expired_unknown_or_for_something_else() {
    let api = cluster();
    api.bootstrap(TOKEN);
    expect(&api, "bootstrap-token", "warning", "no bootstrap token 'abcdef'");
    expect(&api, "first-request", "warning", "401");
    let put = |secret: Value| api.with(|state| state.objects.insert(SECRET.to_owned(), secret));
    let group = "system:bootstrappers:kubeadm:default-node-token";
    put(secret("0123456789abcdef", "2026-03-11T12:00:00Z", "true", group));
    api.with(|state| state.tokens.insert(TOKEN.to_owned(), true));
    expect(&api, "bootstrap-token", "ok", "good for 24h more");
    expect(&api, "first-request", "ok", "would be taken");
    expect(&api, "bootstrap-create", "ok", "granted by");
    put(secret("0123456789abcdef", "2026-03-09T12:00:00Z", "true", group));
    expect(&api, "bootstrap-token", "warning", "has expired 24h ago");
    put(secret("ffffffffffffffff", "2026-03-11T12:00:00Z", "true", group));
    expect(&api, "bootstrap-token", "warning", "secret half");
    put(secret("0123456789abcdef", "2026-03-11T12:00:00Z", "false", group));
    expect(&api, "bootstrap-token", "warning", "may not be used to log in");
    let all = api.kubelet(&["check"]);
    assert!(!format!("{}{}", all.out, all.err).contains("0123456789abcdef"));
}

#[test]
fn the_401_and_the_403_of_a_first_request_are_told_apart() {
    let api = Api::new().with_own_roles();
    api.bootstrap(TOKEN);
    expect(&api, "first-request", "warning", "401 Unauthorized: the token is not accepted");
    api.with(|state| {
        state.tokens.insert(TOKEN.to_owned(), false);
        let secret = secret("0123456789abcdef", "2026-03-11T12:00:00Z", "true", "");
        state.objects.insert(SECRET.to_owned(), secret);
    });
    expect(&api, "first-request", "critical", "403 Forbidden: the token is accepted");
    expect(&api, "bootstrap-create", "critical", "no ClusterRoleBinding grants it");
}

// the seed's two token files: the binding covers the group of the first only
#[test]
fn the_groups_of_a_token_file_are_compared_with_the_bindings() {
    let api = Api::new().with_own_roles();
    api.apply(
        "kind: ClusterRoleBinding\nmetadata: {name: node-client-auto-approve-csr}\nroleRef: {kind: ClusterRole, name: 'system:certificates.k8s.io:certificatesigningrequests:nodeclient'}\nsubjects: [{kind: Group, name: 'system:bootstrappers'}]\n",
    );
    api.bootstrap("6df3c701f979cee17732c30958745947");
    api.tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace(
            "    - --secure-port=",
            "    - --token-auth-file=/etc/kubernetes/pki/token.csv\n    - --secure-port=",
        )
    });
    let tokens = |group: &str| {
        let line = format!("6df3c701f979cee17732c30958745947,kubelet-bootstrap,10001,\"{group}\"\n");
        api.tree.write("/etc/kubernetes/pki/token.csv", line);
    };
    tokens("system:bootstrappers");
    expect(&api, "bootstrap-approval", "ok", "'node-client-auto-approve-csr'");
    expect(&api, "bootstrap-token", "ok", "--token-auth-file has its token");
    tokens("system:kubelet-bootstrap");
    expect(&api, "bootstrap-approval", "critical", "grants it to group 'system:bootstrappers', which is somebody else");
    expect(&api, "bootstrap-approval", "critical", "its groups: system:kubelet-bootstrap");
    let (_, report) = api.json(&["check"]);
    let all = report["findings"].as_array().unwrap();
    let one = all.iter().find(|one| one["id"] == "bootstrap-approval").unwrap();
    assert!(one["mend"].as_str().unwrap().contains("--bootstrap 'user:kubelet-bootstrap'"), "{one:#}");
}
