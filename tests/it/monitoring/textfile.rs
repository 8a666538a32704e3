//! `--textfile`: metrics on every way out of a run but two, and of a check.

use std::os::unix::fs::PermissionsExt;

use k8s_certs_renew::host::Signals;
use k8s_certs_renew::journal::Journal;
use k8s_certs_renew::run::LOCK;

use super::{samples, value};
use crate::check::check;
use crate::check::states::{fresh, stale};
use crate::run::seen::{impatient, owed, run_impatiently, text, with_tools};
use crate::run::{Ran, now, run, run_by, run_with, site, start};
use crate::support::clock::StillClock;
use crate::support::faults::{Return, Runtime};
use crate::support::site::Site;

const DIR: &str = "/var/lib/prometheus/node-exporter";
const FILE: &str = "/var/lib/prometheus/node-exporter/k8s_certs_renew.prom";

/// A node with a directory for the collector, where what kubeadm renews lasts for so many days more.
fn collected(left: i64) -> Site {
    let site = site(left);
    std::fs::create_dir_all(site.tree.on_host(DIR)).unwrap();
    site
}

/// What a run has written, which is all that is in the directory; none where nothing is there.
fn written(site: &Site) -> Option<String> {
    let names: Vec<_> =
        std::fs::read_dir(site.tree.on_host(DIR)).unwrap().map(|one| one.unwrap().file_name()).collect();
    match &names[..] {
        [] => None,
        [name] if name == "k8s_certs_renew.prom" => Some(site.tree.read(FILE)),
        _ => panic!("{names:?}"),
    }
}

/// Asserts that a run ended so, and that its metrics say it.
fn assert_told(site: &Site, ran: &Ran, code: u8) -> String {
    assert_eq!(ran.code, code, "{}", ran.text());
    let metrics = written(site).unwrap_or_else(|| panic!("no metrics after {code}"));
    assert_eq!(value(&metrics, "last_exit_code"), Some(f64::from(code)));
    assert_eq!(value(&metrics, "check_timestamp_seconds"), Some(now().timestamp() as f64));
    metrics
}

fn journal(site: &Site) -> Journal {
    Journal::read(&site.tree.root()).0
}

