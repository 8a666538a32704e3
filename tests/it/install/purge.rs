//! Everything of ours goes, and nothing else.

use std::path::Path;

use k8s_certs_renew::host::Signals;
use k8s_certs_renew::install::uninstall::{Consent, Purge};
use k8s_certs_renew::lock::Lock;

use super::machine::{LOCK, Machine, PROGRAM, PROGRAM_BYTES, SERVICE, SETTINGS, TIMER, changed};

const METRICS: &str = "/var/lib/node_exporter/k8s.prom";
const INDEX: &str = r#"{"version":1,"created":"2026-03-02T03:10:00Z","reason":"renewal","program":"0.1.0","caKeyHashes":{},"files":[],"skipped":[]}"#;
const STAMP: &str = "/var/lib/systemd/timers/stamp-k8s-certs-renew.timer";

/// Installed, used, and beside others' files.
fn used(machine: &Machine) {
    machine.install();
    machine.write(SETTINGS, "K8S_CERTS_RENEW_DAYS_BUFFER=14\n");
    machine.write("/var/lib/k8s-certs-renew/state.json", "{}");
    machine.write("/srv/backups/20260302T031000Z/etc/kubernetes/admin.conf", "key");
    machine.write("/srv/backups/20260302T031000Z/manifest.json", INDEX);
    machine.write("/srv/backups/.20260302T031000Z-2.partial/x", "key");
    machine.write(METRICS, "k8s_certs_renew_last_run 1\n");
    machine.write(STAMP, "");
    machine.write("/run/k8s-certs-renew.lock", "1\n");
}

fn machine() -> Machine {
    let machine = Machine::new();
    for (path, text) in [
        ("/srv/backups/notes.txt", "theirs"),
        ("/var/lib/node_exporter/other.prom", "theirs"),
        ("/var/lib/systemd/timers/stamp-logrotate.timer", ""),
    ] {
        machine.write(path, text);
    }
    machine
}

#[test]
fn nothing_of_ours_is_left_and_nothing_of_others_is_gone() {
    let machine = machine();
    let before = machine.listing();
    used(&machine);
    let dry = machine.uninstall_as(Purge::Yes(Consent::Missing), true, Some(METRICS));
    assert_eq!((dry.code, dry.err.as_str()), (0, ""), "{}", dry.out);
    assert!(dry.out.contains("would remove directory /var/lib/k8s-certs-renew and all that is in it"), "{}", dry.out);
    assert!(dry.out.ends_with("Dry run: nothing was changed\n"));
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, Some(METRICS));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "{}", ran.out);
    assert!(!machine.exists(LOCK));
}

#[test]
fn it_asks_and_without_anybody_to_ask_it_is_refused() {
    let machine = machine();
    used(&machine);
    let before = machine.listing();
    machine.acts();
    let ran = machine.uninstall_as(Purge::Yes(Consent::Missing), false, None);
    assert_eq!(ran.code, 64, "{}", ran.out);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    let ran = machine.uninstall_as(Purge::Yes(Consent::Ask(|_| Ok(Some("n".to_owned())))), false, None);
    assert_eq!(ran.code, 0);
    assert!(ran.out.ends_with("Nothing was changed\n") && ran.err.contains("private keys"), "{}{}", ran.out, ran.err);
    let ran = machine.uninstall_as(
        Purge::Yes(Consent::Ask(|signals: &Signals| {
            signals.note(2);
            Ok(None)
        })),
        false,
        None,
    );
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
    assert_eq!(machine.uninstall_as(Purge::Yes(Consent::Ask(|_| Ok(Some("y".to_owned())))), false, None).code, 0);
    assert!(!machine.exists("/var/lib/k8s-certs-renew"));
}

#[test]
fn what_was_put_there_by_hand_goes_too_and_kubesprays_stays() {
    let machine = Machine::new();
    let before = machine.listing();
    machine.write(PROGRAM, std::str::from_utf8(PROGRAM_BYTES).unwrap());
    let service =
        include_str!("../../../units/k8s-certs-renew.service").replace("RestartSec=30min", "RestartSec=10min");
    machine.write(SERVICE, &service);
    machine.write(TIMER, include_str!("../../../units/k8s-certs-renew.timer"));
    machine.link(TIMER, "/etc/systemd/system/timers.target.wants/k8s-certs-renew.timer");
    machine.flag("active", true);
    machine.write("/var/lib/k8s-certs-renew/state.json", "{}");
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, None);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "{}", ran.out);
    assert!(!machine.is("active"));

    let machine = Machine::new().of_kubespray();
    let before = machine.listing();
    machine.write("/var/lib/k8s-certs-renew/state.json", "{}");
    assert_eq!(machine.uninstall_as(Purge::Yes(Consent::Given), false, None).code, 0);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
    assert!(machine.is("active"));
}

#[test]
fn the_stamp_stays_where_kubesprays_timer_stays() {
    let machine = Machine::new().of_kubespray();
    machine.write(STAMP, "");
    let before = machine.listing();
    machine.install();
    assert_eq!(machine.uninstall_as(Purge::Yes(Consent::Given), false, None).code, 0);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
}

