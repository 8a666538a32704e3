//! `uninstall`: gives back what was there before.

use std::path::Path;

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::host::ask::Answer;
use crate::node::unit_files::Unit;
use crate::remains::ours::{Ours, PROGRAMS, Part, Places, SERVICE, ours};
use crate::report::Console;
use crate::settings::timer::DEFAULT_TIMER;

use super::owed::nothing_owed;
use super::purged::{purged, why_it_stays};
use super::seen::{Seen, UNITS};
use super::undo::{Undo, undo, without_record};
use super::{Job, alone, may_act, plan, walk};

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
/// [`Exit::NotRoot`], [`Exit::Usage`] where a purge has nobody's consent, [`Exit::Busy`] during a run and where one that was cut off still
/// owes something, [`Exit::State`] where a file cannot be removed, [`Exit::Config`] where systemd refuses, [`Exit::ToolMissing`].
pub fn uninstall(job: &Job<'_>, places: &Places<'_>, purge: Purge, console: &mut Console<'_>) -> Result<Exit, Failure> {
    may_act(job)?;
    if let (Purge::Yes(Consent::Missing), false) = (purge, job.dry_run) {
        let error = anyhow!(
            "--purge removes backups with private keys in them, and nobody can be asked here: add --yes, or look with --dry-run"
        );
        return Err(Failure::new(Exit::Usage, error));
    }
    if !job.dry_run {
        drop(alone::if_there(job)?);
    }
    let purges = !matches!(purge, Purge::No);
    let shown = planned(job, places, purges)?;
    shown.stays.iter().for_each(|line| console.note(line));
    if shown.actions.is_empty() {
        console.say("Nothing of an installation is here");
        stays(job, places, purges, &shown.stays, console);
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
    let _lock = alone::if_there(job)?;
    if planned(job, places, purges)? != shown {
        let error = anyhow!("the machine has changed since it was looked at; nothing was changed, look again");
        return Err(Failure::new(Exit::Busy, error));
    }
    walk(job, &shown.actions, console)?;
    console.say("Uninstalled");
    stays(job, places, purges, &shown.stays, console);
    Ok(Exit::Ok)
}

/// What is to be undone.
///
/// # Errors
/// As [`uninstall`], for what is seen before anything is changed.
pub fn planned(job: &Job<'_>, places: &Places<'_>, purge: bool) -> Result<Undo, Failure> {
    let seen = Seen::look(&job.root, &job.systemctl, &plan::targets(&job.program.path))?;
    nothing_owed(job)?;
    let record = seen.record.clone().unwrap_or_else(|| without_record(&seen, &job.program.path, job.configuration));
    let (goes, stays) = if purge { purged(job, &seen, &record, places) } else { Default::default() };
    let mut undo = undo(&seen, &record, job.systemctl.is_live(), &goes);
    for (path, line) in stays {
        if !tells_of(&undo.stays, &path) {
            undo.stays.push(line);
        }
    }
    Ok(undo)
}

/// Whether one of the lines about what stays is about this path.
fn tells_of(stays: &[String], path: &Path) -> bool {
    let start = format!("{} ", path.display());
    stays.iter().any(|line| line.starts_with(&start))
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
fn stays(job: &Job<'_>, places: &Places<'_>, purges: bool, told: &[String], console: &mut Console<'_>) {
    let all = ours(&job.root, places);
    let mut kept = Vec::new();
    // after a purge it has been told already
    let parts = if purges { &[][..] } else { &[Part::State, Part::Settings, Part::Metrics] };
    for ours in parts.iter().flat_map(|part| all.iter().filter(move |ours| ours.part == *part)) {
        match why_it_stays(&job.root, ours, places) {
            Some(line) => console.say(&line),
            None => kept.push(ours.path.display().to_string()),
        }
    }
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
    for program in PROGRAMS.iter().filter(|path| !tells_of(told, Path::new(path))) {
        match job.root.symlink_metadata(Path::new(program)) {
            Ok(metadata) if metadata.is_dir() => console.say(&format!("{program} is no file, and stays")),
            Ok(_) => {
                console.say(&format!("{program} was not put there by install, and stays; to remove it: rm {program}"));
            }
            Err(_) => {}
        }
    }
    if let Ok(service) = Unit::load(&job.root, SERVICE)
        && let Some(file) = service.files.first()
    {
        console.say(&format!("{DEFAULT_TIMER} starts what {} says again", file.display()));
    }
}
