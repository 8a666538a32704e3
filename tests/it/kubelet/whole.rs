//! The report as a whole.

use serde_json::Value;

use super::{check, check_at, with_cluster};
use crate::check::states;
use crate::monitoring::json::{assert_fits, strict};

const SCHEMA: &str = include_str!("../../../docs/schema/kubelet-report.schema.json");

#[test]
fn a_healthy_node_is_all_ok() {
    let checked = check(&with_cluster(states::fresh()), &[]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert!(checked.out.starts_with("kubelet of node1, 2026-03-10 12:00 UTC: 19 ok\n"), "{}", checked.out);
    assert!(checked.out.lines().skip(2).all(|line| line.starts_with("ok ")), "{}", checked.out);
}

#[test]
fn what_is_worst_comes_first_and_fits_a_terminal() {
    let checked = check_at(&states::kubelet_broken(), &["--color", "never"], Some(80));
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert_eq!(checked.err, "");
    let words: Vec<&str> = checked
        .out
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect();
    let mut sorted = words[1..].to_vec();
    sorted.sort_by_key(|word| ["critical", "unknown", "warning", "ok"].iter().position(|one| one == word));
    assert_eq!(words[1..], sorted);
    assert!(checked.out.lines().all(|line| line.chars().count() <= 80), "{}", checked.out);
    for part in ["  seen    ", "  why     ", "  mend    "] {
        assert!(checked.out.contains(part), "{}", checked.out);
    }
}

#[test]
fn the_report_for_programs_fits_its_schema() {
    let schema = strict(SCHEMA);
    for (name, make) in states::ALL {
        let state = make();
        let checked = check(&state, &["-o", "json"]);
        let report: Value = assert_fits(&schema, &checked.out);
        let codes = [("ok", 0), ("warning", 1), ("critical", 2), ("unknown", 3)];
        assert!(codes.contains(&(report["status"].as_str().unwrap(), checked.code)), "{name}: {report}");
    }
}

#[test]
fn a_tree_without_kubelet_and_a_wrong_command_line_are_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let clock = states::fresh().clock;
    let of = |args: &[&str]| {
        let mut argv = vec!["k8s-certs-renew".into(), "kubelet".into(), "check".into()];
        argv.extend(args.iter().map(Into::into));
        crate::check::run(&clock, argv, &[], None, true)
    };
    let checked = of(&["--root", dir.path().to_str().unwrap()]);
    assert_eq!(checked.code, 3, "{}", checked.out);
    assert!(checked.out.contains("there is no sign of a kubelet below"), "{}", checked.out);
    assert_eq!(of(&["--nonsense"]).code, 3);
    assert_eq!(of(&["--root", "/does/not/exist"]).code, 3);
}

#[test]
fn settings_of_the_environment_reach_the_command_below_a_command() {
    let state = with_cluster(states::fresh());
    let argv = super::command_line(&state, &[]);
    let environment = [("K8S_CERTS_RENEW_OUTPUT", "json"), ("K8S_CERTS_RENEW_DAYS_BUFFER", "3")];
    let checked = crate::check::run(&state.clock, argv, &environment, None, true);
    assert!(checked.out.starts_with('{'), "{}{}", checked.out, checked.err);
    assert_eq!(checked.code, 0);
}
