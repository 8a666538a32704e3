//! The timer's settings, from unit files on trees of their own, and the firings that follow from them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use k8s_certs_renew::calendar::Calendar;
use k8s_certs_renew::files::{Replace, Root};
use k8s_certs_renew::node::unit_files::Unit;
use k8s_certs_renew::settings::armed::Armed;
use k8s_certs_renew::settings::timer::{
    DEFAULT_ON_CALENDAR, DEFAULT_TIMER, TimerSettings, next_firing, pending_firing,
};

const ETC: &str = "/etc/systemd/system/k8s-certs-renew.timer";
const DROP_IN: &str = "/etc/systemd/system/k8s-certs-renew.timer.d/10-own.conf";

struct Tree {
    dir: tempfile::TempDir,
    root: Root,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        let tree = Self { dir, root };
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = Path::new(path);
        self.root.create_dir(path.parent().unwrap(), 0o755).unwrap();
        self.root.replace(path, text.as_bytes(), &Replace::with_mode(0o644)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        self.root.create_dir(Path::new(path).parent().unwrap(), 0o755).unwrap();
        symlink(target, self.dir.path().join(path.trim_start_matches('/'))).unwrap();
    }

    fn read(&self) -> TimerSettings {
        TimerSettings::read(&self.root, DEFAULT_TIMER).map_err(|failure| failure.to_string()).unwrap()
    }

    fn refused(&self) -> String {
        let failure = TimerSettings::read(&self.root, DEFAULT_TIMER).unwrap_err();
        assert_eq!(failure.exit.code(), 78);
        failure.to_string()
    }

    fn files(&self, unit: &str) -> Vec<String> {
        let unit = Unit::load(&self.root, unit).unwrap();
        unit.files.iter().map(|file| file.display().to_string()).collect()
    }
}

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

fn next_of(expression: &str, now: &str) -> Option<DateTime<Utc>> {
    Calendar::parse(expression).unwrap().next_after(at(now), Tz::UTC)
}

fn expressions(settings: &TimerSettings) -> Vec<&str> {
    settings.calendars.iter().map(|(text, _)| text.as_str()).collect()
}

// T01, T13: systemd's own NextElapse is empty or n/a at the very time of the job
#[test]
fn the_next_firing_is_computed_and_never_asked_for() {
    let tree = Tree::new(&[(ETC, "[Timer]\nOnCalendar=Mon *-*-1..7 03:00:00\nRandomizedDelaySec=30min\n")]);
    let firing = tree.read().next_firing(at("2026-03-02T03:10:00Z"), Tz::UTC).unwrap();
    assert_eq!(firing.at, at("2026-04-06T03:00:00Z"));
    assert_eq!(firing.latest_start, at("2026-04-06T03:31:00Z"));
    assert_eq!(firing.expression, "Mon *-*-1..7 03:00:00");
}

// T02
#[test]
fn a_timer_that_never_fires_again_is_told_apart() {
    for expression in ["2020-01-01", "*-02-30", "Thu 2027-01-01"] {
        let tree = Tree::new(&[(ETC, &format!("[Timer]\nOnCalendar={expression}\n"))]);
        assert_eq!(tree.read().next_firing(at("2026-03-02T03:10:00Z"), Tz::UTC), None);
    }
}

// T03
#[test]
fn an_expression_with_blanks_stars_and_commas_is_one_value() {
    let tree = Tree::new(&[(ETC, &format!("[Timer]\nOnCalendar = {DEFAULT_ON_CALENDAR} \n"))]);
    assert_eq!(expressions(&tree.read()), [DEFAULT_ON_CALENDAR]);

    let tree = Tree::new(&[(ETC, &format!("[Timer]\nOnCalendar=\"{DEFAULT_ON_CALENDAR}\"\n"))]);
    assert!(tree.refused().contains("without quotation marks"));
}

