//! Reports for programs, against their schemas in `docs/schema`.

use serde_json::{Value, json};

use super::approve;
use crate::check::states::{ALL, State, due, fresh, half_readable};
use crate::check::{check, command_line, run as start};
use crate::run;

pub const CHECK: &str = include_str!("../../../docs/schema/certificate-report.schema.json");
const RUN: &str = include_str!("../../../docs/schema/run-report.schema.json");

/// The schema, and nothing but what it describes: as it is published it lets fields be added.
pub fn strict(schema: &str) -> jsonschema::Validator {
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    close(&mut schema);
    jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.get("properties").is_some_and(Value::is_object) && map.contains_key("type") {
                map.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

pub fn assert_fits(schema: &jsonschema::Validator, text: &str) -> Value {
    let report: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> =
        schema.iter_errors(&report).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new(), "{text}");
    report
}

fn json(state: &State) -> String {
    check(state, &["-o", "json"]).out
}

#[test]
fn a_check_of_each_state_as_json() {
    let schema = strict(CHECK);
    for (name, make) in ALL {
        let state = make();
        let checked = check(&state, &["-o", "json"]);
        assert_eq!(checked.err, "", "{name}");
        let report = assert_fits(&schema, &checked.out);
        assert_eq!(report["exitCode"], checked.code, "{name}");
        approve(format!("{name}_json"), &checked.out);
    }
}

#[test]
fn what_reads_kubeadms_report_reads_this() {
    let report: Value = serde_json::from_str(&json(&fresh())).unwrap();
    let named = |name: &str| {
        let all = report["certificates"].as_array().unwrap();
        let found = all.iter().find(|one| one["name"] == name).unwrap();
        ["name", "expirationDate", "residualTime", "externallyManaged", "caName", "missing"]
            .map(|field| found[field].clone())
    };
    let expected = json!(["apiserver", "2027-01-04T12:00:00Z", 300 * 86_400, false, "ca", false]);
    assert_eq!(json!(named("apiserver")), expected);
    let ca = &report["certificateAuthorities"].as_array().unwrap()[0];
    assert_eq!((&ca["name"], &ca["caName"], &ca["missing"]), (&json!("ca"), &json!(""), &json!(false)));
    // old readers sort by this number, and take what has ended for less than nothing
    let half: Value = serde_json::from_str(&json(&half_readable())).unwrap();
    let unread = half["certificates"].as_array().unwrap().iter().find(|one| one["name"] == "admin.conf").unwrap();
    assert_eq!((&unread["expirationDate"], &unread["residualTime"]), (&Value::Null, &json!(0)));
    assert_eq!(unread["missing"], false);
}

#[test]
fn the_same_state_gives_the_same_bytes_in_every_format() {
    let state = due();
    for format in ["json", "prometheus", "nagios"] {
        let first = check(&state, &["-o", format]);
        assert!(!first.out.is_empty(), "{format}");
        assert_eq!(check(&state, &["-o", format]).out, first.out, "{format}");
    }
}

#[test]
fn quiet_leaves_the_exit_code_alone_whatever_the_format() {
    let state = due();
    for format in ["table", "json", "prometheus", "nagios"] {
        let loud = check(&state, &["-o", format]);
        let quiet = check(&state, &["-q", "-o", format]);
        assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (loud.code, "", ""), "{format}");
    }
}

#[test]
fn a_tree_without_a_node_fits_the_schema_too() {
    let dir = tempfile::tempdir().unwrap();
    let argv = ["k8s-certs-renew", "check", "-o", "json", "--root", dir.path().to_str().unwrap()];
    let checked = start(&fresh().clock, argv.map(Into::into).to_vec(), &[], None, true);
    let report = assert_fits(&strict(CHECK), &checked.out);
    assert_eq!((&report["controlPlane"], &report["certificates"]), (&json!(false), &json!([])));
}

#[test]
fn a_schedule_that_cannot_be_told_is_null() {
    let state = fresh();
    state.site.tree.write("/etc/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=dayly\n");
    let report = assert_fits(&strict(CHECK), &json(&state));
    assert_eq!(report["schedule"], Value::Null);
    assert_eq!(report["status"], "unknown");
}

#[test]
fn the_report_of_a_run_fits_its_schema_however_it_ends() {
    let schema = strict(RUN);
    for (left, args, code) in [
        (300, &[][..], 0),
        (5, &["--dry-run"], 0),
        (5, &["--on-calendar", "dayly"], 78),
        (5, &["--backup-dir", "/etc/kubernetes/admin.conf/x"], 74),
        (5, &["--detailed-exitcode"], 10),
    ] {
        let site = run::site(left);
        let ran = run::run(&site, &[&["-o", "json"], args].concat());
        assert_eq!(ran.code, code, "{}", ran.text());
        assert_fits(&schema, &ran.out);
    }
}

#[test]
fn further_files_and_the_command_line_of_a_check_are_in_its_report() {
    let state = fresh();
    let path = state.site.tree.pki("apiserver.crt").replace("apiserver.crt", "extra.crt");
    let pair = state.site.tree.issue("apiserver", crate::check::states::now() + crate::support::pki::days(100));
    state.site.tree.write(&path, &pair.cert);
    let argv = command_line(&state.site, &["-o", "json", "--also", &path]);
    let checked = start(&state.clock, argv, &[], None, true);
    let report = assert_fits(&strict(CHECK), &checked.out);
    let names: Vec<&Value> = report["certificates"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!(path)), "{names:?}");
}
