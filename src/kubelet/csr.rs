//! A node's certificate signing requests: how far they are, and what that means.

pub mod pkcs10;

use chrono::{DateTime, Duration, Utc};

use crate::report::check_report::Status;
use crate::report::words::span;

use super::finding::KubeletFinding;
use super::objects::{CertificateRequest, NODE_USER, Purpose, State};

/// How long an approval or a certificate may take before it is trouble: kube-controller-manager works on a new request at once, and tries
/// again within seconds (Kubernetes `certificate_controller.go`: 0.2 to 1000 s, growing).
const PROMPT: Duration = Duration::minutes(2);

/// The id of findings about serving requests.
pub const SERVING_REQUESTS: &str = "serving-requests";

/// Whose requests are judged, and what else is known of them.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The node.
    pub node: &'a str,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// Whether somebody approves serving requests here: an approver at work, or kube-controller-manager before 1.11.
    pub serving_approved: Option<bool>,
}

/// Whether a request is about this node: made by it, or for its name.
pub fn is_of(request: &CertificateRequest, node: &str) -> bool {
    let user = format!("{NODE_USER}{node}");
    if request.username == user {
        return true;
    }
    // the first one is made by a bootstrap user
    let inside = request.pem.as_deref().and_then(|pem| pkcs10::read(pem).ok());
    inside.is_some_and(|inside| inside.common_names.contains(&user))
}

/// What is to be said of a node's requests: client and serving apart.
pub fn findings(requests: &[CertificateRequest], asked: &Asked<'_>) -> Vec<KubeletFinding> {
    let own: Vec<&CertificateRequest> = requests.iter().filter(|request| is_of(request, asked.node)).collect();
    [Purpose::Client, Purpose::Serving]
        .into_iter()
        .flat_map(|purpose| {
            let of_it: Vec<_> = own.iter().copied().filter(|request| request.purpose() == purpose).collect();
            judged(&of_it, purpose, asked)
        })
        .collect()
}

fn judged(requests: &[&CertificateRequest], purpose: Purpose, asked: &Asked<'_>) -> Vec<KubeletFinding> {
    let id = if purpose == Purpose::Client { "client-requests" } else { SERVING_REQUESTS };
    let finding = |status, seen: String, why: &str, mend: Option<String>| KubeletFinding {
        status,
        id,
        about: format!("{} of {}", id.replace('-', " "), asked.node),
        seen,
        why: why.to_owned(),
        mend,
    };
    // what is older than the last certificate has been got over: kubelet asks again every 15 minutes
    let last = requests.iter().filter(|request| request.state() == State::Issued).filter_map(|one| one.created).max();
    let counts =
        |request: &&CertificateRequest| last.is_none_or(|last| request.created.is_none_or(|created| created > last));
    let mut found = Vec::new();
    for state in [State::Denied, State::Failed, State::Approved, State::Pending] {
        let mut of_it: Vec<_> = requests.iter().copied().filter(|one| one.state() == state).filter(counts).collect();
        of_it.sort_by_key(|request| request.created);
        let late = |request: &&CertificateRequest| request.created.is_none_or(|created| asked.now - created > PROMPT);
        if matches!(state, State::Approved | State::Pending) && !of_it.iter().any(late) {
            continue;
        }
        let (Some(oldest), Some(newest)) = (of_it.first(), of_it.last()) else { continue };
        let (status, why, mend) = trouble(state, purpose, &newest.name, asked);
        found.push(finding(status, seen(state, &of_it, oldest, newest, asked.now), why, mend));
    }
    if found.is_empty() {
        found.push(finding(
            Status::Ok,
            counted(requests),
            "requests are deleted an hour after a decision, and a day after they were made",
            None,
        ));
    }
    found
}

