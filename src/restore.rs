//! Restore: what backups there are, and one of them put back.
//!
//! It changes files and restarts nothing: the journal is told what the next run has to restart, before the first file is
//! replaced, so that a restore that is cut off is finished or undone by nobody in silence.

mod compare;
mod put;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use chrono::{DateTime, Utc};

use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::ask::Answer;
use crate::host::{Clock, Signals};
use crate::node::proc::Processes;
use crate::node::{Node, Overrides};
use crate::report::{Console, Ending, Line, RestoreReport, Standing, restore_report};
use crate::run::look::{inventory, look};
use crate::run::{ca_key_hashes, keep_clear_of_kubeadm, take_lock};
use crate::steps::backup::{Backup, BackupError};

use compare::{Comparison, cluster, compare};
use put::put_back;

/// What restore works on.
#[derive(Debug)]
pub struct Job<'a> {
    /// What the node's paths lie below.
    pub root: Root,
    /// The node's directories.
    pub overrides: Overrides,
    /// Where the backups are.
    pub backup_dir: &'a Path,
    /// Kubeconfig copies that a backup may hold.
    pub copies: Vec<PathBuf>,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// Whether root started us.
    pub is_root: bool,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Signals.
    pub signals: &'a Signals,
}

/// Who has a say in whether a backup is put back.
#[derive(Debug, Clone, Copy)]
pub enum Consent {
    /// Nobody: it is only shown.
    DryRun,
    /// It was given on the command line.
    Given,
    /// Whoever is at the terminal; this reads the answer.
    Ask(Answer),
    /// Nobody is there to give it.
    Missing,
}

/// The backups, newest first, each compared with its hashes and with this node's CAs.
///
/// # Errors
/// The backup directory cannot be read: 74, or 77 where root could.
pub fn list(job: &Job<'_>) -> Result<Vec<Line>, Failure> {
    let ids = Backup::ids(&job.root, job.backup_dir).map_err(|error| failure(job, error))?;
    let node = Node::look(job.root.clone(), &job.overrides);
    let hashes = ca_key_hashes(&inventory(&node, &[], job.now));
    let line = |id: String| {
        let loaded = Backup::load(&job.root, job.backup_dir, &id);
        let sound = Backup::open(&job.root, job.backup_dir, &id);
        let standing = match &sound {
            Ok(backup) => cluster(backup, &hashes),
            Err(error) => Standing::Damaged(error.to_string()),
        };
        let (about, files) = loaded.map_or((None, 0), |backup| (Some(backup.about().clone()), backup.files().len()));
        Line { id, about, files, standing }
    };
    Ok(ids.into_iter().rev().map(line).collect())
}

/// Puts the backup with this id back, tells it on the console, and gives the report. What fails is in the report too.
pub fn restore(job: &Job<'_>, id: &str, consent: Consent, console: &mut Console<'_>) -> RestoreReport {
    let mut report = RestoreReport {
        id: id.to_owned(),
        at: job.now,
        dry_run: matches!(consent, Consent::DryRun),
        about: None,
        changes: Vec::new(),
        unchanged: Vec::new(),
        left_alone: Vec::new(),
        ending: Ending::Failed,
        kept_in: None,
        restart: Vec::new(),
        exit: Exit::Ok,
        error: None,
    };
    if let Err(failure) = attempt(job, consent, console, &mut report) {
        console.error(&failure.to_string());
        report.ending = Ending::Failed;
        report.exit = failure.exit;
        report.error = Some(failure.to_string());
    }
    report
}

