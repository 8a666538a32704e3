//! A kubeadm that does not do what it says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use k8s_certs_renew::decision::RestartPolicy;
use k8s_certs_renew::exit::Exit;
use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::node::Overrides;
use k8s_certs_renew::report::{Console, RunReport, Voice};
use k8s_certs_renew::run::turning::Turns;
use k8s_certs_renew::run::{Job, run as run_job};
use k8s_certs_renew::settings::schedule::Wishes;
use k8s_certs_renew::steps::Deadlines;
use k8s_certs_renew::steps::preflight::Tools;

use super::{DONE, RESTARTS, acts, by_config, by_dir, files, now, run, site};
use crate::support::clock::StillClock;
use crate::support::faults::{Faults, Renewal, then};
use crate::support::site::Site;

type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// Everything of the node but what a copy step may write.
fn without_copy(mut files: Files) -> Files {
    files.remove("root/.kube/config");
    files
}

/// The calls for each of these names, first by configuration, then by directory.
fn both_ways(names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| [by_config(name), by_dir(name)]).collect()
}

// the words and the exit code of kubeadm prove nothing
#[test]
fn a_kubeadm_that_changes_nothing_is_tried_the_other_way_and_then_has_failed() {
    for fault in [Renewal::Refuses, Renewal::DoesNothing, Renewal::PrintsHelp] {
        let site = site(5);
        site.world.fault(|faults| faults.renewals = vec![fault.clone()]);
        let before = files(&site);
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 20, "{fault:?}: {}", ran.text());
        let names = site.tree.renewed_by_kubeadm();
        let calls = both_ways(&[&["all"], names.as_slice()].concat());
        assert_eq!(site.world.acts(), calls, "{fault:?}: and nothing is restarted");
        assert_eq!(files(&site), before, "{fault:?}");
        for name in names {
            assert!(ran.err.contains(&format!("error: {name} is not renewed: unchanged")), "{fault:?}: {}", ran.err);
        }
        // nothing is owed: no restart without a reason
        site.world.forget_calls();
        site.world.fault(|_| {});
        assert_eq!(run(&site, &["--detailed-exitcode"]).code, 10);
        assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS));
    }
}

#[test]
fn a_configuration_that_kubeadm_refuses_is_left_out() {
    let once = Faults { renewals: then(1, Renewal::Refuses, Renewal::Ordinary), ..Faults::default() };
    let file = Faults { config_refused: true, ..Faults::default() };
    for refuse in [once, file] {
        let site = site(5);
        site.world.fault(|faults| *faults = refuse);
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
        assert_eq!(site.world.acts(), acts(&[by_config("all"), by_dir("all")], &RESTARTS));
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    }
}

#[test]
fn what_a_kubeadm_that_stops_half_way_has_left_is_renewed_by_name() {
    let names = site(5).tree.renewed_by_kubeadm();
    for (at, stop) in names.iter().enumerate().skip(1) {
        let site = site(5);
        site.world.fault(|faults| faults.renewals = then(1, Renewal::StopsAt((*stop).to_owned()), Renewal::Ordinary));
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{stop}: {}", ran.text());
        let calls: Vec<_> = ["all"].iter().chain(&names[at..]).map(|name| by_config(name)).collect();
        assert_eq!(site.world.acts(), acts(&calls, &RESTARTS), "{stop}");
        assert_eq!(site.renewed_since(&before), names);
    }
}

