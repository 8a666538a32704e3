//! `uninstall`: gives back what was there before.

use std::path::Path;

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::host::ask::Answer;
use crate::lock::{self, Lock, LockError};
use crate::node::unit_files::Unit;
use crate::remains::ours::{Ours, PROGRAMS, Part, Places, SERVICE, ours};
use crate::report::Console;
use crate::settings::timer::DEFAULT_TIMER;

use super::record::Record;
use super::seen::{Seen, UNITS};
use super::undo::{Undo, undo, without_record};
use super::{Job, may_act, plan, walk};

/// How much goes.
#[derive(Debug, Clone, Copy)]
pub enum Purge {
    /// What an installation has put there; state, backups and changed settings stay.
    No,
    /// Everything of ours, after this consent.
    Yes(Consent),
}

/// Who has a say in a purge.
#[derive(Debug, Clone, Copy)]
pub enum Consent {
    /// It was given on the command line.
    Given,
    /// Whoever is at the terminal; this reads the answer.
    Ask(Answer),
    /// Nobody is there to give it.
    Missing,
}

/// Takes off what an installation has put there.
///
/// # Errors
/// [`Exit::NotRoot`], [`Exit::Usage`] where a purge has nobody's consent, [`Exit::Busy`] during a run, [`Exit::State`] where a file cannot
/// be removed, [`Exit::Config`] where systemd refuses, [`Exit::ToolMissing`].
pub fn uninstall(job: &Job<'_>, places: &Places<'_>, purge: Purge, console: &mut Console<'_>) -> Result<Exit, Failure> {
    may_act(job)?;
    if let (Purge::Yes(Consent::Missing), false) = (purge, job.dry_run) {
        let error = anyhow!(
            "--purge removes backups with private keys in them, and nobody can be asked here: add --yes, or look with --dry-run"
        );
        return Err(Failure::new(Exit::Usage, error));
    }
    if !job.dry_run {
        drop(no_run(job)?);
    }
    let purges = !matches!(purge, Purge::No);
    let shown = planned(job, places, purges)?;
    shown.stays.iter().for_each(|line| console.note(line));
    if shown.actions.is_empty() {
        console.say("Nothing of an installation is here");
        stays(job, &ours(&job.root, places), console);
        return Ok(Exit::Ok);
    }
    if job.dry_run {
        walk(job, &shown.actions, console)?;
        return Ok(Exit::Ok);
    }
    if let Purge::Yes(Consent::Ask(answer)) = purge {
        for action in &shown.actions {
            console.say(&format!("would {}", action.line(&job.systemctl)));
        }
        if !agreed(job, answer, console)? {
            console.say("Nothing was changed");
            return Ok(Exit::Ok);
        }
    }
    // not while somebody is asked: the lock would keep the timer's run out for as long as that takes
    let _lock = no_run(job)?;
    if planned(job, places, purges)? != shown {
        let error = anyhow!("the machine has changed since it was looked at; nothing was changed, look again");
        return Err(Failure::new(Exit::Busy, error));
    }
    walk(job, &shown.actions, console)?;
    console.say("Uninstalled");
    stays(job, &ours(&job.root, places), console);
    Ok(Exit::Ok)
}

/// What is to be undone.
///
/// # Errors
/// As [`uninstall`], for what is seen before anything is changed.
pub fn planned(job: &Job<'_>, places: &Places<'_>, purge: bool) -> Result<Undo, Failure> {
    let seen = Seen::look(&job.root, &job.systemctl, &plan::targets(&job.program.path))?;
    let record = seen.record.clone().unwrap_or_else(|| without_record(&seen, &job.program.path, job.configuration));
    let of_purge = if purge { purged(job, &seen, &record, places) } else { Vec::new() };
    Ok(undo(&seen, &record, job.systemctl.is_live(), &of_purge))
}

/// The lock of a run, where there is one: held while its files are taken away. It is not made for this.
fn no_run(job: &Job<'_>) -> Result<Option<Lock>, Failure> {
    let path = Path::new(lock::FILE);
    if job.root.symlink_metadata(path).is_err() {
        return Ok(None);
    }
    Lock::take(&job.root, path).map(Some).map_err(|error| {
        let exit = if matches!(error, LockError::Busy { .. }) { Exit::Busy } else { Exit::State };
        Failure::new(exit, error)
    })
}

/// What a purge removes beside what was recorded. What is a link was put there by somebody, and its target is not ours.
fn purged(job: &Job<'_>, seen: &Seen, record: &Record, places: &Places<'_>) -> Vec<Ours> {
    let timer_stays = seen.timer.files.first().is_some_and(|base| !record.files.contains_key(base));
    let mut all = ours(&job.root, places);
    all.retain(|ours| match ours.part {
        // it is the other timer's as well
        Part::Stamp => !timer_stays,
        Part::State | Part::Backup | Part::Metrics | Part::Settings | Part::Program | Part::Unit | Part::DropIn => {
            job.root.symlink_metadata(&ours.path).is_ok_and(|metadata| !metadata.is_symlink())
        }
        _ => true,
    });
    all
}

fn agreed(job: &Job<'_>, answer: Answer, console: &mut Console<'_>) -> Result<bool, Failure> {
    console.question("Remove all of this? Backups hold private keys, and are gone then. [y/N]");
    let typed = answer(job.signals)
        .map_err(|error| Failure::new(Exit::Usage, anyhow!("cannot read the answer: {error}; nothing was changed")))?;
    if let Some(number) = job.signals.received() {
        return Err(Failure::new(Exit::Signal(number), anyhow!("ended by signal {number} with nothing changed")));
    }
    Ok(typed.is_some_and(|typed| ["y", "yes"].contains(&typed.trim().to_lowercase().as_str())))
}

/// What of ours is still there, and how it goes.
fn stays(job: &Job<'_>, all: &[Ours], console: &mut Console<'_>) {
    let there = |part| all.iter().filter(move |ours| ours.part == part).map(|ours| ours.path.display().to_string());
    let kept: Vec<String> = there(Part::State).chain(there(Part::Settings)).chain(there(Part::Metrics)).collect();
    if !kept.is_empty() {
        let keys =
            if all.iter().any(|ours| ours.part == Part::Backup) { "; the backups hold private keys" } else { "" };
        console.say(&format!("{} stay{keys} (--purge removes them)", kept.join(", ")));
    }
    let packaged = |unit: &&Ours| unit.part == Part::Unit && !unit.path.starts_with(UNITS);
    if let Some(unit) = all.iter().find(packaged) {
        console.say(&format!(
            "{} is a package's: remove the package with the package manager, as in: apt-get purge k8s-certs-renew, dnf remove k8s-certs-renew",
            unit.path.display()
        ));
        return;
    }
    for program in PROGRAMS.iter().filter(|path| job.root.symlink_metadata(Path::new(path)).is_ok()) {
        console.say(&format!("{program} was not put there by install, and stays; to remove it: rm {program}"));
    }
    if let Ok(service) = Unit::load(&job.root, SERVICE)
        && let Some(file) = service.files.first()
    {
        console.say(&format!("{DEFAULT_TIMER} starts what {} says again", file.display()));
    }
}
