//! What is to be said of who may ask for certificates, and of who gets them approved.

use chrono::{DateTime, Utc};

use crate::evidence::version::Version;
use crate::kubelet::finding::KubeletFinding;
use crate::kubelet::login::{Login, TokenFile};
use crate::kubelet::objects::{Approver, BootstrapToken, FirstRequest, Unseen};
use crate::report::check_report::Status;
use crate::report::words::span;

use super::{KUBEADM_TOKENS, Rbac, Right, Subject, Who};

const MEND: &str = "k8s-certs-renew kubelet rbac --diff | kubectl apply -f -";

/// For whoever bootstraps without a token of kubeadm's, bindings of kubeadm's group would be of no use.
fn mend_for(bootstrap: Option<&Who>) -> String {
    match bootstrap.filter(|who| !who.is_in(KUBEADM_TOKENS)) {
        Some(who) => {
            format!("k8s-certs-renew kubelet rbac --diff --bootstrap 'user:{}' | kubectl apply -f -", who.user)
        }
        None => MEND.to_owned(),
    }
}

/// Who may create requests, and whose are approved. `bootstrap`: who the node's bootstrap login is, where it has one that is known.
pub fn rights(rbac: &Rbac, version: Option<Version>, node: &str, bootstrap: Option<&Who>) -> Vec<KubeletFinding> {
    let new_nodes = Subject::Group(KUBEADM_TOKENS.to_owned()).who();
    let (first, by) = match bootstrap {
        Some(who) => (who, format!("the bootstrap login '{}'", who.user)),
        None => (&new_nodes, format!("new nodes (group '{KUBEADM_TOKENS}')")),
    };
    // without a login of its own to bootstrap by, it is about nodes that are yet to come
    let lost = if bootstrap.is_some() { Status::Critical } else { Status::Warning };
    let node_user = Who::node(node);
    let table = [
        (
            Right::Create,
            "bootstrap-create",
            first,
            by.as_str(),
            lost,
            "may ask for a first certificate; without it the first request is answered 403",
        ),
        (
            Right::NodeClient,
            "bootstrap-approval",
            first,
            by.as_str(),
            lost,
            "are approved by kube-controller-manager; without it a first request stays pending",
        ),
        (
            Right::SelfNodeClient,
            "renewal-approval",
            &node_user,
            "renewals of this node's client certificate",
            Status::Critical,
            "are approved by kube-controller-manager; without it they stay pending, and the node is lost when its certificate ends",
        ),
        (
            Right::SelfNodeServer,
            "serving-approval",
            &node_user,
            "this node's serving certificates",
            Status::Warning,
            "are approved by kube-controller-manager (1.7 to 1.10); without it they stay pending",
        ),
    ];
    let of_it = table.into_iter().filter(|(right, ..)| right.is_of(version));
    of_it.map(|(right, id, who, about, status, why)| right_of(rbac, right, who, (id, about, status, why))).collect()
}

