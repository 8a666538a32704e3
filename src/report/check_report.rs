//! What `check` found, as one value.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decision::Decision;
use crate::evidence::{Component, Verdict};
use crate::files::Usage;
use crate::inventory::Certificate;
use crate::settings::schedule::Schedule;
use crate::turn::glance::Glance;
use chrono_tz::Tz;

/// How something stands, by the convention of monitoring plugins. In order of how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// All is well.
    Ok,
    /// Somebody should look.
    Warning,
    /// It cannot be known.
    Unknown,
    /// Something does not work, or will not for much longer.
    Critical,
}

impl Status {
    /// The exit code: 0 ok, 1 warning, 2 critical, 3 unknown (Monitoring Plugins development guidelines).
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// From when on a certificate that this job does not renew is worth an alarm: time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A warning below it.
    pub warning: chrono::Duration,
    /// Critical below it.
    pub critical: chrono::Duration,
}

/// A finished check.
#[derive(Debug)]
pub struct CheckReport {
    /// The instant that it judged by (UTC).
    pub at: DateTime<Utc>,
    /// The node's name.
    pub node: String,
    /// Whether it is a control-plane node.
    pub control_plane: bool,
    /// What kind of machine it is.
    pub machine: Machine,
    /// The node's time zone, for people.
    pub zone: Tz,
    /// When the job runs next; none where that cannot be told, which is a finding, or where there is nothing for it to do.
    pub schedule: Option<Schedule>,
    /// Every certificate, sorted by name: leaves, kubeconfigs and what is in memory, then the authorities.
    pub rows: Vec<Row>,
    /// What uses them.
    pub components: Vec<ComponentRow>,
    /// What a run would decide now; nothing on a node that is no control plane.
    pub decision: Decision,
    /// The steps that a run would take now, in words.
    pub steps: Vec<String>,
    /// What the run at the next firing will do, if nothing else happens before.
    pub next_run: Option<NextRun>,
    /// Whether a renewal could be done now; none where that is no question, or cannot be told.
    pub could_renew: Option<CouldRenew>,
    /// What the journal knows of the job.
    pub job: JobFacts,
    /// The turn, and the other control-plane nodes, as the API tells; none on a node that is no control plane, and where there is no API
    /// to ask.
    pub turn: Option<Glance>,
    /// Where a certificate has expired or is not yet valid: whether that is the clock's fault, and what to do.
    pub dates: Option<Dates>,
    /// What has to be said, the worst first.
    pub findings: Vec<Finding>,
    /// How each thing stands that kubelet's certificates depend on, sorted by name; what is to be mended is among the findings.
    pub kubelet: Vec<KubeletState>,
    /// What stayed of a cluster or of this program where neither has work any more, the worst first; on a control plane only what is
    /// of a cluster that is gone.
    pub remains: Vec<Remain>,
    /// What could not be seen, or was not looked at.
    pub unseen: Vec<String>,
    /// The worst of all.
    pub status: Status,
}

/// What a machine is to Kubernetes, by its files and processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// kube-apiserver is to run here.
    ControlPlane,
    /// The manifest of kube-apiserver is away, and the rest of a control plane is here.
    Stopped,
    /// A kubelet, and no kube-apiserver.
    Worker,
    /// etcd alone.
    Etcd,
    /// None of these.
    Nothing,
    /// It cannot be told, as the manifests of static pods cannot be listed.
    Hidden,
}

impl Role {
    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control plane",
            Self::Stopped => "stopped control plane",
            Self::Worker => "worker",
            Self::Etcd => "etcd",
            Self::Nothing => "none",
            Self::Hidden => "unknown",
        }
    }
}

/// What kind of machine this is, and was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// What it is now.
    pub role: Role,
    /// What shows that it was a control plane before, in words; empty where it is one, or nothing shows it.
    pub was: Vec<String>,
}

/// Whose something is that stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// This program's.
    Ours,
    /// kubespray's.
    Kubespray,
    /// A cluster's that is gone.
    Cluster,
}

impl Owner {
    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "k8s-certs-renew",
            Self::Kubespray => "kubespray",
            Self::Cluster => "cluster",
        }
    }
}

/// Something that stayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remain {
    /// [`Status::Warning`] where private keys are inside, or a timer still fires; [`Status::Unknown`] where that cannot be told.
    pub status: Status,
    /// Whose it is.
    pub owner: Owner,
    /// Where: a path of the node, or the name of a setting.
    pub place: String,
    /// What it is.
    pub what: String,
    /// How much, where that is worth knowing.
    pub usage: Option<Usage>,
    /// Why it matters.
    pub why: String,
    /// The command that removes it, or puts what belongs there in its place; check runs none.
    pub remove: String,
}

