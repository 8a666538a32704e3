//! What the cluster's API tells of certificate signing requests, and of who may do what with them.

pub(super) mod bootstrap;
mod paths;
mod server;
mod whose;

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::login::Login;
use super::rbac::Rbac;
use crate::evidence::version::Version;
use crate::node::Node;
use crate::node::yaml::{list_at, text_at};

pub use bootstrap::{BootstrapToken, FirstRequest, may_create};
pub use paths::{approval, rbac, request, requests, since};
pub use server::{Server, Unseen};

/// The signer of kubelet's serving certificates (Kubernetes 1.18 and later name signers).
pub const SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer of kubelet's client certificates.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// What a node's user name begins with.
pub const NODE_USER: &str = "system:node:";

/// The kubeconfigs whose logins are tried, in this order.
pub fn kubeconfigs(node: &Node) -> Vec<PathBuf> {
    ["admin.conf", "super-admin.conf"].map(|name| node.kubernetes_dir.join(name)).to_vec()
}

/// What was seen of the cluster, each part or why not.
#[derive(Debug, Clone)]
pub struct ClusterView {
    /// kube-apiserver's version.
    pub version: Option<Version>,
    /// The nodes.
    pub nodes: Result<Vec<NodeObject>, Unseen>,
    /// The certificate signing requests.
    pub requests: Result<Vec<CertificateRequest>, Unseen>,
    /// Roles and bindings.
    pub rbac: Result<Rbac, Unseen>,
    /// What is installed that approves serving requests.
    pub approvers: Result<Vec<Approver>, Unseen>,
    /// The bootstrap token that the node's bootstrap kubeconfig holds; none where it holds none.
    pub token: Option<Result<BootstrapToken, Unseen>>,
    /// What kube-apiserver would answer to a first request with that login; none where it has no token.
    pub first_request: Option<FirstRequest>,
}

/// A node as the API tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeObject {
    /// Its name.
    pub name: String,
    /// `status.addresses`, of every type.
    pub addresses: Vec<String>,
    /// Whether a label that no kubelet can give itself marks it as a control plane (`node-role.kubernetes.io/control-plane`, before 1.20
    /// `master`; NodeRestriction keeps kubelets from such labels).
    pub control_plane: bool,
}

/// A certificate signing request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// Its name.
    pub name: String,
    /// When it was made (UTC).
    pub created: Option<DateTime<Utc>>,
    /// Who is to sign it; none before 1.18.
    pub signer: Option<String>,
    /// Who made it, as kube-apiserver saw him.
    pub username: String,
    /// His groups.
    pub groups: Vec<String>,
    /// What the certificate is to be for.
    pub usages: Vec<String>,
    /// The lifetime that is asked for, in seconds (1.22 and later).
    pub expiration_seconds: Option<i64>,
    /// The PKCS#10 request: PEM; none where it is no base64.
    pub pem: Option<Vec<u8>>,
    /// What was decided: type and message.
    pub conditions: Vec<(String, String)>,
    /// Whether the certificate is there.
    pub issued: bool,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody has decided.
    Pending,
    /// Somebody has denied it.
    Denied,
    /// The signer has given up.
    Failed,
    /// It is approved, and there is no certificate yet.
    Approved,
    /// The certificate is there.
    Issued,
}

/// Which of kubelet's certificates a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The one that it logs in by.
    Client,
    /// The one that it serves at 10250.
    Serving,
    /// None of kubelet's.
    Other,
}

/// A deployment that approves serving requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// Namespace and name.
    pub name: String,
    /// How many pods it is to have.
    pub wanted: i64,
    /// How many it has.
    pub available: i64,
}

impl ClusterView {
    /// Looks at the cluster. Never fails: what was not seen says why. `login` is that of the node's bootstrap kubeconfig.
    pub fn look(
        node: &Node,
        kubeconfigs: &[PathBuf],
        login: Option<&Login>,
        now: DateTime<Utc>,
        deadline: Duration,
    ) -> Self {
        match Server::open(node, kubeconfigs, now, deadline) {
            Ok(server) => Self::of(&server, login),
            Err(unseen) => Self::unseen(&unseen, login),
        }
    }

    /// What this server tells.
    pub fn of(server: &Server, login: Option<&Login>) -> Self {
        let version = server.version;
        // one thread each: what hangs takes its deadline once
        let (nodes, requests, rbac, approvers) = std::thread::scope(|scope| {
            let nodes = scope.spawn(|| nodes(server));
            let requests = scope.spawn(|| all_requests(server));
            let rbac = scope.spawn(|| Rbac::look(server));
            let approvers = approvers(server);
            (nodes.join(), requests.join(), rbac.join(), approvers)
        });
        Self {
            version,
            nodes: nodes.unwrap_or_else(|_| Err(broken_off())),
            requests: requests.unwrap_or_else(|_| Err(broken_off())),
            rbac: rbac.unwrap_or_else(|_| Err(broken_off())),
            approvers,
            token: login.and_then(|login| bootstrap::token(server, login)),
            first_request: login.and_then(Login::token).map(|token| bootstrap::first_request(server, token)),
        }
    }

    fn unseen(why: &Unseen, login: Option<&Login>) -> Self {
        Self {
            version: None,
            nodes: Err(why.clone()),
            requests: Err(why.clone()),
            rbac: Err(why.clone()),
            approvers: Err(why.clone()),
            token: login.and_then(Login::bootstrap_id).map(|_| Err(why.clone())),
            first_request: login.and_then(Login::token).map(|_| FirstRequest::Unknown(why.clone())),
        }
    }
}

