//! etcd's cluster: while another member is down nothing is restarted, and etcd itself never at the cost of its quorum.

use super::etcd::{CERT_DIR, RENEW_ALL, STOP, all_but_etcd, etcd, run_hastily, stale, stubborn};
use super::seen::{APISERVER, CONTROLLER_MANAGER, SCHEDULER, changed, files, owed};
use super::{now, run, stacked};
use crate::support::net::nobody;
use crate::support::pki::days;
use crate::support::servers::{MEMBERS, member, member_list, set_health};
use crate::support::site::{Site, due};
use crate::support::tls_server::TlsServer;
use crate::support::tree::{Layout, Plan};
use crate::support::world::demo;

const REST: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn members(site: &Site, healthy: &[bool]) -> Vec<TlsServer> {
    site.servers.members(&site.world, CERT_DIR, healthy)
}

#[test]
fn with_a_quorum_of_healthy_others_etcd_is_stopped() {
    for others in [&[true, true][..], &[true; 3], &[true; 4]] {
        let site = stale();
        let _others = members(&site, others);
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 0, "{others:?}: {}", ran.text());
        assert_eq!(site.world.acts(), [STOP], "{others:?}");
    }
}

// P09
#[test]
fn while_another_member_is_down_files_are_renewed_and_nothing_is_removed_and_the_next_run_finishes_it() {
    for others in [&[true, false][..], &[false, false, true, true]] {
        let site = stacked(5);
        let cluster = members(&site, others);
        let dry = run(&site, &["--dry-run"]);
        assert_eq!(dry.code, 23, "{others:?}: {}", dry.text());
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 23, "{others:?}: {}", ran.text());
        for (index, healthy) in others.iter().enumerate() {
            let name = format!("etcd member 'node{}' is not healthy (127.0.0.1:", index + 2);
            for said in [&dry.out, &ran.out] {
                assert_eq!(said.contains(&name), !healthy, "{others:?}: {said}");
            }
        }
        let deferred = ran.headlines().into_iter().find(|line| line.starts_with("Deferred: ")).unwrap();
        assert!(deferred.contains("answers 503 to /health") && deferred.contains("etcdctl member list"), "{deferred}");
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
        assert_eq!(site.world.acts(), [RENEW_ALL], "{others:?}");
        assert_eq!(owed(&site).unwrap(), REST, "etcd itself is seen to use the new ones");
        // still down: nothing changes
        let (written, ran) = (files(&site), run(&site, &[]));
        assert_eq!(ran.code, 23, "{}", ran.text());
        assert_eq!(changed(&written, &files(&site)), Vec::<String>::new());
        assert_eq!(site.world.acts(), [RENEW_ALL], "{others:?}");

        cluster.iter().for_each(|one| set_health(one, true));
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{}", ran.text());
        assert_eq!(site.world.acts(), all_but_etcd(), "{others:?}");
        assert_eq!(owed(&site), None);
    }
}

