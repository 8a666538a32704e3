//! What stands in the way.

use super::machine::{DROP_IN, Machine, PROGRAM, SERVICE, SETTINGS, TIMER};

#[test]
fn a_masked_unit_is_a_decision_and_stays() {
    type Make = fn(&Machine);
    let kinds: [(Make, &str); 4] = [
        (|machine| machine.link("/dev/null", TIMER), TIMER),
        (|machine| machine.link("/dev/null", SERVICE), SERVICE),
        (|machine| machine.write(TIMER, ""), TIMER),
        (
            |machine| machine.link("/dev/null", "/run/systemd/system/k8s-certs-renew.timer"),
            "/run/systemd/system/k8s-certs-renew.timer",
        ),
    ];
    for (mask, file) in kinds {
        let machine = Machine::new();
        mask(&machine);
        let before = machine.listing();
        let ran = machine.install();
        assert_eq!(ran.code, 78, "{}", ran.out);
        assert!(ran.err.contains("is masked") && ran.err.contains(&format!("rm {file}")), "{}", ran.err);
        assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
    }
}

#[test]
fn nothing_is_written_through_a_link_or_over_a_directory() {
    type Make = fn(&Machine);
    let kinds: [Make; 7] = [
        |machine| machine.link("/etc/passwd", DROP_IN),
        |machine| machine.link("/dev/null", DROP_IN),
        |machine| machine.link("/srv/elsewhere", "/etc/systemd/system/k8s-certs-renew.service.d"),
        |machine| machine.link("/etc/passwd", PROGRAM),
        |machine| machine.link("/nowhere/at-all", SERVICE),
        |machine| std::fs::create_dir_all(machine.on_host(DROP_IN)).unwrap(),
        |machine| std::fs::create_dir_all(machine.on_host(PROGRAM)).unwrap(),
    ];
    for (index, make) in kinds.into_iter().enumerate() {
        let machine = Machine::new();
        machine.write("/etc/passwd", "root:x:0:0\n");
        machine.write("/srv/elsewhere/x", "x");
        make(&machine);
        let before = machine.listing();
        let ran = machine.install();
        assert_eq!(ran.code, 78, "{index}: {}{}", ran.out, ran.err);
        assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()), "{index}");
    }
}

#[test]
fn a_file_where_a_directory_is_to_be_is_told() {
    let machine = Machine::new();
    machine.write("/etc/systemd/system/k8s-certs-renew.service.d", "a file");
    let before = machine.listing();
    let ran = machine.install();
    assert_eq!(ran.code, 78, "{}", ran.err);
    assert!(ran.err.contains("k8s-certs-renew.service.d"), "{}", ran.err);
    assert_eq!(machine.listing(), before);
}

#[test]
fn what_became_a_link_since_is_not_followed_when_it_goes() {
    let machine = Machine::new();
    machine.install();
    machine.write("/etc/precious", "precious");
    std::fs::remove_file(machine.on_host(SETTINGS)).unwrap();
    machine.link("/etc/precious", SETTINGS);
    std::fs::remove_file(machine.on_host(DROP_IN)).unwrap();
    machine.link("/etc/precious", DROP_IN);
    let ran = machine.uninstall();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(machine.exists(SETTINGS) && machine.exists(DROP_IN));
    assert_eq!(machine.read("/etc/precious"), "precious");
}

#[test]
fn a_systemd_that_refuses_is_told_in_its_words() {
    let machine = Machine::new();
    machine.flag("fails-start", true);
    let ran = machine.install();
    assert_eq!(ran.code, 78, "{}", ran.out);
    assert!(ran.err.contains("'systemctl start k8s-certs-renew.timer' failed: exit code 1: Job for"), "{}", ran.err);
    machine.flag("fails-start", false);
    assert_eq!(machine.install().code, 0);
}

#[test]
fn a_drop_in_that_sorts_after_ours_and_starts_another_program_is_named() {
    let machine = Machine::new();
    let own = "/etc/systemd/system/k8s-certs-renew.service.d/override.conf";
    machine.write(own, "[Service]\nExecStart=\nExecStart=/usr/local/bin/k8s-certs-renew.sh\n");
    let ran = machine.install();
    assert_eq!(ran.code, 78, "{}", ran.out);
    assert!(
        ran.err.contains(own) && ran.err.contains("still starts '/usr/local/bin/k8s-certs-renew.sh'"),
        "{}",
        ran.err
    );
}

#[test]
fn a_record_that_is_damaged_or_newer_is_not_guessed_at() {
    for text in ["{", "{\"version\":9,\"files\":{},\"directories\":[],\"linksBefore\":[],\"activeBefore\":false}"] {
        let machine = Machine::new();
        machine.install();
        machine.write(super::machine::RECORD, text);
        let before = machine.listing();
        for ran in [machine.install(), machine.uninstall()] {
            assert_eq!(ran.code, 74, "{}", ran.err);
            assert!(ran.err.contains("cannot use the record"), "{}", ran.err);
        }
        assert_eq!(machine.listing(), before);
    }
}

#[test]
fn a_timer_that_starts_another_unit_or_never_fires_again_is_no_installation() {
    let drop_in = "/etc/systemd/system/k8s-certs-renew.timer.d/override.conf";
    for (text, words) in [
        ("[Timer]\nUnit=other.service\n", "starts other.service, not k8s-certs-renew.service, as Unit= in"),
        ("[Timer]\nOnCalendar=\nOnCalendar=2020-01-01\n", "never fires again, as its OnCalendar= says"),
    ] {
        let machine = Machine::new();
        machine.write("/etc/systemd/system/other.service", "[Service]\nExecStart=/bin/true\n");
        machine.write(drop_in, text);
        let ran = machine.install();
        assert_eq!(ran.code, 78, "{}", ran.out);
        assert!(ran.err.contains(words) && ran.err.contains(drop_in), "{}", ran.err);
        assert!(ran.err.contains("everything is in place"), "{}", ran.err);
        assert!(!ran.out.contains("Next:"), "{}", ran.out);
        std::fs::remove_file(machine.on_host(drop_in)).unwrap();
        assert_eq!(machine.install().code, 0);
    }
}

#[test]
fn another_unit_that_runs_this_program_and_a_trigger_beside_a_calendar_are_well() {
    let machine = Machine::new();
    machine.write("/etc/systemd/system/other.service", "[Service]\nExecStart=/usr/local/bin/k8s-certs-renew run\n");
    let drop_in = "[Timer]\nUnit=other.service\nOnCalendar=\nOnCalendar=2020-01-01\nOnBootSec=1h\n";
    machine.write("/etc/systemd/system/k8s-certs-renew.timer.d/override.conf", drop_in);
    let ran = machine.install();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("only by its other triggers"), "{}", ran.out);
}
