//! Runs that are cut off, by a signal or for good, and the runs after them.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use k8s_certs_renew::host::Signals;

use super::binary::program;
use super::seen::{
    APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, owed, renewed_and_copied, sandboxes, script,
    text, with_tools,
};
use super::{Ran, SKIP, now, run, run_by, run_with, site};
use crate::support::clock::StillClock;
use crate::support::faults::{Removal, Renewal, Return, Runtime, then};
use crate::support::site::Site;
use crate::support::tls_server::Answer;

const ALL: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The next run, all faults gone: it ends well, renews nothing, and restarts just this.
fn finishes(site: &Site, restarts: &[&str], headlines: &[&str]) {
    site.world.fault(|_| {});
    site.servers.apiserver.script(|_| {});
    site.world.forget_calls();
    let serials = site.serials();
    let ran = run(site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), restarts, "{}", ran.text());
    assert_eq!(ran.headlines()[1..], *headlines);
    assert_eq!(site.renewed_since(&serials), Vec::<String>::new());
    assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
    assert_eq!(owed(site), None);
    let last = run(site, &["--detailed-exitcode"]);
    assert_eq!(last.code, 0, "{}", last.text());
}

/// The headlines of a run that only makes up for these restarts, and the copy.
fn made_up(components: &str) -> [String; 3] {
    let [copy, wait] = ["Updating /root/.kube/config", "Waiting for apiserver to be up again"].map(str::to_owned);
    [format!("Restarting only: {components}"), copy, wait]
}

fn finishes_restarts(site: &Site, restarts: &[&str], components: &str) {
    finishes(site, restarts, &made_up(components).each_ref().map(String::as_str));
}

#[test]
fn a_signal_before_the_first_step_ends_the_run_with_nothing_changed() {
    for (signal, code) in [(15, 143), (2, 130), (1, 129)] {
        let site = site(5);
        let before = files(&site);
        let ran = run_with(&site, &[], &[], &Signals::already(signal));
        assert_eq!(ran.code, code, "{}", ran.text());
        assert!(ran.err.contains(&format!("ended by signal {signal}")), "{}", ran.err);
        assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
        assert_eq!(site.world.acts(), Vec::<String>::new());
        assert_eq!(owed(&site), None);
        assert_eq!(run(&site, &[]).code, 0);
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    }
}

#[test]
fn a_signal_ends_the_wait_for_the_runtime_with_nothing_changed() {
    let site = site(5);
    let before = files(&site);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let signals = Signals::none();
    let ran = run_by(&StillClock::at(now()).raising(15, 3, &signals), &site, &[], &signals);
    assert_eq!(ran.code, 143, "{}", ran.text());
    assert!(ran.err.contains("ended by signal 15 with nothing changed"), "{}", ran.err);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

#[test]
fn a_signal_lets_the_kubeadm_that_is_at_work_end_and_no_other_begin() {
    let site = site(5);
    let before = files(&site);
    let log = site.world.dir().join("log");
    // what it is started by gets the signal, as a service that systemd stops
    let kubeadm = script(&site, "stopped", &format!("echo \"$3\" >> {}; kill -s TERM $PPID; exit 1", text(&log)));
    let mut stopped = std::process::Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"));
    stopped.args(
        with_tools(&site, &[("kubeadm", text(&kubeadm)), ("crictl", text(&site.world.tool("crictl")))]).drain(1..),
    );
    let output = stopped.args(["--at", super::NOW]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{err}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "all\n");
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(run(&site, &[]).code, 0);
}

#[test]
fn a_kubelet_that_is_still_bringing_up_its_pods_is_waited_for() {
    for runtime in [Runtime::Down, Runtime::Empty] {
        let site = site(5);
        site.world.fault(|faults| faults.runtime = runtime);
        let faults = site.world.dir().join("faults.json");
        let clock = StillClock::at(now()).meanwhile(move |number| {
            if number == 5 {
                std::fs::write(&faults, "{}").unwrap();
            }
        });
        let ran = run_by(&clock, &site, &[], &Signals::none());
        assert_eq!(ran.code, 0, "{runtime:?}: {}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{runtime:?}");
    }
}

/// A run that gets the signal at its sleep of this number, with kube-apiserver back at this listing.
fn cut_off(signal: i32, sleep: u32, back: u32) -> (Site, Ran) {
    let site = site(5);
    site.world.fault(|faults| {
        faults.returns.insert("kube-apiserver".to_owned(), Return::After(back));
    });
    let signals = Signals::none();
    let ran = run_by(&StillClock::at(now()).raising(signal, sleep, &signals), &site, &[], &signals);
    (site, ran)
}

#[test]
fn a_signal_between_two_restarts_leaves_the_rest_to_the_next_run() {
    for (signal, code) in [(15, 143), (2, 130)] {
        // it comes in the last pause before the pod is seen
        let (site, ran) = cut_off(signal, 2, 2);
        assert_eq!(ran.code, code, "{}", ran.text());
        assert!(ran.err.contains("the next run finishes what was begun"), "{}", ran.err);
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER]);
        assert_eq!(owed(&site).unwrap(), ALL[1..]);
        finishes_restarts(&site, &[CONTROLLER_MANAGER, SCHEDULER], "kube-controller-manager, kube-scheduler");
    }
}

