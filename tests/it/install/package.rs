//! Where a package has put program and units.

use super::machine::{CONFIGURATION, DROP_IN, Machine, RECORD, SETTINGS, changed};

const LIB: &str = "/usr/lib/systemd/system";

fn packaged(version: u32) -> Machine {
    let machine = Machine::with_systemd(version).from("/usr/bin/k8s-certs-renew");
    let service = include_str!("../../../units/k8s-certs-renew.service").replace("/usr/local/bin/", "/usr/bin/");
    machine.write(&format!("{LIB}/k8s-certs-renew.service"), &service);
    machine.write(&format!("{LIB}/k8s-certs-renew.timer"), include_str!("../../../units/k8s-certs-renew.timer"));
    machine.write(
        &format!("{LIB}/k8s-certs-renew.service.d/50-k8s-certs-renew.conf"),
        include_str!("../../../units/k8s-certs-renew.service.d/50-k8s-certs-renew.conf"),
    );
    machine.write(SETTINGS, CONFIGURATION);
    machine
}

#[test]
fn it_only_has_to_be_enabled_and_started() {
    let machine = packaged(252);
    let before = machine.listing();
    let ran = machine.install();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(machine.acts(), ["enable k8s-certs-renew.timer", "start k8s-certs-renew.timer"]);
    let wants = "/etc/systemd/system/timers.target.wants";
    assert_eq!(
        changed(&before, &machine.listing()),
        [wants, &format!("{wants}/k8s-certs-renew.timer"), "/var/lib/k8s-certs-renew", RECORD]
    );
    assert_eq!(machine.starts(), ["/usr/bin/k8s-certs-renew run"]);
    let ran = machine.uninstall();
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
    assert!(!machine.is("active"));
    assert!(ran.out.contains("is a package's: remove the package with the package manager"), "{}", ran.out);
}

#[test]
fn one_that_its_package_has_enabled_is_in_place() {
    let machine = packaged(252);
    machine
        .link(&format!("{LIB}/k8s-certs-renew.timer"), "/etc/systemd/system/timers.target.wants/k8s-certs-renew.timer");
    machine.flag("active", true);
    let before = machine.listing();
    let ran = machine.install();
    assert!(ran.out.starts_with("Everything is in place\n"), "{}", ran.out);
    assert_eq!(machine.uninstall().code, 0);
    assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
    assert!(machine.is("active"), "what the package did is the package's to undo");
}

#[test]
fn kubesprays_base_over_the_packages_is_held_down_by_the_packages_drop_in() {
    let machine = packaged(252);
    machine.playbook();
    assert_eq!(machine.starts(), ["/usr/bin/k8s-certs-renew run"]);
    assert_eq!(machine.install().code, 0);
    assert!(!machine.exists(DROP_IN));
}

#[test]
fn on_an_old_systemd_a_drop_in_shadows_the_packages() {
    let machine = packaged(243);
    let before = machine.listing();
    let ran = machine.install();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(machine.read(DROP_IN).contains("\nType=simple\n"));
    assert_eq!(machine.acts()[0], "daemon-reload");
    assert_eq!(machine.uninstall().code, 0);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
}
