//! The decision as steps: what a dry run prints and a run walks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::decision::{Cause, Decision, Item, Restart};
use crate::turn::lease::{NAME, NAMESPACE};

/// One step of a run. Plain data; the run has the one match over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Keep the files that kubeadm may rewrite.
    Backup {
        /// Where the backups are.
        dir: PathBuf,
    },
    /// Renew certificates by kubeadm.
    Renew {
        /// Their names, sorted.
        names: Vec<String>,
        /// Whether one `kubeadm certs renew all` does it.
        all: bool,
    },
    /// Take this node's turn, and wait for it; taken when the first restart is due.
    Turn,
    /// Restart a static pod, and see it back.
    Restart {
        /// The component, such as `kube-scheduler`.
        component: String,
        /// Why.
        reason: String,
        /// What kind of reason that is.
        cause: Cause,
        /// What remains of it if nothing that it reads can be renewed.
        otherwise: Option<Cause>,
        /// How long it is given to come to use what is on disk by itself; then it is stopped. None for one that is restarted in
        /// any case.
        patience: Option<Duration>,
    },
    /// Bring a kubeconfig copy up to date.
    Copy {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Wait until kube-apiserver is ready.
    WaitReady,
    /// Run the hook after a restart that an earlier run owes.
    AfterRestart {
        /// For these components.
        components: Vec<String>,
    },
}

impl Step {
    /// The step's name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Backup { .. } => "backup",
            Self::Renew { .. } => "renew",
            Self::Turn => "turn",
            Self::Restart { .. } => "restart",
            Self::Copy { .. } => "copy",
            Self::WaitReady => "waitReady",
            Self::AfterRestart { .. } => "afterRestart",
        }
    }

    /// What the step works on, for JSON.
    pub fn object(&self) -> String {
        match self {
            Self::Backup { dir } => dir.display().to_string(),
            Self::Renew { names, .. } => names.join(","),
            Self::Turn => format!("{NAMESPACE}/{NAME}"),
            Self::Restart { component, .. } => component.clone(),
            Self::Copy { path, .. } => path.display().to_string(),
            Self::WaitReady => "kube-apiserver".to_owned(),
            Self::AfterRestart { components } => components.join(","),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { dir } => write!(f, "back up the files that kubeadm rewrites, to '{}'", dir.display()),
            Self::Renew { names, all: true } => write!(f, "kubeadm certs renew all ({})", names.join(", ")),
            Self::Renew { names, all: false } => write!(f, "kubeadm certs renew, one by one: {}", names.join(", ")),
            Self::Turn => {
                write!(f, "wait for this node's turn, if there are other control-plane nodes: Lease {NAMESPACE}/{NAME}")
            }
            Self::Restart { component, reason, patience: Some(patience), .. } => {
                let seconds = patience.as_secs();
                write!(f, "restart {component}, if its handshake is still stale after {seconds} s: {reason}")
            }
            Self::Restart { component, reason, cause: Cause::Stale | Cause::Owed, .. } => {
                write!(f, "restart {component}, if it is still not proven to be in use: {reason}")
            }
            Self::Restart { component, reason, .. } => write!(f, "restart {component}: {reason}"),
            Self::Copy { path, reason } => write!(f, "update '{}': {reason}", path.display()),
            Self::WaitReady => f.write_str("wait until kube-apiserver's /readyz answers"),
            Self::AfterRestart { components } => {
                write!(f, "run the hook after a restart, which an earlier run owes: {}", components.join(", "))
            }
        }
    }
}

/// The steps of a decision, in the order in which they are taken. `patience` is how long one that re-reads its files is given for it.
pub fn plan(decision: &Decision, backup_dir: &std::path::Path, patience: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    if !decision.renew.is_empty() {
        steps.push(Step::Backup { dir: backup_dir.to_path_buf() });
        let names = decision.renew.iter().map(|item| item.name.clone()).collect();
        steps.push(Step::Renew { names, all: decision.renew_all });
    }
    if !decision.restart.is_empty() {
        steps.push(Step::Turn);
    }
    steps.extend(decision.restart.iter().cloned().map(|Restart { name, reason, cause, otherwise, rereads }| {
        let patience = (rereads && cause != Cause::Asked).then_some(patience);
        Step::Restart { component: name, reason, cause, otherwise, patience }
    }));
    steps.extend(decision.copy.iter().cloned().map(|Item { name, reason }| Step::Copy { path: name.into(), reason }));
    if !decision.renew.is_empty() || !decision.restart.is_empty() {
        steps.push(Step::WaitReady);
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Step, plan};
    use crate::decision::{Cause, Decision, Item, Restart};

    const PATIENCE: Duration = Duration::from_secs(90);

    fn items(names: &[&str]) -> Vec<Item> {
        names.iter().map(|&name| Item { name: name.into(), reason: "r".into() }).collect()
    }

    fn restarts(names: &[&str]) -> Vec<Restart> {
        names
            .iter()
            .map(|&name| Restart {
                name: name.into(),
                reason: "r".into(),
                cause: Cause::Renewed,
                otherwise: None,
                rereads: name == "etcd",
            })
            .collect()
    }

    fn names(decision: &Decision) -> Vec<String> {
        plan(decision, Path::new("/b"), PATIENCE)
            .iter()
            .map(|step| format!("{} {}", step.name(), step.object()))
            .collect()
    }

    #[test]
    fn a_renewal_backs_up_first_and_waits_last() {
        let decision = Decision {
            renew: items(&["apiserver", "scheduler.conf"]),
            restart: restarts(&["kube-apiserver", "kube-scheduler"]),
            copy: items(&["/root/.kube/config"]),
            ..Decision::default()
        };
        let expected = [
            "backup /b",
            "renew apiserver,scheduler.conf",
            "turn kube-system/k8s-certs-renew",
            "restart kube-apiserver",
            "restart kube-scheduler",
            "copy /root/.kube/config",
            "waitReady kube-apiserver",
        ];
        assert_eq!(names(&decision), expected);
    }

    #[test]
    fn nothing_to_do_is_no_step_and_a_copy_alone_waits_for_nothing() {
        assert_eq!(plan(&Decision::default(), Path::new("/b"), PATIENCE), Vec::<Step>::new());
        let decision = Decision { copy: items(&["/root/.kube/config"]), ..Decision::default() };
        assert_eq!(names(&decision), ["copy /root/.kube/config"]);
    }

    #[test]
    fn etcd_is_given_time_but_where_its_restart_is_asked_for() {
        let mut decision = Decision { restart: restarts(&["kube-scheduler", "etcd"]), ..Decision::default() };
        let told = |decision: &Decision| -> Vec<String> {
            plan(decision, Path::new("/b"), PATIENCE).iter().skip(1).take(2).map(ToString::to_string).collect()
        };
        let scheduler = "restart kube-scheduler: r";
        assert_eq!(told(&decision), [scheduler, "restart etcd, if its handshake is still stale after 90 s: r"]);
        decision.restart[1].cause = Cause::Asked;
        assert_eq!(told(&decision), [scheduler, "restart etcd: r"]);
    }
}
