//! What a check looks like.

use std::collections::BTreeMap;

use regex_lite::Regex;

use super::states::{self, State};
use super::{check, check_at};

/// Serials by the order in which they come, whatever their length, and ports left out: what differs from one node of a state to
/// the next.
fn redacted(text: &str) -> String {
    let mut serials: BTreeMap<String, String> = BTreeMap::new();
    let serial = Regex::new(r"\b([0-9a-f]{10,40}) +(/|-)").unwrap();
    let text = serial.replace_all(text, |found: &regex_lite::Captures<'_>| {
        let number = serials.len() + 1;
        let serial = serials.entry(found[1].to_owned()).or_insert_with(|| format!("serial {number:02}"));
        format!("{serial}  {}", &found[2])
    });
    let text = Regex::new("SERIAL +PATH").unwrap().replace(&text, "SERIAL     PATH").into_owned();
    Regex::new(r"127\.0\.0\.1:\d+").unwrap().replace_all(&text, "127.0.0.1:PORT").into_owned()
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "../snapshots/check", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, redacted(text));
    });
}

#[test]
fn six_states_on_a_terminal_of_80_columns_and_wide() {
    for (name, make) in states::ALL {
        let state = make();
        snapshot(&format!("{name}_80"), &check_at(&state, &["--color=never"], Some(80)).out);
        snapshot(&format!("{name}_wide"), &check(&state, &["--wide"]).out);
    }
}

#[test]
fn on_a_broad_terminal_there_are_bars_and_colours() {
    let checked = check_at(&states::due(), &[], Some(120));
    assert!(checked.out.contains("\x1b[33mdue\x1b[0m"), "{}", checked.out);
    snapshot("due_120_colour", &checked.out);
    let plain = Regex::new("\x1b\\[[0-9]*m").unwrap().replace_all(&checked.out, "").into_owned();
    assert_eq!(plain, check_at(&states::due(), &["--color=never"], Some(120)).out, "colour is no sign of its own");
}

#[test]
fn no_line_is_longer_than_the_terminal_and_none_is_cut_in_a_pipe() {
    let long = "/srv/an/uncommonly/long/path/to/a/certificate/of/somebody/elses/service/tls.crt";
    for (name, make) in states::ALL {
        let state = make();
        let pair = state.site.tree.issue("front-proxy-client", states::now() + chrono::Duration::days(3));
        state.site.tree.write(long, pair.cert);
        for width in [80, 100, 110, 160] {
            let checked = check_at(&state, &["--also", long, "--color=never"], Some(width));
            for line in checked.out.lines() {
                assert!(line.chars().count() <= usize::from(width), "{name} {width}: {line}");
            }
        }
        assert!(check(&state, &["--also", long]).out.contains(&format!("\n{long}  ")), "{name}");
        let narrow = check_at(&state, &["--also", long, "--color=never"], Some(40));
        assert!(narrow.out.contains("apiserver "), "{}", narrow.out);
    }
}

fn names(state: &State, args: &[&str]) -> Vec<String> {
    let checked = check(state, args);
    let table = checked.out.lines().skip_while(|line| !line.starts_with("CERTIFICATE")).skip(1);
    table.take_while(|line| !line.is_empty()).map(|line| line.split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn the_lines_come_by_urgency_or_by_name() {
    let state = states::kubelet_broken();
    let urgent = names(&state, &[]);
    assert_eq!(urgent[..2], ["kubelet-client-current.pem", "kubelet.conf"]);
    assert_eq!(urgent.last().unwrap(), "front-proxy-ca");
    let mut sorted = urgent.clone();
    sorted.sort();
    assert_eq!(names(&state, &["--sort", "name"]), sorted);
    assert_eq!(names(&state, &["--sort", "urgency"]), urgent);
}

#[test]
fn quiet_leaves_the_exit_code_alone() {
    for (make, code) in
        [(states::fresh as fn() -> State, 0), (states::due, 1), (states::expired, 2), (states::half_readable, 3)]
    {
        let state = make();
        let checked = check(&state, &["-q"]);
        assert_eq!((checked.code, checked.out.as_str(), checked.err.as_str()), (code, "", ""));
        assert_eq!(check(&state, &[]).code, code);
    }
}

#[test]
fn a_check_changes_nothing_and_tells_the_same_each_time() {
    for (name, make) in states::ALL {
        let state = make();
        let before = crate::run::files(&state.site);
        let first = check(&state, &["--wide"]);
        assert_eq!(check(&state, &["--wide"]).out, first.out, "{name}");
        crate::run::untouched(&state.site, &before);
    }
}
