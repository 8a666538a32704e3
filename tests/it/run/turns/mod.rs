//! One node at a time, and only while the others carry the load.

mod api;
mod left;
mod others;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_certs_renew::host::Signals;
use serde_json::{Value, json};

use super::etcd::CERT_DIR;
use super::seen::owed;
use super::{NOW, Ran, now, run, run_by, stacked};
use crate::support::clock::StillClock;
use crate::support::cluster::{Cluster, LEASE};
use crate::support::net::nobody;
use crate::support::pki::days;
use crate::support::servers::apiserver;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, Role, TlsServer};

const REST: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A stacked node whose certificates are due, and end long after the days-buffer, so that waiting does no harm.
fn calm() -> Site {
    stacked(20)
}

fn cluster(site: &Site) -> &Cluster {
    &site.servers.cluster
}

/// Another control-plane node's API server, with a certificate of its own; its process is this node's etcd, which is left alone here.
pub fn peer(site: &Site, node: &str) -> TlsServer {
    let (ca, spec) = site.tree.spec("apiserver", now() + days(300));
    let pair = ca.issue(&spec);
    for (name, text) in [("crt", pair.cert), ("key", pair.key)] {
        site.tree.write(&format!("/srv/{node}.{name}"), text);
    }
    let file = |name: &str| PathBuf::from(format!("/srv/{node}.{name}"));
    let ca = PathBuf::from(CERT_DIR).join("ca.crt");
    let role = Role { component: "etcd", ..apiserver(&site.world, file("crt"), file("key"), ca) };
    let server = TlsServer::of_cluster(&site.world, None, role, Some(cluster(site).clone()));
    cluster(site).add_node(node, server.port());
    server
}

/// A clock by which waits are over after fewer looks.
fn hasty() -> StillClock {
    StillClock::at(now()).oversleeping(Duration::from_secs(20))
}

fn run_hastily(site: &Site, args: &[&str]) -> Ran {
    run_by(&hasty(), site, args, &Signals::none())
}

/// A run whose clock does this at its sleep of this number.
fn run_while(site: &Site, args: &[&str], at: u32, act: impl Fn() + Send + Sync + 'static) -> Ran {
    let clock = StillClock::at(now()).meanwhile(move |number| {
        if number == at {
            act();
        }
    });
    run_by(&clock, site, args, &Signals::none())
}

/// The turn of the report, and the exit code.
fn turn(site: &Site, args: &[&str]) -> (u8, Value) {
    let ran = run_hastily(site, &[&["-o", "json"], args].concat());
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.text()));
    (ran.code, report["turn"].clone())
}

fn restarted(site: &Site) -> usize {
    site.world.acts().iter().filter(|act| act.contains(" rmp ") || act.contains(" stop ")).count()
}

fn deferred(site: &Site, ran: &Ran, words: &str) {
    assert_eq!(ran.code, 23, "{words}: {}", ran.text());
    assert_eq!(restarted(site), 0, "{words}: {}", ran.text());
    assert_eq!(owed(site).unwrap(), REST, "{words}");
    let said = ran.headlines().into_iter().find(|line| line.starts_with("Deferred: ")).unwrap_or_default();
    assert!(said.contains(words), "'{words}' is not in: {}", ran.text());
    assert!(cluster(site).holder().is_none_or(|holder| !holder.starts_with("node1/")), "{words}: it is held still");
}

#[test]
fn a_run_that_restarts_nothing_and_one_of_a_single_node_take_no_turn() {
    let site = stacked(300);
    assert_eq!(run(&site, &[]).code, 0);
    assert_eq!(cluster(&site).edit(|objects| objects.asked.clone()), Vec::<String>::new());
    let site = calm();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.out.contains("this is the only control-plane node"), "{}", ran.out);
    assert_eq!(cluster(&site).edit(|objects| objects.asked.iter().filter(|asked| asked.contains("lease")).count()), 0);
}

