//! The table of settings, as man pages and the installed file of settings are made from it.

use std::ffi::OsString;

use clap::CommandFactory;
use k8s_certs_renew::cli::args::Cli;
use k8s_certs_renew::settings::layers::{FILE, matches};
use k8s_certs_renew::settings::table::{file, table};

#[test]
fn commands_that_differ_about_a_setting_are_told_apart() {
    let table = table(&Cli::command());
    let find = |option: &str| table.iter().find(|setting| setting.option == option).unwrap();
    let buffer = &find("days-buffer").meanings;
    assert_eq!(buffer.len(), 1);
    assert_eq!(buffer[0].commands, ["run", "check"]);
    assert_eq!(buffer[0].default.as_deref(), Some("7"));
    let output = &find("output").meanings;
    assert!(output.iter().any(|meaning| meaning.commands.contains(&"kubelet check".to_owned())));
    assert!(output.iter().any(|meaning| meaning.values == ["table", "json", "prometheus", "nagios"]));
    assert!(find("on-calendar").meanings.iter().all(|meaning| meaning.repeatable));
    assert_eq!(find("verbose").meanings[0].default.as_deref(), Some("no"));
    assert!(table.iter().all(|setting| !["root", "at", "force", "help"].contains(&setting.option.as_str())));
}

#[test]
fn the_file_as_it_is_installed_is_accepted_as_it_stands_and_with_every_default_set() {
    let command = Cli::command();
    let text = file(&command);
    let set: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("#K8S_CERTS_RENEW_"))
        .map(|rest| format!("K8S_CERTS_RENEW_{rest}\n"))
        .collect();
    assert_eq!(set.lines().count(), table(&command).len());
    for text in [text, set] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join(FILE.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
        for verb in ["run", "check"] {
            let argv: Vec<OsString> = vec!["x".into(), verb.into(), "--root".into(), dir.path().into()];
            assert!(matches(&command, &argv, &[]).is_ok(), "{verb}");
        }
    }
}