// T04
#[test]
fn an_expression_that_does_not_parse_ends_with_78_file_line_and_column() {
    for (expression, cause) in [
        ("Mon *-*-1..7 03:60:00", "column 17: expected a minute from 0 to 59, found '60'"),
        ("Mon, Tue *-*-* 03:00", "column 6: "),
    ] {
        let text = format!("[Timer]\nOnCalendar=daily\nOnCalendar={expression}\n");
        let message = Tree::new(&[(ETC, &text)]).refused();
        assert!(message.starts_with(&format!("{ETC}, line 3: OnCalendar='{expression}': {cause}")), "{message}");
    }
}

#[test]
fn a_caller_with_expressions_of_its_own_gets_the_delays_all_the_same() {
    let tree = Tree::new(&[(ETC, "[Timer]\nOnCalendar=dayly\nOnCalendar=weekly\nRandomizedDelaySec=1h\n")]);
    let (settings, failure) = TimerSettings::read_beside(&tree.root, DEFAULT_TIMER).unwrap();
    assert_eq!(settings.randomized_delay, Duration::from_secs(3600));
    assert_eq!(expressions(&settings), ["weekly"]);
    assert!(failure.unwrap().to_string().contains("'dayly'"));
}

// T06
#[test]
fn a_drop_in_adds_a_schedule_and_an_empty_one_resets() {
    let unit = (ETC, "[Timer]\nOnCalendar=monthly\n");
    let tree = Tree::new(&[unit, (DROP_IN, "[Timer]\nOnCalendar=weekly\n")]);
    let settings = tree.read();
    assert_eq!(expressions(&settings), ["monthly", "weekly"]);
    let firing = settings.next_firing(at("2026-03-03T00:00:00Z"), Tz::UTC).unwrap();
    assert_eq!((firing.at, firing.expression.as_str()), (at("2026-03-09T00:00:00Z"), "weekly"));
    let firing = settings.next_firing(at("2026-03-30T12:00:00Z"), Tz::UTC).unwrap();
    assert_eq!((firing.at, firing.expression.as_str()), (at("2026-04-01T00:00:00Z"), "monthly"));

    let tree = Tree::new(&[unit, (DROP_IN, "[Timer]\nOnCalendar=\nOnCalendar=quarterly\n")]);
    let settings = tree.read();
    assert_eq!(expressions(&settings), ["quarterly"]);
    assert_eq!(settings.next_firing(at("2026-03-02T00:00:00Z"), Tz::UTC).unwrap().at, at("2026-04-01T00:00:00Z"));
}

#[test]
fn an_empty_trigger_of_another_kind_resets_the_schedules_too() {
    let tree = Tree::new(&[(ETC, "[Timer]\nOnCalendar=monthly\nOnBootSec=\nOnCalendar=daily\nOnUnitActiveSec=1d\n")]);
    let settings = tree.read();
    assert_eq!(expressions(&settings), ["daily"]);
    assert!(settings.other_triggers);
}

// T07
#[test]
fn a_gap_is_skipped_and_a_repeated_hour_fires_once() {
    let calendar = Calendar::parse("*-*-* 02:30:00").unwrap();
    let berlin = |after: &str| calendar.next_after(at(after), Tz::Europe__Berlin).unwrap();
    assert_eq!(berlin("2026-03-28T12:00:00Z"), at("2026-03-30T00:30:00Z"));
    assert_eq!(berlin("2026-10-24T12:00:00Z"), at("2026-10-25T00:30:00Z"));
    assert_eq!(berlin("2026-10-25T00:30:00Z"), at("2026-10-26T01:30:00Z"));
    let sydney = Calendar::parse("02/4:30").unwrap();
    let next = sydney.next_after(at("2026-10-03T14:00:00Z"), Tz::Australia__Sydney);
    assert_eq!(next, Some(at("2026-10-03T19:30:00Z")));
}

