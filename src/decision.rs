//! The decision: what to renew, restart and copy, and what to raise the alarm about. Pure: facts in, reasons out.

mod alarms;
mod clock;
mod restarts;
mod threshold;

use chrono::{DateTime, Utc};

pub use clock::{ClockFacts, distrust};
pub use threshold::Threshold;

use crate::evidence::Evidence;
use crate::exit::Exit;
use crate::inventory::{Certificate, Inventory, Manager, Problem};

/// A component of the control plane that reads credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The component, such as `kube-scheduler`.
    pub component: String,
    /// Names of the certificates that it reads.
    pub reads: Vec<String>,
    /// Whether it re-reads all of them by itself, so that it seldom needs a restart (etcd from 3.2 on: at each handshake).
    pub rereads: bool,
}

/// A kubeconfig copy, and how it stands to admin.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFact {
    /// Its path.
    pub path: std::path::PathBuf,
    /// How it stands.
    pub standing: Standing,
}

/// How a kubeconfig copy stands to admin.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is admin.conf itself, by a link.
    Same,
    /// It holds the credential of admin.conf.
    Current,
    /// It holds an older one of this cluster's administrator.
    Outdated,
    /// Nothing is there.
    Missing,
    /// It is not ours to change: why.
    Foreign(String),
    /// It cannot be judged or changed: why.
    Broken(String),
}

/// What the decision is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What is on disk.
    pub inventory: &'a Inventory,
    /// Up to when it has to last.
    pub threshold: Threshold,
    /// The instant to judge by (UTC).
    pub now: DateTime<Utc>,
    /// Whether the kernel takes the clock that this instant comes from to be set; `None` where that is not known.
    pub synchronised: Option<bool>,
    /// When a run last came to a decision, by the journal (UTC).
    pub last_run: Option<DateTime<Utc>>,
    /// Renew whatever the dates say.
    pub force: bool,
    /// Who reads what.
    pub readers: &'a [Reader],
    /// Components that an earlier run was to restart and did not see back.
    pub owed: &'a [String],
    /// Whether an earlier run was cut off.
    pub cut_off: bool,
    /// The copies to keep up to date.
    pub copies: &'a [CopyFact],
    /// What is in use.
    pub evidence: &'a Evidence,
    /// What may be restarted.
    pub restart: RestartPolicy,
    /// Components that were restarted and seen back with exactly what they read now: once more would not help.
    pub tried: &'a [String],
    /// Certificates that a run which was cut off left half-written; they are put back before anything else, and renewed.
    pub half_written: &'a [String],
}

impl<'a> Facts<'a> {
    fn clock(&self) -> ClockFacts<'a> {
        let Self { inventory, now, synchronised, last_run, force, .. } = *self;
        ClockFacts { inventory, now, synchronised, last_run, force }
    }
}

/// What may be restarted (`--restart`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartPolicy {
    /// What reads something that is renewed, what is stale, and what is owed.
    #[default]
    Stale,
    /// Every static pod that reads a certificate of kubeadm's, etcd too.
    All,
    /// Nothing: somebody else does it.
    None,
}

/// What is to be done, with reasons. All lists empty: nothing, this time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Why nothing may be decided: the clock cannot be trusted.
    pub refused: Option<String>,
    /// Certificates to renew, sorted by name.
    pub renew: Vec<Item>,
    /// Whether `kubeadm certs renew all` may do it; else one by one, since kubeadm would also overwrite what is not its own.
    pub renew_all: bool,
    /// Components to restart, in the order in which it is done.
    pub restart: Vec<Restart>,
    /// Kubeconfig copies to write.
    pub copy: Vec<Item>,
    /// What needs a person.
    pub alarms: Vec<Alarm>,
    /// What is worth saying.
    pub notes: Vec<String>,
}

/// Something to do, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The certificate, component or path.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A component to restart, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The component.
    pub name: String,
    /// Why.
    pub reason: String,
    /// What kind of reason that is.
    pub cause: Cause,
    /// What remains of it if nothing that it reads can be renewed.
    pub otherwise: Option<Cause>,
    /// Whether it re-reads its files by itself ([`Reader::rereads`]): then it is restarted only if it does not come to use them,
    /// unless that was asked for, and by a graceful stop.
    pub rereads: bool,
}

/// Why a component is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It works with something older than what is on disk.
    Stale,
    /// An earlier run was cut off before it was seen to be back.
    Owed,
    /// It reads something that this run renews.
    Renewed,
    /// The certificate that kube-apiserver keeps in memory ends too soon.
    Loopback,
    /// It was asked for.
    Asked,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// How a run ends because of it.
    pub exit: Exit,
    /// The certificate or path.
    pub name: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Decision {
    /// Whether this component is to be restarted.
    pub fn restarts(&self, component: &str) -> bool {
        self.restart.iter().any(|item| item.name == component)
    }

    /// Whether nothing is to be done.
    pub fn is_skip(&self) -> bool {
        self.renew.is_empty() && self.restart.is_empty() && self.copy.is_empty()
    }
}

