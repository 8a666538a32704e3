//! Whose turn it is to restart, how the other control-plane nodes are, and whether this one is done.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::states::{State, due, fresh, now, stale};
use super::{Checked, check};
use crate::monitoring::json::{CHECK, assert_fits, strict};
use crate::support::pki::days;
use crate::support::servers::apiserver;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, TlsServer};

/// A node that is one of three, alive until it is dropped: another has the turn, and one is not ready.
pub struct Shared {
    state: State,
    peers: [TlsServer; 2],
}

impl Shared {
    /// Checks it.
    pub fn check(&self, args: &[&str]) -> Checked {
        check(&self.state, args)
    }

    fn report(&self) -> Value {
        assert_fits(&strict(CHECK), &self.check(&["-o", "json"]).out)
    }
}

/// Such a node, on which all is well; its last run waited.
pub fn shared() -> Shared {
    let state = fresh();
    let peers = [peer(&state.site, "node2"), peer(&state.site, "node3")];
    peers[1].script(|script| script.first = vec![Answer::Status(500)]);
    hold(&state, "node2/boot/1");
    let mut journal = state.journal();
    journal.turn.waited_ms = Some(42_500);
    journal.turn.peers = peers.iter().map(|peer| ([127, 0, 0, 1], peer.port()).into()).collect();
    state.write(&journal);
    Shared { state, peers }
}

fn hold(state: &State, holder: &str) {
    let cluster = &state.site.servers.cluster;
    cluster.hold(holder, 3000);
    cluster.edit(|objects| {
        objects.lease.as_mut().unwrap()["spec"]["acquireTime"] = "2026-03-10T11:58:00.123456Z".into();
    });
}

fn peer(site: &Site, node: &str) -> TlsServer {
    let (ca, spec) = site.tree.spec("apiserver", now() + days(300));
    let pair = ca.issue(&spec);
    for (name, text) in [("crt", pair.cert), ("key", pair.key)] {
        site.tree.write(&format!("/srv/{node}.{name}"), text);
    }
    let file = |name: &str| PathBuf::from(format!("/srv/{node}.{name}"));
    let role = apiserver(&site.world, file("crt"), file("key"), site.tree.pki("ca.crt").into());
    let server = TlsServer::of_cluster(&site.world, None, role, Some(site.servers.cluster.clone()));
    site.servers.cluster.add_node(node, server.port());
    server
}

/// The line of the head.
fn line(checked: &Checked) -> Option<&str> {
    checked.out.lines().find_map(|line| Some(line.strip_prefix("  turn ")?.trim_start()))
}

#[test]
fn one_of_several_tells_whose_turn_it_is_and_how_the_others_are() {
    let node = shared();
    let told =
        "node 'node2' has it since Tue 2026-03-10 12:58 CET; other API servers ready: 1 of 2; the last run waited 42 s";
    assert_eq!(line(&node.check(&[])), Some(told));
    let report = node.report();
    let others = json!({ "ready": 1, "of": 2 });
    let seen =
        json!({ "held": false, "holder": "node2", "since": "2026-03-10T11:58:00Z", "others": others, "unseen": null });
    assert_eq!(report["turn"], seen);
    assert_eq!(report["job"]["lastWaitedSeconds"], 42);
    hold(&node.state, "node1/boot/1");
    node.peers[1].script(|script| script.first = vec![Answer::Ready]);
    let checked = node.check(&[]);
    assert!(line(&checked).unwrap().starts_with("this node has it since"), "{}", checked.out);
    assert_eq!(node.report()["turn"]["held"], true);
    hold(&node.state, "");
    let checked = node.check(&[]);
    assert!(line(&checked).unwrap().starts_with("nobody has it; other API servers ready: 2 of 2"), "{}", checked.out);
    assert_eq!(node.state.site.servers.cluster.edit(|objects| objects.holders.len()), 3, "a check takes nothing");
}

#[test]
fn a_single_control_plane_says_nothing_of_turns() {
    let state = fresh();
    assert_eq!(line(&check(&state, &[])), None);
    let report: Value = serde_json::from_str(&check(&state, &["-o", "json"]).out).unwrap();
    assert_eq!(report["turn"]["others"], json!({ "ready": 0, "of": 0 }));
    state.site.servers.cluster.edit(|objects| objects.refuses = Some(500));
    assert_eq!(line(&check(&state, &[])), None);
}

#[test]
fn an_api_that_refuses_or_hangs_is_told_and_costs_two_seconds_at_most() {
    let node = shared();
    let cluster = &node.state.site.servers.cluster;
    let before = Instant::now();
    node.check(&[]);
    let usual = before.elapsed();
    cluster.edit(|objects| objects.refuses = Some(403));
    let checked = node.check(&[]);
    assert!(line(&checked).unwrap().starts_with("cannot be seen: 127.0.0.1:"), "{}", checked.out);
    assert_eq!(node.report()["turn"]["held"], Value::Null);
    cluster.edit(|objects| (objects.refuses, objects.hangs) = (None, Some("GET")));
    let before = Instant::now();
    let checked = node.check(&[]);
    let took = before.elapsed();
    assert!(took < usual + Duration::from_secs(3), "{took:?} instead of {usual:?}");
    assert!(line(&checked).unwrap().starts_with("cannot be seen: "), "{}", checked.out);
    assert_eq!(checked.code, 0, "the API is no certificate: {}", checked.out);
}

#[test]
fn a_node_is_done_when_nothing_is_due_stale_or_owed_and_its_last_run_ended_well() {
    let told = |state: &State| -> (Value, String) {
        let report: Value = serde_json::from_str(&check(state, &["-o", "json"]).out).unwrap();
        let metric = check(state, &["-o", "prometheus"]).out;
        let expected = report["done"].as_bool().map(|done| format!("k8s_certs_renew_done {}", u8::from(done)));
        let sample = metric.lines().find(|line| line.starts_with("k8s_certs_renew_done")).map(str::to_owned);
        assert_eq!(sample, expected);
        (report["done"].clone(), report["toDo"].to_string())
    };
    assert_eq!(told(&fresh()), (Value::Bool(true), "[]".to_owned()));
    for (state, words) in [(due(), "renew admin.conf: "), (stale(), "restart kube-controller-manager: ")] {
        let (done, to_do) = told(&state);
        assert!(done == false && to_do.contains(words), "{to_do}");
    }
    let state = fresh();
    let mut journal = state.journal();
    for (code, done) in [(0, true), (10, true), (23, false), (20, false)] {
        journal.note_end(code, Duration::from_secs(1));
        state.write(&journal);
        assert_eq!(told(&state).0, done, "{code}");
    }
    journal.last_exit = None;
    state.write(&journal);
    assert_eq!(told(&state).0, true, "a node that is new");
    state.site.tree.remove("/etc/kubernetes/manifests/kube-apiserver.yaml");
    assert_eq!(told(&state).0, Value::Null, "no control plane");
}