/// What kubeadm may leave that is worse than what was there.
fn spoilers(name: &str) -> [(Renewal, &'static str); 3] {
    [
        (Renewal::Tears(name.into()), "the private key is another certificate's"),
        (Renewal::AnotherCa(name.into()), "not signed by its CA 'ca'"),
        (Renewal::OtherNames(name.into()), "other names or usages"),
    ]
}

// R05
#[test]
fn what_comes_out_worse_than_it_was_is_put_back_from_the_backup() {
    // a pair in each way, a kubeconfig in one
    for (name, ways) in [("apiserver", 3), ("admin.conf", 1), ("scheduler.conf", 1)] {
        for (fault, why) in spoilers(name).into_iter().take(ways) {
            let site = site(5);
            site.world.fault(|faults| faults.renewals = vec![fault.clone()]);
            let (before, serials) = (files(&site), site.serials());
            let ran = run(&site, &["--detailed-exitcode"]);
            assert_eq!(ran.code, 20, "{fault:?}: {}", ran.text());
            assert!(ran.err.contains(&format!("{name}: kubeadm left it worse than it was")), "{fault:?}: {}", ran.err);
            assert!(ran.err.contains(why), "{fault:?}: {}", ran.err);
            assert!(ran.err.contains(&format!("error: {name} is not renewed: ")), "{fault:?}: {}", ran.err);
            let others: Vec<_> = site.tree.renewed_by_kubeadm().into_iter().filter(|other| *other != name).collect();
            assert_eq!(site.renewed_since(&serials), others, "{fault:?}");
            let own = |files: &Files| -> Files {
                let of_it = |path: &&String| {
                    path.contains(&format!("/{name}.")) || path.ends_with(&format!("kubernetes/{name}"))
                };
                files.iter().filter(|(path, _)| of_it(path)).map(|(path, file)| (path.clone(), file.clone())).collect()
            };
            assert!(!own(&before).is_empty());
            assert_eq!(own(&files(&site)), own(&before), "{fault:?}");
            if name == "admin.conf" {
                assert_eq!(files(&site)["root/.kube/config"], before["root/.kube/config"], "{fault:?}");
            }
            let restarts = if name == "scheduler.conf" { &RESTARTS[..2] } else { &RESTARTS[..] };
            let calls = site.world.acts();
            let done: Vec<_> = calls.iter().filter(|call| call.starts_with("crictl")).collect();
            assert_eq!(done, restarts.iter().collect::<Vec<_>>(), "{fault:?}");
        }
    }
}

#[test]
fn what_came_out_spoilt_once_is_mended_by_its_own_renewal() {
    for (fault, _) in spoilers("apiserver") {
        let site = site(5);
        site.world.fault(|faults| faults.renewals = then(1, fault.clone(), Renewal::Ordinary));
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{fault:?}: {}", ran.text());
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
        assert!(ran.err.contains("apiserver: kubeadm left it worse than it was"), "{fault:?}: {}", ran.err);
    }
}

#[test]
fn a_kubeadm_that_is_killed_between_key_and_certificate_leaves_no_torn_pair() {
    for signal in [9, 15] {
        let site = site(5);
        let killed = Renewal::KilledAt("apiserver".into(), signal);
        site.world.fault(|faults| faults.renewals = then(1, killed.clone(), Renewal::Ordinary));
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());

        // each time
        let site = super::site(5);
        site.world.fault(|faults| faults.renewals = vec![killed]);
        let (before, pair) = (site.serials(), site.tree.read("/etc/kubernetes/ssl/apiserver.key"));
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 20, "{}", ran.text());
        assert!(
            ran.err.contains(&format!("signal {signal}")) || ran.err.contains(&format!("signal: {signal}")),
            "{}",
            ran.err
        );
        assert_eq!(site.tree.read("/etc/kubernetes/ssl/apiserver.key"), pair);
        assert!(!site.renewed_since(&before).contains(&"apiserver".to_owned()));
        assert!(!site.tree.inventory().get("apiserver").unwrap().is_damaged());
    }
}

#[test]
fn a_child_that_kubeadm_leaves_behind_delays_nothing() {
    let site = site(5);
    site.world.fault(|faults| faults.renewals = vec![Renewal::LeavesChild]);
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
}

/// Runs the job with so much time for each kubeadm call.
pub fn run_within(site: &Site, kubeadm_call: Duration) -> (RunReport, String) {
    let (kubeadm, crictl) = (site.world.tool("kubeadm"), site.world.tool("crictl"));
    let (clock, signals) = (StillClock::at(now()), Signals::none());
    let job = Job {
        root: Root::new(site.tree.dir()).unwrap(),
        overrides: Overrides::default(),
        wishes: Wishes { on_calendar: &[], timer: "k8s-certs-renew.timer", timezone: None, days_buffer: 7 },
        tools: Tools { kubeadm: Some(&kubeadm), crictl: Some(&crictl), ..Tools::default() },
        now: now(),
        synchronised: None,
        dry_run: false,
        force: false,
        restart: RestartPolicy::Stale,
        detailed_exitcode: true,
        kubeadm_config: None,
        copies: vec!["/root/.kube/config".into()],
        backup_dir: Path::new("/var/lib/k8s-certs-renew/backups"),
        keep_backups: 3,
        is_root: true,
        clock: &clock,
        signals: &signals,
        deadlines: Deadlines { kubeadm_call, ..Deadlines::default() },
        turns: Turns::default(),
    };
    let voice = Voice { text: true, quiet: false, verbose: false, color_out: false, color_err: false, width: None };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let report = run_job(&job, &mut Console::new(&mut out, &mut err, voice));
    (report, String::from_utf8(err).unwrap())
}

/// Processes of this machine that are the world's tools.
fn left_behind(site: &Site) -> Vec<String> {
    let world = site.world.dir().to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok());
    processes.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(&world)).collect()
}

// T09
#[test]
fn a_kubeadm_that_never_ends_is_ended_at_its_deadline() {
    let site = site(5);
    site.world.fault(|faults| faults.renewals = vec![Renewal::Hangs]);
    let before = files(&site);
    let (report, err) = run_within(&site, Duration::from_millis(100));
    assert_eq!(report.exit, Exit::RenewalFailed, "{err}");
    assert_eq!(files(&site), before);
    let names = site.tree.renewed_by_kubeadm();
    assert_eq!(site.world.acts(), both_ways(&[&["all"], names.as_slice()].concat()));
    assert_eq!(left_behind(&site), Vec::<String>::new());
}

#[test]
fn what_a_kubeadm_that_hung_half_way_has_left_is_renewed_by_name() {
    let site = site(5);
    site.world
        .fault(|faults| faults.renewals = then(1, Renewal::HangsAt("front-proxy-client".into()), Renewal::Ordinary));
    let before = without_copy(files(&site));
    let (report, err) = run_within(&site, Duration::from_secs(3));
    assert_eq!(report.exit, Exit::Changed, "{err}");
    let calls = ["all", "front-proxy-client", "scheduler.conf"].map(by_config);
    assert_eq!(site.world.acts(), acts(&calls, &RESTARTS));
    assert_eq!(without_copy(files(&site)).len(), before.len());
    assert_eq!(left_behind(&site), Vec::<String>::new());
}