fn right_of(rbac: &Rbac, right: Right, who: &Who, of: (&'static str, &str, Status, &str)) -> KubeletFinding {
    let (id, about, status, why) = of;
    let is_first = matches!(right, Right::Create | Right::NodeClient);
    let mend = if is_first { mend_for(Some(who)) } else { MEND.to_owned() };
    let finding = |status, seen, mend| KubeletFinding {
        status,
        id,
        about: about.to_owned(),
        seen,
        why: format!("{about} {why}"),
        mend,
    };
    if let Some(by) = rbac.grants(right, who) {
        let names: Vec<String> = by.iter().map(|binding| format!("'{}'", binding.name)).collect();
        return finding(Status::Ok, format!("granted by ClusterRoleBinding {}", names.join(", ")), None);
    }
    let mut seen = "no ClusterRoleBinding grants it".to_owned();
    let vain = rbac.in_vain(right, who);
    let others = rbac.to_others(right, who);
    if !vain.is_empty() {
        seen.push_str(&format!("; {}", vain.join("; ")));
    } else if let Some(other) = others.first() {
        let subjects: Vec<String> = other.subjects.iter().map(ToString::to_string).collect();
        seen.push_str(&format!("; '{}' grants it to {}, which is somebody else", other.name, subjects.join(", ")));
    }
    let groups: Vec<&str> = who.groups().collect();
    if !groups.is_empty() {
        seen.push_str(&format!(" (its groups: {})", groups.join(", ")));
    }
    finding(status, seen, Some(mend))
}

/// Who approves serving requests. `stuck`: whether some of this node's are.
pub fn approver(approvers: &[Approver], rbac: Option<&Rbac>, version: Option<Version>, stuck: bool) -> KubeletFinding {
    let finding = |status, seen: String, mend: Option<&str>| KubeletFinding {
        status,
        id: "serving-approver",
        about: "approval of serving requests".to_owned(),
        seen,
        why: "no part of Kubernetes approves requests for kubelet's serving certificate (1.11 and later)".to_owned(),
        mend: mend.map(str::to_owned),
    };
    let by_hand = "k8s-certs-renew kubelet approve --dry-run, then without --dry-run; or install kubelet-csr-approver";
    if let Some(one) = approvers.iter().find(|one| one.is_on()) {
        let (status, state) = match one.available {
            0 => (Status::Warning, "is installed, and none of its pods is available".to_owned()),
            pods => (Status::Ok, format!("is at work ({pods} of {} pods)", one.wanted)),
        };
        let mend = format!("kubectl -n {} get pods", one.name.split('/').next().unwrap_or_default());
        return finding(
            status,
            format!("deployment '{}' {state}", one.name),
            Some(mend.as_str()).filter(|_| status > Status::Ok),
        );
    }
    let status = if stuck { Status::Warning } else { Status::Ok };
    if version.is_some_and(|version| version < (1, 11)) {
        return finding(
            Status::Ok,
            "kube-controller-manager of this version can approve them (see who is approved)".to_owned(),
            None,
        );
    }
    let allowed = rbac.map(Rbac::may_approve_serving).unwrap_or_default();
    let seen = match allowed.first() {
        Some(one) => format!("no approver that is known is installed; {one} may approve them"),
        None => "no approver is installed".to_owned(),
    };
    finding(status, seen, Some(by_hand).filter(|_| stuck))
}

/// The bootstrap login: whether its token is good, and what kube-apiserver would answer to a first request.
pub fn bootstrap(
    login: &Login,
    who: Option<&Who>,
    token: Option<&Result<BootstrapToken, Unseen>>,
    tokens: Option<&TokenFile>,
    first: Option<&FirstRequest>,
    now: DateTime<Utc>,
) -> Vec<KubeletFinding> {
    let about = format!("'{}'", login.path.display());
    let finding = |status, id, seen: String, why: &str, mend: Option<&str>| KubeletFinding {
        status,
        id,
        about: about.clone(),
        seen,
        why: why.to_owned(),
        mend: mend.map(str::to_owned),
    };
    let new_token = "kubeadm token create, and put it into the bootstrap kubeconfig in place of the old one";
    let why = "with a token that is not accepted a first request is answered 401, and a node whose certificate has ended cannot come back";
    let mend = mend_for(who);
    let mut found = Vec::new();
    let say = |status, seen: String, mend| finding(status, "bootstrap-token", seen, why, mend);
    if tokens.is_some_and(|tokens| login.is_in(tokens)) {
        found.push(say(Status::Ok, "kube-apiserver's --token-auth-file has its token".to_owned(), None));
    } else {
        found.extend(token.map(|token| match token {
            Err(Unseen::NotFound(_)) => say(
                Status::Warning,
                format!(
                    "the cluster has no bootstrap token '{}': it has expired and was deleted, or is another cluster's",
                    login.bootstrap_id().unwrap_or_default()
                ),
                Some(new_token),
            ),
            Err(unseen) => say(Status::Unknown, unseen.to_string(), None),
            Ok(token) if !token.same => {
                say(Status::Warning, "its secret half is not the one that the cluster has".to_owned(), Some(new_token))
            }
            Ok(token) if token.expires.is_some_and(|expires| expires <= now) => {
                let since = token.expires.map_or_else(String::new, |expires| format!(" {} ago", span(now - expires)));
                say(Status::Warning, format!("its token has expired{since}"), Some(new_token))
            }
            Ok(token) if !token.logs_in => say(
                Status::Warning,
                "its token may not be used to log in (usage-bootstrap-authentication)".to_owned(),
                Some("kubeadm token create --usages signing,authentication, and put it into the bootstrap kubeconfig"),
            ),
            Ok(token) => say(
                Status::Ok,
                match token.expires {
                    Some(expires) => format!("its token is good for {} more", span(expires - now)),
                    None => "its token is good, and never ends".to_owned(),
                },
                None,
            ),
        }));
    }
    let ask = |status, seen: String, mend| {
        finding(
            status,
            "first-request",
            seen,
            "what kube-apiserver would answer to a node that asks for its first certificate by this login",
            mend,
        )
    };
    found.extend(first.map(|first| match first {
        FirstRequest::Taken => ask(Status::Ok, "a first request would be taken".to_owned(), None),
        FirstRequest::Unauthorised => ask(
            Status::Warning,
            "401 Unauthorized: the token is not accepted; rights have nothing to do with it".to_owned(),
            Some(new_token),
        ),
        FirstRequest::Forbidden => ask(
            Status::Critical,
            "403 Forbidden: the token is accepted, and its user may not create requests".to_owned(),
            Some(mend.as_str()),
        ),
        FirstRequest::Unknown(unseen) => ask(Status::Unknown, unseen.to_string(), None),
    }));
    found
}
