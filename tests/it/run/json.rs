//! The report for programs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{files, run, run_by, run_with, site};
use crate::support::clock::StillClock;
use crate::support::pki::{at, days};
use crate::support::site::Site;
use k8s_certs_renew::host::Signals;

fn report(site: &Site, args: &[&str]) -> (u8, String) {
    let ran = run(site, &[&["--output", "json"], args].concat());
    assert_eq!(ran.out.matches("\"apiVersion\"").count(), 1, "one document: {}", ran.out);
    (ran.code, ran.out)
}

/// Serials by what they are: the first one that is met is `serial 1`.
fn redacted(mut report: Value) -> String {
    let mut serials: BTreeMap<String, String> = BTreeMap::new();
    redact(&mut report, &mut serials);
    format!("{report:#}")
}

fn redact(value: &mut Value, serials: &mut BTreeMap<String, String>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| redact(value, serials)),
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(serial) if ["serial", "previousSerial", "servedSerial"].contains(&name.as_str()) => {
                        let number = serials.len() + 1;
                        *serial = serials.entry(serial.clone()).or_insert(format!("serial {number}")).clone();
                    }
                    // ports and times of this very run
                    Value::String(reason)
                        if name == "reason" && ["started", "127.0.0.1"].iter().any(|word| reason.contains(word)) =>
                    {
                        *reason = "...".to_owned();
                    }
                    value => redact(value, serials),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn the_report_of_a_run_that_does_everything() {
    let (code, text) = report(&site(5), &["--detailed-exitcode"]);
    assert_eq!(code, 10, "{text}");
    let report = serde_json::from_str(&text).unwrap();
    insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("run_report", redacted(report));
    });
}

// what reads `kubeadm certs check-expiration -o json` reads this
#[test]
fn certificates_keep_kubeadms_fields_and_types() {
    let site = site(5);
    let (_, text) = report(&site, &["--dry-run"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    for list in ["certificates", "certificateAuthorities"] {
        let list = report[list].as_array().unwrap();
        assert!(!list.is_empty());
        for certificate in list.iter().filter(|certificate| certificate["missing"] == false) {
            let is =
                |field: &str, fits: fn(&Value) -> bool| assert!(fits(&certificate[field]), "{field}: {certificate}");
            is("name", Value::is_string);
            is("expirationDate", |value| value.as_str().is_some_and(|text| text.ends_with('Z')));
            is("residualTime", Value::is_i64);
            is("externallyManaged", Value::is_boolean);
            is("caName", Value::is_string);
            is("missing", Value::is_boolean);
        }
    }
    let named = |name: &str| {
        let all = report["certificates"].as_array().unwrap();
        all.iter().find(|certificate| certificate["name"] == name).unwrap().clone()
    };
    let absent = named("super-admin.conf");
    assert_eq!(
        (&absent["missing"], &absent["expirationDate"], &absent["residualTime"]),
        (&Value::Bool(true), &Value::Null, &Value::from(0))
    );
    assert_eq!(named("apiserver")["residualTime"], 5 * 86_400);
    assert_eq!(
        named("apiserver")["expirationDate"],
        (at(super::NOW) + days(5)).format("%Y-%m-%dT%H:%M:%SZ").to_string()
    );
}

#[test]
fn the_same_state_gives_the_same_bytes() {
    for left in [5, 300] {
        let site = site(left);
        // the same moment, too: how long a process has run is told
        let clock = StillClock::at(super::now());
        let at_once = |args: &[&str]| {
            let ran = run_by(&clock, &site, &[&["--output", "json"], args].concat(), &Signals::none());
            (ran.code, ran.out)
        };
        let first = at_once(&["--dry-run"]);
        assert_eq!(at_once(&["--dry-run"]), first);
        if left == 300 {
            let first = at_once(&[]);
            assert_eq!(at_once(&[]), first);
        }
    }
}

#[test]
fn a_run_that_fails_early_still_gives_one_document() {
    let site = site(5);
    let before = files(&site);
    for (args, code, words) in [
        (&["--on-calendar", "dayly"][..], 78, "dayly"),
        (&["--backup-dir", "/etc/kubernetes/admin.conf/x"], 74, "/etc/kubernetes/admin.conf/x"),
    ] {
        let (ended, text) = report(&site, args);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((ended, &report["exitCode"]), (code, &Value::from(code)));
        assert!(report["error"].as_str().unwrap().contains(words), "{text}");
    }
    assert_eq!(files(&site), before);
}

#[test]
fn no_output_holds_a_key_or_a_kubeconfig() {
    let site = site(5);
    let mut secrets: Vec<String> = Vec::new();
    for (path, (_, bytes)) in files(&site) {
        let text = String::from_utf8(bytes).unwrap_or_default();
        if path.ends_with(".key") && text.contains("PRIVATE KEY") {
            secrets.extend(text.lines().nth(1).map(str::to_owned));
        }
        secrets
            .extend(text.lines().filter_map(|line| line.trim().strip_prefix("client-key-data: ").map(str::to_owned)));
    }
    assert!(secrets.len() > 5);
    for args in [&["-v"][..], &["--output", "json", "-v", "--force"]] {
        let ran = run_with(&site, args, &[], &Signals::none());
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(!ran.text().contains("PRIVATE KEY"));
        for secret in &secrets {
            assert!(!ran.text().contains(secret.as_str()));
        }
    }
}
