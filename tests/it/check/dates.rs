//! "certificate has expired or is not yet valid": on a node whose clock is wrong, and on one whose certificates are over.

use crate::support::pki::days;

use super::states::{self, State, Still};
use super::{check, command_line, run};

fn at(state: State, days_on: i64, synchronised: Option<bool>) -> State {
    let clock = Still { now: state.clock.now + days(days_on), synchronised };
    State { clock, ..state }
}

const TITLE: &str = "Why \"certificate has expired or is not yet valid\": ";

#[test]
fn a_healthy_node_has_nothing_to_explain() {
    assert!(!check(&states::fresh(), &[]).out.contains(TITLE));
}

#[test]
fn expired_certificates_on_a_clock_that_is_right_are_to_be_renewed() {
    let checked = check(&states::expired(), &[]);
    assert!(
        checked.out.contains(&format!("{TITLE}7 certificates have expired; nothing speaks against the clock.")),
        "{}",
        checked.out
    );
    assert!(checked.out.contains("1. k8s-certs-renew run: renews admin.conf, apiserver, "), "{}", checked.out);
}

#[test]
fn a_clock_that_was_set_back_is_what_is_to_be_set() {
    // the machine came up without a battery, years before anything was issued
    let state = at(states::fresh(), -365 * 2, Some(false));
    state.site.tree.write("/sys/class/rtc/rtc0/since_epoch", format!("{}\n", states::now().timestamp()));
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(
        checked.out.contains(&format!("{TITLE}this node's clock is behind: it says 2024-03-10 12:00:00 UTC.")),
        "{}",
        checked.out
    );
    for sign in [
        "certificates are not valid yet",
        "the job last ran on 2026-03-02",
        "the hardware clock says 2026-03-10 12:00:00 UTC",
        "was changed on 2026-01-09",
    ] {
        assert!(checked.out.contains(sign), "'{sign}' is not in: {}", checked.out);
    }
    assert!(checked.out.contains("1. set the clock: timedatectl"), "{}", checked.out);
    checked.expect("critical", "clock", "a run would renew nothing");
    assert!(checked.row("apiserver").ends_with("not yet valid"), "{}", checked.row("apiserver"));
}

#[test]
fn a_clock_that_jumped_ahead_is_not_taken_for_certificates_whose_time_is_over() {
    let state = at(states::fresh(), 365 * 20, Some(false));
    state.site.tree.write("/sys/class/rtc/rtc0/since_epoch", format!("{}\n", states::now().timestamp()));
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.out.contains(&format!("{TITLE}this node's clock is ahead: it says 2046-03-05")), "{}", checked.out);
}

#[test]
fn where_the_clock_cannot_be_trusted_both_ways_out_are_named() {
    let checked = check(&at(states::expired(), 0, Some(false)), &[]);
    assert!(checked.out.contains("whether that is right cannot be told"), "{}", checked.out);
    assert!(checked.out.contains("1. look whether the clock is right: timedatectl"), "{}", checked.out);
    assert!(checked.out.contains("2. if it is right: k8s-certs-renew run --force: renews"), "{}", checked.out);
}

#[test]
fn as_of_another_instant_the_clock_is_not_judged() {
    let state = at(states::fresh(), 0, Some(false));
    let argv = command_line(&state.site, &["--at", "2027-06-01T00:00:00Z"]);
    let checked = run(&state.clock, argv, &[], None, true);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.out.contains("at the instant that was asked for (--at)"), "{}", checked.out);
    assert!(!checked.out.contains("timedatectl"), "{}", checked.out);
}
