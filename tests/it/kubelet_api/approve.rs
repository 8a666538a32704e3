//! `kubelet approve` on sound requests, and on clusters where it is not to act.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_certs_renew::files::Root;
use k8s_certs_renew::kubelet::objects;
use k8s_certs_renew::node::{Node, Overrides};
use serde_json::{Value, json};

use super::api::{Api, DEPLOYMENTS, NODES, REQUESTS, deployment, node, now};
use super::csrs::{Csr, dns, ip};
use crate::monitoring::json::{assert_fits, strict};
use crate::support::net::{Server, listen};
use crate::support::pki::{Spec, days};

const SCHEMA: &str = include_str!("../../../docs/schema/kubelet-approval.schema.json");

#[test]
fn the_own_nodes_request_is_approved_and_other_nodes_are_left_until_they_are_asked_for() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.add(REQUESTS, Csr::node2("csr-2").object());
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert_eq!(checked.out, "approved: 'csr-1' of 'system:node:node1' (node1, 192.0.2.10, 60m old)\n");
    assert!(checked.err.contains("1 more of other nodes are pending: --all-nodes"), "{}", checked.err);
    assert_eq!((api.conditions("csr-1").len(), api.conditions("csr-2").len()), (1, 0));
    assert_eq!(api.kubelet(&["approve", "--all-nodes"]).code, 0);
    assert_eq!(api.conditions("csr-2"), ["Approved"]);
    assert_eq!(api.kubelet(&["approve", "--all-nodes"]).out, "no serving request is pending\n");
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.add(REQUESTS, Csr::node1("csr-2").but(|csr| csr.sans.push(dns("x"))).object());
    let checked = api.kubelet(&["approve", "--dry-run"]);
    assert_eq!(checked.code, 1);
    assert!(checked.out.contains("would be approved: 'csr-1'"), "{}", checked.out);
    assert!(checked.out.contains("    name-foreign: 'x' is no address of Node 'node1'"), "{}", checked.out);
    assert!(api.writes().is_empty());
}

#[test]
fn both_sets_of_usages_and_every_spelling_of_an_address_are_a_kubelets() {
    let api = Api::new();
    let addresses = ["Node1.Example.com", "2001:db8:0:0::10", "192.0.2.10"];
    api.with(|state| state.lists.get_mut(NODES).unwrap()[0] = node("node1", &addresses, true));
    let sans = vec![dns("node1.example.com"), ip("2001:db8::10"), ip("192.0.2.10")];
    let csr = Csr::of("csr-1", "node1", sans).but(|csr| csr.usages = vec!["server auth", "digital signature"]);
    api.add(REQUESTS, csr.object());
    let (code, answer) = api.json(&["approve"]);
    assert_eq!(code, 0, "{answer:#}");
}

#[test]
fn what_is_decided_or_for_another_purpose_is_never_touched() {
    let api = Api::new();
    for (name, kind) in [("denied", "Denied"), ("failed", "Failed"), ("approved", "Approved")] {
        let mut object = Csr::node1(name).object();
        object["status"] = json!({ "conditions": [{ "type": kind, "status": "True" }] });
        api.add(REQUESTS, object);
    }
    for signer in ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/legacy-unknown", "example.com/x"] {
        api.add(
            REQUESTS,
            Csr::node1(signer.split('/').next_back().unwrap()).but(|csr| csr.signer = Some(signer)).object(),
        );
    }
    let checked = api.kubelet(&["approve", "--all-nodes"]);
    assert_eq!((checked.code, checked.out.as_str()), (0, "no serving request is pending\n"));
    assert!(api.writes().is_empty());
}

#[test]
fn a_request_that_changed_meanwhile_is_tried_once_more_and_said_so() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.with(|state| state.conflicts = 1);
    let checked = api.kubelet(&["approve"]);
    assert_eq!((checked.code, api.writes().len()), (0, 2));
    assert!(checked.out.starts_with("approved at the second try: 'csr-1'"), "{}", checked.out);
    api.add(REQUESTS, Csr::node1("csr-2").object());
    api.with(|state| state.conflicts = 9);
    let checked = api.kubelet(&["approve"]);
    assert_eq!((checked.code, api.writes().len()), (2, 4));
    assert!(checked.err.contains("'csr-2' was not approved") && checked.err.contains("409"), "{}", checked.err);
}

