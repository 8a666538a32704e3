//! The lines that Nagios, Icinga and their like read.

use regex_lite::Regex;

use super::approve;
use crate::check::check;
use crate::check::states::{ALL, expired, fresh};

/// What comes behind the bar, by the guidelines: a quoted label, a number, and ranges.
const DATA: &str = r"^'(?:[^'=]|'')+'=-?[0-9]+(?:\.[0-9]+)?(?:;[0-9.]+:)?(?:;[0-9.]+:)?$";

#[test]
fn a_check_of_each_state_as_a_plugin_says_it() {
    for (name, make) in ALL {
        let state = make();
        let checked = check(&state, &["-o", "nagios"]);
        let words = ["OK", "WARNING", "CRITICAL", "UNKNOWN"];
        let begin = format!("K8S-CERTS-RENEW {} - ", words[usize::from(checked.code)]);
        let first = checked.out.lines().next().unwrap();
        assert!(first.starts_with(&begin), "{name}: {first}");
        assert_eq!(checked.out.matches('|').count(), 1, "{name}: {}", checked.out);
        let pattern = Regex::new(DATA).unwrap();
        let (_, data) = first.split_once(" | ").unwrap();
        for one in data.split(" '") {
            let one = format!("'{}", one.trim_start_matches('\''));
            assert!(pattern.is_match(&one), "{name}: {one}");
        }
        approve(format!("{name}_nagios"), &checked.out);
    }
}

#[test]
fn what_has_ended_has_less_than_no_days_left() {
    let out = check(&expired(), &["-o", "nagios"]).out;
    assert!(out.contains("'apiserver'=-1;"), "{out}");
}

#[test]
fn the_ranges_are_those_that_the_check_judges_by() {
    let state = fresh();
    let out = check(&state, &["-o", "nagios", "--warning", "60d", "--critical", "10d", "--days-buffer", "14"]).out;
    // the threshold is 47 days and half an hour off
    assert!(out.contains("'apiserver'=300;40.56:;14:"), "{out}");
    assert!(out.contains("'ca'=3285;60:;10:"), "{out}");
    // a tenth of 365 days; then it ends, and nothing is in between
    assert!(out.contains("'kubelet-client-current.pem'=300;36.50: "), "{out}");
}
