//! The step that restarts one component, and what the journal still owes.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decision::Cause;
use crate::evidence::{Component, Verdict};
use crate::exit::{Exit, Failure, OrExit};
use crate::inventory::{Certificate, Inventory, Kind, Problem};
use crate::journal::{Journal, OpenRun};
use crate::node::proc::Processes;
use crate::node::{Node, halves};
use crate::report::{Console, Outcome, RunReport};
use crate::runtime::Runtime;
use crate::steps::Context;
use crate::steps::ready::{Waited, until};
use crate::steps::restart::{Restarted, restart};

use super::look::evidence;
use super::walk::{Progress, Walk};

/// A restart that the plan has, as it is when its turn comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    /// The component.
    pub component: &'a str,
    /// Why; `None` where the reason has gone.
    pub cause: Option<Cause>,
    /// How long it is given to come to use what is on disk by itself, where it re-reads its files.
    pub patience: Option<Duration>,
}

impl<'a> Walk<'a> {
    /// Restarts a component that needs it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn restart(
        &self,
        order: &Order<'_>,
        journal: &mut Journal,
        progress: &mut Progress<'a>,
        console: &mut Console<'_>,
        report: &RunReport,
    ) -> Result<Outcome, Failure> {
        let component = order.component;
        let Some(cause) = order.cause else {
            self.settle(component, journal)?;
            return Ok(Outcome::NotReached);
        };
        if let (Some(outcome), None) = (&progress.stopped, order.patience) {
            return Ok(outcome.clone());
        }
        // where nothing can be restarted any more, one look tells whether it is needed at all
        let held_up = self.ground.deferral.is_some() || progress.stopped.is_some();
        let patience = order.patience.map(|time| if held_up { Duration::ZERO } else { time });
        if patience.is_some() || self.may_have_come_round(component, cause) {
            let mut last = Verdict::Unknown;
            match self.comes_round(component, patience.unwrap_or_default(), journal, report, &mut last) {
                Waited::Done(_) => {
                    console.say(&format!("{component} uses what is on disk by itself, and is not restarted"));
                    self.settle(component, journal)?;
                    return Ok(Outcome::Done);
                }
                // not seen is not stale: what re-reads by design is not stopped because its handshake is out of reach
                Waited::TooLong(why) if last == Verdict::Unknown && cause == Cause::Renewed => {
                    let text =
                        format!("{component} re-reads its files by design, and is not proven to have done so: {why}");
                    console.error(&text);
                    progress.exits.push(Exit::NotProven);
                    self.settle(component, journal)?;
                    return Ok(Outcome::Failed(text));
                }
                Waited::TooLong(why) if patience.is_some() => {
                    console.say(&format!("{component} does not use what is on disk: {why}"));
                }
                Waited::TooLong(_) => {}
                Waited::Signal(number) => {
                    return Ok(Outcome::Failed(format!(
                        "ended by signal {number} before it was seen to need a restart"
                    )));
                }
            }
        }
        if let Some(outcome) = &progress.stopped {
            return Ok(outcome.clone());
        }
        if journal.open.is_none() {
            // a restart that an earlier run owed, with nothing renewed by this one
            let restart = report.decision.restart.iter().map(|item| item.name.clone()).collect();
            journal.open = Some(OpenRun { began: self.job.now, restart, backup: None, expires: None });
        }
        let files = report.after.as_ref().unwrap_or(&report.before);
        let in_the_way = in_the_way(self.context.node, component, files, &|_| true)
            .or_else(|| self.ground.images.missing.get(component).cloned());
        if in_the_way.is_none()
            && let Some(outcome) = self.turn(component, journal, progress, console, report)?
        {
            return Ok(outcome);
        }
        let now = self.context.clock.since_boot();
        if progress.restarting.is_none() && report.after.is_some() {
            console.headline("Restarting control plane pods managed by kubeadm");
        }
        let spent = now.saturating_sub(*progress.restarting.get_or_insert(now));
        if let Some(why) = in_the_way {
            console.obstacle(&format!("Deferred: {why}"));
            progress.exits.push(Exit::Deferred);
            return Ok(Outcome::Deferred(why));
        }
        let restarted = match (&self.ground.deferral, &self.ground.runtime) {
            (Some(why), _) => Restarted::Deferred(why.clone()),
            (None, None) => Restarted::Deferred("no container runtime was found".to_owned()),
            (None, Some(_)) if spent >= self.job.deadlines.restarts => {
                Restarted::Deferred("the time for restarts in one run is over".to_owned())
            }
            (None, Some(runtime)) => self.with_hooks(component, journal, progress, console, |console| {
                self.restart_one(component, runtime, console)
            })?,
        };
        if !matches!(restarted, Restarted::Deferred(_)) {
            progress.down.push(component.to_owned());
        }
        Ok(match restarted {
            Restarted::Back { took, created, left } => {
                progress.changed = true;
                if let Some(why) = left {
                    console.warn(&format!(
                        "a container of the old {component} is left, and kubelet may not start beside it (crictl ps -a, crictl rm -f): {why}"
                    ));
                }
                let inventory = report.after.as_ref().unwrap_or(&report.before);
                journal.restarted.insert(component.to_owned(), self.found.serials_of(component, inventory));
                match self.prove(component, created, journal, report) {
                    Waited::Done(_) => {
                        console.say(&format!("{component} restarted, back after {:.1} s, in use", took.as_secs_f64()));
                        self.after_restart(component, journal, progress, console)?;
                        self.settle(component, journal)?;
                        Outcome::Done
                    }
                    Waited::TooLong(why) => {
                        let text = format!("{component} is back, and not proven to use what is on disk: {why}");
                        console.error(&text);
                        progress.exits.push(Exit::NotProven);
                        progress.stopped = Some(Outcome::NotReached);
                        journal.write(&self.job.root, true).or_exit(Exit::State)?;
                        Outcome::Failed(text)
                    }
                    Waited::Signal(number) => {
                        Outcome::Failed(format!("ended by signal {number} before it was proven to be in use"))
                    }
                }
            }
            Restarted::Deferred(why) => {
                console.obstacle(&format!("Deferred: {why}"));
                progress.exits.push(Exit::Deferred);
                let outcome = Outcome::Deferred(why);
                progress.stopped = Some(outcome.clone());
                outcome
            }
            Restarted::NotBack(why) => {
                console.error(&format!("{component} is not back: {why}"));
                progress.exits.push(Exit::NotProven);
                progress.changed = true;
                progress.stopped = Some(Outcome::NotReached);
                Outcome::Failed(why)
            }
            Restarted::Signal(number) => {
                // the walk ends at the next step; the journal still has this one
                Outcome::Failed(format!("ended by signal {number} before it was seen to be back"))
            }
        })
    }

    fn restart_one(&self, component: &str, runtime: &Runtime, console: &mut Console<'_>) -> Restarted {
        let Some(manifest) = self.context.node.manifest(component) else {
            return Restarted::Deferred(format!("there is no manifest of '{component}'"));
        };
        if self.rereads(component) {
            return self.stop_etcd(runtime, manifest, console);
        }
        console.detail(&format!("removing the sandbox of '{}'", manifest.pod_name(self.context.node_name)));
        restart(&self.context, runtime, manifest, self.ground.kubelet.as_ref())
    }

    /// Waits until the component is proven to use what is on disk.
    fn prove(&self, component: &str, created: Option<DateTime<Utc>>, journal: &Journal, report: &RunReport) -> Waited {
        let Context { clock, signals, deadlines, .. } = self.context;
        let created: BTreeMap<_, _> = created.map(|created| (component.to_owned(), created)).into_iter().collect();
        until(clock, signals, deadlines.proof, deadlines.runtime_pause, || {
            let (verdict, reason) = self.use_of(component, &created, journal, report);
            in_use(verdict, &reason)
        })
    }

    /// Waits for so long until the component has come to use what is on disk by itself. Without patience it is one look.
    fn comes_round(
        &self,
        component: &str,
        patience: Duration,
        journal: &Journal,
        report: &RunReport,
        last: &mut Verdict,
    ) -> Waited {
        let Context { clock, signals, deadlines, .. } = self.context;
        until(clock, signals, patience, deadlines.reread_pause, || {
            let (verdict, reason) = self.use_of(component, &BTreeMap::new(), journal, report);
            *last = verdict;
            in_use(verdict, &reason)
        })
    }

    /// Whether a proof of use by now would make the restart needless: not where it is about what cannot be seen from outside.
    fn may_have_come_round(&self, component: &str, cause: Cause) -> bool {
        cause == Cause::Stale || (cause == Cause::Owed && component != "kube-apiserver")
    }

    /// Whether it uses what is on disk now, and why. `created` says when its container was made.
    fn use_of(
        &self,
        component: &str,
        created: &BTreeMap<String, DateTime<Utc>>,
        journal: &Journal,
        report: &RunReport,
    ) -> (Verdict, String) {
        let Context { node, clock, deadlines, .. } = self.context;
        let inventory = report.after.as_ref().unwrap_or(&report.before);
        let processes = Processes::read(&node.root);
        let evidence = evidence(node, processes.as_ref(), inventory, journal, created, clock, deadlines.handshakes);
        match evidence.get(component) {
            Some(Component { verdict, reason, .. }) => (*verdict, reason.clone()),
            None => (Verdict::Unknown, "nothing is known of it".to_owned()),
        }
    }

    /// Why a component is restarted, now that it is known what was renewed; `None` where the reason has gone.
    pub(super) fn cause(
        &self,
        component: &str,
        cause: Cause,
        otherwise: Option<Cause>,
        progress: &Progress<'_>,
    ) -> Option<Cause> {
        if cause == Cause::Renewed && !self.reads_renewed(component, progress) { otherwise } else { Some(cause) }
    }

    /// Whether the component reads something that was renewed.
    fn reads_renewed(&self, component: &str, progress: &Progress<'_>) -> bool {
        let Some(renewed) = &progress.renewed else { return false };
        let reads = |reader: &crate::decision::Reader| {
            reader.component == component && reader.reads.iter().any(|name| renewed.contains(name))
        };
        self.found.readers.iter().any(reads)
    }

    /// The component needs no restart any more: the journal forgets it.
    fn settle(&self, component: &str, journal: &mut Journal) -> Result<(), Failure> {
        if let Some(open) = &mut journal.open {
            open.restart.retain(|name| name != component);
        }
        journal.write(&self.job.root, true).or_exit(Exit::State)
    }
}

