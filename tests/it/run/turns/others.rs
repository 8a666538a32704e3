//! The others first: who is not ready is waited for.

use super::*;

#[test]
fn one_of_the_others_that_is_not_ready_is_waited_for_and_alone_goes_on() {
    let site = calm();
    let (other, _third) = (peer(&site, "node2"), peer(&site, "node3"));
    other.script(|script| script.first = vec![Answer::Status(500)]);
    let ran = run_hastily(&site, &[]);
    deferred(&site, &ran, "kube-apiserver of node 'node2' is not ready");
    assert!(
        ran.out.contains("answers 500 to /readyz, so nothing") || ran.out.contains("answers 500 to /readyz)"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.matches("## Waiting for the others: ").count(), 1, "{}", ran.out);
    assert_eq!(
        cluster(&site).edit(|objects| objects.holders.clone()),
        Vec::<String>::new(),
        "nothing is held meanwhile"
    );
    let ran = run_hastily(&site, &["--alone"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(restarted(&site), 3);
    assert_eq!(cluster(&site).edit(|objects| objects.holders.clone()), Vec::<String>::new());
}

#[test]
fn once_it_is_ready_again_the_run_goes_on() {
    let site = calm();
    let other = Arc::new(peer(&site, "node2"));
    other.script(|script| script.first = vec![Answer::Closes]);
    let server = other;
    let ran = run_while(&site, &[], 100, move || server.script(|script| script.first = vec![Answer::Ready]));
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!((80..140).contains(&ran.slept.as_secs()), "{:?}", ran.slept);
}

#[test]
fn an_api_server_that_has_left_the_endpoints_is_not_taken_for_absent() {
    let site = calm();
    let port = nobody();
    cluster(&site).edit(|objects| objects.pods.push(("node3".to_owned(), port)));
    deferred(
        &site,
        &run_hastily(&site, &[]),
        &format!("node 'node3' is not ready (127.0.0.1:{port}: connection refused)"),
    );
}

#[test]
fn one_who_shows_a_certificate_of_another_ca_or_an_expired_one_is_not_ready() {
    let site = calm();
    let _other = peer(&site, "node2");
    site.tree.write("/srv/node2.crt", site.tree.read(&format!("{CERT_DIR}/etcd/server.crt")));
    site.tree.write("/srv/node2.key", site.tree.read(&format!("{CERT_DIR}/etcd/server.key")));
    deferred(&site, &run_hastily(&site, &[]), "the cluster's CA has not signed; nothing was sent to it");

    let site = calm();
    let _other = peer(&site, "node2");
    let (ca, spec) = site.tree.spec("apiserver", now() - days(1));
    let pair = ca.issue(&spec);
    site.tree.write("/srv/node2.crt", pair.cert);
    site.tree.write("/srv/node2.key", pair.key);
    deferred(&site, &run_hastily(&site, &[]), "shows a certificate that has expired");
}

#[test]
fn what_ends_within_the_days_buffer_waits_for_nobody_but_for_who_has_the_turn() {
    let site = stacked(5);
    let other = peer(&site, "node2");
    other.script(|script| script.first = vec![Answer::Status(500)]);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let why = "answers 500 to /readyz); going on all the same, since a certificate in use ends on";
    assert_eq!(ran.err.matches(why).count(), 1, "{}", ran.err);
    assert_eq!(cluster(&site).edit(|objects| objects.holders.len()), 2, "in turn all the same");

    let site = stacked(5);
    let _other = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 3000);
    deferred(&site, &run_hastily(&site, &[]), "node 'node2' has the turn");
}