#[test]
fn the_turn_is_held_from_before_the_first_restart_until_the_node_is_proven() {
    let site = calm();
    let _peers = [peer(&site, "node2"), peer(&site, "node3")];
    site.servers
        .apiserver
        .script(|script| script.restarted = vec![Answer::Status(500), Answer::Status(500), Answer::Ready]);
    let held: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let (noted, objects) = (held.clone(), cluster(&site).clone());
    let clock = StillClock::at(now()).meanwhile(move |_| noted.lock().unwrap().push(objects.holder()));
    let ran = run_by(&clock, &site, &[], &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    let holders = cluster(&site).edit(|objects| objects.holders.clone());
    assert_eq!(holders.len(), 2, "{holders:?}");
    let me = "node1/5f0c1c7e-8f8b-4d6e-9a53-1f8f4a3d2b10/";
    assert!(holders[0].starts_with(me) && holders[1].is_empty(), "{holders:?}");
    let held = held.lock().unwrap();
    assert!(held.len() > 1 && held.iter().all(|holder| *holder == Some(holders[0].clone())), "{held:?}");
    let duration =
        cluster(&site).edit(|objects| objects.lease.as_ref().unwrap()["spec"]["leaseDurationSeconds"].clone());
    assert!(duration.as_u64().unwrap() > 30 * 60, "{duration}");
}

#[test]
fn the_report_tells_of_the_turn() {
    let site = calm();
    let _peers = [peer(&site, "node2"), peer(&site, "node3")];
    let expected = json!({ "held": false, "waitedSeconds": 0, "holder": null, "others": { "ready": 2, "of": 2 } });
    assert_eq!(turn(&site, &["--dry-run"]), (0, expected));
    assert_eq!(cluster(&site).edit(|objects| objects.holders.clone()), Vec::<String>::new(), "a dry run takes nothing");
    let expected = json!({ "held": true, "waitedSeconds": 0, "holder": null, "others": { "ready": 2, "of": 2 } });
    assert_eq!(turn(&site, &[]), (0, expected));
    assert_eq!(turn(&site, &[]), (0, Value::Null));
}

#[test]
fn a_dry_run_says_who_has_the_turn_and_who_is_not_ready() {
    let site = calm();
    let other = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 3000);
    let ran = run(&site, &["--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.out.contains("turn          node 'node2' has it now; other API servers ready: 1 of 1"), "{}", ran.out);
    assert!(ran.out.contains("wait for this node's turn"), "{}", ran.out);
    other.script(|script| script.first = vec![Answer::Status(500)]);
    let ran = run(&site, &["--dry-run"]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.out.contains("Deferred: kube-apiserver of node 'node2' is not ready"), "{}", ran.out);
    assert_eq!(run(&site, &["--dry-run", "--alone"]).code, 0);
}

#[test]
fn it_waits_for_who_has_the_turn_and_says_so() {
    let site = calm();
    let _peer = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 3000);
    let objects = cluster(&site).clone();
    let ran = run_while(&site, &[], 400, move || objects.hold("", 3000));
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(ran.out.matches("## Waiting for the turn: held by node2 ##").count(), 1, "{}", ran.out);
    assert!(ran.out.contains("still waiting, for 30"), "{}", ran.out);
    assert!(ran.slept > Duration::from_secs(310) && ran.slept < Duration::from_secs(450), "{:?}", ran.slept);
    let holders = cluster(&site).edit(|objects| objects.holders.clone());
    assert_eq!(
        holders.iter().map(|holder| holder.split('/').next().unwrap()).collect::<Vec<_>>(),
        ["node2", "", "node1", ""]
    );
    assert_eq!(restarted(&site), 3);
}

#[test]
fn a_holder_that_died_is_waited_out_over_several_runs_of_one_boot_and_no_longer() {
    let site = calm();
    let _peer = peer(&site, "node2");
    // longer than one run waits; each run here begins an hour after the one before
    cluster(&site).hold("node2/boot/1", 6000);
    let first = run_hastily(&site, &[]);
    deferred(&site, &first, "node 'node2' has the turn");
    assert!((1800..1900).contains(&first.slept.as_secs()), "{:?}", first.slept);
    let second = run_hastily(&site, &[]);
    // other tests' clocks take hours too
    if second.code == 23 {
        deferred(&site, &second, "node 'node2' has the turn");
    }
    let third = run_hastily(&site, &[]);
    assert_eq!(third.code, 0, "{}", third.text());
    let holder = cluster(&site).edit(|objects| objects.holders.clone());
    assert_eq!(holder.last().unwrap(), "");
}

#[test]
fn after_a_reboot_a_wait_begins_anew() {
    let site = calm();
    let _peer = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 2000);
    deferred(&site, &run_hastily(&site, &[]), "node 'node2' has the turn");
    site.tree.write("/proc/sys/kernel/random/boot_id", "another-boot\n");
    // an hour later, by a clock that may have begun at zero
    let ran = run_hastily(&site, &[]);
    assert_eq!((ran.code, restarted(&site)), (23, 0), "{}", ran.text());
    assert!(ran.slept > Duration::from_secs(1700), "{:?}", ran.slept);
}

#[test]
fn what_an_earlier_run_of_this_node_holds_is_taken_at_once() {
    let site = calm();
    let _peer = peer(&site, "node2");
    cluster(&site).hold("node1/some-boot/1", 3000);
    let ran = run(&site, &[]);
    assert_eq!((ran.code, ran.out.contains("Waiting for the turn")), (0, false), "{}", ran.text());
}

