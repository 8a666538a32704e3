//! etcd as a static pod: restarted only where it must be, gently and last.

use std::time::Duration;

use k8s_certs_renew::host::Signals;

use super::seen::{APISERVER, CONTROLLER_MANAGER, SCHEDULER, owed};
use super::{Ran, SKIP, now, run, run_by, stacked};
use crate::support::clock::StillClock;
use crate::support::faults::{Faults, Removal, Return, Runtime, then};
use crate::support::net::listen;
use crate::support::pki::days;
use crate::support::servers;
use crate::support::site::Site;
use crate::support::tls_server::TlsServer;
use crate::support::world::edit;

/// The call that renews all here.
pub const RENEW_ALL: &str = "kubeadm certs renew all --cert-dir /etc/kubernetes/pki";
/// The call that restarts etcd for the first time.
pub const STOP: &str = "crictl -t 60s stop -t 30 etcd@1/etcd.0";
/// kubeadm's PKI.
pub const CERT_DIR: &str = "/etc/kubernetes/pki";

/// A stacked node whose etcd reads its files at its start only.
pub fn stubborn(days: i64) -> Site {
    rereads_with("etcd", days)
}

/// One whose etcd reads its files only when this component starts.
fn rereads_with(component: &'static str, days: i64) -> Site {
    let mut site = stacked(days);
    let old = etcd(&site).port();
    let server = servers::etcd(&site.world, listen(), CERT_DIR, component, false);
    let new = format!(":{}", server.port());
    site.tree.edit("/etc/kubernetes/manifests/etcd.yaml", |text| text.replace(&format!(":{old}"), &new));
    site.servers.etcd = Some(server);
    site
}

/// One whose etcd still serves what somebody has replaced by hand.
pub fn stale() -> Site {
    let site = stubborn(300);
    site.tree.issue("etcd-server", now() + days(365));
    site
}

/// A clock by which waits are over after a few looks.
fn hasty() -> StillClock {
    StillClock::at(now()).oversleeping(Duration::from_secs(45))
}

/// Runs by it.
pub fn run_hastily(site: &Site, args: &[&str]) -> Ran {
    run_by(&hasty(), site, args, &Signals::none())
}

/// The node's etcd.
pub fn etcd(site: &Site) -> &TlsServer {
    site.servers.etcd.as_ref().unwrap()
}

/// Everything renewed, everything restarted but etcd.
pub fn all_but_etcd() -> [&'static str; 4] {
    [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]
}

#[test]
fn a_renewed_etcd_that_is_stale_after_90_s_is_stopped_gently_and_last() {
    let site = stubborn(5);
    let ran = run_hastily(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(site.world.acts()[..4], all_but_etcd());
    assert_eq!(site.world.acts()[4..], [STOP]);
    assert!(ran.slept >= Duration::from_secs(90), "{:?}", ran.slept);
    assert!(ran.out.contains("etcd does not use what is on disk: stale: serves another certificate"), "{}", ran.out);
    assert!(ran.out.contains("etcd restarted, back after"), "{}", ran.out);
    assert_eq!(owed(&site), None);
    // in the same sandbox, as another container
    let state = site.world.state();
    let sandbox = state.newest("etcd").unwrap();
    let containers: Vec<_> = state.containers.iter().filter(|one| one.sandbox == sandbox.id).collect();
    assert_eq!(state.names[&sandbox.id], "etcd@1");
    assert_eq!(containers.iter().map(|one| (one.attempt, one.running)).collect::<Vec<_>>(), [(0, false), (1, true)]);
    site.world.forget_calls();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.slept), (0, Duration::ZERO), "{}", ran.text());
}

#[test]
fn a_stale_etcd_is_restarted_though_nothing_is_due() {
    let site = stale();
    let dry = run(&site, &["--dry-run", "--detailed-exitcode"]);
    assert_eq!((dry.code, dry.slept), (11, Duration::ZERO), "{}", dry.text());
    let step = "  2. restart etcd, if its handshake is still stale after 90 s: serves another certificate";
    assert!(dry.out.contains(step), "{}", dry.out);
    assert_eq!(site.world.acts(), Vec::<String>::new());
    let ran = run_hastily(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(ran.headlines()[1], "Restarting only: etcd");
    assert_eq!(site.world.acts(), [STOP]);
    assert!(ran.slept >= Duration::from_secs(90), "{:?}", ran.slept);
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.headlines()[1]), (0, SKIP), "{}", ran.text());
}

#[test]
fn a_run_with_nothing_to_do_waits_for_no_etcd() {
    let site = stacked(300);
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.slept), (0, Duration::ZERO), "{}", ran.text());
    assert_eq!(etcd(&site).requests(), [], "nor asks for its members");
}

#[test]
fn an_etcd_that_comes_round_in_time_is_not_restarted() {
    let site = stale();
    let (dir, setup) = (site.world.dir().to_path_buf(), site.world.setup());
    // somebody else restarts it
    let clock = StillClock::at(now()).oversleeping(Duration::from_secs(10)).meanwhile(move |number| {
        if number == 3 {
            edit(&dir, |state| {
                let sandbox = state.newest("etcd").unwrap().id.clone();
                let id = state.containers.iter().find(|one| one.sandbox == sandbox).unwrap().id.clone();
                state.stop(&id, &setup, &Faults::default());
            });
        }
    });
    let ran = run_by(&clock, &site, &[], &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), Vec::<String>::new());
    assert!(ran.out.contains("etcd uses what is on disk by itself, and is not restarted"), "{}", ran.out);
    assert_eq!(ran.slept, Duration::from_secs(30));
}

