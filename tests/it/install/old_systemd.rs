//! systemd of the last ten years.

use super::machine::{DROP_IN, Machine, PATHS, changed};

#[test]
fn each_gets_what_it_takes_and_is_told_of_what_it_does_not() {
    for (version, simple, words) in [
        (219, true, "cannot limit how long"),
        (229, true, "@system-service"),
        (237, true, "@system-service"),
        (239, true, "oneshot"),
        (243, true, "oneshot"),
        (244, false, "FixedRandomDelay"),
        (252, false, ""),
    ] {
        for kubespray in [false, true] {
            let machine = Machine::with_systemd(version);
            let mut machine = if kubespray { machine.of_kubespray() } else { machine };
            machine.written = vec!["/usr/share/metrics".into()];
            let before = machine.listing();
            let ran = machine.install();
            assert_eq!(ran.code, 0, "{version}: {}", ran.err);
            assert_eq!(machine.read(DROP_IN).contains("\nType=simple\n"), simple, "{version}");
            assert!(ran.err.contains(words) && ran.err.is_empty() == words.is_empty(), "{version}: {}", ran.err);
            let key = if version < 231 { "ReadWriteDirectories" } else { "ReadWritePaths" };
            assert!(machine.read(PATHS).contains(&format!("\n{key}=")), "{version}");
            let again = machine.install();
            assert!(again.out.starts_with("Everything is in place\n"), "{version}: {}", again.out);
            assert_eq!(machine.uninstall().code, 0);
            assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "{version}");
        }
    }
}

#[test]
fn a_delay_that_is_not_known_is_told_as_all_control_planes_then_fire_at_once() {
    let ran = Machine::with_systemd(219).install();
    assert!(ran.err.contains("RandomizedDelaySec") && ran.err.contains("same second"), "{}", ran.err);
}

#[test]
fn an_image_tells_its_systemd_by_the_library_in_it() {
    let machine = Machine::with_systemd(252).offline();
    machine.write("/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-241.so", "");
    assert_eq!(machine.install().code, 0);
    assert!(machine.read(DROP_IN).contains("\nType=simple\n"));
}

#[test]
fn an_upgrade_of_systemd_is_followed_by_the_next_installation() {
    let machine = Machine::with_systemd(241);
    let before = machine.listing();
    machine.install();
    std::fs::write(machine.on_host("/../version"), "252").unwrap();
    assert_eq!(machine.install().code, 0);
    assert!(machine.read(DROP_IN).contains("\nType=oneshot\n"));
    machine.uninstall();
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
}