#[test]
fn the_clock_of_the_one_who_holds_it_does_not_matter() {
    for renewed in ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "yesterday", NOW] {
        let site = calm();
        let _peer = peer(&site, "node2");
        cluster(&site).hold("node2/boot/1", 600);
        cluster(&site).edit(|objects| objects.lease.as_mut().unwrap()["spec"]["renewTime"] = json!(renewed));
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 0, "{renewed}: {}", ran.text());
        assert!((600..660).contains(&ran.slept.as_secs()), "{renewed}: {:?}", ran.slept);
    }
}

#[test]
fn a_signal_ends_the_wait_and_nothing_is_held() {
    let site = calm();
    let _other = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 3000);
    let signals = Signals::none();
    let clock = StillClock::at(now()).raising(15, 10, &signals);
    let ran = run_by(&clock, &site, &[], &signals);
    assert_eq!(ran.code, 143, "{}", ran.text());
    assert!(ran.slept < Duration::from_secs(12), "{:?}", ran.slept);
    assert_eq!(cluster(&site).holder().unwrap(), "node2/boot/1");
    assert_eq!(restarted(&site), 0);
    assert!(REST.iter().all(|component| owed(&site).unwrap().iter().any(|one| one == component)));
}

#[test]
fn a_run_that_fails_in_its_turn_gives_it_back() {
    let site = calm();
    let _other = peer(&site, "node2");
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Status(500)]);
    let ran = run_hastily(&site, &[]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    let holders = cluster(&site).edit(|objects| objects.holders.clone());
    assert!(holders.len() == 2 && holders[1].is_empty(), "{holders:?}");
}

#[test]
fn one_who_lost_the_turn_takes_nothing_more_down() {
    let site = calm();
    let _other = peer(&site, "node2");
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Status(500), Answer::Ready]);
    let objects = cluster(&site).clone();
    let ran = run_while(&site, &[], 1, move || objects.hold("node2/boot/1", 3000));
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.out.contains("Deferred: node 'node2' has the turn by now"), "{}", ran.out);
    assert_eq!(restarted(&site), 1);
    assert_eq!(cluster(&site).holder().unwrap(), "node2/boot/1", "and gives nothing of another's back");
}

#[test]
fn of_two_nodes_that_start_at_once_one_restarts_after_the_other() {
    let node = |name: &str| {
        Site::with(
            &crate::support::world::demo(),
            crate::support::tree::Plan::new(crate::support::tree::Layout::Kubeadm, now()).all_end(now() + days(5)),
            |setup| {
                setup.node = name.to_owned();
                setup.kubelet.push(format!("--hostname-override={name}"));
            },
        )
    };
    let sites = [node("node1"), node("node2")];
    cluster(&sites[1]).join(cluster(&sites[0]));
    cluster(&sites[0]).add_node("node2", sites[1].servers.apiserver.port());
    let codes: Vec<(u8, String)> = std::thread::scope(|scope| {
        let threads = sites.each_ref().map(|site| {
            scope.spawn(move || {
                let clock = StillClock::at(now()).meanwhile(|_| std::thread::sleep(Duration::from_millis(2)));
                let ran = run_by(&clock, site, &["--turn-timeout", "100h"], &Signals::none());
                (ran.code, ran.text())
            })
        });
        threads.map(|thread| thread.join().unwrap()).to_vec()
    });
    assert!(codes.iter().all(|(code, _)| *code == 0), "{codes:?}");
    let holders = cluster(&sites[0]).edit(|objects| objects.holders.clone());
    let nodes: Vec<&str> = holders.iter().map(|holder| holder.split('/').next().unwrap()).collect();
    assert!(nodes == ["node1", "", "node2", ""] || nodes == ["node2", "", "node1", ""], "{nodes:?}");
    assert!(sites.iter().all(|site| restarted(site) == 3));
    assert!(
        cluster(&sites[0])
            .edit(|objects| objects.asked.contains(&format!("POST {}", LEASE.rsplit_once('/').unwrap().0)))
    );
}

#[test]
fn a_run_that_is_killed_in_its_turn_leaves_it_to_the_next_run_of_its_node_and_others_wait() {
    let site = calm();
    let _other = peer(&site, "node2");
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Ready, Answer::KillsRun]);
    // killed when it asks its own API server for the second time after the restart
    let status = super::binary::program(&site, &[]).output().unwrap().status;
    assert_eq!(status.code(), None, "not killed: {status}");
    assert!(cluster(&site).holder().unwrap().starts_with("node1/"));
    super::lock_is_free(site.tree.dir());
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Ready]);
    let ran = run(&site, &[]);
    assert_eq!((ran.code, ran.out.contains("Waiting for the turn")), (0, false), "{}", ran.text());
    assert_eq!((cluster(&site).holder(), owed(&site)), (None, None));
}
