//! The journal: what is written, what is read again, and what is set aside.

use std::path::Path;
use std::time::Duration;

use super::{ASIDE, FILE, Journal, OpenRun};
use crate::files::{Replace, Root};

fn root() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path()).unwrap();
    (dir, root)
}

#[test]
fn what_was_written_is_read_again() {
    let (_dir, root) = root();
    assert_eq!(Journal::read(&root), (Journal::default(), None));
    let began = "2026-03-02T03:00:00Z".parse().unwrap();
    let restart = vec!["kube-scheduler".into()];
    let open = Some(OpenRun { began, restart, backup: Some("id".into()), expires: Some(began) });
    let journal = Journal { last_run: Some(began), open, ..Journal::default() };
    journal.write(&root, true).unwrap();
    assert_eq!(Journal::read(&root), (journal, None));
}

#[test]
fn a_run_is_closed_only_when_neither_a_restart_nor_a_backup_is_owed() {
    let open = |backup: Option<&str>| {
        let restart = vec!["kube-scheduler".into()];
        let began = "2026-03-02T03:00:00Z".parse().unwrap();
        Some(OpenRun { began, restart, backup: backup.map(str::to_owned), expires: None })
    };
    for (backup, is_open) in [(None, false), (Some("20260302T030000Z"), true)] {
        let mut journal = Journal { open: open(backup), ..Journal::default() };
        journal.settle(|_| false);
        assert_eq!(journal.open.is_some(), is_open, "{backup:?}");
    }
}

#[test]
fn a_journal_without_serials_is_read() {
    let old: Journal = serde_json::from_str("{\"version\": 1, \"lastRun\": \"2026-03-02T03:00:00Z\"}").unwrap();
    assert!(old.serials.is_empty() && old.looked.is_none() && old.ca_key_hashes.is_empty());
    assert!(old.last_exit.is_none() && old.last_duration_ms.is_none());
    assert!(old.last_run.is_some());
}

fn moments(journal: &Journal) -> Vec<(&str, &str, u64, Option<u64>)> {
    journal
        .serials
        .iter()
        .map(|(key, seen)| (key.as_str(), seen.boot_id.as_str(), seen.since_boot_ms, seen.other_until_ms))
        .collect()
}

#[test]
fn a_serial_keeps_its_moment_and_a_new_one_knows_how_long_it_was_not_there() {
    let mut journal = Journal::default();
    let at = Duration::from_secs;
    journal.note_serials([("scheduler.conf", "a1"), ("apiserver", "b1")], "boot-1", at(10));
    journal.note_serials([("scheduler.conf", "a2"), ("apiserver", "b1"), ("new", "c")], "boot-1", at(20));
    let expected = [
        ("a2 scheduler.conf", "boot-1", 20_000, Some(10_000)),
        ("b1 apiserver", "boot-1", 10_000, None),
        ("c new", "boot-1", 20_000, None),
    ];
    assert_eq!(moments(&journal), expected);
    // after a boot nothing is known of how long the other was there
    journal.note_serials([("scheduler.conf", "a3"), ("apiserver", "b1")], "boot-2", at(5));
    let expected = [("a3 scheduler.conf", "boot-2", 5_000, None), ("b1 apiserver", "boot-1", 10_000, None)];
    assert_eq!(moments(&journal), expected);
}

#[test]
fn an_old_serial_that_is_put_back_counts_as_new() {
    let mut journal = Journal::default();
    for (second, serial) in [(10, "a1"), (20, "a2"), (30, "a1")] {
        journal.note_serials([("scheduler.conf", serial)], "boot", Duration::from_secs(second));
    }
    assert_eq!(moments(&journal), [("a1 scheduler.conf", "boot", 30_000, Some(20_000))]);
}

#[test]
fn the_number_of_serials_is_bound() {
    let names: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let mut journal = Journal::default();
    journal.note_serials(names.iter().map(|name| (name.as_str(), "1")), "boot", Duration::ZERO);
    assert_eq!(journal.serials.len(), 1000);
}

#[test]
fn what_is_no_file_is_set_aside_too() {
    let (dir, root) = root();
    root.create_dir(Path::new(FILE), 0o700).unwrap();
    assert!(Journal::read(&root).1.is_some());
    Journal::default().write(&root, true).unwrap();
    assert!(dir.path().join(ASIDE.trim_start_matches('/')).is_dir());
    assert_eq!(Journal::read(&root), (Journal::default(), None));
}

#[test]
fn a_damaged_or_newer_journal_is_set_aside_not_believed() {
    for text in ["{\"version\": 1, \"last", "{\"version\": 2}", ""] {
        let (_dir, root) = root();
        root.create_dir(Path::new(super::DIRECTORY), 0o700).unwrap();
        root.replace(Path::new(FILE), text.as_bytes(), &Replace::with_mode(0o600)).unwrap();
        let (journal, warning) = Journal::read(&root);
        assert!(warning.unwrap().contains("going on without it"));
        journal.write(&root, true).unwrap();
        assert_eq!(root.read_to_string(Path::new(ASIDE)).unwrap(), text);
        assert_eq!(Journal::read(&root).1, None);
    }
}