#[test]
fn not_during_a_run() {
    let machine = machine();
    used(&machine);
    let _lock = Lock::take(&machine.root(), Path::new("/run/k8s-certs-renew.lock")).unwrap();
    let before = machine.listing();
    for purge in [Purge::No, Purge::Yes(Consent::Given)] {
        let ran = machine.uninstall_as(purge, false, None);
        assert_eq!(ran.code, 75, "{}", ran.err);
    }
    assert_eq!(machine.listing(), before);
}

#[test]
fn what_is_a_link_or_not_ours_is_left() {
    let machine = machine();
    machine.install();
    machine.write("/srv/state/keep", "x");
    machine.write(METRICS, "node_up 1\n");
    std::fs::remove_dir_all(machine.on_host("/var/lib/k8s-certs-renew")).unwrap();
    machine.link("/srv/state", "/var/lib/k8s-certs-renew");
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, Some(METRICS));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!((machine.read("/srv/state/keep"), machine.read(METRICS)), ("x".to_owned(), "node_up 1\n".to_owned()));
}

#[test]
fn what_has_only_our_name_stays_and_is_named() {
    let machine = machine();
    let wrapper = "#!/bin/sh\nexec /srv/tools/renew \"$@\"\n";
    machine.write(PROGRAM, wrapper);
    machine.write("/srv/backups/20260101T000000Z/other.tar", "theirs");
    machine.write("/srv/backups/20260102T000000Z/manifest.json", "{\"name\":\"of another program\"}");
    machine.write("/srv/backups/20260302T031000Z/manifest.json", INDEX);
    machine.write(METRICS, "k8s_certs_renew_done 1\nnode_up 1\n");
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, Some(METRICS));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(machine.read(PROGRAM), wrapper);
    assert!(machine.exists("/srv/backups/20260101T000000Z/other.tar") && machine.exists(METRICS));
    assert!(machine.exists("/srv/backups/20260102T000000Z/manifest.json"));
    assert!(!machine.exists("/srv/backups/20260302T031000Z"), "{}", ran.out);
    assert!(ran.out.contains(&format!("{PROGRAM} was not put there by install, and stays")), "{}", ran.out);
    for id in ["20260101T000000Z", "20260102T000000Z"] {
        assert!(ran.err.contains(&format!("/srv/backups/{id} is called as a backup is")), "{}", ran.err);
    }
}

#[test]
fn a_program_that_was_exchanged_since_stays() {
    let machine = machine();
    used(&machine);
    machine.write(PROGRAM, "#!/bin/sh\n");
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, None);
    assert_eq!((ran.code, machine.read(PROGRAM).as_str()), (0, "#!/bin/sh\n"), "{}", ran.err);
    assert!(ran.err.contains(&format!("{PROGRAM} was changed since, and stays")), "{}", ran.err);
    assert!(!ran.out.contains("was not put there by install"), "{}", ran.out);
}

#[test]
fn the_program_goes_last_so_that_keys_never_stay_without_it() {
    let machine = machine();
    used(&machine);
    let actions = machine.planned_undo(true);
    let last = actions.last().unwrap().line(&machine.systemctl());
    assert_eq!(last, format!("remove {PROGRAM}"));

    let in_the_way = "/opt/bin/k8s-certs-renew";
    machine.write(&format!("{in_the_way}/theirs"), "x");
    let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, None);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!machine.exists("/var/lib/k8s-certs-renew") && !machine.exists("/srv/backups/20260302T031000Z"));
    assert!(!machine.exists(PROGRAM) && machine.exists(&format!("{in_the_way}/theirs")));
    assert!(ran.out.contains(&format!("{in_the_way} is no file, and stays")), "{}", ran.out);
}

#[test]
fn a_purge_that_was_cut_off_anywhere_is_completed_by_the_next() {
    let whole = machine();
    used(&whole);
    for done in 0..=whole.planned_undo(true).len() {
        let machine = machine();
        let before = machine.listing();
        used(&machine);
        std::fs::remove_file(machine.on_host(METRICS)).unwrap();
        machine.planned_undo(true).iter().take(done).for_each(|action| machine.act(action));
        let ran = machine.uninstall_as(Purge::Yes(Consent::Given), false, None);
        assert_eq!((ran.code, changed(&before, &machine.listing())), (0, Vec::new()), "after {done}: {}", ran.out);
    }
}

#[test]
fn a_state_directory_that_is_a_link_is_named_and_nothing_promises_to_remove_it() {
    let machine = machine();
    machine.install();
    std::fs::remove_dir_all(machine.on_host("/var/lib/k8s-certs-renew")).unwrap();
    machine.write("/srv/state/keep", "x");
    machine.link("/srv/state", "/var/lib/k8s-certs-renew");
    let words = "/var/lib/k8s-certs-renew is a link to /srv/state";
    let ran = machine.uninstall();
    assert!(ran.code == 0 && ran.out.contains(words) && !ran.out.contains("--purge"), "{}", ran.out);
    for purge in [Purge::Yes(Consent::Given), Purge::Yes(Consent::Given)] {
        let ran = machine.uninstall_as(purge, false, None);
        assert!(ran.code == 0 && ran.err.contains(words) && ran.err.contains("remove that yourself"), "{}", ran.err);
        assert!(!ran.out.contains("--purge"), "{}", ran.out);
    }
    assert_eq!(machine.read("/srv/state/keep"), "x");
}