#[test]
fn a_signal_while_a_pod_is_waited_for_leaves_that_one_owed_too() {
    for (signal, code) in [(15, 143), (2, 130)] {
        let (site, ran) = cut_off(signal, 3, 1000);
        assert_eq!(ran.code, code, "{}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER]);
        assert_eq!(owed(&site).unwrap(), ALL);
        site.world.edit(|state| state.sandboxes.iter_mut().for_each(|one| one.hidden_for = 0));
        let first = "crictl -t 60s rmp -f kube-apiserver@2";
        finishes_restarts(&site, &[first, CONTROLLER_MANAGER, SCHEDULER], &ALL.join(", "));
    }
}

#[test]
fn a_signal_while_readyz_is_waited_for_ends_the_run_and_nothing_is_owed() {
    for (signal, code) in [(15, 143), (2, 130)] {
        let site = site(5);
        site.servers.apiserver.script(|script| script.restarted = then(1, Answer::Ready, Answer::Status(500)));
        let signals = Signals::none();
        let ran = run_by(&StillClock::at(now()).raising(signal, 2, &signals), &site, &[], &signals);
        assert_eq!(ran.code, code, "{}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
        assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
        assert_eq!(owed(&site), None, "every component was seen back");
        finishes(&site, &[], &[SKIP]);
    }
}

#[test]
fn a_signal_in_a_run_that_makes_up_for_another_leaves_the_journal_open() {
    let (site, _) = cut_off(15, 3, 1000);
    let ran = run_with(&site, &[], &[], &Signals::already(15));
    assert_eq!(ran.code, 143, "{}", ran.text());
    assert_eq!(owed(&site).unwrap(), ALL);
}

/// Polls until it is so, for 20 s at most.
pub fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let seen = (0..4000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(seen, "{what}");
}

/// The processes of a stand-in tool of this world.
pub fn processes(site: &Site, tool: &str) -> Vec<i32> {
    let tool = site.world.tool(tool);
    let is_it = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).next() == Some(tool.as_os_str().as_encoded_bytes()))
    };
    let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_it).collect()
}

/// Ends a stand-in tool that hangs, when the test ends at the latest.
pub struct Ends<'a>(pub &'a Site, pub &'a str);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        for pid in processes(self.0, self.1) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Starts the program, waits for this call of a tool, and kills the program with SIGKILL.
pub fn killed_at(site: &Site, call: &str) {
    let mut child: Child = program(site, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(call, || site.world.acts().iter().any(|act| act == call));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_runs_kubeadm_keeps_others_out_until_it_has_ended() {
    let site = site(5);
    let before = files(&site);
    site.world.fault(|faults| faults.renewals = vec![Renewal::HangsAt("controller-manager.conf".to_owned())]);
    let kubeadm = Ends(&site, "kubeadm");
    killed_at(&site, RENEW_ALL);
    wait_for("kubeadm lives", || processes(&site, "kubeadm").len() == 1);
    wait_for("kubeadm has renewed some", || changed(&before, &files(&site)).len() == 5);
    let written = files(&site);
    for _ in 0..2 {
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 75, "{}", ran.text());
        assert!(ran.err.contains("or a kubeadm that it started"), "{}", ran.err);
    }
    assert_eq!(changed(&written, &files(&site)), Vec::<String>::new());
    assert_eq!(site.world.acts(), [RENEW_ALL]);
    // a dry run only looks, and may
    assert_eq!(run(&site, &["--dry-run"]).code, 0);
    drop(kubeadm);
    wait_for("kubeadm has ended", || processes(&site, "kubeadm").is_empty());

    site.world.fault(|_| {});
    site.world.forget_calls();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
    assert_eq!(owed(&site), None);
}

#[test]
fn killed_after_kubeadm_the_next_run_restarts_what_is_owed_though_all_files_are_fresh() {
    for (hanging, owing, done) in [(0, &ALL[..], &[][..]), (2, &ALL[2..], &ALL[..2])] {
        let site = site(5);
        let before = site.serials();
        site.world.fault(|faults| faults.removals = then(hanging, Removal::Ordinary, Removal::Hangs));
        let crictl = Ends(&site, "crictl");
        let all = [APISERVER, CONTROLLER_MANAGER, SCHEDULER];
        killed_at(&site, all[hanging]);
        drop(crictl);
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
        assert_eq!(owed(&site).unwrap(), owing);
        finishes_restarts(&site, &all[hanging..], &owing.join(", "));
        assert_eq!(sandboxes(&site), ALL.map(|name| format!("{name}@2")), "{done:?}");
    }
}

#[test]
fn sigterm_is_held_until_kubeadm_has_ended() {
    let site = site(5);
    let before = site.serials();
    site.world.fault(|faults| faults.renewals = vec![Renewal::Slow(60)]);
    let child = program(&site, &[]).spawn().unwrap();
    wait_for("kubeadm runs", || site.world.acts().iter().any(|act| act == RENEW_ALL));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm(), "kubeadm was not cut off");
    assert_eq!(site.world.acts(), [RENEW_ALL]);
    assert_eq!(owed(&site).unwrap(), ALL);
    finishes_restarts(&site, &[APISERVER, CONTROLLER_MANAGER, SCHEDULER], &ALL.join(", "));
}

#[test]
fn the_lock_of_a_run_that_has_ended_however_keeps_nobody_out() {
    let site = site(300);
    assert_eq!(run(&site, &[]).code, 0);
    assert!(Path::new(&site.tree.on_host("/run/k8s-certs-renew.lock")).exists());
    assert_eq!(run(&site, &[]).code, 0);
}
