//! When the job runs next, and what follows for this run.

use std::os::unix::fs::symlink;

use chrono::Duration;

use super::{DONE, NOW, RESTARTS, SKIP, acts, by_config, files, now, plan, refused, run, run_with, site, untouched};
use crate::support::faults::Runtime;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tls_server::Answer;
use crate::support::world::demo;
use k8s_certs_renew::host::Signals;

const TIMER: &str = "/etc/systemd/system/k8s-certs-renew.timer";
const DROP_IN: &str = "/etc/systemd/system/k8s-certs-renew.timer.d/10-own.conf";
const USUAL: &str = "Mon *-*-1,2,3,4,5,6,7 03:00:00";
const NEVER: &str = "Skip expiry comparison due to fail to parse next elapse from systemd calendar,do renewal directly";

/// A node with this timer.
fn with_timer(left: i64, lines: &str) -> Site {
    let site = site(left);
    site.tree.write(TIMER, format!("[Timer]\n{lines}\n"));
    site
}

/// The line of the log that begins so.
fn line<'a>(out: &'a str, begin: &str) -> &'a str {
    out.lines().find(|line| line.starts_with(begin)).unwrap_or_default()
}

// T01, D14: systemd clears NextElapse while the unit runs; systemctl, systemd-analyze, jq, awk, date are not there
#[test]
fn while_the_timer_has_just_fired_the_next_firing_is_computed_without_any_program() {
    for path in [None, Some(""), Some("/nonexistent"), Some("relative::")] {
        let site = with_timer(300, "OnCalendar=Mon *-*-1..7 03:00:00\nRandomizedDelaySec=30min\nPersistent=yes");
        let environment: Vec<_> = path.map(|path| ("PATH", path)).into_iter().collect();
        let ran = run_with(&site, &["--detailed-exitcode"], &environment, &Signals::none());
        assert_eq!((ran.code, ran.headlines().last()), (0, Some(&SKIP)), "{}", ran.text());
        assert_eq!(
            line(&ran.out, "next firing"),
            "next firing   Mon 2026-04-06 03:00:00 UTC  (k8s-certs-renew.timer: Mon *-*-1..7 03:00:00)"
        );
        assert_eq!(ran.err, "");
        assert_eq!(site.world.calls(), Vec::<String>::new());
    }
}

// D14: nor does a run that does everything need more than the two tools that were named
#[test]
fn a_due_run_needs_nothing_on_path() {
    for path in ["", "/nonexistent"] {
        let site = site(5);
        let ran = run_with(&site, &[], &[("PATH", path)], &Signals::none());
        assert_eq!((ran.code, ran.headlines().as_slice()), (0, DONE.as_slice()), "{}", ran.text());
    }
}

// T02
#[test]
fn a_timer_that_never_fires_again_renews_what_is_not_fresh_in_the_old_jobs_words() {
    for expression in ["2020-01-01", "*-02-30", "Thu 2027-01-01"] {
        for left in [5, 300] {
            let site = with_timer(left, &format!("OnCalendar={expression}"));
            let before = site.serials();
            let ran = run(&site, &["--detailed-exitcode"]);
            assert_eq!(ran.code, 10, "{expression}, {left} d: {}", ran.text());
            assert_eq!(ran.headlines(), [&[DONE[0], NEVER], &DONE[1..]].concat());
            assert_eq!(
                line(&ran.out, "next firing"),
                format!("next firing   never  (k8s-certs-renew.timer: {expression})")
            );
            assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
            // no renewal at every run by hand
            let again = run(&site, &["--detailed-exitcode"]);
            assert_eq!((again.code, again.headlines().last()), (0, Some(&SKIP)), "{}", again.text());
        }
    }
}