/// What a request that is stuck in this state means.
fn trouble(state: State, purpose: Purpose, name: &str, asked: &Asked<'_>) -> (Status, &'static str, Option<String>) {
    let client = purpose == Purpose::Client;
    let by_hand = || Some(format!("kubectl certificate approve {name}"));
    match state {
        State::Pending if client => (
            Status::Critical,
            "kube-controller-manager has not approved it: for want of rights (see the findings about who is approved), or since it does not run; when the certificate in use ends, the node is lost",
            by_hand().map(|by_hand| {
                format!("k8s-certs-renew kubelet rbac --diff | kubectl apply -f -; for this one: {by_hand}")
            }),
        ),
        State::Pending if asked.serving_approved == Some(true) => (
            Status::Warning,
            "an approver of serving requests is there and has not approved it: its log says why",
            None,
        ),
        State::Pending if asked.serving_approved.is_none() => (
            Status::Warning,
            "no part of Kubernetes approves serving requests (1.11 and later), and whether an approver is installed was not seen: kubelet serves no certificate, or an old one, and kubectl logs and exec fail in time",
            Some("k8s-certs-renew kubelet approve --all-nodes --dry-run, then without --dry-run".to_owned()),
        ),
        State::Pending => (
            Status::Warning,
            "no part of Kubernetes approves serving requests (1.11 and later), and no approver is installed: kubelet serves no certificate, or an old one, and kubectl logs and exec fail in time",
            Some("k8s-certs-renew kubelet approve --dry-run, then without --dry-run".to_owned()),
        ),
        State::Approved => (
            if client { Status::Critical } else { Status::Warning },
            "it is approved and nobody signs it: kube-controller-manager does not run, or lacks --cluster-signing-cert-file and --cluster-signing-key-file (an external CA), or its CA has expired",
            Some("kubectl -n kube-system logs -l component=kube-controller-manager | grep -i sign".to_owned()),
        ),
        State::Failed => (
            if client { Status::Critical } else { Status::Warning },
            "kube-controller-manager was not able to sign it as it is; kubelet asks again in 15 minutes at the latest",
            Some(format!("kubectl describe csr {name}")),
        ),
        State::Denied | State::Issued => (
            if client { Status::Critical } else { Status::Warning },
            "somebody, or an approver, has denied it: its rules do not fit this node's names and addresses; kubelet asks again",
            Some(format!("kubectl describe csr {name}, and the approver's log")),
        ),
    }
}

fn seen(
    state: State,
    all: &[&CertificateRequest],
    oldest: &CertificateRequest,
    newest: &CertificateRequest,
    now: DateTime<Utc>,
) -> String {
    let word = match state {
        State::Pending => "pending",
        State::Denied => "denied",
        State::Failed => "failed",
        State::Approved => "approved and never issued",
        State::Issued => "issued",
    };
    let age = |request: &CertificateRequest| match request.created {
        Some(created) => format!("{} old", span((now - created).max(Duration::zero()))),
        None => "of unknown age".to_owned(),
    };
    let mut text = match all.len() {
        1 => format!("'{}' is {word}, {}", newest.name, age(newest)),
        many => format!("{many} are {word}, the oldest {}, the newest '{}' {}", age(oldest), newest.name, age(newest)),
    };
    let decisive = newest.conditions.iter().rev().find(|(_, message)| !message.is_empty());
    if let Some((kind, message)) = decisive.filter(|_| state != State::Pending) {
        text.push_str(&format!(" ({kind}: {})", shortened(message)));
    }
    text
}

/// A message is whatever somebody wrote.
fn shortened(message: &str) -> String {
    const LONGEST: usize = 200;
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_owned(),
    }
}

fn counted(requests: &[&CertificateRequest]) -> String {
    if requests.is_empty() {
        return "none is there".to_owned();
    }
    let states = [
        (State::Issued, "issued"),
        (State::Approved, "approved"),
        (State::Pending, "pending"),
        (State::Denied, "denied"),
        (State::Failed, "failed"),
    ];
    let counts = states.map(|(state, word)| (requests.iter().filter(|request| request.state() == state).count(), word));
    let words: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    format!("{}, nothing is stuck", words.join(", "))
}

#[cfg(test)]
mod tests;
