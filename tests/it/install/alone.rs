//! One installation at a time, and none during a run.

use std::path::Path;

use k8s_certs_renew::lock::Lock;

use super::machine::{DROP_IN, LOCK, Machine, RECORD};

/// What others do: `meanwhile`, as systemctl is called the next time; `when-started`, as the timer is started.
fn script(machine: &Machine, when: &str, text: &str) {
    std::fs::write(machine.on_host(&format!("/../{when}")), text).unwrap();
}

#[test]
fn what_has_something_to_do_during_a_run_is_refused_at_once_and_what_has_not_is_well() {
    let machine = Machine::new();
    let before = machine.listing();
    let lock = Lock::take(&machine.root(), Path::new(LOCK)).unwrap();
    let ran = machine.install();
    assert_eq!(ran.code, 75, "{}", ran.out);
    assert!(ran.err.contains("another run is at work") && ran.err.contains("nothing was changed"), "{}", ran.err);
    assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
    assert_eq!(machine.install_dry().code, 0);
    lock.let_go();
    assert_eq!(machine.install().code, 0);
    let _lock = Lock::take(&machine.root(), Path::new(LOCK)).unwrap();
    assert_eq!(machine.install().code, 0);
}

#[test]
fn what_another_installation_has_noted_meanwhile_is_kept() {
    let own = "[Service]\nNice=5\n";
    let make = || {
        let machine = Machine::new();
        machine.write(DROP_IN, own);
        machine
    };
    let (first, second) = (make(), make());
    assert_eq!(first.install().code, 0);
    let (from, to) = (first.on_host("/"), second.on_host("/"));
    script(&second, "meanwhile", &format!("cp -a '{}/.' '{}'", from.display(), to.display()));
    assert_eq!(second.install().code, 0);
    assert_eq!(second.read(RECORD), first.read(RECORD));
    assert_eq!(second.uninstall().code, 0);
    assert_eq!(second.read(DROP_IN), own);
}

#[test]
fn the_lock_is_free_when_the_timer_is_started_since_that_may_start_a_run() {
    let machine = Machine::new();
    let lock = machine.on_host(LOCK);
    let free = machine.on_host("/free");
    script(&machine, "when-started", &format!("flock -n '{}' touch '{}'", lock.display(), free.display()));
    assert_eq!(machine.install().code, 0);
    assert!(machine.exists("/free"));
}

#[test]
fn an_image_gets_no_lock() {
    let machine = Machine::new().offline();
    assert_eq!(machine.install().code, 0);
    assert!(!machine.exists(LOCK));
}