#[test]
fn a_run_with_nothing_to_do_writes_what_it_found() {
    let site = collected(300);
    let ran = run(&site, &["--textfile", FILE]);
    let metrics = assert_told(&site, &ran, 0);
    assert_eq!(ran.err.matches("metrics").count(), 0, "{}", ran.err);
    let mode = std::fs::metadata(site.tree.on_host(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(value(&metrics, "last_run_timestamp_seconds"), Some(now().timestamp() as f64));
    assert_eq!(value(&metrics, "last_success_timestamp_seconds"), Some(now().timestamp() as f64));
}

#[test]
fn after_a_renewal_the_new_dates_and_verdicts_are_told() {
    let site = collected(5);
    let metrics = assert_told(&site, &run(&site, &["--textfile", FILE, "--detailed-exitcode"]), 10);
    let ends: Vec<f64> = samples(&metrics)
        .into_iter()
        .filter(|(name, labels, _)| name.ends_with("not_after_timestamp_seconds") && labels.contains("\"kubeadm\""))
        .filter(|(_, labels, _)| !labels.contains("kind=\"authority\""))
        .map(|(_, _, end)| end)
        .collect();
    assert_eq!(ends.len(), 6);
    assert!(ends.iter().all(|end| *end > now().timestamp() as f64 + 300.0 * 86_400.0), "{ends:?}");
    assert!(metrics.contains("component_verdict{component=\"kube-scheduler\",verdict=\"in_use\"} 1\n"), "{metrics}");
    assert_eq!(journal(&site).last_exit, Some(10));
}

#[test]
fn a_run_that_fails_tells_its_code_and_so_does_a_check_after_it() {
    // 20: kubeadm renews nothing
    let site = collected(5);
    let kubeadm = crate::run::seen::script(&site, "broken-kubeadm", "exit 1");
    let crictl = site.world.tool("crictl");
    let mut argv = with_tools(&site, &[("kubeadm", text(&kubeadm)), ("crictl", text(&crictl))]);
    argv.extend(["--textfile".into(), FILE.into()]);
    assert_told(&site, &start(argv, &[], &Signals::none()), 20);
    assert_eq!(journal(&site).last_exit, Some(20));

    // 23: the restart is put off, and stays owed
    let site = collected(5);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let metrics = assert_told(&site, &run_impatiently(&site, &["--textfile", FILE]), 23);
    assert_eq!(owed(&site).unwrap().len(), 3);
    assert!(metrics.contains("restart_pending{component=\"kube-scheduler\"} 1\n"), "{metrics}");
    assert_eq!(value(&metrics, "last_success_timestamp_seconds"), None);
    let took = value(&metrics, "last_duration_seconds").unwrap();
    assert!(took >= 40.0, "{took}");
    assert_eq!(journal(&site).last_exit, Some(23));
}

#[test]
fn a_run_that_changes_nothing_writes_its_code_and_keeps_it_in_a_journal_that_is_there() {
    let cases: [(&[&str], u8); 2] =
        [(&["--backup-dir", "/etc/kubernetes/admin.conf/x"], 74), (&["--on-calendar", "dayly"], 78)];
    for (args, code) in cases {
        let site = collected(5);
        let with_metrics = [&["--textfile", FILE], args].concat();
        let metrics = assert_told(&site, &run(&site, &with_metrics), code);
        assert_eq!(value(&metrics, "last_run_timestamp_seconds"), None);
        assert_eq!(journal(&site), Journal::default(), "nothing was done, so there is nothing to remember");

        let mut before = Journal::default();
        before.last_run = Some(now());
        before.write(&site.tree.root(), false).unwrap();
        assert_told(&site, &run(&site, &with_metrics), code);
        assert_eq!(journal(&site).last_exit, Some(code));
        assert_eq!(journal(&site).last_run, before.last_run);
    }
    let site = collected(5);
    let absent = site.world.dir().join("absent/kubeadm");
    let crictl = site.world.tool("crictl");
    let mut argv = with_tools(&site, &[("kubeadm", text(&absent)), ("crictl", text(&crictl))]);
    argv.extend(["--textfile".into(), FILE.into()]);
    let metrics = assert_told(&site, &start(argv, &[], &Signals::none()), 69);
    assert_eq!(value(&metrics, "could_renew"), Some(0.0));
}

#[test]
fn a_run_that_is_ended_by_a_signal_writes_what_it_left() {
    let site = collected(5);
    site.world.fault(|faults| {
        faults.returns.insert("kube-apiserver".to_owned(), Return::After(2));
    });
    let signals = Signals::none();
    let clock = StillClock::at(now()).raising(15, 1, &signals);
    let metrics = assert_told(&site, &run_by(&clock, &site, &["--textfile", FILE], &signals), 143);
    assert_eq!(value(&metrics, "could_renew"), Some(1.0), "the signal does not cut the look short: {metrics}");
    assert_eq!(journal(&site).last_exit, Some(143));
}

#[test]
fn a_dry_run_a_held_lock_a_kubeadm_at_work_and_another_instant_write_nothing() {
    let site = collected(5);
    assert_eq!(run(&site, &["--textfile", FILE, "--dry-run"]).code, 0);
    assert_eq!(written(&site), None);

    let site = collected(5);
    let lock = site.tree.on_host(LOCK);
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = std::fs::File::create(lock).unwrap();
    held.lock().unwrap();
    assert_eq!(run(&site, &["--textfile", FILE]).code, 75);
    assert_eq!(written(&site), None);
    drop(held);

    site.tree.write("/proc/4711/cmdline", "/usr/local/bin/kubeadm\0certs\0renew\0all\0");
    site.tree.write("/proc/4711/stat", "4711 (kubeadm) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 900 0 0\n");
    assert_eq!(run(&site, &["--textfile", FILE]).code, 75);
    assert_eq!(written(&site), None);
    site.tree.remove("/proc/4711/cmdline");
    site.tree.remove("/proc/4711/stat");
    std::fs::remove_dir(site.tree.on_host("/proc/4711")).unwrap();

    assert_eq!(run(&site, &["--textfile", FILE, "--at", "2026-03-02T03:10:00Z"]).code, 0);
    assert_eq!(written(&site), None);
}

#[test]
fn metrics_that_cannot_be_written_are_a_warning_and_the_code_stays_the_runs() {
    for (path, why) in [
        ("/var/lib/absent/x.prom", "No such file"),
        ("/etc/kubernetes/admin.conf/x.prom", "Not a directory"),
        ("/var/lib/prometheus/node-exporter/dir.prom", "Is a directory"),
    ] {
        let site = collected(300);
        std::fs::create_dir_all(site.tree.on_host(&format!("{DIR}/dir.prom"))).unwrap();
        let ran = run(&site, &["--textfile", path]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let warning = format!("warning: cannot write the metrics to '{path}': {why}");
        assert!(ran.err.contains(&warning), "{}", ran.err);
        let state = fresh();
        std::fs::create_dir_all(state.site.tree.on_host(&format!("{DIR}/dir.prom"))).unwrap();
        let checked = check(&state, &["--textfile", path]);
        assert!(checked.code == check(&state, &[]).code && checked.err.contains(&warning), "{}", checked.err);
    }
}

#[test]
fn a_path_that_is_not_absolute_is_a_usage_error() {
    let site = collected(5);
    let ran = crate::run::refused(&site, &["--textfile", "x.prom"], 64, "'x.prom' is not an absolute path");
    assert_eq!(ran.out, "");
    let checked = check(&fresh(), &["--textfile", "x.prom"]);
    assert!(checked.code == 3 && checked.err.contains("'x.prom' is not an absolute path"), "{}", checked.err);
}

#[test]
fn the_file_is_a_setting_of_both() {
    let site = collected(300);
    let setting = [("K8S_CERTS_RENEW_TEXTFILE", FILE)];
    let ran = run_with(&site, &[], &setting, &Signals::none());
    assert_told(&site, &ran, 0);
}

#[test]
fn a_check_writes_beside_its_own_output_what_it_would_print_as_metrics() {
    let state = stale();
    std::fs::create_dir_all(state.site.tree.on_host(DIR)).unwrap();
    let checked = check(&state, &["-o", "nagios", "--textfile", FILE]);
    assert!(checked.out.starts_with("K8S-CERTS-RENEW "), "{}", checked.out);
    assert_eq!(state.site.tree.read(FILE), check(&state, &["-o", "prometheus"]).out);
    check(&state, &["--at", "2026-12-10T12:00:00Z", "--textfile", FILE]);
    assert_eq!(state.site.tree.read(FILE), check(&state, &["-o", "prometheus"]).out, "another instant is not written");
}

#[test]
fn a_run_that_is_cut_off_while_it_waits_remembers_the_signal() {
    let site = collected(5);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let signals = Signals::none();
    let clock = impatient().raising(2, 1, &signals);
    assert_told(&site, &run_by(&clock, &site, &["--textfile", FILE], &signals), 130);
}

#[test]
fn nothing_but_a_file_of_the_collectors_is_ever_replaced() {
    let site = collected(300);
    let key = site.tree.read("/etc/kubernetes/ssl/ca.key");
    for path in ["/etc/kubernetes/ssl/ca.key", "/etc/kubernetes/admin.conf", "/var/lib/metrics"] {
        let ran = run(&site, &["--textfile", path]);
        assert_eq!(ran.code, 64, "{}", ran.text());
        assert!(ran.err.contains("does not end with .prom"), "{}", ran.err);
        let checked = check(&fresh(), &["--textfile", path]);
        assert_eq!(checked.code, 3, "{}", checked.err);
    }
    assert_eq!(site.tree.read("/etc/kubernetes/ssl/ca.key"), key);
}
