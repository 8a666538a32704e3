//! A bootstrap token as the cluster knows it, and what it would be answered.

use base64::Engine;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::kubelet::login::Login;

use super::{Server, Unseen};

/// What kube-apiserver would answer to a first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstRequest {
    /// It would be taken.
    Taken,
    /// 401: the token is not accepted.
    Unauthorised,
    /// 403: the token is accepted, and its user may not create requests.
    Forbidden,
    /// It cannot be told.
    Unknown(Unseen),
}

/// A bootstrap token as the cluster knows it. The token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    /// Whether its secret half is the one of the node's kubeconfig.
    pub same: bool,
    /// When it ends (UTC); none: never.
    pub expires: Option<DateTime<Utc>>,
    /// Whether it may be used to log in (`usage-bootstrap-authentication`).
    pub logs_in: bool,
    /// Groups beside `system:bootstrappers`.
    pub groups: Vec<String>,
}

/// The token of a login, as the cluster knows it; none where the login has no bootstrap token.
pub(super) fn token(server: &Server, login: &Login) -> Option<Result<BootstrapToken, Unseen>> {
    let (id, secret) = (login.bootstrap_id()?, login.bootstrap_secret()?);
    let object = server.get(&format!("/api/v1/namespaces/kube-system/secrets/bootstrap-token-{id}"));
    Some(object.map(|object| BootstrapToken::of(&object, secret)))
}

impl BootstrapToken {
    pub(super) fn of(secret: &Value, expected: &str) -> Self {
        let field = |key: &str| -> Option<String> {
            let bytes = base64::engine::general_purpose::STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        Self {
            same: field("token-secret").is_some_and(|told| told == expected),
            expires: field("expiration").and_then(|text| text.parse().ok()),
            logs_in: field("usage-bootstrap-authentication").as_deref() == Some("true"),
            groups: field("auth-extra-groups")
                .map(|groups| groups.split(',').map(str::to_owned).filter(|group| !group.is_empty()).collect())
                .unwrap_or_default(),
        }
    }
}

/// Asks with the token itself whether it may create requests; nothing is created by that.
pub(in crate::kubelet) fn first_request(server: &Server, token: &str) -> FirstRequest {
    match server.post_by_token(token, REVIEWS, &question("")).and_then(|answer| allowed(&answer)) {
        Ok(true) => FirstRequest::Taken,
        Ok(false) => FirstRequest::Forbidden,
        Err(Unseen::Unauthorised(_)) => FirstRequest::Unauthorised,
        Err(unseen) => FirstRequest::Unknown(unseen),
    }
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Whether the login that the server is asked by may create this subresource of requests, such as `selfnodeclient`, which is what
/// kube-controller-manager asks kube-apiserver of the requester before it approves (Kubernetes `sarapprove.go`). Nothing is created.
///
/// # Errors
/// It was not told.
pub fn may_create(server: &Server, subresource: &str) -> Result<bool, Unseen> {
    server.post(REVIEWS, &question(subresource)).and_then(|answer| allowed(&answer))
}

fn question(subresource: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": {
            "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "subresource": subresource, "verb": "create",
        } },
    })
}

fn allowed(answer: &Value) -> Result<bool, Unseen> {
    match answer["status"]["allowed"].as_bool() {
        Some(allowed) => Ok(allowed),
        // what is not allowed is left out by some
        None if answer["status"].is_object() => Ok(false),
        None => Err(Unseen::Unreadable("no answer to whether it may create requests".to_owned())),
    }
}
