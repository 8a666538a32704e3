//! stdout that takes nothing, and a reader that goes away.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn program(arguments: &[&str], root: &Path, stdout: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"))
        .args(arguments)
        .args(["--root".as_ref(), root.as_os_str()])
        .env_clear()
        .stdout(stdout)
        .output()
        .unwrap()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

const CASES: [(&[&str], i32); 5] = [
    (&["calendar", "--at", "2026-03-10T12:00:00Z", "daily"], 74),
    (&["calendar", "-o", "json", "--at", "2026-03-10T12:00:00Z", "daily"], 74),
    (&["run", "--dry-run", "-o", "json"], 74),
    (&["restore"], 74),
    // monitoring takes no answer for unknown
    (&["check"], 3),
];

#[test]
fn what_cannot_be_written_has_not_gone_well() {
    let root = tempfile::tempdir().unwrap();
    for (arguments, code) in CASES {
        let output = program(arguments, root.path(), full());
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains("error: cannot write the output: No space left"), "{arguments:?}: {err}");
    }
}

#[test]
fn a_reader_that_went_away_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    for (arguments, _) in CASES {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = program(arguments, root.path(), writer.into());
        let err = String::from_utf8(output.stderr).unwrap();
        let undisturbed = program(arguments, root.path(), Stdio::null());
        assert_eq!(output.status.code(), undisturbed.status.code(), "{arguments:?}: {err}");
        assert!(!err.contains("cannot write"), "{arguments:?}: {err}");
    }
}
