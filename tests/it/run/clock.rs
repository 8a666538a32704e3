//! A clock that cannot be trusted, and a job that was not run for long.

use chrono::{DateTime, Duration, Utc};
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::journal::Journal;
use serde_json::Value;

use super::{Ran, SKIP, files, now, plan, run, run_by, site, untouched};
use crate::support::clock::StillClock;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tree::Plan;
use crate::support::world::demo;

const JOURNAL: &str = "/var/lib/k8s-certs-renew/state.json";
const TIMER: &str = "/etc/systemd/system/k8s-certs-renew.timer";

/// Lets the journal say that the last run was then.
fn last_ran(site: &Site, at: DateTime<Utc>) {
    site.tree.write(JOURNAL, format!("{{\"version\": 1, \"lastRun\": \"{}\"}}\n", at.to_rfc3339()));
}

/// When the journal says that the last run was.
fn last_run(site: &Site) -> DateTime<Utc> {
    let journal: Value = serde_json::from_str(&site.tree.read(JOURNAL)).unwrap();
    journal["lastRun"].as_str().unwrap().parse().unwrap()
}

/// Runs it by a clock of which the kernel says this.
fn run_synchronised(site: &Site, synchronised: Option<bool>, args: &[&str]) -> Ran {
    run_by(&StillClock::at(now()).synchronised(synchronised), site, args, &Signals::none())
}

/// The journal, but for how the last run ended; none where there is no file.
fn remembered(site: &Site) -> Option<Journal> {
    site.tree.on_host(JOURNAL).exists().then(|| {
        let (mut journal, warning) = Journal::read(&site.tree.root());
        assert_eq!(warning, None);
        (journal.last_exit, journal.last_duration_ms) = (None, None);
        journal
    })
}

/// Asserts that a run, and a dry run before it, end with 27 and these words, and change nothing. The journal tells of no more than
/// how the run ended.
fn refused(site: &Site, synchronised: Option<bool>, words: &str) {
    let before = files(site);
    let journal = remembered(site);
    for args in [&["--dry-run"][..], &[]] {
        let ran = run_synchronised(site, synchronised, args);
        assert_eq!(ran.code, 27, "{args:?}: {}", ran.text());
        assert!(ran.err.contains("error: the clock says 2026-03-02 03:10:00 UTC, but "), "{}", ran.err);
        assert!(ran.err.contains(words), "'{words}' is not in {}", ran.err);
        assert!(ran.err.contains("timedatectl") && ran.err.contains("--force if the clock is right"), "{}", ran.err);
        untouched(site, &before);
        assert_eq!(remembered(site), journal);
    }
    assert_eq!(Journal::read(&site.tree.root()).0.last_exit, journal.map(|_| 27));
}