// T08
#[test]
fn steps_and_month_ends_land_on_the_right_day() {
    for (expression, now, next) in [
        ("*-*-1/5 04:00", "2022-02-28T01:00:00Z", "2022-03-01T04:00:00Z"),
        ("*-*-01/7 04:00", "2022-04-30T00:00:00Z", "2022-05-01T04:00:00Z"),
        ("*-02-29 03:00", "2026-03-02T00:00:00Z", "2028-02-29T03:00:00Z"),
        ("Mon *-*~07/1", "2026-03-02T00:00:00Z", "2026-03-30T00:00:00Z"),
        ("*-*~1 03:00", "2026-03-02T00:00:00Z", "2026-03-31T03:00:00Z"),
        ("*-*-31 03:00", "2026-03-02T00:00:00Z", "2026-03-31T03:00:00Z"),
        ("*-*-1 3:00 Europe/Moscow", "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z"),
    ] {
        assert_eq!(next_of(expression, now), Some(at(next)), "{expression}");
    }
    assert_eq!(next_of("@0", "2026-03-02T00:00:00Z"), None);
}

// T10
#[test]
fn an_empty_random_delay_keeps_what_was_set_and_only_zero_clears_it() {
    let unit = (ETC, "[Timer]\nOnCalendar=monthly\nRandomizedDelaySec=12h\n");
    let delay = |drop_in: &str| Tree::new(&[unit, (DROP_IN, drop_in)]).read().randomized_delay;
    assert_eq!(delay("[Timer]\nRandomizedDelaySec=\n"), Duration::from_secs(12 * 3600));
    assert_eq!(delay("[Timer]\nRandomizedDelaySec=0\n"), Duration::ZERO);
    assert_eq!(delay("[Timer]\nRandomizedDelaySec=1h 30m\n"), Duration::from_secs(5400));
}

#[test]
fn a_delay_that_does_not_parse_or_never_ends_is_refused() {
    for (setting, cause) in [
        ("RandomizedDelaySec=1mo", "is no time span"),
        ("RandomizedDelaySec=infinity", "infinite delay"),
        ("AccuracySec=-5", "is no time span"),
    ] {
        let message = Tree::new(&[(ETC, &format!("[Timer]\nOnCalendar=monthly\n{setting}\n"))]).refused();
        assert!(message.contains(", line 3: ") && message.contains(cause), "{message}");
    }
}

#[test]
fn a_delay_of_ages_gives_a_latest_start_that_can_still_be_added_to() {
    let tree = Tree::new(&[(ETC, "[Timer]\nOnCalendar=monthly\nRandomizedDelaySec=500000y\n")]);
    let firing = tree.read().next_firing(at("2026-03-02T00:00:00Z"), Tz::UTC).unwrap();
    assert_eq!(firing.latest_start, at("9999-01-01T00:00:00Z"));
}

// T19
#[test]
fn now_exactly_at_a_firing_gives_the_following_one() {
    assert_eq!(next_of("Mon *-*-1..7 03:00", "2026-03-02T03:00:00Z"), Some(at("2026-04-06T03:00:00Z")));
    assert_eq!(next_of("Mon *-*-1..7 03:00", "2026-03-02T02:59:59Z"), Some(at("2026-03-02T03:00:00Z")));
}

#[test]
fn a_firing_is_pending_until_its_latest_start_has_passed() {
    let calendars = [("daily".to_owned(), Calendar::parse("daily").unwrap())];
    let delay = Duration::from_secs(1800);
    let pending = |now: &str| pending_firing(&calendars, delay, at(now), Tz::UTC).unwrap().at;
    assert_eq!(pending("2026-03-02T00:29:59Z"), at("2026-03-02T00:00:00Z"));
    assert_eq!(pending("2026-03-02T00:30:00Z"), at("2026-03-03T00:00:00Z"));
    assert_eq!(
        next_firing(&calendars, delay, at("2026-03-02T00:10:00Z"), Tz::UTC).unwrap().at,
        at("2026-03-03T00:00:00Z")
    );
}

