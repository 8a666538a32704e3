use serde_json::{Value, json};

use super::{Approver, BootstrapToken, CertificateRequest, Purpose, State, is_approver, paths};

fn request(spec: &Value, status: &Value) -> CertificateRequest {
    CertificateRequest::of(&json!({ "metadata": { "name": "csr-1" }, "spec": spec, "status": status }))
}

#[test]
fn the_state_follows_from_conditions_and_certificate() {
    let condition = |kind: &str| json!({ "conditions": [{ "type": kind, "status": "True" }] });
    let mut issued = condition("Approved");
    issued["certificate"] = json!("LS0t");
    let table = [
        (json!({}), State::Pending),
        (Value::Null, State::Pending),
        (condition("Approved"), State::Approved),
        (issued, State::Issued),
        (condition("Denied"), State::Denied),
        (condition("Failed"), State::Failed),
        (json!({ "conditions": [{ "type": "Approved" }] }), State::Approved),
        (json!({ "conditions": [{ "type": "Approved", "status": "False" }] }), State::Pending),
    ];
    for (status, expected) in table {
        assert_eq!(request(&json!({}), &status).state(), expected, "{status}");
    }
}

#[test]
fn the_purpose_is_the_signers_and_before_there_were_signers_the_usages() {
    let of = |spec: Value| request(&spec, &Value::Null).purpose();
    assert_eq!(of(json!({ "signerName": "kubernetes.io/kubelet-serving" })), Purpose::Serving);
    assert_eq!(of(json!({ "signerName": "kubernetes.io/kube-apiserver-client-kubelet" })), Purpose::Client);
    assert_eq!(of(json!({ "signerName": "example.com/x", "usages": ["server auth"] })), Purpose::Other);
    assert_eq!(of(json!({ "usages": ["digital signature", "server auth"] })), Purpose::Serving);
    assert_eq!(of(json!({ "usages": ["digital signature", "client auth"] })), Purpose::Client);
    assert_eq!(of(json!({})), Purpose::Other);
}

#[test]
fn an_approver_is_known_by_name_or_image_and_may_be_switched_off() {
    let deployment = |name: &str, image: &str, replicas: i64| {
        json!({ "metadata": { "namespace": "kube-system", "name": name }, "spec": { "replicas": replicas,
            "template": { "spec": { "containers": [{ "image": image }] } } } })
    };
    assert!(is_approver(&deployment("kubelet-csr-approver", "x", 1)));
    assert!(is_approver(&deployment("a", "ghcr.io/postfinance/kubelet-csr-approver:v1.2.2", 1)));
    assert!(!is_approver(&deployment("coredns", "registry.k8s.io/coredns:v1.11", 2)));
    let approver = Approver::of(&deployment("kubelet-csr-approver", "x", 0));
    assert_eq!((approver.name.as_str(), approver.is_on()), ("kube-system/kubelet-csr-approver", false));
}

#[test]
fn a_bootstrap_token_says_when_it_ends_and_what_it_is_for() {
    let secret = json!({ "data": {
        "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==",
        "expiration": "MjAyNi0wMy0wMlQwMzowMDowMFo=",
        "usage-bootstrap-authentication": "dHJ1ZQ==",
        "auth-extra-groups": "c3lzdGVtOmJvb3RzdHJhcHBlcnM6a3ViZWFkbTpkZWZhdWx0LW5vZGUtdG9rZW4=",
    } });
    let token = BootstrapToken::of(&secret, "0123456789abcdef");
    assert!(token.same && token.logs_in);
    assert_eq!(token.expires, Some("2026-03-02T03:00:00Z".parse().unwrap()));
    assert_eq!(token.groups, ["system:bootstrappers:kubeadm:default-node-token"]);
    assert!(!BootstrapToken::of(&secret, "another").same);
    assert!(!BootstrapToken::of(&json!({}), "").same);
}

#[test]
fn the_paths_are_those_of_the_version() {
    assert_eq!(paths::requests(Some((1, 18))), "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests");
    assert_eq!(
        paths::approval(Some((1, 19)), "csr-1"),
        "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1/approval"
    );
    let odd = paths::request(None, "a?b#c d");
    assert!(odd.ends_with("/certificatesigningrequests/a%3Fb%23c%20d"), "{odd}");
    assert_eq!(paths::encoded("eyJ2+/=="), "eyJ2%2B%2F%3D%3D");
    assert_eq!(paths::rbac(Some((1, 7)), "clusterroles"), "/apis/rbac.authorization.k8s.io/v1beta1/clusterroles");
    assert_eq!(paths::deployments(Some((1, 8))), "/apis/apps/v1beta1/deployments");
    assert_eq!(paths::deployments(None), "/apis/apps/v1/deployments");
}