#[test]
fn who_loses_the_race_leaves_the_others_decision() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.with(|state| {
        state.conflicts = 1;
        state.by_conflict = Some(json!({ "conditions": [{ "type": "Denied", "status": "True" }] }));
    });
    let (code, answer) = api.json(&["approve"]);
    assert_eq!((code, answer["requests"][0]["result"].as_str()), (0, Some("overtaken")));
    assert_eq!(api.conditions("csr-1"), ["Denied"]);
}

#[test]
fn where_an_approver_is_deployed_it_only_reports() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.add(DEPLOYMENTS, deployment("kubelet-csr-approver", "ghcr.io/postfinance/kubelet-csr-approver:v1.2.2", 1, 0));
    let (code, answer) = api.json(&["approve"]);
    assert_eq!((code, answer["requests"][0]["result"].as_str()), (1, Some("left")));
    assert_eq!(answer["approver"]["name"], "kube-system/kubelet-csr-approver");
    assert!(api.writes().is_empty());
    // switched off
    api.with(|state| state.lists.get_mut(DEPLOYMENTS).unwrap()[0]["spec"]["replicas"] = json!(0));
    assert_eq!(api.kubelet(&["approve"]).code, 0);
    assert_eq!(api.conditions("csr-1"), ["Approved"]);
}

#[test]
fn what_cannot_be_seen_keeps_it_from_acting() {
    for list in [DEPLOYMENTS, NODES, REQUESTS] {
        let api = Api::new();
        api.add(REQUESTS, Csr::node1("csr-1").object());
        api.with(|state| state.refuses.insert(list.to_owned(), 403));
        let checked = api.kubelet(&["approve"]);
        assert_eq!(checked.code, 3, "{list}");
        assert!(checked.err.contains("nothing was approved") && checked.err.contains("403"), "{}", checked.err);
        assert!(api.writes().is_empty());
    }
}

#[test]
fn an_api_that_is_down_or_somebody_elses_is_unknown() {
    let api = Api::new();
    let port = crate::support::net::nobody();
    api.tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace(&format!("--secure-port={}", api.tree.plan.shape.apiserver), &format!("--secure-port={port}"))
    });
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 3);
    assert!(checked.err.contains("connection refused"), "{}", checked.err);
    // another cluster's server at this node's address
    let (other, here) = (Api::new(), Api::new());
    here.tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        let own = format!("--secure-port={}", here.tree.plan.shape.apiserver);
        text.replace(&own, &format!("--secure-port={}", other.tree.plan.shape.apiserver))
    });
    let checked = here.kubelet(&["approve"]);
    assert_eq!(checked.code, 3);
    assert!(
        checked.err.contains("the cluster's CA has not signed") && checked.err.contains("nothing was sent"),
        "{}",
        checked.err
    );
    assert!(other.with(|state| state.asked.is_empty()));
}

#[test]
fn it_is_roots_unless_a_kubeconfig_is_named() {
    let api = Api::new();
    let checked = api.kubelet_as(&["approve"], false);
    assert_eq!(checked.code, 77);
    assert!(checked.err.contains("admin.conf"), "{}", checked.err);
    assert_eq!(api.kubelet_as(&["approve", "--kubeconfig", "/etc/kubernetes/admin.conf"], false).code, 0);
}

// R11
#[test]
fn where_admin_conf_has_no_rights_super_admin_conf_is_taken() {
    let api = Api::of("v1.29.3");
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.with(|state| state.forbidden.insert("kubernetes-admin".to_owned()));
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    api.tree.remove("/etc/kubernetes/super-admin.conf");
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 3);
    assert!(checked.err.contains("403"), "{}", checked.err);
}

#[test]
fn a_name_that_is_not_plain_reaches_its_own_request() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr?x=1 y").object());
    assert_eq!(api.kubelet(&["approve"]).code, 0);
    assert_eq!(api.conditions("csr?x=1 y"), ["Approved"]);
}

#[test]
fn before_there_were_signers_the_old_api_is_asked() {
    const OLD: &str = "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests";
    let api = Api::of("v1.16.15");
    let csr = Csr::node1("csr-1").but(|csr| csr.signer = None);
    api.add(OLD, csr.object());
    let (code, answer) = api.json(&["approve"]);
    assert_eq!(code, 0, "{answer:#}");
    assert_eq!(api.writes(), [format!("PUT {OLD}/csr-1/approval")]);
    // from 1.18 on kube-apiserver always names one
    let api = Api::of("v1.20.2");
    api.add(REQUESTS, csr.object());
    assert_eq!(api.json(&["approve"]).1["requests"][0]["refusals"][0]["rule"], "signer");
}