#[test]
fn a_missing_timer_and_a_masked_one_give_the_default_and_say_so() {
    let settings = Tree::new(&[]).read();
    assert_eq!((settings.found, settings.masked), (false, false));
    assert_eq!(expressions(&settings), [DEFAULT_ON_CALENDAR]);
    assert_eq!((settings.randomized_delay, settings.accuracy), (Duration::ZERO, Duration::from_secs(60)));

    let tree = Tree::new(&[("/usr/lib/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=daily\n")]);
    tree.link(ETC, "/dev/null");
    let settings = tree.read();
    assert_eq!((settings.found, settings.masked), (true, true));
    assert_eq!(expressions(&settings), [DEFAULT_ON_CALENDAR]);

    assert!(Tree::new(&[(ETC, "")]).read().masked);
}

#[test]
fn a_timer_without_a_calendar_asks_for_the_option() {
    let tree = Tree::new(&[(ETC, "[Timer]\nOnBootSec=1h\n")]);
    assert!(tree.refused().contains("--on-calendar"));
    let (settings, failure) = TimerSettings::read_beside(&tree.root, DEFAULT_TIMER).unwrap();
    assert!(settings.other_triggers && settings.calendars.is_empty() && failure.is_some());
}

#[test]
fn a_name_that_is_no_timers_is_refused() {
    for name in ["k8s-certs-renew", "k8s-certs-renew.service", "../x.timer", ".timer"] {
        let failure = TimerSettings::read(&Tree::new(&[]).root, name).unwrap_err();
        assert_eq!(failure.exit.code(), 78, "{name}");
    }
}

#[test]
fn the_first_unit_file_wins_and_lib_is_not_read_twice() {
    let tree = Tree::new(&[
        ("/usr/lib/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=daily\n"),
        ("/usr/lib/systemd/system/k8s-certs-renew.timer.d/a.conf", "[Timer]\nOnCalendar=weekly\n"),
    ]);
    tree.link("/lib", "usr/lib");
    assert_eq!(expressions(&tree.read()), ["daily", "weekly"]);
    tree.write("/run/systemd/system/k8s-certs-renew.timer", "[Timer]\nOnCalendar=hourly\n");
    assert_eq!(expressions(&tree.read()), ["hourly", "weekly"]);
    tree.write(ETC, "[Timer]\nOnCalendar=monthly\n");
    assert_eq!(expressions(&tree.read()), ["monthly", "weekly"]);
}

#[test]
fn drop_ins_are_merged_by_name_over_all_directories_prefixes_and_the_type() {
    let text = "[Timer]\n";
    let (etc, usr) = ("/etc/systemd/system", "/usr/lib/systemd/system");
    let tree = Tree::new(&[
        (ETC, text),
        (&format!("{etc}/k8s-.timer.d/a.conf"), text),
        (&format!("{usr}/k8s-certs-renew.timer.d/a.conf"), text),
        (&format!("{etc}/timer.d/b.conf"), text),
        (&format!("{usr}/k8s-.timer.d/b.conf"), text),
        (&format!("{etc}/k8s-certs-.timer.d/c.conf"), text),
        (&format!("{etc}/k8s-certs-renew.timer.d/c.conf"), text),
        (&format!("{usr}/timer.d/d.conf"), text),
        (&format!("{usr}/k8s-certs-renew.timer.d/e.conf"), text),
        (&format!("{usr}/k8s-certs-renew.timer.d/ignored.txt"), text),
    ]);
    tree.link(&format!("{etc}/k8s-certs-renew.timer.d/e.conf"), "/dev/null");
    let expected = [
        ETC.to_owned(),
        format!("{etc}/k8s-.timer.d/a.conf"),
        format!("{usr}/k8s-.timer.d/b.conf"),
        format!("{etc}/k8s-certs-renew.timer.d/c.conf"),
        format!("{usr}/timer.d/d.conf"),
    ];
    assert_eq!(tree.files(DEFAULT_TIMER), expected);
}

