//! The command `calendar`.

use std::path::Path;

use chrono::{DateTime, Utc};
use clap::Parser;
use k8s_certs_renew::cli::calendar::{CalendarArgs, run};
use k8s_certs_renew::exit::Failure;
use k8s_certs_renew::files::{Replace, Root};

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    calendar: CalendarArgs,
}

fn now() -> DateTime<Utc> {
    DateTime::parse_from_rfc3339("2026-02-25T00:00:00Z").unwrap().to_utc()
}

fn calendar(root: &Path, args: &[&str]) -> (String, Result<u8, Failure>) {
    let fixed = ["calendar", "--root", root.to_str().unwrap()];
    let args = Args::try_parse_from(fixed.iter().chain(args)).unwrap();
    let mut out = Vec::new();
    let exit = run(&args.calendar, now(), &mut out).map(k8s_certs_renew::exit::Exit::code);
    (String::from_utf8(out).unwrap(), exit)
}

fn text(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (text, exit) = calendar(dir.path(), args);
    assert_eq!(exit.unwrap(), 0);
    text
}

#[test]
fn an_expression_is_explained_with_local_time_utc_and_how_long_it_is() {
    let shown = text(&["Mon *-*-1..7 3:00", "--timezone", "Europe/Berlin", "--iterations", "2"]);
    insta::assert_snapshot!(shown, @r"
      Original form: Mon *-*-1..7 3:00
    Normalized form: Mon *-*-01..07 03:00:00
          Time zone: Europe/Berlin (as asked for)
        Next firing: Mon 2026-03-02 03:00:00 CET = Mon 2026-03-02 02:00:00 UTC  in 5 days 2 hours
                     Mon 2026-04-06 03:00:00 CEST = Mon 2026-04-06 01:00:00 UTC  in 1 month 9 days
    ");
}

#[test]
fn json_is_an_array_with_an_object_for_each_expression() {
    let shown = text(&[
        "daily",
        "2020-01-01 Europe/Berlin",
        "*:*:0/0.5",
        "-o",
        "json",
        "--iterations",
        "1",
        "--at",
        "2026-03-01T12:00:00+01:00",
    ]);
    insta::assert_snapshot!(shown, @r#"
    [
      {
        "expression": "daily",
        "normalized": "*-*-* 00:00:00",
        "timezone": "UTC",
        "next": [
          "2026-03-02T00:00:00Z"
        ]
      },
      {
        "expression": "2020-01-01 Europe/Berlin",
        "normalized": "2020-01-01 00:00:00 Europe/Berlin",
        "timezone": "Europe/Berlin",
        "next": []
      },
      {
        "expression": "*:*:0/0.5",
        "normalized": "*-*-* *:*:00/0.500000",
        "timezone": "UTC",
        "next": [
          "2026-03-01T11:00:00.500Z"
        ]
      }
    ]
    "#);
}

#[test]
fn all_expressions_are_judged_and_the_bad_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (shown, exit) = calendar(dir.path(), &["*:60", "daily", "*:*/15"]);
    assert!(shown.contains("daily") && shown.contains("Thu 2026-02-26 00:00:00 UTC  in 1 day"), "{shown}");
    let failure = exit.unwrap_err();
    assert_eq!(failure.exit.code(), 78);
    insta::assert_snapshot!(failure.to_string(), @r"
    not calendar expressions:
    *:60
      ^ expected a minute from 0 to 59, found '60'
    *:*/15
       ^ expected a field of its own for '*', found '/' (a step needs a first value: '0/15' for '*/15')
    ");

    let (shown, exit) = calendar(dir.path(), &["*:60", "daily", "-o", "json"]);
    assert_eq!((shown.as_str(), exit.unwrap_err().exit.code()), ("", 78));
}

#[test]
fn without_an_expression_the_nodes_timer_is_explained_with_its_delay() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path()).unwrap();
    let unit = Path::new("/etc/systemd/system/k8s-certs-renew.timer");
    root.create_dir(unit.parent().unwrap(), 0o755).unwrap();
    let text = "[Timer]\nOnCalendar=weekly\nOnCalendar=monthly\nRandomizedDelaySec=30min\n";
    root.replace(unit, text.as_bytes(), &Replace::with_mode(0o644)).unwrap();
    let (shown, exit) = calendar(dir.path(), &["--iterations", "1"]);
    assert_eq!(exit.unwrap(), 0);
    insta::assert_snapshot!(shown, @r"
              Timer: k8s-certs-renew.timer
              Files: /etc/systemd/system/k8s-certs-renew.timer

      Original form: weekly
    Normalized form: Mon *-*-* 00:00:00
          Time zone: UTC (the node's)
        Next firing: Mon 2026-03-02 00:00:00 UTC  in 5 days

      Original form: monthly
    Normalized form: *-*-01 00:00:00
          Time zone: UTC (the node's)
        Next firing: Sun 2026-03-01 00:00:00 UTC  in 4 days

       First of all: Sun 2026-03-01 00:00:00 UTC  in 4 days
       Random delay: 30 minutes
           Accuracy: 1 minute
       Latest start: Sun 2026-03-01 00:31:00 UTC  in 4 days
    ");

    let (shown, _) = calendar(dir.path(), &["--timer", "other.timer"]);
    assert!(shown.contains("other.timer (not found: the default schedule is shown)"), "{shown}");
}

#[test]
fn an_option_that_means_nothing_is_refused() {
    for args in [["--timezone", "CEST"], ["--at", "tomorrow"], ["--iterations", "0"], ["--output", "yaml"]] {
        assert!(Args::try_parse_from(["calendar", "daily"].iter().chain(&args)).is_err(), "{args:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, exit) = calendar(&dir.path().join("gone"), &["daily"]);
    assert_eq!(exit.unwrap_err().exit.code(), 64);
}