fn broken_off() -> Unseen {
    Unseen::Unreadable("looking at it broke off".to_owned())
}

/// The nodes of the cluster.
///
/// # Errors
/// They were not seen.
pub fn nodes(server: &Server) -> Result<Vec<NodeObject>, Unseen> {
    Ok(server.list("/api/v1/nodes", "")?.iter().map(NodeObject::of).collect())
}

/// Every certificate signing request.
///
/// # Errors
/// They were not seen.
pub fn all_requests(server: &Server) -> Result<Vec<CertificateRequest>, Unseen> {
    Ok(server.list(&requests(server.version), "")?.iter().map(CertificateRequest::of).collect())
}

/// The deployments that approve serving requests, by image and name: kubelet-csr-approver (which kubespray installs), and its like.
///
/// # Errors
/// They were not seen.
pub fn approvers(server: &Server) -> Result<Vec<Approver>, Unseen> {
    let all = server.list(paths::deployments(server.version), "")?;
    Ok(all.iter().filter(|deployment| is_approver(deployment)).map(Approver::of).collect())
}

fn is_approver(deployment: &Value) -> bool {
    const WORDS: [&str; 4] =
        ["csr-approver", "kubelet-serving-cert-approver", "kubelet-rubber-stamp", "csr-auto-approver"];
    let images = list_at(deployment, &["spec", "template", "spec", "containers"])
        .iter()
        .filter_map(|one| text_at(one, &["image"]));
    let names = text_at(deployment, &["metadata", "name"]).into_iter().chain(images);
    names.into_iter().any(|name| WORDS.iter().any(|word| name.contains(word)))
}

impl Approver {
    fn of(deployment: &Value) -> Self {
        let text = |key: &str| text_at(deployment, &["metadata", key]).unwrap_or_default();
        Self {
            name: format!("{}/{}", text("namespace"), text("name")),
            wanted: deployment["spec"]["replicas"].as_i64().unwrap_or(1),
            available: deployment["status"]["availableReplicas"].as_i64().unwrap_or(0),
        }
    }

    /// Whether it is at work, or will be: not switched off. One that is behind denies what it does not know.
    pub fn is_on(&self) -> bool {
        self.wanted > 0
    }
}

impl NodeObject {
    fn of(node: &Value) -> Self {
        let labels = node["metadata"]["labels"].as_object();
        let marks = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
        Self {
            name: text_at(node, &["metadata", "name"]).unwrap_or_default(),
            addresses: list_at(node, &["status", "addresses"])
                .iter()
                .filter_map(|one| text_at(one, &["address"]))
                .collect(),
            control_plane: labels.is_some_and(|labels| marks.iter().any(|mark| labels.contains_key(*mark))),
        }
    }
}

impl CertificateRequest {
    /// The request in an object of `certificates.k8s.io/v1` or `v1beta1`.
    pub fn of(object: &Value) -> Self {
        let texts =
            |path: &[&str]| list_at(object, path).iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        let spec = |key: &str| text_at(object, &["spec", key]);
        let request = spec("request").unwrap_or_default();
        let condition = |one: &Value| {
            // 1.18 and older have no status in a condition: that it is there is what counts
            let holds = text_at(one, &["status"]).is_none_or(|status| status.is_empty() || status == "True");
            let kind = text_at(one, &["type"]).filter(|_| holds)?;
            Some((kind, text_at(one, &["message"]).unwrap_or_default()))
        };
        Self {
            name: text_at(object, &["metadata", "name"]).unwrap_or_default(),
            created: text_at(object, &["metadata", "creationTimestamp"]).and_then(|text| text.parse().ok()),
            signer: spec("signerName").filter(|name| !name.is_empty()),
            username: spec("username").unwrap_or_default(),
            groups: texts(&["spec", "groups"]),
            usages: texts(&["spec", "usages"]),
            expiration_seconds: object["spec"]["expirationSeconds"].as_i64(),
            pem: base64::engine::general_purpose::STANDARD.decode(request).ok(),
            conditions: list_at(object, &["status", "conditions"]).iter().filter_map(condition).collect(),
            issued: text_at(object, &["status", "certificate"]).is_some_and(|text| !text.is_empty()),
        }
    }

    /// How far it is.
    pub fn state(&self) -> State {
        let has = |kind: &str| self.conditions.iter().any(|(one, _)| one == kind);
        match () {
            () if has("Denied") => State::Denied,
            () if has("Failed") => State::Failed,
            () if self.issued => State::Issued,
            () if has("Approved") => State::Approved,
            () => State::Pending,
        }
    }

    /// What it is for: by its signer, before 1.18 by its usages.
    pub fn purpose(&self) -> Purpose {
        let is_for = |usage: &str| self.usages.iter().any(|one| one == usage);
        match self.signer.as_deref() {
            Some(SERVING) => Purpose::Serving,
            Some(CLIENT) => Purpose::Client,
            Some(_) => Purpose::Other,
            None if is_for("server auth") => Purpose::Serving,
            None if is_for("client auth") => Purpose::Client,
            None => Purpose::Other,
        }
    }

    /// The node whose user made it.
    pub fn node(&self) -> Option<&str> {
        self.username.strip_prefix(NODE_USER)
    }
}

#[cfg(test)]
mod tests;