#[test]
fn an_alias_reads_the_unit_behind_it_with_the_drop_ins_of_both_names() {
    let tree = Tree::new(&[
        ("/usr/lib/systemd/system/real.timer", "[Timer]\nOnCalendar=daily\n"),
        ("/etc/systemd/system/real.timer.d/b.conf", "[Timer]\nOnCalendar=weekly\n"),
        ("/etc/systemd/system/k8s-certs-renew.timer.d/a.conf", "[Timer]\nOnCalendar=hourly\n"),
        ("/opt/linked.timer", "[Timer]\nOnCalendar=yearly\n"),
    ]);
    tree.link(ETC, "../../../usr/lib/systemd/system/real.timer");
    assert_eq!(expressions(&tree.read()), ["daily", "hourly", "weekly"]);

    // a link to a file elsewhere is a unit of its own name
    let tree = Tree::new(&[("/opt/linked.timer", "[Timer]\nOnCalendar=yearly\n")]);
    tree.link(ETC, "/opt/linked.timer");
    assert_eq!(expressions(&tree.read()), ["yearly"]);

    // and two that lead to each other end
    let tree = Tree::new(&[]);
    tree.link(ETC, "other.timer");
    tree.link("/etc/systemd/system/other.timer", "k8s-certs-renew.timer");
    assert!(TimerSettings::read(&tree.root, DEFAULT_TIMER).is_err());
}

#[test]
fn list_settings_add_up_and_single_ones_take_the_last() {
    let tree = Tree::new(&[
        ("/etc/systemd/system/x.service", "[Service]\nExecStartPre=a\nExecStartPre=b\nType=simple\n[Unit]\nType=no\n"),
        ("/etc/systemd/system/x.service.d/a.conf", "[Service]\nExecStartPre=\nExecStartPre=c\nType=oneshot\n"),
    ]);
    let unit = Unit::load(&tree.root, "x.service").unwrap();
    assert_eq!(unit.values("Service", "ExecStartPre"), ["c"]);
    assert_eq!(unit.last("Service", "Type"), Some("oneshot"));
    assert_eq!(unit.last("Service", "User"), None);
}

#[test]
fn a_timer_is_armed_where_it_is_there_and_enabled_and_so_is_its_service() {
    let usr = "/usr/lib/systemd/system";
    let etc = "/etc/systemd/system";
    let tree = Tree::new(&[]);
    let look = || Armed::look(&tree.root, DEFAULT_TIMER).unwrap();
    let why = |armed: Armed| match armed {
        Armed::No(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(look(), Armed::NoTimer);
    tree.write(&format!("{usr}/k8s-certs-renew.timer"), "[Timer]\nOnCalendar=daily\n");
    assert_eq!(why(look()), "k8s-certs-renew.timer starts k8s-certs-renew.service, which is not installed");
    tree.write(&format!("{usr}/k8s-certs-renew.service"), "[Service]\nExecStart=/opt/certs.sh all\n");
    assert!(why(look()).starts_with(&format!(
        "k8s-certs-renew.timer starts '/opt/certs.sh all' ({usr}/k8s-certs-renew.service), not this program"
    )));
    tree.write(&format!("{usr}/k8s-certs-renew.service"), "[Service]\nExecStart=/opt/bin/k8s-certs-renew run\n");
    assert!(why(look()).contains("systemctl enable --now k8s-certs-renew.timer"));
    tree.link(&format!("{etc}/timers.target.wants/k8s-certs-renew.timer"), &format!("{usr}/k8s-certs-renew.timer"));
    assert_eq!(look(), Armed::Yes);
    tree.link(&format!("{etc}/k8s-certs-renew.service"), "/dev/null");
    assert_eq!(why(look()), "k8s-certs-renew.timer starts k8s-certs-renew.service, which is masked");
    tree.write(&format!("{etc}/k8s-certs-renew.timer.d/own.conf"), "[Timer]\nUnit=other.service\n");
    assert_eq!(why(look()), "k8s-certs-renew.timer starts other.service, which is not installed");
    tree.write(&format!("{etc}/other.service"), "[Service]\nExecStart=/bin/sh -c 'exec k8s-certs-renew run'\n");
    assert_eq!(look(), Armed::Yes);
    tree.link(&format!("{etc}/k8s-certs-renew.timer"), "/dev/null");
    assert_eq!(look(), Armed::NoTimer);
}
