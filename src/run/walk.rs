//! Walking the steps: the one place that changes a node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::exit::{Exit, Failure, OrExit};
use crate::inventory::Inventory;
use crate::journal::Journal;
use crate::lock::Lock;
use crate::plan::Step;
use crate::report::{Console, Outcome, RunReport, table};
use crate::steps::Context;
use crate::steps::backup::{self, About, Backup};
use crate::steps::kubeconfig::{self, Written};
use crate::steps::preflight::Ground;
use crate::steps::ready::{self, Waited};
use crate::steps::renew::Config;
use crate::turn::Party;

use super::look::{Found, inventory};
use super::restarting::Order;
use super::{Job, narrate};

/// A run on its way.
#[derive(Debug)]
pub struct Walk<'a> {
    /// What it was told.
    pub job: &'a Job<'a>,
    /// What the steps work on.
    pub context: Context<'a>,
    /// The tools that were found.
    pub ground: Ground,
    /// kubeadm's configuration.
    pub config: Config,
    /// Files to back up.
    pub files: Vec<PathBuf>,
    /// The node before.
    pub found: &'a Found,
    /// The lock that is held.
    pub lock: Option<&'a Lock>,
    /// When the run began: time since boot.
    pub began: Duration,
}

/// What the steps before have left for those that follow.
#[derive(Debug, Default)]
pub(super) struct Progress<'a> {
    pub backup: Option<Backup>,
    /// Certificates that were renewed, once renewing was tried.
    pub renewed: Option<Vec<String>>,
    /// Why no component is restarted any more.
    pub stopped: Option<Outcome>,
    pub exits: Vec<Exit>,
    pub changed: bool,
    /// Components that this run has taken down.
    pub down: Vec<String>,
    /// When the first restart began, since boot.
    pub restarting: Option<Duration>,
    /// The turn, once it is waited for.
    pub party: Option<Party<'a>>,
    /// What came of it.
    pub turn: Option<Outcome>,
}

impl<'a> Walk<'a> {
    /// Walks the steps, and gives the exit codes that they lead to.
    ///
    /// # Errors
    /// The backup or the journal cannot be written: what follows would not be safe to be cut off.
    pub fn walk(
        &self,
        steps: &[Step],
        journal: Journal,
        console: &mut Console<'_>,
        report: &mut RunReport,
    ) -> Result<Vec<Exit>, Failure> {
        let mut progress = Progress::default();
        let result = self.steps(steps, journal, &mut progress, console, report);
        // on every way out: the others wait for it
        self.end_turn(&mut progress, console, report);
        result.map(|()| progress.exits)
    }

    fn steps(
        &self,
        steps: &[Step],
        mut journal: Journal,
        progress: &mut Progress<'a>,
        console: &mut Console<'_>,
        report: &mut RunReport,
    ) -> Result<(), Failure> {
        journal.last_run = Some(self.job.now);
        narrate::intent(console, report);
        for (index, step) in steps.iter().enumerate() {
            if let Some(number) = self.context.signals.received() {
                console.error(&format!(
                    "ended by signal {number} between two steps; the next run finishes what was begun"
                ));
                progress.exits.push(Exit::Signal(number));
                return Ok(());
            }
            let outcome = match step {
                Step::Backup { .. } => self.back_up(progress, console)?,
                Step::Renew { names, all } => self.renew(names, *all, &mut journal, progress, console, report)?,
                // taken when the first restart turns out to be needed
                Step::Turn => Outcome::NotReached,
                Step::Restart { component, cause, otherwise, patience, .. } => {
                    let cause = self.cause(component, *cause, *otherwise, progress);
                    let order = Order { component, cause, patience: *patience };
                    self.restart(&order, &mut journal, progress, console, report)?
                }
                Step::Copy { path, .. } => self.copy(path, progress, console),
                Step::WaitReady => self.wait_ready(progress, console),
                Step::AfterRestart { .. } => self.owed_hooks(&mut journal, progress, console)?,
            };
            if let Some(report) = report.steps.get_mut(index) {
                report.outcome = outcome;
            }
        }
        self.finish(journal, progress, console, report)
    }

    fn back_up(&self, progress: &mut Progress<'_>, console: &mut Console<'_>) -> Result<Outcome, Failure> {
        let job = self.job;
        let about = About {
            created: job.now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            reason: "renewal".to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            ca_key_hashes: ca_key_hashes(&self.found.inventory),
        };
        let id = job.now.format("%Y%m%dT%H%M%SZ").to_string();
        let manifests = self.context.node.manifests_dir();
        let backup = Backup::make(&job.root, job.backup_dir, &manifests, &id, &self.files, &about)
            .context("nothing was changed, since the files could not be backed up")
            .or_exit(Exit::State)?;
        console.detail(&format!("backed up {} files to '{}'", backup.files().len(), backup.dir().display()));
        for skipped in backup.skipped() {
            console.warn(&format!("'{}' is not in the backup: {}", skipped.path.display(), skipped.reason));
        }
        if let Err(error) = backup::prune(&job.root, job.backup_dir, job.keep_backups, Some(&backup)) {
            console.warn(&format!("old backups stay: {error}"));
        }
        progress.backup = Some(backup);
        Ok(Outcome::Done)
    }