/// A certificate, and how it stands.
#[derive(Debug, Clone)]
pub struct Row {
    /// kubeadm's own name, else the file's name or path; in memory: the component's name and what it is.
    pub name: String,
    /// What is on disk; none for a certificate that only a process has in memory.
    pub certificate: Option<Certificate>,
    /// Whether it is an authority.
    pub is_authority: bool,
    /// First moment of its validity (UTC), where it could be read.
    pub not_before: Option<DateTime<Utc>>,
    /// Last moment of its validity (UTC), where it could be read.
    pub not_after: Option<DateTime<Utc>>,
    /// Serial number, where it could be read: lower-case hexadecimal.
    pub serial: Option<String>,
    /// Who renews it: kubeadm, kubelet, etcd, external, or the process that has it in memory.
    pub manager: String,
    /// Components that read it.
    pub readers: Vec<String>,
    /// Whether they use what is on disk; none where nothing reads it that could be asked.
    pub in_use: Option<Verdict>,
    /// Whether what a component uses of it cannot be seen, since it reads it again by itself.
    pub rereads: bool,
    /// The end of validity before which it is worth a warning; none where no date is.
    pub warn_before: Option<DateTime<Utc>>,
    /// Whether a run renews it now.
    pub due: bool,
    /// How it stands, in one or two words.
    pub state: String,
    /// How bad that is.
    pub status: Status,
}

/// A component, and how bad its verdict is.
#[derive(Debug, Clone)]
pub struct ComponentRow {
    /// What was seen of it.
    pub component: Component,
    /// How bad that is.
    pub status: Status,
}

/// Whether a renewal could be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CouldRenew {
    /// What stands in its way; empty: it could.
    pub obstacles: Vec<String>,
    /// Those of them that are about tools, runtime and kubelet, not about a certificate that cannot be renewed here.
    pub of_the_ground: Vec<String>,
}

impl CouldRenew {
    /// Whether nothing stands in its way.
    pub fn is_yes(&self) -> bool {
        self.obstacles.is_empty()
    }
}

/// What the run at the next firing will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRun {
    /// When the timer fires (UTC).
    pub at: DateTime<Utc>,
    /// Certificates that it renews, by name.
    pub renew: Vec<String>,
    /// Components that it restarts, in that order.
    pub restart: Vec<String>,
    /// Kubeconfig copies that it writes.
    pub copy: Vec<String>,
}

impl NextRun {
    /// Whether it has nothing to do.
    pub fn is_skip(&self) -> bool {
        self.renew.is_empty() && self.restart.is_empty() && self.copy.is_empty()
    }
}

/// Why "certificate has expired or is not yet valid".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dates {
    /// Whose fault it is.
    pub cause: Cause,
    /// What it is, in a sentence.
    pub what: String,
    /// What speaks for it.
    pub signs: Vec<String>,
    /// What to do, in this order.
    pub todo: Vec<String>,
}

/// What makes a certificate look expired or not yet valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The clock is wrong.
    Clock,
    /// The certificates: their time is over.
    Certificates,
    /// Either.
    Unsure,
}

impl Cause {
    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Certificates => "certificates",
            Self::Unsure => "unsure",
        }
    }
}

/// What the journal knows of the job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// When it last came to a decision (UTC).
    pub last_run: Option<DateTime<Utc>>,
    /// When it last ended well (UTC).
    pub last_success: Option<DateTime<Utc>>,
    /// The exit code that it last ended with.
    pub last_exit: Option<u8>,
    /// How long it then took.
    pub last_duration: Option<Duration>,
    /// How long it then waited for its turn; none where it took none.
    pub last_waited: Option<Duration>,
    /// Components that an earlier run was to restart and did not see back.
    pub restart_pending: Vec<String>,
    /// Whether systemd starts it by itself, as far as unit files tell; none where they cannot be read.
    pub timer_armed: Option<bool>,
}

/// How one thing stands that kubelet's certificates depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeletState {
    /// Its name, such as `rotate-certificates`.
    pub id: &'static str,
    /// How bad it is.
    pub status: Status,
}

/// Something that has to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub status: Status,
    /// The certificate, component, file or setting.
    pub about: String,
    /// What was seen, and what to do.
    pub message: String,
}