#[test]
fn a_member_that_is_gone_or_never_started_is_not_healthy_and_a_learner_is_not_missed() {
    let port = nobody();
    let gone = member("node2", port);
    let mut unstarted = member("", 1);
    unstarted.as_object_mut().unwrap().remove("clientURLs");
    let mut learner = gone.clone();
    learner["isLearner"] = true.into();
    // etcd's default for what it advertises leads to the one who asks
    let mut at_home = gone.clone();
    at_home["clientURLs"] = serde_json::json!(["http://localhost:2379"]);
    let refused = format!("'node2' is not healthy (127.0.0.1:{port}: connection refused)");
    let cases = [
        (gone, 23, refused.as_str()),
        (unstarted, 23, "at 'https://.example.com:2380' (never started) is not healthy (it has not started)"),
        (at_home, 23, "'node2' is not healthy (it cannot be asked from here at 'http://localhost:2379')"),
        (learner, 0, ""),
    ];
    for (other, code, words) in cases {
        let site = stacked(5);
        etcd(&site).page(MEMBERS, 200, member_list(&[member("node1", etcd(&site).port()), other]));
        let ran = run(&site, &[]);
        assert_eq!(ran.code, code, "{words}: {}", ran.text());
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn a_cluster_of_two_loses_its_quorum_by_any_stop() {
    let site = stacked(300);
    let _other = members(&site, &[true]);
    let dry = run(&site, &["--restart", "all", "--dry-run"]);
    assert_eq!(dry.code, 23, "{}", dry.text());
    let ran = run(&site, &["--restart", "all"]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    for out in [dry.out, ran.out] {
        let said = "## Deferred: the restart of etcd, which is left running: with 2 voting members etcd has no quorum";
        assert!(out.contains(said), "{out}");
    }
    assert_eq!(site.world.acts(), [APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(owed(&site).unwrap(), ["etcd"]);
}

#[test]
fn where_etcd_cannot_tell_its_members_the_others_are_restarted_and_etcd_is_not() {
    let cases = [
        (200, "garbage", "no list of members"),
        (200, r#"{"members":[]}"#, "names no member"),
        (200, r#"{"members":[{"name":"other"}]}"#, "none of etcd's members is known to be this node's"),
        (500, "", "answers 500"),
        (404, "", "has no gateway"),
    ];
    for (status, body, why) in cases {
        let site = stubborn(5);
        etcd(&site).page(MEMBERS, status, body);
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 23, "{why}: {}", ran.text());
        assert!(ran.err.contains("warning: how the other members of etcd's cluster are is not known"), "{}", ran.err);
        assert!(ran.err.contains(why) && ran.out.contains(why), "{why}: {}", ran.text());
        assert!(ran.out.contains("## Deferred: the restart of etcd, which is left running"), "{}", ran.out);
        assert_eq!(site.world.acts(), all_but_etcd(), "{why}");
        assert_eq!(owed(&site).unwrap(), ["etcd"], "{why}");
        // it can tell again
        etcd(&site).page(MEMBERS, 200, member_list(&[member("node1", etcd(&site).port())]));
        site.world.forget_calls();
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 0, "{why}: {}", ran.text());
        assert_eq!(site.world.acts(), [STOP], "{why}");
        assert_eq!(owed(&site), None, "{why}");
    }
}

#[test]
fn an_etcd_that_is_down_keeps_nobody_from_new_certificates() {
    let mut site = stacked(5);
    site.servers.etcd = None;
    let ran = run_hastily(&site, &[]);
    // what cannot be seen is not stale: it is told, and not stopped for that
    assert_eq!(ran.code, 21, "{}", ran.text());
    assert!(ran.err.contains("etcd re-reads its files by design, and is not proven to have done so"), "{}", ran.err);
    assert!(ran.err.contains("connection refused"), "{}", ran.err);
    assert_eq!(site.world.acts(), all_but_etcd());
    assert_eq!(owed(&site), None);
}

#[test]
fn the_lists_of_older_gateways_are_found() {
    for (path, code) in [("/v3beta/", 0), ("/v3alpha/", 0), ("/v4/", 23)] {
        let site = stale();
        etcd(&site).page(MEMBERS, 404, "");
        let list = member_list(&[member("node1", etcd(&site).port())]);
        etcd(&site).page(&MEMBERS.replace("/v3/", path), 200, list);
        assert_eq!(run_hastily(&site, &[]).code, code, "{path}");
    }
}

#[test]
fn what_has_expired_does_not_wait_for_a_member_that_is_down() {
    let plan = || Plan::new(Layout::Kubeadm, now()).ends("scheduler.conf", now() - days(1));
    let site = Site::new(&demo(), plan());
    let _others = members(&site, &[true, false]);
    let dry = run(&site, &["--dry-run"]);
    let ran = run(&site, &[]);
    for ran in [&dry, &ran] {
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(ran.err.contains("going on all the same, since a certificate has expired already"), "{}", ran.err);
    }
    assert_eq!(site.world.acts(), all_but_etcd());

    // etcd's own restart is another matter: it goes by what is left of the cluster
    for (others, code) in [(&[true, false][..], 23), (&[true, true, true, false], 0)] {
        let site = Site::new(&demo(), plan());
        let _others = members(&site, others);
        let ran = run(&site, &["--restart", "all"]);
        assert_eq!(ran.code, code, "{others:?}: {}", ran.text());
        let stopped = site.world.acts().contains(&STOP.to_owned());
        assert_eq!(stopped, code == 0, "{others:?}");
        assert_eq!(site.world.acts()[..4], all_but_etcd(), "{others:?}");
    }
}

#[test]
fn what_was_put_off_is_restarted_once_the_old_certificates_have_expired() {
    let site = Site::new(&demo(), due(Layout::Kubeadm, now()));
    let _others = members(&site, &[true, false]);
    assert_eq!(run(&site, &[]).code, 23);
    let at = |left: i64| format!("--at={}", (now() + days(left)).to_rfc3339());
    assert_eq!(run(&site, &[&at(4)]).code, 23);
    let ran = run(&site, &[&at(6)]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), all_but_etcd());
    assert_eq!(owed(&site), None);
}
