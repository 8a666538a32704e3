//! What the cluster is told: Events in `kube-system`.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::turns::peer;
use super::{run, site, stacked};
use crate::support::faults::Renewal;
use crate::support::site::Site;

/// Reason, type and message of each Event.
fn told(site: &Site) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = site.servers.cluster.edit(|objects| objects.events.clone());
    for event in &events {
        assert_eq!(event["involvedObject"], serde_json::json!({ "kind": "Node", "name": "node1", "uid": "node1" }));
        assert_eq!(event["source"], serde_json::json!({ "component": "k8s-certs-renew", "host": "node1" }));
    }
    events.iter().map(|event| (text(&event["reason"]), text(&event["type"]), text(&event["message"]))).collect()
}

fn reasons(site: &Site) -> Vec<String> {
    told(site).into_iter().map(|(reason, ..)| reason).collect()
}

#[test]
fn who_renewed_and_why_is_told_at_the_start_and_at_the_end() {
    let site = site(20);
    assert_eq!(run(&site, &[]).code, 0);
    let told = told(&site);
    let due = "renew admin.conf, apiserver, apiserver-kubelet-client, controller-manager.conf, front-proxy-client, scheduler.conf; \
               restart kube-apiserver, kube-controller-manager, kube-scheduler; update /root/.kube/config";
    let normal = |reason: &str, message: String| (reason.to_owned(), "Normal".to_owned(), message);
    let expected = [
        normal("CertificatesRenewing", format!("k8s-certs-renew begins: {due}")),
        normal("CertificatesRenewed", format!("k8s-certs-renew has done, and seen in use (exit code 0): {due}")),
    ];
    assert_eq!(told, expected);
    // the next one has nothing to do, and nothing to tell
    assert_eq!(run(&site, &[]).code, 0);
    assert_eq!(reasons(&site).len(), 2);
}

#[test]
fn a_dry_run_tells_nothing() {
    let site = site(20);
    assert_eq!(run(&site, &["--dry-run"]).code, 0);
    assert_eq!(reasons(&site), Vec::<String>::new());
    assert_eq!(
        site.servers.cluster.edit(|objects| objects.asked.iter().filter(|asked| asked.contains("events")).count()),
        0
    );
}

#[test]
fn a_failure_and_a_deferral_are_warnings_with_the_exit_code_and_the_cause() {
    let broken = site(20);
    broken.world.fault(|faults| faults.renewals = vec![Renewal::Refuses]);
    let ran = run(&broken, &[]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    let (reason, kind, message) = told(&broken).pop().unwrap();
    assert_eq!((reason.as_str(), kind.as_str()), ("CertificatesRenewalFailed", "Warning"));
    assert!(message.starts_with("k8s-certs-renew did not end well (exit code 20): renew admin.conf"), "{message}");
    assert!(message.contains("; not renewed: admin.conf"), "{message}");

    let site = site(20);
    site.world.fault(|faults| faults.kubelet_down = true);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    let (reason, kind, message) = told(&site).pop().unwrap();
    assert_eq!((reason.as_str(), kind.as_str()), ("CertificatesRestartDeferred", "Warning"));
    assert!(message.contains("put restarts off (exit code 23)") && message.contains("kubelet"), "{message}");
}

#[test]
fn a_run_that_is_not_begun_for_want_of_a_tool_says_so() {
    let site = site(20);
    std::fs::remove_file(site.world.tool("kubeadm")).unwrap();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 69, "{}", ran.text());
    assert_eq!(reasons(&site), ["CertificatesRenewalFailed"]);
}

#[test]
fn the_end_is_told_after_the_turn_is_given_back() {
    let site = stacked(20);
    let _peer = peer(&site, "node2");
    assert_eq!(run(&site, &[]).code, 0);
    let asked = site.servers.cluster.edit(|objects| objects.asked.clone());
    assert!(asked.last().unwrap().starts_with("POST /api/v1/namespaces/kube-system/events"), "{asked:?}");
}

#[test]
fn one_that_is_not_allowed_is_tried_once_and_told_only_to_who_asks() {
    let site = site(20);
    site.servers.cluster.edit(|objects| objects.events_say = Some(403));
    let ran = run(&site, &["-v"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(ran.err.matches("no Event CertificatesRenewing was created: 127.0.0.1:").count(), 1, "{}", ran.err);
    let asked = site.servers.cluster.edit(|objects| objects.asked.clone());
    assert_eq!(asked.iter().filter(|asked| asked.contains("events")).count(), 1, "{asked:?}");
    let site = super::site(20);
    site.servers.cluster.edit(|objects| objects.events_say = Some(403));
    assert!(!run(&site, &[]).text().contains("Event"));
}

#[test]
fn an_api_that_hangs_costs_a_moment_once() {
    let site = site(20);
    site.servers.cluster.edit(|objects| objects.hangs = Some("POST /api/v1/namespaces/kube-system/events"));
    let begin = Instant::now();
    let ran = run(&site, &["-v"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(ran.err.matches("no Event ").count(), 1, "{}", ran.err);
    let asked = site.servers.cluster.edit(|objects| objects.asked.clone());
    assert_eq!(asked.iter().filter(|asked| asked.contains("events")).count(), 1, "{asked:?}");
}

#[test]
fn where_no_api_is_there_the_run_goes_on_and_the_end_is_told_if_it_is_back() {
    let mut site = site(20);
    site.servers.refuse_apiserver(&site.world);
    let ran = run(&site, &["-v", "--ready-timeout=1s"]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    assert_eq!(ran.err.matches("no Event ").count(), 2, "{}", ran.err);
    assert!(!ran.out.contains("Event"), "{}", ran.out);
}