#[test]
fn a_page_that_is_too_long_is_asked_for_in_smaller_ones_and_one_that_is_gone_once_more() {
    let api = Api::new();
    let long = vec![b'x'; 60_000];
    for number in 0..250 {
        api.add(REQUESTS, Csr::node2(&format!("long-{number}")).object_of(&long));
    }
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.with(|state| state.expired = 1);
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert_eq!(api.conditions("csr-1"), ["Approved"]);
    api.with(|state| state.expired = 2);
    assert_eq!(api.kubelet(&["approve"]).code, 3);
}

#[test]
fn without_a_manifest_the_kubeconfigs_server_is_asked_and_judged_by_its_ca() {
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.tree.remove("/etc/kubernetes/manifests/kube-apiserver.yaml");
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert_eq!(api.conditions("csr-1"), ["Approved"]);
}

#[test]
fn a_kubelet_in_kube_apiservers_place_is_sent_nothing() {
    let (from, to) = (now() - days(1), now() + days(1));
    let api = Api::showing("v1.20.2", |tree| {
        let pair = tree.ca.issue(&Spec::server("system:node:node2", &["node2", "192.0.2.11"], from, to));
        (pair.cert, pair.key)
    });
    let checked = api.kubelet(&["approve"]);
    assert_eq!(checked.code, 3);
    assert!(checked.err.contains("is not kube-apiserver's, nor for 127.0.0.1"), "{}", checked.err);
    assert!(api.with(|state| state.asked.is_empty()));
}

#[test]
fn what_is_written_is_what_was_read_and_the_approval() {
    let api = Api::new();
    let before = Csr::node1("csr-1").object();
    api.add(REQUESTS, before.clone());
    assert_eq!(api.kubelet(&["approve"]).code, 0);
    let after: Value = api.with(|state| state.lists[REQUESTS][0].clone());
    assert_eq!((&after["metadata"], &after["spec"]), (&before["metadata"], &before["spec"]));
    let condition = &after["status"]["conditions"][0];
    assert_eq!(
        (condition["status"].as_str(), condition["lastUpdateTime"].as_str()),
        (Some("True"), Some("2026-03-10T12:00:00Z"))
    );
    assert!(condition["reason"].is_string() && condition["message"].is_string());
}

#[test]
fn the_report_for_programs_fits_its_schema() {
    let schema = strict(SCHEMA);
    let api = Api::new();
    api.add(REQUESTS, Csr::node1("csr-1").object());
    api.add(REQUESTS, Csr::node2("csr-2").but(|csr| csr.usages.clear()).object());
    let fits = |args: &[&str]| assert_fits(&schema, &api.kubelet(args).out);
    fits(&["approve", "--dry-run", "-o", "json"]);
    fits(&["approve", "--all-nodes", "-o", "json"]);
    api.add(DEPLOYMENTS, deployment("kubelet-csr-approver", "x", 1, 1));
    fits(&["approve", "--all-nodes", "-o", "json"]);
    api.with(|state| state.refuses.insert(NODES.to_owned(), 500));
    fits(&["approve", "-o", "json"]);
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_waited_for_once() {
    let api = Api::new();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let silent = Server::start(listen(), move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        // until the client goes
        std::io::copy(&mut stream, &mut std::io::sink()).map(|_| ())
    });
    let (port, own) = (silent.address().port(), api.tree.server());
    api.tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        let at = own.rsplit_once(':').unwrap().1;
        text.replace(&format!("--secure-port={at}"), &format!("--secure-port={port}"))
    });
    let root = Root::new(api.tree.dir()).unwrap();
    let node = Node::look(root, &Overrides::default());
    let patience = Duration::from_millis(50);
    let both = objects::kubeconfigs(&node);
    let unseen = objects::Server::open(&node, &both, now(), patience).unwrap_err();
    assert!(unseen.to_string().contains("no answer in time"), "{unseen}");
    assert_eq!((both.len(), taken.load(Ordering::SeqCst)), (2, 1));
}
