//! What the API tells of a node's certificates, judged. What was not seen is unknown, and never ok.

use chrono::{DateTime, Utc};

use crate::report::check_report::Status;

use super::csr;
use super::finding::KubeletFinding;
use super::login::{Login, TokenFile};
use super::objects::{BootstrapToken, ClusterView, Unseen};
use super::rbac::{Rbac, Right, Who, findings as rbac};

/// Whose certificates are judged, and what the node's files say.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// The login of its bootstrap kubeconfig, where there is one.
    pub login: Option<&'a Login>,
    /// The file of kube-apiserver's `--token-auth-file`, where it has one.
    pub tokens: Option<&'a TokenFile>,
}

/// Everything that follows from what was seen of the cluster: rights, requests, approver, bootstrap login.
pub fn findings(view: &ClusterView, about: &About<'_>) -> Vec<KubeletFinding> {
    if let Err(why) = &view.rbac
        && matches!(why, Unseen::Down(_) | Unseen::Unauthorised(_))
        && view.requests.as_ref().err() == Some(why)
        && view.nodes.as_ref().err() == Some(why)
    {
        return vec![unknown("api", "the cluster's API", why)];
    }
    let mut found = Vec::new();
    let groups =
        view.token.as_ref().and_then(|token| token.as_ref().ok()).map(|token: &BootstrapToken| token.groups.as_slice());
    let who = about.login.and_then(|login| login.who(about.tokens, groups));
    match &view.rbac {
        Ok(rights) => found.extend(rbac::rights(rights, view.version, about.node, who.as_ref())),
        Err(why) => found.push(unknown("rights", "who may ask for certificates, and who gets them", why)),
    }
    let mut stuck = false;
    match &view.requests {
        Ok(requests) => {
            let asked =
                csr::Asked { node: about.node, now: about.now, serving_approved: serving_approved(view, about.node) };
            let of_requests = csr::findings(requests, &asked);
            stuck = of_requests.iter().any(|one| one.id == csr::SERVING_REQUESTS && one.status > Status::Ok);
            found.extend(of_requests);
        }
        Err(why) => found.push(unknown("requests", "certificate signing requests of this node", why)),
    }
    match &view.approvers {
        Ok(approvers) => found.push(rbac::approver(approvers, view.rbac.as_ref().ok(), view.version, stuck)),
        Err(why) => found.push(unknown("serving-approver", "approval of serving requests", why)),
    }
    if let Ok(nodes) = &view.nodes
        && !nodes.iter().any(|node| node.name == about.node)
    {
        found.push(KubeletFinding {
            status: Status::Warning,
            id: "node",
            about: format!("node '{}'", about.node),
            seen: "the cluster has no Node of this name".to_owned(),
            why: "it has not joined, was deleted, or has another name (kubelet's --hostname-override)".to_owned(),
            mend: Some("kubectl get nodes".to_owned()),
        });
    } else if let Err(why) = &view.nodes {
        found.push(unknown("node", &format!("node '{}'", about.node), why));
    }
    if let Some(login) = about.login {
        found.extend(rbac::bootstrap(
            login,
            who.as_ref(),
            view.token.as_ref(),
            about.tokens,
            view.first_request.as_ref(),
            about.now,
        ));
    }
    found
}

fn serving_approved(view: &ClusterView, node: &str) -> Option<bool> {
    if view.version.is_some_and(|version| version < (1, 11)) {
        let rbac: &Rbac = view.rbac.as_ref().ok()?;
        return Some(rbac.grants(Right::SelfNodeServer, &Who::node(node)).is_some());
    }
    Some(view.approvers.as_ref().ok()?.iter().any(super::objects::Approver::is_on))
}

fn unknown(id: &'static str, about: &str, why: &Unseen) -> KubeletFinding {
    KubeletFinding {
        status: Status::Unknown,
        id,
        about: about.to_owned(),
        seen: why.to_string(),
        why: "it cannot be told whether the node gets its next certificate".to_owned(),
        mend: match why {
            Unseen::Forbidden(_) => Some(
                "give admin.conf its rights back (kubectl --kubeconfig /etc/kubernetes/super-admin.conf create clusterrolebinding kubeadm:cluster-admins --clusterrole=cluster-admin --group=kubeadm:cluster-admins), or run it where super-admin.conf is".to_owned(),
            ),
            Unseen::Unauthorised(_) => Some("k8s-certs-renew check says whether admin.conf's certificate has expired".to_owned()),
            Unseen::Down(_) => Some("look on a control plane, where kube-apiserver and admin.conf are".to_owned()),
            _ => None,
        },
    }
}