/// Decides.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision { refused: distrust(&facts.clock()), renew_all: true, ..Decision::default() };
    if decision.refused.is_some() {
        return decision;
    }
    let mut helpful = Vec::new();
    for certificate in kubeadm_leaves(facts.inventory) {
        match judge(facts, certificate) {
            Verdict::Lasts => {}
            Verdict::Due(reason) => decision.renew.push(Item { name: certificate.name.clone(), reason }),
            Verdict::Alarm(exit, message) => {
                decision.alarms.push(Alarm { exit, name: certificate.name.clone(), message });
            }
        }
        if certificate.leaf.is_some() && is_foreign(certificate) {
            decision.renew_all = false;
        } else if certificate.renewable().is_ok() && !ends_with_its_ca(facts.inventory, certificate) {
            helpful.push(certificate);
        }
    }
    if !decision.renew.is_empty() {
        // one restart serves them all, so nothing is left for a second one in the same year
        for certificate in helpful {
            if !decision.renew.iter().any(|item| item.name == certificate.name) {
                let reason = "renewed along with the due".to_owned();
                decision.renew.push(Item { name: certificate.name.clone(), reason });
            }
        }
        decision.renew.sort_by(|one, other| one.name.cmp(&other.name));
    }
    restarts::decide(facts, &mut decision);
    copies(facts, &mut decision);
    alarms::authorities(facts, &mut decision.alarms);
    alarms::others(facts, &mut decision);
    alarms::oddities(facts, &mut decision);
    decision
}

/// The certificates that kubeadm renews, those that may be missing left out where they are.
pub fn kubeadm_leaves(inventory: &Inventory) -> impl Iterator<Item = &Certificate> {
    inventory
        .certificates
        .iter()
        .filter(|certificate| certificate.manager == Manager::Kubeadm && (certificate.required || !certificate.missing))
}

enum Verdict {
    Lasts,
    Due(String),
    Alarm(Exit, String),
}

fn judge(facts: &Facts<'_>, certificate: &Certificate) -> Verdict {
    let half_written = facts.half_written.contains(&certificate.name);
    let cut_off = "half-written by a run that was cut off";
    if half_written && certificate.leaf.is_none() {
        return Verdict::Due(cut_off.to_owned());
    }
    let Some(leaf) = &certificate.leaf else {
        let problem = certificate.problems.first().map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
        return Verdict::Alarm(Exit::CannotRead, format!("{problem} ('{}')", certificate.path.display()));
    };
    let torn =
        certificate.problems.iter().find(|problem| matches!(problem, Problem::KeyMismatch | Problem::KeyMissing));
    let reason = if let Some(problem) = torn {
        problem.to_string()
    } else if facts.force {
        "forced".to_owned()
    } else if let Some(reason) = facts.threshold.due(leaf, facts.now) {
        reason
    } else if half_written {
        cut_off.to_owned()
    } else if let Some(problem) = certificate.problems.iter().find(|problem| problem.is_damage()) {
        let todo = if problem.is_kept_by_renewal() {
            "a renewal keeps usages and names: put the right one back, or have it made anew"
        } else {
            "renew it by hand once that is mended"
        };
        let message = format!("{problem}; {todo} ('{}')", certificate.path.display());
        return Verdict::Alarm(Exit::CannotRenew, message);
    } else if let Some(problem) = certificate.problems.iter().find(|problem| problem.is_unreadable()) {
        return Verdict::Alarm(Exit::CannotRead, format!("{problem} ('{}')", certificate.path.display()));
    } else {
        return Verdict::Lasts;
    };
    if is_foreign(certificate) {
        let ca = certificate.ca_name.as_deref().unwrap_or("its CA");
        return Verdict::Alarm(
            Exit::CannotRenew,
            format!(
                "{reason}, but '{ca}' did not sign it, so kubeadm would put another kind of certificate in its place; renew it where it comes from"
            ),
        );
    }
    if let Err(why) = certificate.renewable() {
        return Verdict::Alarm(Exit::CannotRenew, format!("{reason}, but {why}"));
    }
    if torn.is_none() && !facts.force && ends_with_its_ca(facts.inventory, certificate) {
        let ca = certificate.ca_name.as_deref().unwrap_or("its CA");
        return Verdict::Alarm(
            Exit::CannotRenew,
            format!("{reason}, but its CA '{ca}' ends no later, so a renewal gains nothing; replace the CA first"),
        );
    }
    Verdict::Due(reason)
}

/// Whether another CA signed it: kubeadm would replace it by a certificate of the cluster's own CA.
fn is_foreign(certificate: &Certificate) -> bool {
    certificate.problems.iter().any(|problem| matches!(problem, Problem::NotSignedByCa { .. }))
}

/// Whether the leaf already lasts as long as its CA, so that a renewal cannot make it last longer (kubeadm does not cap
/// a leaf's NotAfter, but a leaf works no longer than its CA).
fn ends_with_its_ca(inventory: &Inventory, certificate: &Certificate) -> bool {
    let ca = inventory.authority_of(certificate).and_then(Certificate::not_after);
    matches!((certificate.not_after(), ca), (Some(leaf), Some(ca)) if leaf >= ca)
}

fn copies(facts: &Facts<'_>, decision: &mut Decision) {
    let renewing = decision.renew.iter().any(|item| item.name == "admin.conf");
    for copy in facts.copies {
        let name = copy.path.display().to_string();
        let reason = match &copy.standing {
            Standing::Same => continue,
            Standing::Current if !renewing => continue,
            // who has none wants none, but for the one that a run that was cut off has not come to
            Standing::Missing if !renewing && !facts.cut_off => continue,
            Standing::Current => "admin.conf is renewed",
            Standing::Missing => "there is none yet",
            Standing::Outdated => "it holds an older credential than admin.conf",
            Standing::Foreign(why) => {
                decision.notes.push(format!("'{name}' is left alone: {why}"));
                continue;
            }
            Standing::Broken(why) => {
                decision.alarms.push(Alarm { exit: Exit::CopyFailed, name, message: why.clone() });
                continue;
            }
        };
        decision.copy.push(Item { name, reason: reason.to_owned() });
    }
}

/// An instant as it stands in reasons: UTC, to the second.
pub fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
