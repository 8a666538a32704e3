//! Programs are run to an end, whatever they do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_certs_renew::host::{Call, CommandError, Signals, Status};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

fn sh(script: &str) -> Call<'static> {
    Call::new(Path::new("/bin/sh")).args(["-c", script]).deadline(LONG)
}

#[test]
fn output_and_exit_code_come_back_as_they_are() {
    let output = sh("echo out; echo err >&2; exit 3").run().unwrap();
    assert_eq!((output.status, output.stdout_text().as_str()), (Status::Code(3), "out\n"));
    assert_eq!(output.stderr, b"err\n");
    assert!(!output.success());
    assert!(sh("true").run().unwrap().success());
}

#[test]
fn arguments_are_not_seen_by_a_shell() {
    let output = Call::new(Path::new("/bin/echo")).args(["$HOME", "`id`", "a b", "*"]).run().unwrap();
    assert_eq!(output.stdout_text(), "$HOME `id` a b *\n");
}

#[test]
fn a_program_sees_the_fixed_environment_no_input_and_the_root_directory() {
    let output = Call::new(Path::new("/usr/bin/env")).run().unwrap();
    let mut lines: Vec<String> = output.stdout_text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        ["HOME=/root", "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"]
    );
    let output = sh("pwd; cat; echo end").run().unwrap();
    assert_eq!(output.stdout_text(), "/\nend\n");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let output =
        sh(&format!("sleep 300 & echo $! > {}; echo begun; wait", pid.display())).deadline(SHORT).run().unwrap();
    assert_eq!((output.status, output.stdout_text().as_str()), (Status::TimedOut, "begun\n"));
    assert!(output.took >= SHORT && output.took < Duration::from_secs(10), "{:?}", output.took);
    assert!(ended(&std::fs::read_to_string(&pid).unwrap()));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_all_the_same() {
    let output = sh("trap '' TERM INT HUP; while :; do sleep 1; done").deadline(SHORT).run().unwrap();
    assert_eq!(output.status, Status::TimedOut);
}

#[test]
fn a_daemon_left_behind_with_our_output_open_does_not_make_success_a_time_out() {
    let output = sh("sleep 30 & echo $!; exit 0").run().unwrap();
    let left_behind = output.stdout_text();
    assert!(output.success());
    assert!(output.took < Duration::from_secs(10), "{:?}", output.took);
    assert!(!ended(&left_behind), "what a program leaves behind is not ours to kill");
    sh(&format!("kill {}", left_behind.trim())).run().unwrap();
}

#[test]
fn death_by_a_signal_is_told_from_an_exit_code() {
    let output = sh("echo 'about to die' >&2; kill -9 $$").run().unwrap();
    assert_eq!(output.status, Status::Signal(9));
    assert_eq!(output.last_words(), "ended by signal 9: about to die");
}

#[test]
fn big_output_is_cut_and_a_flood_is_stopped() {
    let output = sh("head -c 9437184 /dev/zero; echo end >&2").run().unwrap();
    assert!(output.success());
    assert_eq!((output.stdout.len(), output.stderr.as_slice()), (8 * 1024 * 1024, b"end\n".as_slice()));
    let error = sh("exec cat /dev/zero").run().unwrap_err();
    assert!(matches!(error, CommandError::Flood { .. }), "{error}");
    assert!(error.to_string().contains("64 MiB"), "{error}");
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("kubeadm");
    std::fs::write(&foreign, b"\x7fELF\x02\x01\x01 of another machine").unwrap();
    std::fs::set_permissions(&foreign, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for program in [foreign, PathBuf::from("/nowhere/kubeadm")] {
        let error = Call::new(&program).run().unwrap_err();
        assert!(error.to_string().contains(program.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_signal_that_asks_us_to_end_is_held_until_the_program_has_ended() {
    let signals = Signals::install().unwrap();
    let output =
        sh("kill -HUP $PPID; for i in 1 2 3; do kill -TERM $PPID; sleep 0.01; done; echo whole").run().unwrap();
    assert_eq!((output.success(), output.stdout_text().as_str()), (true, "whole\n"));
    assert_eq!(signals.received(), Some(15));
}

#[test]
fn ctrl_c_at_our_terminal_does_not_reach_the_program() {
    let output = sh("ps -o pgid= -p $$; echo $$").run();
    let text = output.unwrap().stdout_text();
    let mut lines = text.lines().map(str::trim);
    assert_eq!(lines.next(), lines.next());
}

fn ended(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Err(_) => true,
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')),
    }
}
