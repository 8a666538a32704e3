use chrono::{DateTime, Duration, Utc};

use super::{Asked, findings};
use crate::kubelet::objects::{CLIENT, CertificateRequest, SERVING};
use crate::report::check_report::Status;

fn now() -> DateTime<Utc> {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

/// A request of node1, so old, with these conditions.
fn request(name: &str, signer: &str, age: Duration, conditions: &[&str], issued: bool) -> CertificateRequest {
    CertificateRequest {
        name: name.to_owned(),
        created: Some(now() - age),
        signer: Some(signer.to_owned()),
        username: "system:node:node1".to_owned(),
        groups: vec!["system:nodes".to_owned()],
        usages: Vec::new(),
        expiration_seconds: None,
        pem: None,
        conditions: conditions.iter().map(|&kind| (kind.to_owned(), format!("why {kind}"))).collect(),
        issued,
    }
}

/// Status, id and what was seen.
fn judged(requests: &[CertificateRequest], serving_approved: Option<bool>) -> Vec<(Status, &'static str, String)> {
    let asked = Asked { node: "node1", now: now(), serving_approved };
    findings(requests, &asked)
        .into_iter()
        .map(|one| (one.status, one.id, format!("{}; {}", one.seen, one.why)))
        .collect()
}

fn days(days: i64) -> Duration {
    Duration::days(days)
}

// L06
#[test]
fn pending_client_and_serving_requests_are_different_findings() {
    let all = [request("csr-s", SERVING, days(3), &[], false), request("csr-c", CLIENT, days(3), &[], false)];
    let found = judged(&all, Some(false));
    assert_eq!((found[0].0, found[0].1), (Status::Critical, "client-requests"));
    assert!(found[0].2.contains("'csr-c' is pending, 3d old"), "{}", found[0].2);
    assert_eq!((found[1].0, found[1].1), (Status::Warning, "serving-requests"));
    assert!(found[1].2.contains("no approver is installed"), "{}", found[1].2);
    assert!(judged(&all, Some(true))[1].2.contains("its log says why"));
}

// L08
#[test]
fn approved_and_never_issued_is_the_signers_trouble() {
    let found = judged(&[request("csr-c", CLIENT, days(1), &["Approved"], false)], None);
    assert_eq!(found[0].0, Status::Critical);
    assert!(
        found[0].2.contains("approved and never issued") && found[0].2.contains("--cluster-signing-cert-file"),
        "{found:?}"
    );
}

#[test]
fn denied_and_failed_requests_are_told_with_their_reason() {
    let all = [
        request("csr-d", SERVING, days(1), &["Denied"], false),
        request("csr-f", SERVING, days(1), &["Approved", "Failed"], false),
    ];
    let found = judged(&all, None);
    assert!(found[1].2.starts_with("'csr-d' is denied, 24h old (Denied: why Denied)"), "{found:?}");
    assert!(found[2].2.starts_with("'csr-f' is failed, 24h old (Failed: why Failed)"), "{found:?}");
}

#[test]
fn what_was_got_over_and_what_has_just_been_asked_is_no_trouble() {
    let minute = Duration::minutes(1);
    let all = [
        request("csr-old", CLIENT, days(2), &[], false),
        request("csr-denied", CLIENT, days(2), &["Denied"], false),
        request("csr-good", CLIENT, days(1), &["Approved"], true),
        request("csr-new", CLIENT, minute, &[], false),
    ];
    let found = judged(&all, None);
    assert_eq!((found[0].0, found.len()), (Status::Ok, 2));
    assert!(found[0].2.starts_with("1 issued, 2 pending, 1 denied, nothing is stuck"), "{found:?}");
    assert!(found[1].2.starts_with("none is there"), "{found:?}");
}

#[test]
fn several_are_counted_with_their_ages_and_other_nodes_requests_are_not_its_own() {
    let mut foreign = request("csr-x", CLIENT, days(5), &[], false);
    foreign.username = "system:node:node10".to_owned();
    let all = [request("csr-1", CLIENT, days(2), &[], false), request("csr-2", CLIENT, days(1), &[], false), foreign];
    let found = judged(&all, None);
    assert!(found[0].2.starts_with("2 are pending, the oldest 2d old, the newest 'csr-2' 24h old"), "{found:?}");
}
