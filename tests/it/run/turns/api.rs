//! An API that refuses, is lost, lies, or is not there.

use super::*;

#[test]
fn a_lease_that_is_forbidden_puts_the_restart_off_unless_waiting_does_harm() {
    let forbidden = (403, r#"{"kind":"Status","message":"leases is forbidden: User \"x\"","code":403}"#.to_owned());
    for (days, code) in [(20, 23), (5, 0)] {
        let site = stacked(days);
        let _other = peer(&site, "node2");
        cluster(&site).edit(|objects| objects.lease_says = Some(forbidden.clone()));
        let ran = run_hastily(&site, &[]);
        if code == 23 {
            assert_eq!(run(&site, &["--dry-run", "--restart", "all"]).code, 23);
            deferred(&site, &ran, "answers 403: leases is forbidden");
            assert_eq!(ran.slept, Duration::ZERO, "asking again does not help");
        }
        assert_eq!(ran.code, code, "{}", ran.text());
        assert!(ran.text().contains("answers 403: leases is forbidden"), "{}", ran.text());
    }
}

#[test]
fn an_api_that_is_lost_on_the_way_puts_the_restart_off_and_one_that_comes_back_does_not() {
    let site = calm();
    let _other = peer(&site, "node2");
    cluster(&site).edit(|objects| objects.refuses = Some(503));
    let ran = run_hastily(&site, &[]);
    deferred(&site, &ran, "the API gives no answer to take turns by (127.0.0.1:");
    assert!(ran.slept >= Duration::from_secs(1800), "{:?}", ran.slept);
    let objects = cluster(&site).clone();
    let ran = run_while(&site, &[], 50, move || objects.edit(|objects| objects.refuses = None));
    assert_eq!(ran.code, 0, "{}", ran.text());
    // in the hands of an etcd that works, after a while, where waiting does harm
    let site = stacked(5);
    cluster(&site).edit(|objects| objects.refuses = Some(500));
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!((60..80).contains(&ran.slept.as_secs()), "{:?}", ran.slept);
    assert!(ran.err.contains("no turn can be taken (127.0.0.1:"), "{}", ran.err);
}

#[test]
fn without_any_api_server_there_is_nobody_to_take_turns_with() {
    let site = calm();
    site.servers.apiserver.script(|script| script.first = vec![Answer::Closes]);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(
        ran.out.contains("no API server of this cluster answers, so there is nobody to take turns with"),
        "{}",
        ran.out
    );
    assert!((20..40).contains(&ran.slept.as_secs()), "it is not given up at once: {:?}", ran.slept);
    assert_eq!(cluster(&site).edit(|objects| objects.holders.clone()), Vec::<String>::new());
}

#[test]
fn while_its_own_api_server_is_down_another_one_that_was_seen_before_is_asked() {
    let site = calm();
    let other = peer(&site, "node2");
    // a run that sees the others, and is put off
    cluster(&site).hold("node2/boot/1", 3000);
    deferred(&site, &run_hastily(&site, &[]), "node 'node2' has the turn");
    site.servers.apiserver.script(|script| script.first = vec![Answer::Closes]);
    other.script(|script| script.first = vec![Answer::Status(500)]);
    cluster(&site).hold("", 3000);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.err.contains("since this node's own kube-apiserver is down already"), "{}", ran.err);
    let holders = cluster(&site).edit(|objects| objects.holders.clone());
    assert!(holders[2].starts_with("node1/") && holders[3].is_empty(), "{holders:?}");
}

#[test]
fn a_node_whose_own_api_server_is_down_goes_on_also_where_the_first_answer_is_a_bad_one() {
    for (status, slept) in [(403, 0..1), (503, 60..120)] {
        let site = calm();
        let _other = peer(&site, "node2");
        cluster(&site).hold("node2/boot/1", 3000);
        deferred(&site, &run_hastily(&site, &[]), "node 'node2' has the turn");
        site.servers.apiserver.script(|script| script.first = vec![Answer::Closes]);
        cluster(&site).edit(|objects| objects.refuses = Some(status));
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{status}: {}", ran.text());
        assert!(slept.contains(&ran.slept.as_secs()), "{status}: {:?}", ran.slept);
        assert!(ran.err.contains("since this node's own kube-apiserver is down already"), "{status}: {}", ran.err);
    }
}

#[test]
fn when_the_answer_to_the_write_is_lost_the_run_sees_who_holds_it() {
    for done in [true, false] {
        let site = calm();
        let _other = peer(&site, "node2");
        cluster(&site).edit(|objects| objects.lose = vec![done]);
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 0, "{done}: {}", ran.text());
        let holders = cluster(&site).edit(|objects| objects.holders.clone());
        assert_eq!(holders.len(), 2, "{done}: {holders:?}");
    }
}

#[test]
fn a_lease_that_is_none_holds_a_run_up_no_longer_than_its_time() {
    let long = "x".repeat(16 << 20);
    let table = [
        "{}".to_owned(),
        "[]".to_owned(),
        "no json".to_owned(),
        String::new(),
        r#"{"metadata":{"resourceVersion":7},"spec":{}}"#.to_owned(),
        "[".repeat(100_000),
        format!(r#"{{"metadata":{{"resourceVersion":"1","annotations":{{"a":"{long}"}}}}}}"#),
    ];
    for body in table {
        let site = calm();
        let _other = peer(&site, "node2");
        let begin: String = body.chars().take(60).collect();
        cluster(&site).edit(|objects| objects.lease_says = Some((200, body)));
        let ran = run_hastily(&site, &["--turn-timeout", "2m"]);
        assert!(ran.slept < Duration::from_secs(200), "{begin}: {:?}", ran.slept);
        deferred(&site, &ran, "the API gives no answer to take turns by");
    }
}

#[test]
fn a_lease_with_an_odd_spec_is_taken_or_waited_for() {
    for (spec, waits) in [
        (json!({ "holderIdentity": 7 }), false),
        (json!({ "holderIdentity": "node2/b/1", "leaseDurationSeconds": -7 }), true),
        (json!({ "holderIdentity": "node2/b/1", "leaseDurationSeconds": 1e30 }), true),
        (json!({ "holderIdentity": "n".repeat(100_000) }), true),
    ] {
        let site = calm();
        let _other = peer(&site, "node2");
        cluster(&site).hold("", 3000);
        cluster(&site).edit(|objects| objects.lease.as_mut().unwrap()["spec"] = spec.clone());
        let ran = run_hastily(&site, &["--turn-timeout", "1m"]);
        assert_eq!(ran.code, if waits { 23 } else { 0 }, "{}", ran.text());
        assert!(ran.text().len() < 20_000);
    }
}
