//! kubelet and the container runtime, dead before the run or all of a sudden; and a kube-apiserver that is not ready.

use super::super::crash::site::{ARGS, Killed, node};
use super::super::seen::{run_impatiently, text};
use super::{Left, judged};
use crate::support::events::{Act, Event, Point};
use crate::support::faults::{Faults, Return, Runtime};
use crate::support::site::Site;
use crate::support::tls_server::Answer;

const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// The last call before each of them is restarted: kubeadm's, or the one for what is left of the sandbox before.
const CALLS_BEFORE: [(&str, usize); 3] = [("certs renew all", 0), ("ps -a", 1), ("ps -a", 3)];

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dead {
    Kubelet,
    Runtime,
}

/// How many cells are tried.
pub fn count() -> usize {
    // before the run, before each restart, in each restart, in the wait
    2 * (1 + COMPONENTS.len() * 2 + 1) + 2
}

impl Dead {
    /// What goes wrong once it is dead.
    fn faults(self) -> Faults {
        match self {
            Self::Kubelet => Faults { kubelet_down: true, ..Faults::default() },
            Self::Runtime => Faults { runtime: Runtime::Down, ..Faults::default() },
        }
    }

    /// The script that it dies by.
    fn script(self, site: &Site) -> String {
        let world = text(site.world.dir());
        let then = site.world.dir().join("then.json");
        std::fs::write(&then, serde_json::to_vec(&self.faults()).unwrap()).unwrap();
        let root = text(site.tree.dir());
        let kubelet = format!("mkdir -p {root}/run && mv {root}/proc/700 {root}/run/kubelet");
        let process = if self == Self::Kubelet { kubelet } else { ":".to_owned() };
        format!("{process}; cp {} {world}/faults.json", text(&then))
    }

    /// It dies at this point of the call with these words and number; `meanwhile` goes wrong from the beginning.
    fn at(self, site: &Site, (call, number): (&str, usize), point: Point, meanwhile: Faults) {
        let event = Event { call: call.to_owned(), number, point, act: Act::Runs(self.script(site)) };
        site.world.fault(|faults| *faults = Faults { events: vec![event], ..meanwhile });
    }
}

/// kubelet runs again, and shows the pods that it was bringing up.
fn mend(site: &Site) {
    let kept = site.tree.on_host("/run/kubelet");
    if kept.exists() {
        std::fs::rename(kept, site.tree.on_host("/proc/700")).unwrap();
    }
    site.world.edit(|state| state.sandboxes.iter_mut().for_each(|one| one.hidden_for = 0));
}

fn tried(name: &str, expected: (i32, Left), prepare: impl FnOnce(&Site)) {
    let site = node();
    let before = Killed::before(&site);
    prepare(&site);
    let ran = run_impatiently(&site, &ARGS);
    judged(&site, name, &before, (Some(i32::from(ran.code)), &ran.text()), expected, mend);
}

#[test]
fn without_kubelet_or_runtime_nothing_is_removed_and_the_next_run_restarts() {
    for dead in [Dead::Kubelet, Dead::Runtime] {
        tried(&format!("{dead:?} dead before the run"), (23, Left::Told), |site| {
            let died = std::process::Command::new("sh").args(["-ec", &dead.script(site)]).status().unwrap();
            assert!(died.success());
        });
        for (component, call) in COMPONENTS.iter().zip(CALLS_BEFORE) {
            tried(&format!("restart of {component}: {dead:?} dies before"), (23, Left::Told), |site| {
                dead.at(site, call, Point::After, Faults::default());
            });
        }
    }
}

#[test]
fn where_kubelet_or_runtime_die_in_a_restart_the_next_run_sees_to_it() {
    for component in COMPONENTS {
        let call = format!("rmp -f {component}");
        // of two codes, the one about /readyz comes first
        let code = if component == "kube-apiserver" { 22 } else { 21 };
        tried(&format!("restart of {component}: kubelet dies in it"), (code, Left::Told), |site| {
            // the new sandbox comes up with the new kubelet
            let returns = [(component.to_owned(), Return::After(10_000))].into();
            Dead::Kubelet.at(site, (&call, 0), Point::Before, Faults { returns, ..Faults::default() });
        });
        tried(&format!("restart of {component}: the runtime dies in it"), (21, Left::Told), |site| {
            Dead::Runtime.at(site, (&call, 0), Point::After, Faults::default());
        });
    }
}

#[test]
fn after_the_restarts_neither_is_needed() {
    for dead in [Dead::Kubelet, Dead::Runtime] {
        tried(&format!("copy and wait: {dead:?} dies before"), (0, Left::Finished), |site| {
            // the last call of a tool: what is left of the old sandbox
            dead.at(site, ("ps -a", 5), Point::After, Faults::default());
        });
    }
}

#[test]
fn a_kube_apiserver_that_is_not_ready_is_told() {
    tried("restart of kube-apiserver: never ready", (22, Left::Told), |site| {
        site.servers.apiserver.script(|script| script.restarted = vec![Answer::Status(500)]);
    });
    tried("wait: not ready in time", (22, Left::Finished), |site| {
        site.servers.apiserver.script(|script| script.restarted = vec![Answer::Ready, Answer::Status(500)]);
    });
}
