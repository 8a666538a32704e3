//! Metrics in Prometheus' text format.

use std::collections::{BTreeMap, BTreeSet};

use k8s_certs_renew::decision::Decision;
use k8s_certs_renew::report::check_report::{CheckReport, JobFacts, Machine, Role, Row, Status};
use k8s_certs_renew::report::metrics;

use super::{approve, samples, value};
use crate::check::check;
use crate::check::states::{ALL, LAST_RUN, fresh, half_readable, now, stale};
use crate::check::turn::shared;
use crate::support::pki::at;

/// Each state, as metrics, and a node that is one of several.
pub fn of_all() -> Vec<(&'static str, String)> {
    let all = ALL.into_iter().map(|(name, make)| (name, check(&make(), &["-o", "prometheus"]).out));
    all.chain([("shared", shared().check(&["-o", "prometheus"]).out)]).collect()
}

#[test]
fn a_check_of_each_state_as_metrics() {
    for (name, text) in of_all() {
        let mut described = BTreeSet::new();
        for line in text.lines().filter(|line| line.starts_with("# ")) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            assert!(words[1] == "HELP" && words[3].len() > 15 || words[3] == "gauge", "{name}: {line}");
            assert!(described.insert((words[1], words[2])), "{name}: twice: {line}");
        }
        let mut series = BTreeSet::new();
        for (of, labels, number) in samples(&text) {
            assert!(of.starts_with("k8s_certs_renew_"), "{name}: {of}");
            assert!(described.contains(&("HELP", of)) && described.contains(&("TYPE", of)), "{name}: {of}");
            assert!(series.insert((of, labels)), "{name}: twice: {of} {labels}");
            assert!(number.is_finite());
        }
        approve(format!("{name}_prometheus"), &text);
    }
}

#[test]
fn times_are_seconds_since_1970() {
    let text = check(&fresh(), &["-o", "prometheus"]).out;
    let seconds = |text: &str| Some(at(text).timestamp() as f64);
    assert_eq!(value(&text, "check_timestamp_seconds"), seconds("2026-03-10T12:00:00Z"));
    assert_eq!(value(&text, "last_run_timestamp_seconds"), seconds(LAST_RUN));
    assert_eq!(value(&text, "next_firing_timestamp_seconds"), seconds("2026-04-06T01:00:00Z"));
    assert_eq!(value(&text, "latest_start_timestamp_seconds"), seconds("2026-04-06T01:31:00Z"));
    assert_eq!(value(&text, "expected_run_timestamp_seconds"), seconds("2026-04-06T01:31:00Z"));
    assert_eq!(value(&text, "threshold_timestamp_seconds"), seconds("2026-04-13T01:31:00Z"));
    assert_eq!(value(&text, "buffer_seconds"), Some(7.0 * 86_400.0));
    assert_eq!(value(&text, "last_duration_seconds"), Some(1.25));
}

#[test]
fn a_verdict_is_one_of_three_for_each_component() {
    let text = check(&stale(), &["-o", "prometheus"]).out;
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (_, labels, number) in samples(&text).iter().filter(|(name, ..)| name.ends_with("component_verdict")) {
        *sums.entry(labels.split(',').next().unwrap()).or_default() += number;
    }
    assert!(sums.len() >= 5 && sums.values().all(|sum| *sum == 1.0), "{sums:?}");
    assert!(text.contains("component_verdict{component=\"kube-scheduler\",verdict=\"stale\"} 1\n"), "{text}");
}

#[test]
fn what_is_not_known_has_no_sample() {
    let state = half_readable();
    state.site.tree.remove("/var/lib/k8s-certs-renew/state.json");
    state.site.tree.write("/etc/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=dayly\n");
    let text = check(&state, &["-o", "prometheus"]).out;
    for name in ["last_run_timestamp_seconds", "last_exit_code", "next_firing_timestamp_seconds", "buffer_seconds"] {
        assert_eq!(value(&text, name), None, "{name}");
    }
    assert_eq!(value(&text, "status"), Some(3.0));
    assert_eq!(value(&text, "timer_armed"), Some(1.0));
    let unreadable = |line: &&str| line.contains("name=\"admin.conf\"");
    let lines: Vec<&str> = text.lines().filter(unreadable).collect();
    assert!(matches!(lines[..], [one] if one.contains("certificate_status{") && one.ends_with(" 3")), "{lines:?}");
}

fn report(rows: Vec<Row>) -> CheckReport {
    CheckReport {
        at: now(),
        node: "a\"b\\c\nd".to_owned(),
        control_plane: true,
        machine: Machine { role: Role::ControlPlane, was: Vec::new() },
        zone: chrono_tz::Tz::UTC,
        schedule: None,
        rows,
        components: Vec::new(),
        decision: Decision::default(),
        steps: Vec::new(),
        next_run: None,
        could_renew: None,
        job: JobFacts { restart_pending: vec!["kube-\"x\"".to_owned()], ..JobFacts::default() },
        turn: None,
        dates: None,
        findings: Vec::new(),
        kubelet: Vec::new(),
        remains: Vec::new(),
        unseen: Vec::new(),
        status: Status::Ok,
    }
}

#[test]
fn no_name_of_a_file_talks_to_a_terminal() {
    let text =
        metrics::text(&report(vec![row("/srv/\u{1b}[31mred\u{7}.pem", "2027-01-01T00:00:00Z", Status::Ok)])).unwrap();
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
    // the format doubles a backslash
    assert!(text.contains(r#"name="/srv/\\u{1b}[31mred\\u{7}.pem""#), "{text}");
}

fn row(name: &str, end: &str, status: Status) -> Row {
    Row {
        name: name.to_owned(),
        certificate: None,
        is_authority: false,
        not_before: None,
        not_after: Some(at(end)),
        serial: None,
        manager: "external".to_owned(),
        readers: Vec::new(),
        in_use: None,
        rereads: false,
        warn_before: None,
        due: false,
        state: "ok".to_owned(),
        status,
    }
}

#[test]
fn labels_are_escaped() {
    let text = metrics::text(&report(vec![row("/srv/\"a\\b\nc.pem", "2027-01-01T00:00:00Z", Status::Ok)])).unwrap();
    assert!(text.contains(r#"node_info{node="a\"b\\c\nd"} 1"#), "{text}");
    assert!(text.contains(r#"name="/srv/\"a\\b\nc.pem""#), "{text}");
    assert!(text.contains(r#"restart_pending{component="kube-\"x\""} 1"#), "{text}");
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("k8s_certs_renew_")), "{text}");
}

#[test]
fn of_two_certificates_with_the_same_labels_the_worse_one_counts() {
    let (early, late) = ("2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z");
    for order in [[0, 1], [1, 0]] {
        let rows = [row("b.pem", early, Status::Warning), row("b.pem", late, Status::Critical)];
        let text = metrics::text(&report(order.map(|index: usize| rows[index].clone()).to_vec())).unwrap();
        assert_eq!(value(&text, "certificate_not_after_timestamp_seconds"), Some(at(early).timestamp() as f64));
        assert_eq!(value(&text, "certificate_status"), Some(2.0));
    }
}
