//! The commands as they are typed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::machine::{DROP_IN, Machine, PATHS, PROGRAM, SETTINGS, changed};

fn run(machine: &Machine, args: &[&str]) -> Output {
    let systemctl = machine.on_host("/../bin/systemctl");
    Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"))
        .args(args)
        .arg(format!("--root={}", machine.root().dir().display()))
        .arg(format!("--systemctl={}", systemctl.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn an_image_is_armed_with_this_very_program_and_given_back() {
    let machine = Machine::new();
    let before = machine.names();
    let dry = run(&machine, &["install", "--dry-run", "-v"]);
    assert_eq!(dry.status.code(), Some(0), "{}", text(&dry));
    assert!(text(&dry).contains("\n    OnCalendar=Mon *-*-1,2,3,4,5,6,7 03:00:00\n"), "{}", text(&dry));
    assert_eq!(machine.names(), before);

    let ran = run(&machine, &["install"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
    let same = std::fs::read(machine.on_host(PROGRAM)).unwrap()
        == std::fs::read(env!("CARGO_BIN_EXE_k8s-certs-renew")).unwrap();
    assert!(same, "another program was installed");
    let settings = machine.read(SETTINGS);
    assert!(
        settings.contains("\n# Days that a certificate must outlive the next firing\n#K8S_CERTS_RENEW_DAYS_BUFFER=7\n"),
        "{settings}"
    );
    assert!(settings.lines().all(|line| line.is_empty() || line.starts_with('#')), "{settings}");
    for word in ["ROOT", "DRY_RUN", "FORCE", "_AT=", "YES", "PURGE"] {
        assert!(!settings.contains(&format!("K8S_CERTS_RENEW_{}", word.trim_start_matches('_'))), "{word}: {settings}");
    }
    let again = run(&machine, &["install"]);
    assert!(text(&again).starts_with("Everything is in place\n"), "{}", text(&again));

    // every setting can be taken as it stands there
    machine.write(SETTINGS, &settings.replace("#K8S", "K8S"));
    let dry = run(&machine, &["install", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", text(&dry));
    machine
        .write(SETTINGS, "K8S_CERTS_RENEW_TEXTFILE=/usr/share/metrics/k8s.prom\nK8S_CERTS_RENEW_BACKUP_DIR=/tmp/b\n");
    assert_eq!(run(&machine, &["install"]).status.code(), Some(0));
    assert!(machine.read(PATHS).contains("PrivateTmp=no\nReadWritePaths=\"-/usr/share/metrics\""));
    machine.write(SETTINGS, &settings);

    let ran = run(&machine, &["uninstall"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
    assert_eq!(machine.names(), before);
}

#[test]
fn what_is_typed_wrong_and_what_is_missing() {
    let machine = Machine::new();
    let before = machine.listing();
    for (args, code, words) in [
        (&["install", "--bin-dir", "bin"][..], 64, "not an absolute path"),
        (&["install", "--yes"], 64, "--yes"),
        (&["uninstall", "--yes"], 64, "--purge"),
        (&["uninstall", "--purge"], 64, "add --yes"),
    ] {
        let ran = run(&machine, args);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {}", text(&ran));
        assert!(text(&ran).contains(words), "{args:?}: {}", text(&ran));
    }
    std::fs::remove_file(machine.on_host("/../bin/systemctl")).unwrap();
    let ran = run(&machine, &["install"]);
    assert_eq!(ran.status.code(), Some(69), "{}", text(&ran));
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
}

#[test]
fn wrong_settings_are_told_before_anything_is_changed() {
    let machine = Machine::new();
    machine.write(SETTINGS, "K8S_CERTS_RENEW_DAYS_BUFER=3\n");
    let before = machine.listing();
    let ran = run(&machine, &["install"]);
    assert_eq!(ran.status.code(), Some(78), "{}", text(&ran));
    assert!(text(&ran).contains("/etc/default/k8s-certs-renew, line 1"), "{}", text(&ran));
    assert_eq!(machine.listing(), before);
}

#[test]
fn another_directory_for_the_program_is_named_in_the_drop_in() {
    let machine = Machine::new();
    let ran = run(&machine, &["install", "--bin-dir", "/opt/k8s tools"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
    assert!(machine.on_host("/opt/k8s tools/k8s-certs-renew").is_file() && !machine.exists(PROGRAM));
    assert!(machine.read(DROP_IN).contains("\nExecStart=\"/opt/k8s tools/k8s-certs-renew\" run\n"));
    assert!(Path::new(&machine.on_host("/opt")).is_dir());
    assert_eq!(run(&machine, &["uninstall"]).status.code(), Some(0));
    assert!(!machine.exists("/opt"));
}

#[test]
fn settings_that_each_run_would_refuse_are_refused_by_install() {
    for (setting, words) in [
        ("K8S_CERTS_RENEW_BACKUP_DIR=srv/backups", "'srv/backups' is not an absolute path"),
        ("K8S_CERTS_RENEW_TEXTFILE=/srv/metrics.txt", "does not end with .prom"),
    ] {
        let machine = Machine::new();
        machine.write(SETTINGS, &format!("{setting}\n"));
        let before = machine.listing();
        let ran = run(&machine, &["install"]);
        assert_eq!(ran.status.code(), Some(78), "{setting}: {}", text(&ran));
        assert!(text(&ran).contains(words), "{}", text(&ran));
        assert_eq!(machine.listing(), before);
    }
}

#[test]
fn wrong_settings_keep_nobody_from_taking_it_off() {
    let machine = Machine::new();
    let before = machine.names();
    for purge in [false, true] {
        assert_eq!(run(&machine, &["install"]).status.code(), Some(0));
        machine.write(SETTINGS, "K8S_CERTS_RENEW_DAYS_BUFER=3\n");
        let ran = run(&machine, if purge { &["uninstall", "--purge", "--yes"] } else { &["uninstall"] });
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
        let warned = text(&ran).contains("are looked for in their usual places only");
        assert_eq!((warned, machine.exists(PROGRAM)), (purge, false), "{}", text(&ran));
        if !purge {
            std::fs::remove_file(machine.on_host(SETTINGS)).unwrap();
        }
    }
    assert_eq!(machine.names(), before);
}