// T17
#[test]
fn a_clock_a_year_before_the_last_run_is_refused_until_it_is_forced_and_then_no_more() {
    for left in [5, 300] {
        let site = site(left);
        last_ran(&site, now() + days(365));
        refused(&site, Some(true), "the last run was on 2027-03-02 03:10:00 UTC");
        let ran = run(&site, &["--force", "--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{}", ran.text());
        assert_eq!(last_run(&site), now());
        assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
    }
}

#[test]
fn a_clock_that_was_set_back_by_five_minutes_does_no_harm() {
    let site = site(300);
    for (step, code) in [(0, 0), (120, 0), (300, 0), (301, 27)] {
        last_ran(&site, now() + Duration::seconds(step));
        for args in [&["--dry-run"][..], &[]] {
            assert_eq!(run(&site, args).code, code, "{step} s");
        }
        let expected = if code == 0 { now() } else { now() + Duration::seconds(step) };
        assert_eq!(last_run(&site), expected, "{step} s");
    }
}

#[test]
fn the_ends_of_time_in_the_journal_are_no_fault() {
    let site = site(300);
    for (at, code) in [("+262142-12-31T23:59:59Z", 27), ("-262143-01-01T00:00:00Z", 0)] {
        site.tree.write(JOURNAL, format!("{{\"version\": 1, \"lastRun\": \"{at}\"}}\n"));
        let ran = run(&site, &[]);
        assert_eq!(ran.code, code, "{at}: {}", ran.text());
    }
}

#[test]
fn a_clock_before_a_certificate_is_valid_is_refused() {
    // a node that was set up by a clock that was right
    let site = Site::new(&demo(), Plan { now: now() + days(70), ..plan(300) });
    refused(&site, Some(true), "'ca' is not valid before 2026-03-07 03:10:00 UTC");
    assert_eq!(run(&site, &["--force", "--dry-run", "--detailed-exitcode"]).code, 11);
}

#[test]
fn what_has_expired_is_renewed_only_by_a_clock_of_which_the_kernel_says_nothing_bad() {
    let expired = || Site::new(&demo(), plan(300).ends("scheduler.conf", now() - days(1)));
    for synchronised in [Some(true), None] {
        let site = expired();
        let before = site.serials();
        let ran = run_synchronised(&site, synchronised, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{synchronised:?}: {}", ran.text());
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    }
    let site = expired();
    let words = "by it 'scheduler.conf' expired on 2026-03-01 03:10:00 UTC, and the kernel says that the clock is not \
                 synchronised";
    refused(&site, Some(false), words);
    // another instant than the clock's is judged whatever the clock is worth
    let ran = run_synchronised(&site, Some(false), &["--dry-run", "--at", super::NOW, "--detailed-exitcode"]);
    assert_eq!(ran.code, 11, "{}", ran.text());
    let ran = run_synchronised(&site, Some(false), &["--force", "--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(run_synchronised(&site, Some(false), &["--detailed-exitcode"]).code, 0);
}

#[test]
fn an_expired_ca_is_no_reason_to_act_by_a_clock_that_is_not_synchronised() {
    let site = Site::new(&demo(), Plan { authorities_end: now() - days(1), ..plan(300) });
    refused(&site, Some(false), "expired on 2026-03-01 03:10:00 UTC, and the kernel says");
    assert_eq!(run_synchronised(&site, Some(true), &[]).code, 25);
}

// a node without a time source, its own clock being good enough
#[test]
fn where_nothing_has_expired_a_clock_that_is_not_synchronised_is_good_enough() {
    let fine = site(300);
    let ran = run_synchronised(&fine, Some(false), &[]);
    assert_eq!((ran.code, ran.headlines().last()), (0, Some(&SKIP)), "{}", ran.text());
    let due = site(5);
    assert_eq!(run_synchronised(&due, Some(false), &["--detailed-exitcode"]).code, 10);
    // what others renew does not stop the job, though it has expired
    let others = Site::new(&demo(), plan(5).ends("kubelet.crt", now() - days(400)));
    let ran = run_synchronised(&others, Some(false), &["--detailed-exitcode"]);
    assert!([10, 25].contains(&ran.code), "{}", ran.text());
    assert!(ran.headlines().contains(&"Renewing certificates managed by kubeadm"), "{}", ran.text());
}

// T11
#[test]
fn two_firings_without_a_run_are_told_and_one_is_not() {
    let first_monday = "OnCalendar=Mon *-*-1..7 03:00";
    let table: [(&str, &str, &[&str], bool); 9] = [
        // the timer fired at 03:00 on 5 January, 2 February and 2 March; it is 03:10
        (first_monday, "2026-02-02T03:00:10Z", &[], false),
        (first_monday, "2026-02-02T02:59:59Z", &[], true),
        (first_monday, "2026-01-05T03:00:10Z", &[], true),
        // the second one may still be on its way
        ("OnCalendar=Mon *-*-1..7 03:00\nRandomizedDelaySec=30min", "2026-01-20T12:00:00Z", &[], false),
        ("OnCalendar=Mon *-*-1..7 03:00\nRandomizedDelaySec=30min", "2025-12-20T12:00:00Z", &[], true),
        ("OnCalendar=2020-01-01", "2019-01-01T00:00:00Z", &[], false),
        (first_monday, "2026-02-28T12:00:00Z", &["--on-calendar", "daily"], true),
        (first_monday, "2026-03-01T12:00:00Z", &["--on-calendar", "daily"], false),
        // nothing starts it, which is said anyway
        ("", "2020-01-01T00:00:00Z", &[], false),
    ];
    let site = site(300);
    let words = "should have been started at least twice since";
    for (timer, last, args, told) in table {
        if timer.is_empty() {
            site.tree.remove(TIMER);
        } else {
            site.tree.write(TIMER, format!("[Timer]\n{timer}\n"));
        }
        last_ran(&site, last.parse().unwrap());
        let ran = run(&site, &[args, &["--dry-run"]].concat());
        assert_eq!((ran.code, ran.err.matches(words).count()), (0, usize::from(told)), "{timer}, {last}: {}", ran.err);
        last_ran(&site, last.parse().unwrap());
        if told {
            let ran = run(&site, args);
            assert_eq!((ran.code, ran.err.matches(words).count()), (0, 1), "{timer}, {last}: {}", ran.err);
            assert!(ran.err.contains("systemctl list-timers"), "{}", ran.err);
            assert!(!run(&site, args).err.contains(words), "{timer}, {last}: the run itself counts");
        }
    }
    site.tree.write(TIMER, format!("[Timer]\n{first_monday}\n"));
    site.tree.remove(JOURNAL);
    assert_eq!(run(&site, &[]).err, "", "the first run has missed nothing");
}