// T02, T04, T03: never a silent skip, never a renewal by accident
#[test]
fn an_expression_that_does_not_parse_ends_with_78_and_the_column_and_changes_nothing() {
    let wrong = [
        ("Mon *-*-1..7 03:60:00", "column 17: expected a minute from 0 to 59, found '60'"),
        ("Mon, Tue *-*-* 03:00", "column 6: "),
        ("never", "column 1: "),
        ("n/a", "column 1: "),
        ("* * * * *", "column "),
        ("\"Mon *-*-* 03:00\"", "without quotation marks"),
    ];
    for left in [5, 300] {
        let site = site(left);
        for (expression, cause) in wrong {
            let ran = refused(&site, &["--on-calendar", expression], 78, cause);
            assert!(ran.err.contains(&format!("'{expression}'")), "{}", ran.err);
            site.tree.write(TIMER, format!("[Timer]\nOnCalendar={expression}\n"));
            let ran = refused(&site, &[], 78, cause);
            assert!(ran.err.contains(&format!("{TIMER}, line 2: OnCalendar='{expression}': ")), "{}", ran.err);
            site.tree.remove(TIMER);
        }
    }
    refused(&site(5), &["--on-calendar", ""], 78, "not valid");
    refused(&with_timer(5, "OnBootSec=5min"), &[], 78, "--on-calendar");
    refused(&with_timer(5, "OnCalendar=daily\nRandomizedDelaySec=soon"), &[], 78, "line 3: RandomizedDelaySec='soon'");
    refused(&site(5), &["--timezone", "Europe/Berlyn"], 78, "no zone is called 'Europe/Berlyn'");
    refused(&site(5), &["--timer", "k8s-certs-renew.service"], 78, "not the name of a timer");
}

// T03
#[test]
fn an_expression_with_blanks_stars_and_commas_is_one_value_wherever_it_comes_from() {
    let firing = format!("next firing   Mon 2026-04-06 03:00:00 UTC  (--on-calendar: {USUAL})");
    let site = site(300);
    let look = |args: &[&str], environment: &[(&str, &str)]| {
        let ran = run_with(&site, args, environment, &Signals::none());
        assert_eq!((ran.code, line(&ran.out, "next firing")), (0, firing.as_str()), "{}", ran.text());
    };
    look(&["--on-calendar", USUAL], &[]);
    for quoted in [USUAL.to_owned(), format!("\"{USUAL}\""), format!("'{USUAL}'")] {
        look(&[], &[("K8S_CERTS_RENEW_ON_CALENDAR", &quoted)]);
        site.tree.write("/etc/default/k8s-certs-renew", format!("K8S_CERTS_RENEW_ON_CALENDAR={quoted}\n"));
        look(&[], &[]);
        site.tree.remove("/etc/default/k8s-certs-renew");
    }
}

// T06
#[test]
fn a_drop_in_adds_a_schedule_and_an_empty_one_resets() {
    let table = [
        ("OnCalendar=weekly", "2026-03-09 00:00:00", "monthly | weekly"),
        ("OnCalendar=\nOnCalendar=quarterly", "2026-04-01 00:00:00", "quarterly"),
        ("OnCalendar=\nOnCalendar=weekly\nOnCalendar=*-*-03 12:00", "2026-03-03 12:00:00", "weekly | *-*-03 12:00"),
    ];
    for (lines, next, expressions) in table {
        let site = with_timer(300, "OnCalendar=monthly");
        site.tree.write(DROP_IN, format!("[Timer]\n{lines}\n"));
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let firing = line(&ran.out, "next firing");
        assert!(
            firing.contains(next) && firing.ends_with(&format!("k8s-certs-renew.timer: {expressions})")),
            "{firing}"
        );
    }
}

// T10, T11: the random delay counts; an empty one in a drop-in does not clear it, as in systemd
#[test]
fn the_random_delay_moves_the_threshold_and_only_zero_clears_it() {
    let table = [("RandomizedDelaySec=", "2026-04-06 15:01:00"), ("RandomizedDelaySec=0", "2026-04-06 03:01:00")];
    for (lines, latest) in table {
        let site = with_timer(300, &format!("OnCalendar={USUAL}\nRandomizedDelaySec=12h"));
        site.tree.write(DROP_IN, format!("[Timer]\n{lines}\n"));
        let ran = run(&site, &[]);
        assert!(line(&ran.out, "latest start").contains(latest), "{}", ran.out);
    }
    let site = with_timer(60, &format!("OnCalendar={USUAL}\nRandomizedDelaySec=30d"));
    let ran = run(&site, &["--dry-run", "--detailed-exitcode"]);
    assert_eq!(ran.code, 11, "60 days are enough for the firing and not for its delay: {}", ran.text());
    assert!(ran.err.contains("up to 30 days after its firing"), "{}", ran.err);
}

// T12: a missed firing is made up for right at boot
#[test]
fn with_runtime_and_api_dead_a_node_with_time_left_is_skipped_at_once() {
    let site = with_timer(300, &format!("OnCalendar={USUAL}"));
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    site.servers.apiserver.script(|script| script.first = vec![Answer::Closes]);
    let before = files(&site);
    let ran = run(&site, &[]);
    assert_eq!((ran.code, ran.headlines().last()), (0, Some(&SKIP)), "{}", ran.text());
    assert_eq!(ran.slept, std::time::Duration::ZERO);
    assert_eq!(site.world.calls(), Vec::<String>::new());
    untouched(&site, &before);
}