#[test]
fn restart_all_restarts_etcd_too_without_waiting_and_restart_none_does_not() {
    for (left, renewed) in [(300, 0), (5, 1)] {
        let site = stacked(left);
        let ran = run(&site, &["--restart", "all"]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert_eq!(site.world.acts()[renewed..], [APISERVER, CONTROLLER_MANAGER, SCHEDULER, STOP], "{left}");
        assert!(ran.slept < Duration::from_secs(5), "{:?}", ran.slept);
    }
    let site = stale();
    let ran = run(&site, &["--restart", "none"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.err.contains("note: etcd is not restarted, as asked for (--restart none)"), "{}", ran.err);
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

#[test]
fn under_docker_etcds_container_is_stopped_likewise() {
    let site = stale();
    let docker = format!("--docker={}", site.world.tool("docker").display());
    let ran = run_hastily(&site, &["--runtime=docker", &docker]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), ["docker stop -t 30 etcd@1/etcd.0"]);
}

#[test]
fn a_stop_that_fails_or_an_etcd_that_is_not_back_is_told_and_stays_owed() {
    let fails = |removal| Faults { removals: vec![removal], ..Faults::default() };
    let returns = |how| Faults { returns: [("etcd".to_owned(), how)].into(), ..Faults::default() };
    let cases = [
        (fails(Removal::Fails), 21, "cannot stop container "),
        (fails(Removal::DeadlineExceeded), 21, "context deadline exceeded"),
        (fails(Removal::DoesNothing), 21, "kubelet has started no new container of 'etcd-node1'"),
        (returns(Return::Never), 21, "container etcd (attempt 0) not running"),
        (returns(Return::Crashes), 21, "container etcd (attempt 1) not running"),
        (fails(Removal::DeadlineExceededYetDone), 0, ""),
    ];
    for (faults, code, words) in cases {
        let site = stale();
        site.world.fault(|set| set.clone_from(&faults));
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, code, "{faults:?}: {}", ran.text());
        assert!(ran.err.contains(words), "{faults:?}: {}", ran.err);
        assert_eq!(ran.err.contains("error: etcd is not back: "), code != 0, "{faults:?}: {}", ran.err);
        assert_eq!(owed(&site).is_some(), code != 0, "{faults:?}");
        assert!(site.world.acts().iter().all(|act| act == STOP), "{faults:?}: {:?}", site.world.acts());
    }
    let site = stale();
    site.world.fault(|faults| faults.removals = then(1, Removal::Fails, Removal::Ordinary));
    assert_eq!(run(&site, &[]).code, 0);
    assert_eq!(site.world.acts(), [STOP, STOP]);
}

#[test]
fn an_etcd_that_no_restart_helps_is_an_alarm_and_not_restarted_again() {
    let site = rereads_with("kube-scheduler", 300);
    site.tree.issue("etcd-server", now() + days(365));
    let ran = run_hastily(&site, &[]);
    assert_eq!(ran.code, 21, "{}", ran.text());
    assert!(ran.err.contains("error: etcd is back, and not proven to use what is on disk: stale"), "{}", ran.err);
    let ran = run(&site, &[]);
    assert_eq!((ran.code, ran.slept), (21, Duration::ZERO), "{}", ran.text());
    assert!(ran.err.contains("warning: etcd: ") && ran.err.contains("once more would not help"), "{}", ran.err);
    assert_eq!(site.world.acts(), [STOP]);
    assert_eq!(owed(&site).unwrap(), ["etcd"]);
}

#[test]
fn a_signal_while_etcd_is_given_its_time_leaves_it_to_the_next_run() {
    let site = stubborn(5);
    let signals = Signals::none();
    let ran = run_by(&hasty().raising(15, 2, &signals), &site, &[], &signals);
    assert_eq!(ran.code, 143, "{}", ran.text());
    assert_eq!(site.world.acts(), all_but_etcd());
    assert_eq!(owed(&site).unwrap(), ["etcd"]);
    site.world.forget_calls();
    let ran = run_hastily(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [STOP]);
    assert_eq!(owed(&site), None);
}

#[test]
fn without_kubelet_or_runtime_a_stale_etcd_is_neither_waited_for_nor_stopped() {
    for (faults, words) in [
        (Faults { kubelet_down: true, ..Faults::default() }, "kubelet is not running"),
        (Faults { runtime: Runtime::Down, ..Faults::default() }, "the container runtime does not answer"),
    ] {
        let site = stale();
        site.world.fault(|set| set.clone_from(&faults));
        let ran = run_hastily(&site, &[]);
        assert_eq!(ran.code, 23, "{words}: {}", ran.text());
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
        assert_eq!(site.world.acts(), Vec::<String>::new());
        assert_eq!(owed(&site).unwrap(), ["etcd"], "{words}");
    }
}