    fn copy(&self, path: &Path, progress: &mut Progress<'_>, console: &mut Console<'_>) -> Outcome {
        let renewed = progress.renewed.as_ref();
        if renewed.is_some_and(|names| !names.iter().any(|name| name == "admin.conf")) && !self.job.root.exists(path) {
            return Outcome::NotReached;
        }
        console.headline(&format!("Updating {}", path.display()));
        let source = self.context.node.kubernetes_dir.join("admin.conf");
        match kubeconfig::write(&self.job.root, &source, path, &self.found.cas) {
            Ok(Written::Created | Written::Updated { .. }) => {
                progress.changed = true;
                Outcome::Done
            }
            Ok(Written::Unchanged) => Outcome::Done,
            Ok(Written::LeftAlone(why)) => {
                console.note(&format!("'{}' is left alone: {why}", path.display()));
                Outcome::Done
            }
            Err(error) => {
                console.error(&error.to_string());
                progress.exits.push(Exit::CopyFailed);
                Outcome::Failed(error.to_string())
            }
        }
    }

    fn wait_ready(&self, progress: &mut Progress<'_>, console: &mut Console<'_>) -> Outcome {
        if progress.renewed.as_ref().is_some_and(Vec::is_empty) && !progress.changed {
            return Outcome::NotReached;
        }
        console.headline("Waiting for apiserver to be up again");
        let Context { node, clock, signals, deadlines, .. } = self.context;
        if let Err(why) = ready::can_be_told(node) {
            let text = format!("cannot tell whether kube-apiserver is ready: {why}");
            console.error(&text);
            progress.exits.push(Exit::CannotRead);
            return Outcome::Failed(text);
        }
        match ready::wait(node, clock, signals, deadlines.ready, deadlines) {
            Waited::Done(took) => {
                console.detail(&format!("/readyz answered 200 after {:.1} s", took.as_secs_f64()));
                Outcome::Done
            }
            Waited::TooLong(why) => {
                let text = format!("kube-apiserver is not ready after {} s: {why}", deadlines.ready.as_secs());
                console.error(&text);
                progress.exits.push(Exit::NotReady);
                Outcome::Failed(text)
            }
            Waited::Signal(number) => {
                progress.exits.push(Exit::Signal(number));
                Outcome::Failed(format!("ended by signal {number} before kube-apiserver was seen to be ready"))
            }
        }
    }

    fn finish(
        &self,
        mut journal: Journal,
        progress: &mut Progress<'_>,
        console: &mut Console<'_>,
        report: &mut RunReport,
    ) -> Result<(), Failure> {
        if report.after.is_some() {
            // read once more, for the copies
            report.after = Some(inventory(self.context.node, &self.job.copies, self.job.now));
        }
        if let Some(after) = &report.after {
            console.headline("Expiration after renewal");
            console.table(&table::renewed(&report.before, after, report.at, console.voice.width));
        }
        journal.settle(|_| true);
        if let Some(open) = &journal.open {
            if let Some(id) = &open.backup {
                console.warn(&format!(
                    "still to be put back, by the next run, from the backup '{id}': what kubeadm left worse than it was"
                ));
            }
            if !open.restart.is_empty() {
                console.warn(&format!("still to be restarted, by the next run: {}", open.restart.join(", ")));
            }
            if progress.exits.iter().all(|exit| exit.is_success()) {
                progress.exits.push(Exit::Deferred);
            }
        }
        if progress.changed && self.job.detailed_exitcode {
            progress.exits.push(Exit::Changed);
        }
        let alarms = report.decision.alarms.iter().map(|alarm| alarm.exit);
        let exit = Exit::worst(progress.exits.iter().copied().chain(alarms));
        if exit.is_success() {
            journal.last_success = Some(self.job.now);
        }
        journal.note_end(exit.code(), self.job.clock.since_boot().saturating_sub(self.began));
        journal.write(&self.job.root, true).or_exit(Exit::State)
    }
}

/// The hash of each CA's public key: it stays when a CA is renewed with its key, and differs in another cluster.
pub(crate) fn ca_key_hashes(inventory: &Inventory) -> BTreeMap<String, String> {
    inventory
        .authorities
        .iter()
        .filter_map(|authority| Some((authority.name.clone(), authority.leaf.as_ref()?.key_sha256.clone())))
        .collect()
}
