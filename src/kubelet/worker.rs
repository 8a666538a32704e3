//! What a node that is no control plane can tell of its cluster, by kubelet's own login: a node may read its own Node and every request
//! (Kubernetes `bootstrappolicy/policy.go`, `NodeRules`), and anybody may ask what he himself may do (`system:basic-user`).

use std::time::Duration;

use serde_json::Value;

use crate::report::check_report::Status;

use super::check::Elsewhere;
use super::csr;
use super::finding::KubeletFinding;
use super::login::Login;
use super::objects::bootstrap::first_request;
use super::objects::{CertificateRequest, Server, Unseen, kubeconfigs, may_create, requests};
use super::rbac::Right;
use super::rbac::findings::bootstrap;
use super::say::{bad, ok};
use super::view::View;

/// What only an admin, or a control plane's own files, can tell.
const NOT_VISIBLE: [&str; 7] = [
    "bootstrap-create",
    "bootstrap-approval",
    "serving-approver",
    "csr-controllers",
    "signing-files",
    "signing-duration",
    "controller-manager-flags",
];

/// Whether this is a worker: kube-apiserver does not run here, and kubelet's is the only login.
pub fn is_worker(view: &View<'_>) -> bool {
    let root = &view.looked.node.root;
    matches!(view.apiserver, Ok(None))
        && !kubeconfigs(view.looked.node).iter().any(|path| root.exists(path))
        && root.exists(&view.kubeconfig())
}

/// Looks, as kubelet. `login` is that of the bootstrap kubeconfig. `deadline` is each request's.
pub fn look(view: &View<'_>, login: Option<&Login>, deadline: Duration) -> Elsewhere {
    let rotated = view.settings.cert_dir().join(super::client::CURRENT);
    let mut not_visible = NOT_VISIBLE.to_vec();
    not_visible.extend(login.and_then(Login::bootstrap_id).map(|_| "bootstrap-token"));
    let mut findings =
        match Server::as_kubelet(view.looked.node, &view.kubeconfig(), &rotated, view.looked.now, deadline) {
            Ok(server) => of(view, &server, login),
            Err(why) => vec![unknown("api", "the cluster's API", &why)],
        };
    // the command that mends it wants an admin's login
    for finding in &mut findings {
        finding.mend = finding.mend.take().map(|mend| match finding.status {
            Status::Unknown => mend,
            _ => format!("on a control plane: {mend}"),
        });
    }
    Elsewhere { findings, not_visible }
}

fn of(view: &View<'_>, server: &Server, login: Option<&Login>) -> Vec<KubeletFinding> {
    let node = view.node_name.as_str();
    let mut found = Vec::new();
    match server.get(&format!("/api/v1/nodes/{node}")) {
        Ok(_) => {}
        Err(Unseen::NotFound(_)) => found.push(bad(
            Status::Warning,
            "node",
            format!("node '{node}'"),
            "the cluster has no Node of this name",
            "it has not joined, was deleted, or has another name (kubelet's --hostname-override)",
            "kubectl get nodes",
        )),
        Err(why) => found.push(unknown("node", &format!("node '{node}'"), &why)),
    }
    let rights = [
        (Right::SelfNodeClient, "selfnodeclient", "renewal-approval", "client", Status::Critical),
        (Right::SelfNodeServer, "selfnodeserver", "serving-approval", "serving", Status::Warning),
    ];
    for (right, subresource, id, which, status) in rights {
        if right.is_of(server.version) {
            found.push(approval(may_create(server, subresource), (id, which, status)));
        }
    }
    match server.list(&requests(server.version), "") {
        Ok(all) => {
            let all: Vec<CertificateRequest> = all.iter().map(|one: &Value| CertificateRequest::of(one)).collect();
            found.extend(csr::findings(&all, &csr::Asked { node, now: view.looked.now, serving_approved: None }));
        }
        Err(why) => found.push(unknown("requests", "certificate signing requests of this node", &why)),
    }
    if let Some(login) = login {
        let first = login.token().map(|token| first_request(server, token));
        found.extend(bootstrap(login, None, None, None, first.as_ref(), view.looked.now));
    }
    found
}

/// Whether renewals are approved by kube-controller-manager.
fn approval(allowed: Result<bool, Unseen>, (id, which, status): (&'static str, &str, Status)) -> KubeletFinding {
    let about = format!("renewals of this node's {which} certificate");
    match allowed {
        Ok(true) => ok(
            id,
            about,
            "granted, says kube-apiserver of this node's own login",
            "they are approved by kube-controller-manager, which asks just that",
        ),
        Ok(false) => bad(
            status,
            id,
            about,
            "not granted, says kube-apiserver of this node's own login",
            "they stay pending, as kube-controller-manager approves only what the requester has the right to",
            "k8s-certs-renew kubelet rbac --diff | kubectl apply -f -",
        ),
        Err(why) => unknown(id, &about, &why),
    }
}

fn unknown(id: &'static str, about: &str, why: &Unseen) -> KubeletFinding {
    KubeletFinding {
        status: Status::Unknown,
        id,
        about: about.to_owned(),
        seen: why.to_string(),
        why: "it cannot be told whether the node gets its next certificate".to_owned(),
        mend: match why {
            Unseen::Unauthorised(_) => Some("see client-certificate and kubelet-conf".to_owned()),
            Unseen::Down(_) => {
                Some("if the control plane is up, look at what the server of kubelet.conf leads to".to_owned())
            }
            _ => None,
        },
    }
}
