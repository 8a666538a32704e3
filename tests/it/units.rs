//! The units, against what the program does.

use std::path::Path;
use std::time::Duration;

use k8s_certs_renew::calendar::Calendar;
use k8s_certs_renew::exit::Exit;
use k8s_certs_renew::files::Root;
use k8s_certs_renew::node::timespan::{self, Timespan};
use k8s_certs_renew::node::unit_files::Unit;
use k8s_certs_renew::settings::timer::{DEFAULT_ON_CALENDAR, DEFAULT_TIMER, TimerSettings};
use k8s_certs_renew::steps::Deadlines;

/// The shipped units, installed below a temporary root.
fn installed() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let units = dir.path().join("etc/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    for name in ["k8s-certs-renew.service", DEFAULT_TIMER] {
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("units").join(name), units.join(name)).unwrap();
    }
    let root = Root::new(dir.path()).unwrap();
    (dir, root)
}

fn service(key: &str) -> String {
    let (_dir, root) = installed();
    let unit = Unit::load(&root, "k8s-certs-renew.service").unwrap();
    unit.last("Service", key).unwrap_or_else(|| panic!("no {key}=")).to_owned()
}

fn span(text: &str) -> Duration {
    match timespan::parse(text).unwrap() {
        Timespan::Finite(span) => span,
        Timespan::Infinite => panic!("'{text}' has no end"),
    }
}

#[test]
fn the_timer_is_kubesprays_with_a_delay_that_the_threshold_counts() {
    let (_dir, root) = installed();
    let timer = TimerSettings::read(&root, DEFAULT_TIMER).unwrap();
    assert!(timer.found && timer.persistent && !timer.other_triggers);
    let calendars: Vec<&Calendar> = timer.calendars.iter().map(|(_, calendar)| calendar).collect();
    assert_eq!(calendars, [&Calendar::parse(DEFAULT_ON_CALENDAR).unwrap()]);
    assert_eq!(timer.latest_delay(), Duration::from_secs(31 * 60));
}

#[test]
fn systemd_never_cuts_off_a_run_that_keeps_its_deadlines() {
    let deadlines = Deadlines::default();
    let start = span(&service("TimeoutStartSec"));
    assert!(deadlines.total() < start, "{:?} is not below TimeoutStartSec={start:?}", deadlines.total());
    // more than an hour of slack would let a hung job block the timer for no reason
    assert!(start < deadlines.total() + Duration::from_secs(60 * 60));
    let stop = span(&service("TimeoutStopSec"));
    assert!(deadlines.kubeadm_call < stop, "a stop would cut kubeadm off");
}

#[test]
fn the_lease_of_a_turn_is_good_for_longer_than_everything_that_is_done_in_it() {
    let deadlines = Deadlines::default();
    let limits = deadlines.limits;
    // the restarts, the last of which begins just before their time is over: removed, seen back, proven, with a hook on either side
    let last = limits.removal() + deadlines.removing + deadlines.back + deadlines.proof + deadlines.hook * 2;
    // or, gently, etcd after the time that it has for its files
    let stopped = deadlines.reread + deadlines.grace + deadlines.back + deadlines.proof + deadlines.hook * 2;
    let least = deadlines.restarts + last.max(stopped) + deadlines.others + deadlines.ready;
    assert!(deadlines.holding() > least, "{:?} is not above {least:?}", deadlines.holding());
    assert!(deadlines.holding() + deadlines.turn + deadlines.renewal < deadlines.total());
    // a holder that died keeps the others waiting for so long
    assert!(deadlines.holding() < Duration::from_secs(60 * 60), "{:?}", deadlines.holding());
}

#[test]
fn the_service_retries_what_may_go_by_itself_and_nothing_else() {
    let listed = service("RestartPreventExitStatus");
    let mut listed: Vec<u8> = listed.split_whitespace().map(|code| code.parse().unwrap()).collect();
    listed.sort_unstable();
    let person = [
        Exit::CannotRenew,
        Exit::CannotRead,
        Exit::ClockUntrusted,
        Exit::Usage,
        Exit::ToolMissing,
        Exit::NotRoot,
        Exit::Config,
    ];
    assert_eq!(listed, person.map(Exit::code));
    assert_eq!(service("SuccessExitStatus"), Exit::Changed.code().to_string());
    assert_eq!(service("Restart"), "on-failure");
}