fn attempt(
    job: &Job<'_>,
    consent: Consent,
    console: &mut Console<'_>,
    report: &mut RestoreReport,
) -> Result<(), Failure> {
    if job.root.is_host() && !job.is_root && !report.dry_run {
        let error = anyhow!("only root can put a backup back; start it with sudo, or look with --dry-run");
        return Err(Failure::new(Exit::NotRoot, error));
    }
    if matches!(consent, Consent::Missing) {
        let error =
            anyhow!("a restore changes the node, and nobody can be asked here: add --yes, or look with --dry-run");
        return Err(Failure::new(Exit::Usage, error));
    }
    let shown = at_hand(job, &report.id)?;
    report.about = Some(shown.backup.about().clone());
    report.changes.clone_from(&shown.changes);
    report.unchanged.clone_from(&shown.unchanged);
    report.left_alone.clone_from(&shown.left_alone);
    show(&shown, console);
    if shown.changes.is_empty() {
        console.say("Nothing to put back: every file is as it is in the backup");
        report.ending = Ending::NothingToDo;
        return Ok(());
    }
    match consent {
        Consent::DryRun => {
            console.say("Dry run: nothing was changed");
            report.ending = Ending::Planned;
            return Ok(());
        }
        Consent::Ask(answer) if !ask(job, &shown, answer, console)? => {
            console.say("Nothing was changed");
            report.ending = Ending::Declined;
            return Ok(());
        }
        Consent::Ask(_) | Consent::Given | Consent::Missing => {}
    }
    // not while somebody is asked: the lock would keep the timer's run out for as long as that takes
    let _lock = take_lock(&job.root)?;
    let processes = Processes::read(&job.root);
    keep_clear_of_kubeadm(processes.as_ref())?;
    if at_hand(job, &report.id)? != shown {
        let error = anyhow!("the node or the backup has changed since it was shown; nothing was put back, look again");
        return Err(Failure::new(Exit::Busy, error));
    }
    let node = Node::look(job.root.clone(), &job.overrides);
    let found = look(&node, processes.as_ref(), &job.copies, job.now);
    put_back(job, &node, &found, &shown, console, report)
}

/// The backup with this id against what is on disk now.
fn at_hand(job: &Job<'_>, id: &str) -> Result<Comparison, Failure> {
    let ids = Backup::ids(&job.root, job.backup_dir).map_err(|error| failure(job, error))?;
    if !ids.iter().any(|known| known == id) {
        let there = match ids.as_slice() {
            [] => "there are none".to_owned(),
            ids => format!("there are {}", ids.iter().rev().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        let error = anyhow!("there is no backup '{id}' in '{}'; {there}", job.backup_dir.display());
        return Err(Failure::new(Exit::Usage, error));
    }
    let backup = Backup::open(&job.root, job.backup_dir, id).map_err(|error| failure(job, error))?;
    let node = Node::look(job.root.clone(), &job.overrides);
    compare(&node, &job.copies, backup, job.now)
}

fn failure(job: &Job<'_>, error: BackupError) -> Failure {
    let exit = match &error {
        BackupError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied && !job.is_root => {
            Exit::NotRoot
        }
        BackupError::Io { .. } => Exit::State,
        BackupError::Id(_) | BackupError::NotThere { .. } => Exit::Usage,
        BackupError::Damaged { .. }
        | BackupError::Version { .. }
        | BackupError::InManifests { .. }
        | BackupError::NotInIt { .. } => Exit::Config,
    };
    Failure::new(exit, error)
}

fn show(shown: &Comparison, console: &mut Console<'_>) {
    console.say(&restore_report::heading(shown.backup.id(), shown.backup.about()));
    if !shown.changes.is_empty() {
        console.say("");
        console.table(&restore_report::changes(&shown.changes, console.voice.width));
        console.say("");
    }
    if !shown.unchanged.is_empty() {
        console.say(&format!("as in the backup already: {}", shown.unchanged.join(", ")));
    }
    for item in &shown.left_alone {
        console.warn(&format!("'{}' is left alone: {}", item.name, item.reason));
    }
}

/// Whether the person at the terminal wants it.
fn ask(job: &Job<'_>, shown: &Comparison, answer: Answer, console: &mut Console<'_>) -> Result<bool, Failure> {
    let count = shown.changes.len();
    let what = if count == 1 { "this one".to_owned() } else { format!("these {count}") };
    console.question(&format!("Put {what} back? [y/N]"));
    let typed = answer(job.signals)
        .map_err(|error| anyhow!("cannot read the answer: {error}; nothing was changed"))
        .or_exit(Exit::Usage)?;
    if let Some(number) = job.signals.received() {
        let error = anyhow!("ended by signal {number} with nothing changed");
        return Err(Failure::new(Exit::Signal(number), error));
    }
    Ok(typed.is_some_and(|typed| ["y", "yes"].contains(&typed.trim().to_lowercase().as_str())))
}
