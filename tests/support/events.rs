//! What happens at a chosen point of a stand-in tool's call: the run that made the call is killed, or a disk goes away.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::fake::Call;

/// Something that happens once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The call: words that its line in the world's log holds, such as `rmp -f kube-scheduler@1`.
    pub call: String,
    /// Which of those calls, from 0.
    pub number: usize,
    /// At which point of it.
    pub point: Point,
    /// What happens then.
    pub act: Act,
}

/// A point of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Point {
    /// Nothing is done yet.
    Before,
    /// kubeadm has emptied the file of this name, to write it.
    Emptied(String),
    /// kubeadm has written half of it.
    Half(String),
    /// kubeadm has written it, and not the next one.
    Written(String),
    /// Everything is done, and the caller does not know it yet.
    After,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// The run is killed (SIGKILL); the tool goes on.
    KillsRun,
    /// The run and the tool are killed, as when a unit's whole group is, or the machine dies.
    KillsBoth,
    /// This shell script runs.
    Runs(String),
}

/// Lets happen what is to happen at this point of this call.
pub fn reach(call: &Call, point: &Point) {
    for event in call.faults.events.iter().filter(|event| event.point == *point && is_it(call, event)) {
        match &event.act {
            Act::KillsRun => kill_run(&call.setup.root),
            Act::KillsBoth => {
                kill_run(&call.setup.root);
                let _ = kill_process(getpid(), Signal::KILL);
            }
            Act::Runs(script) => {
                let status = Command::new("sh").args(["-ec", script]).status().unwrap();
                assert!(status.success(), "{script}: {status}");
            }
        }
    }
}

/// Whether this is the call of the event: its words, and as many such calls before it.
fn is_it(call: &Call, event: &Event) -> bool {
    let before = std::fs::read_to_string(call.dir.join("calls.log")).unwrap();
    let calls = before.lines().filter(|line| line.contains(&event.call)).count();
    call.line.contains(&event.call) && calls == event.number + 1
}

/// Kills the run that holds the lock of the node below `root`, and waits until it is dead.
pub fn kill_run(root: &Path) {
    let Some(pid) = run(root) else { return };
    kill_process(pid, Signal::KILL).unwrap();
    for _ in 0..2000 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
        if state.is_empty() || state.starts_with(['Z', 'X']) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("process {pid:?} outlives SIGKILL");
}

/// The process that has written itself into the lock.
fn run(root: &Path) -> Option<Pid> {
    let lock: PathBuf = root.join("run/k8s-certs-renew.lock");
    Pid::from_raw(std::fs::read_to_string(lock).ok()?.trim().parse().ok()?)
}