// T12
#[test]
fn a_due_node_waits_for_its_runtime_and_goes_on_when_it_answers() {
    let site = site(3);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while site.world.calls().len() < 3 {
                std::thread::yield_now();
            }
            site.world.fault(|_| {});
        });
        run(&site, &["--detailed-exitcode"])
    });
    assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
    assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS));
}

// T12
#[test]
fn a_runtime_that_never_answers_is_waited_for_no_longer_than_its_deadline() {
    let site = site(3);
    let before = site.serials();
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.headlines().iter().any(|line| line.starts_with("Deferred: the container runtime does not answer")));
    let waited = ran.slept.as_secs();
    assert!((120..180).contains(&waited), "{waited} s");
    assert_eq!(site.world.acts(), [by_config("all")]);
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    // the next run owes the restarts
    site.world.fault(|_| {});
    site.world.forget_calls();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(ran.headlines()[1], "Restarting only: kube-apiserver, kube-controller-manager, kube-scheduler");
    assert_eq!(site.world.acts(), RESTARTS);
}

// T13
#[test]
fn a_timer_that_is_not_armed_is_told_and_the_usual_schedule_judges() {
    let absent = site(300);
    let masked = site(300);
    let path = masked.tree.on_host(TIMER);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink("/dev/null", path).unwrap();
    for (site, why) in [(absent, "is not installed"), (masked, "is masked")] {
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(
            ran.err.contains(&format!("warning: k8s-certs-renew.timer {why}, so nothing starts the job")),
            "{}",
            ran.err
        );
        let expected = format!("next firing   Mon 2026-04-06 03:00:00 UTC  (the default: {USUAL})");
        assert_eq!(line(&ran.out, "next firing"), expected);
    }
}

// T19: "next" is never this very second
#[test]
fn at_the_very_second_of_a_firing_the_next_one_counts() {
    let end = now() + days(8);
    let plan = plan(300).ends("scheduler.conf", end);
    let site = Site::new(&demo(), plan);
    let table = [
        ("2026-03-02T02:59:59Z", "2026-03-02 03:00:00", 0),
        ("2026-03-02T03:00:00Z", "2026-04-06 03:00:00", 11),
        (NOW, "2026-04-06 03:00:00", 11),
    ];
    for (at, next, code) in table {
        let ran = run(&site, &["--on-calendar", "Mon *-*-1..7 03:00", "--at", at, "--dry-run", "--detailed-exitcode"]);
        assert_eq!(ran.code, code, "{at}: {}", ran.text());
        assert!(line(&ran.out, "next firing").contains(next), "{at}: {}", ran.out);
    }
}

// R13
#[test]
fn the_log_says_why_and_for_whom() {
    let end = now() + days(5);
    let site = Site::new(&demo(), plan(300).ends("scheduler.conf", end).ends("admin.conf", now() - Duration::days(1)));
    site.tree.write(TIMER, format!("[Timer]\nOnCalendar={USUAL}\nRandomizedDelaySec=30min\n"));
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    for expected in [
        "next firing   Mon 2026-04-06 03:00:00 UTC  (k8s-certs-renew.timer: Mon *-*-1,2,3,4,5,6,7 03:00:00)",
        "latest start  Mon 2026-04-06 03:31:00 UTC",
        "threshold     Mon 2026-04-13 03:31:00 UTC  (latest start and 7 days)",
        "due           admin.conf: expired on 2026-03-01 03:10:00 UTC",
        "due           scheduler.conf: expires on 2026-03-07 03:10:00 UTC, before the threshold 2026-04-13 03:31:00 UTC",
        "due           apiserver, apiserver-kubelet-client, controller-manager.conf, front-proxy-client: renewed along with the due",
    ] {
        assert!(ran.out.lines().any(|line| line == expected), "'{expected}' is not in {}", ran.out);
    }
}

#[test]
fn an_expression_that_differs_from_the_timers_is_told() {
    let site = with_timer(300, &format!("OnCalendar={USUAL}"));
    assert_eq!(run(&site, &["--on-calendar", "Mon *-*-07,6,05,4,3,2,01 3:00"]).err, "", "the same in other words");
    let ran = run(&site, &["--on-calendar", "daily"]);
    assert!(ran.err.contains("--on-calendar differs from what k8s-certs-renew.timer says"), "{}", ran.err);
    assert_eq!(ran.code, 0);
}
