//! What a run that was cut off still owes is not taken away with the program.

use chrono::{DateTime, Utc};

use k8s_certs_renew::install::uninstall::{Consent, Purge};
use k8s_certs_renew::journal::{Journal, OpenRun};

use super::machine::{Machine, PROGRAM};

const STATE: &str = "/var/lib/k8s-certs-renew/state.json";
const APISERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// An installation whose run has left this journal.
fn machine(note: impl FnOnce(&mut Journal)) -> Machine {
    let machine = Machine::new();
    assert_eq!(machine.install().code, 0);
    machine.write(APISERVER, "of any content: a broken one is one too\n");
    let mut journal = Journal::default();
    note(&mut journal);
    journal.write(&machine.root(), false).unwrap();
    machine.service_is("activating");
    machine.acts();
    machine
}

fn open(restart: &[&str], backup: Option<&str>) -> Option<OpenRun> {
    Some(OpenRun {
        began: DateTime::<Utc>::UNIX_EPOCH,
        restart: restart.iter().map(|name| (*name).to_owned()).collect(),
        backup: backup.map(str::to_owned),
        expires: None,
    })
}

#[test]
fn whoever_owes_a_restart_a_hook_or_the_turn_finishes_first() {
    type Note = fn(&mut Journal);
    let kinds: [(Note, &str); 4] = [
        (|journal| journal.open = open(&["kube-apiserver", "etcd"], None), "the restart of kube-apiserver, etcd"),
        (|journal| journal.open = open(&[], Some("20260302T031000Z")), "backup 20260302T031000Z to put back"),
        (
            |journal| journal.turn.drained = vec!["kube-apiserver".to_owned()],
            "the hook after the restart of kube-apiserver",
        ),
        (|journal| journal.turn.held = true, "Lease kube-system/k8s-certs-renew"),
    ];
    for (note, words) in kinds {
        let machine = machine(note);
        let before = machine.listing();
        for (purge, dry_run) in [(Purge::No, false), (Purge::No, true), (Purge::Yes(Consent::Given), false)] {
            let ran = machine.uninstall_as(purge, dry_run, None);
            assert_eq!(ran.code, 75, "{words}: {}", ran.out);
            assert!(ran.err.contains(words) && ran.err.contains("Finish first: k8s-certs-renew."), "{}", ran.err);
        }
        // the run that systemd will start again is what finishes it
        assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()), "{words}");
    }
}

#[test]
fn a_machine_that_is_no_control_plane_any_more_owes_nothing() {
    let machine = machine(|journal| {
        journal.open = open(&["kube-apiserver"], None);
        journal.turn.held = true;
    });
    std::fs::remove_file(machine.on_host(APISERVER)).unwrap();
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, None);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(!machine.exists(PROGRAM) && !machine.exists(STATE));
}

#[test]
fn the_way_out_that_is_named_works() {
    let machine = machine(|journal| journal.open = open(&["kube-apiserver"], None));
    assert!(machine.uninstall().err.contains(&format!("'rm {STATE}'")));
    std::fs::remove_file(machine.on_host(STATE)).unwrap();
    assert_eq!(machine.uninstall().code, 0);
}
