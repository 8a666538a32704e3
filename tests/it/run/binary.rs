//! The real program: what it says where, and how it ends, whoever reads.

use std::process::{Command, Output, Stdio};

use k8s_certs_renew::host::Signals;

use super::seen::{APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, impatient};
use super::{NOW, run_by, site};
use crate::support::faults::{Return, Runtime};
use crate::support::site::Site;

/// The real program on this node. It judges as of the moment of the tests.
pub fn program(site: &Site, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"));
    command.arg("run").args(site.options()).args(["--at", NOW]).args(args);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> (String, String) {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).into()
}

#[test]
fn a_reader_that_has_left_stops_nothing() {
    let site = site(5);
    let mut child = program(&site, &["--detailed-exitcode", "-v"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let (_, err) = said(&output);
    assert_eq!(output.status.code(), Some(10), "{err}");
    assert!(!err.contains("panicked"), "{err}");
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    // and both at once
    let mut child = program(&site, &["--force", "-v"]).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for args in [["--help"], ["--version"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let (_, err) = said(&child.wait_with_output().unwrap());
        assert_eq!(err, "");
    }
}

fn call(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"))
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = said(&output);
    (output.status.code(), out, err)
}

#[test]
fn help_and_version_go_to_stdout_and_end_well() {
    let (code, out, err) = call(&["--version"]);
    assert_eq!((code, out, err), (Some(0), format!("k8s-certs-renew {}\n", env!("CARGO_PKG_VERSION")), String::new()));
    for args in [&["--help"][..], &["-h"], &["run", "--help"], &["help", "run"]] {
        let (code, out, err) = call(args);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        assert!(out.contains("--dry-run") && out.contains("--ready-timeout"), "{args:?}: {out}");
    }
}

#[test]
fn a_wrong_command_line_is_64_and_changes_nothing() {
    let site = site(5);
    let before = files(&site);
    let root = site.tree.dir().to_str().unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["run", "--no-such-option"], "--no-such-option"),
        (&["--dry-run", "run"], "run"),
        (&["frobnicate"], "frobnicate"),
        (&["run", "--days-buffer", "-1"], "'-1'"),
        (&["run", "--days-buffer", "x"], "--days-buffer"),
        (&["run", "--runtime", "rkt"], "rkt"),
        (&["run", "--root", root], "--kubeadm"),
        (&["run", "--root", "/nowhere/at/all", "--dry-run"], "/nowhere/at/all"),
        (&["run", "--root", root, "--dry-run", "--kubeconfig-copy", "relative"], "not an absolute path"),
    ];
    for (args, words) in cases {
        let (code, out, err) = call(args);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
}

#[test]
fn quiet_says_only_what_went_wrong_and_verbose_each_command() {
    let output = program(&site(5), &["-q", "--detailed-exitcode"]).output().unwrap();
    let (out, err) = said(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(10), ""), "{err}");
    assert!(!err.contains("error:") && !err.contains("note:") && !err.contains("run:"), "{err}");

    let output = program(&site(5), &["-v", "--detailed-exitcode"]).output().unwrap();
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(10), "{err}");
    assert!(out.contains("## Renewing certificates managed by kubeadm ##"), "{out}");
    for words in
        ["kubeadm certs renew all --config", ": exit code 0, ", "removing the sandbox of 'kube-scheduler-node1'"]
    {
        assert!(err.lines().any(|line| line.starts_with("run: ") && line.contains(words)), "{words}: {err}");
    }

    let quiet = site(5);
    quiet.world.fault(|faults| {
        faults.returns.insert("kube-scheduler".to_owned(), Return::Never);
    });
    let ran = run_by(&impatient(), &quiet, &["-q"], &Signals::none());
    assert_eq!((ran.code, ran.out.as_str()), (21, ""));
    assert!(ran.err.contains("error: kube-scheduler is not back: "), "{}", ran.err);
    quiet.world.fault(|faults| faults.runtime = Runtime::Down);
    let ran = run_by(&impatient(), &quiet, &["-q"], &Signals::none());
    assert_eq!(ran.code, 23);
    assert!(ran.err.contains("warning: Deferred: the container runtime does not answer"), "{}", ran.err);
}