fn in_use(verdict: Verdict, reason: &str) -> Result<(), String> {
    if verdict == Verdict::InUse { Ok(()) } else { Err(format!("{verdict}: {reason}")) }
}

/// Why this component would not come back from a restart, whatever kubelet does: its manifest cannot be read, or a file
/// that it starts with is broken. What runs has read its files long ago and goes on; the others can be restarted.
///
/// `lasting` tells of a certificate whether it stays as it is.
pub fn in_the_way(node: &Node, component: &str, files: &Inventory, lasting: &dyn Fn(&str) -> bool) -> Option<String> {
    let Some(manifest) = node.manifest(component) else {
        return Some(format!("the manifest of '{component}' cannot be read, so kubelet could not bring it back"));
    };
    let reading = manifest.reading(node);
    let broken = |certificate: &&Certificate| {
        let torn = |problem: &Problem| {
            matches!(problem, Problem::KeyMissing | Problem::KeyUnreadable(_) | Problem::KeyMismatch)
        };
        let is_pair = !matches!(certificate.kind, Kind::Authority { .. });
        let breaks = certificate.leaf.is_none() || (is_pair && certificate.problems.iter().any(torn));
        breaks && lasting(&certificate.name) && reading.names(&halves(node, &certificate.files()))
    };
    let certificate = files.certificates.iter().chain(&files.authorities).find(broken)?;
    let problem = certificate.problems.first().map_or_else(|| "missing".to_owned(), ToString::to_string);
    Some(format!(
        "{component} reads '{}', and would not come back with it as it is: {problem}",
        certificate.path.display()
    ))
}
