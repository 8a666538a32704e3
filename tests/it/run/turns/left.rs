//! A turn that is left behind: by a run that was killed, or one that could not give it back.

use k8s_certs_renew::files::Root;
use k8s_certs_renew::journal::Journal;

use super::*;

fn root(site: &Site) -> Root {
    Root::new(site.tree.dir()).unwrap()
}

fn held(site: &Site) -> bool {
    Journal::read(&root(site)).0.turn.held
}

fn nodes(site: &Site) -> Vec<String> {
    let holders = cluster(site).edit(|objects| objects.holders.clone());
    holders.iter().map(|holder| holder.split('/').next().unwrap().to_owned()).collect()
}

#[test]
fn a_node_that_was_killed_in_its_turn_gives_it_back_while_it_waits_for_another_one() {
    let site = calm();
    let other = peer(&site, "node2");
    cluster(&site).hold("node1/some-boot/1", 3000);
    // node2 needs the turn to become ready
    other.script(|script| script.first = vec![Answer::Status(500)]);
    let (objects, server) = (cluster(&site).clone(), other);
    let ran = run_while(&site, &[], 1, move || {
        assert_eq!(objects.holder(), None, "two would wait for each other");
        server.script(|script| script.first = vec![Answer::Ready]);
    });
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(nodes(&site), ["node1", "", "node1", ""]);
}

#[test]
fn a_run_that_is_put_off_gives_back_what_a_killed_one_has_left() {
    let site = calm();
    let _other = peer(&site, "node2");
    cluster(&site).hold("node2/boot/1", 3000);
    deferred(&site, &run_hastily(&site, &[]), "node 'node2' has the turn");
    let mut journal = Journal::read(&root(&site)).0;
    journal.turn.held = true;
    journal.write(&root(&site), true).unwrap();
    cluster(&site).hold("node1/some-boot/1", 3000);
    cluster(&site).edit(|objects| objects.refuses = Some(503));
    let ran = run_hastily(&site, &[]);
    assert_eq!((ran.code, held(&site)), (23, true), "{}", ran.text());
    assert!(ran.err.contains("the turn cannot be given back"), "{}", ran.err);
    cluster(&site).edit(|objects| objects.refuses = None);
    let ran = run_hastily(&site, &[]);
    assert_eq!((ran.code, held(&site), cluster(&site).holder()), (0, false, None), "{}", ran.text());
}

#[test]
fn a_turn_that_cannot_be_given_back_while_the_others_are_waited_for_is_given_back_later() {
    let site = calm();
    let other = peer(&site, "node2");
    // ready when it is looked at before the turn is taken, and not when it is
    other.script(|script| script.first = vec![Answer::Ready, Answer::Status(500)]);
    cluster(&site).edit(|objects| objects.lose = vec![false, false, false, true]);
    let ran = run_hastily(&site, &[]);
    deferred(&site, &ran, "kube-apiserver of node 'node2' is not ready");
    assert_eq!((nodes(&site), held(&site)), (vec!["node1".to_owned(), String::new()], false));
}

#[test]
fn a_turn_that_is_not_given_back_at_the_end_is_given_back_by_the_next_run() {
    let site = calm();
    let _other = peer(&site, "node2");
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Status(500), Answer::Ready]);
    let objects = cluster(&site).clone();
    let ran = run_while(&site, &[], 1, move || objects.edit(|objects| objects.lose = vec![false; 3]));
    assert_eq!((ran.code, held(&site)), (0, true), "{}", ran.text());
    assert!(ran.err.contains("the turn cannot be given back"), "{}", ran.err);
    assert!(cluster(&site).holder().is_some());
    let ran = run(&site, &[]);
    assert_eq!((ran.code, held(&site), cluster(&site).holder()), (0, false, None), "{}", ran.text());
}

#[test]
fn the_journal_knows_of_the_turn_before_the_lease_is_written() {
    let site = calm();
    let _other = peer(&site, "node2");
    // the first writes are lost, so that there is a moment between two of them
    cluster(&site).edit(|objects| objects.lose = vec![false; 3]);
    let root = root(&site);
    let clock = StillClock::at(now()).oversleeping(Duration::from_secs(1)).meanwhile(move |number| {
        assert!(number > 1 || Journal::read(&root).0.turn.held, "a run that is killed now would leave it");
    });
    let ran = run_by(&clock, &site, &[], &Signals::none());
    assert_eq!((ran.code, held(&site)), (0, false), "{}", ran.text());
}
