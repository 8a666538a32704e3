//! Puts the program, its units and its settings in place, and takes them away again.
//!
//! What stands there is looked at first ([`seen`]), then it is decided what is to be done ([`plan`], [`undo`]), as a list that a dry run
//! prints and a real one walks.

pub mod action;
mod alone;
pub mod drop_in;
mod owed;
pub mod plan;
mod purged;
pub mod record;
pub mod seen;
pub mod systemctl;
pub mod undo;
pub mod uninstall;
mod writable;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use chrono::{DateTime, Utc};

use crate::decision::moment;
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::Signals;
use crate::node::Overrides;
use crate::node::competing::competing;
use crate::node::unit_command::words;
use crate::node::unit_files::Unit;
use crate::node::zone::local_zone;
use crate::remains::ours::{DROP_INS, SERVICE};
use crate::report::Console;
use crate::settings::armed::Armed;
use crate::settings::timer::{DEFAULT_TIMER, TimerSettings};

use action::Action;
use plan::{Wanted, targets};
use seen::{Seen, packaged_drop_in};
use systemctl::Systemctl;

/// The program's name, also on disk.
pub const NAME: &str = "k8s-certs-renew";
/// Directories from which the program is not copied away: a package's, and the usual ones for what no package put there.
const AT_HOME: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/bin"];

/// What an installation works on.
#[derive(Debug)]
pub struct Job<'a> {
    /// What the paths lie below.
    pub root: Root,
    /// systemd.
    pub systemctl: Systemctl,
    /// Where the program is to be, and this program.
    pub program: Program,
    /// The text for the file of settings where there is none.
    pub configuration: &'a str,
    /// Directories that the settings have the job write to.
    pub written: Vec<PathBuf>,
    /// Where the settings have the node's directories.
    pub overrides: Overrides,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// Whether root started us.
    pub is_root: bool,
    /// Say what would be done; change nothing.
    pub dry_run: bool,
    /// Signals.
    pub signals: &'a Signals,
}

/// This program, and where it belongs.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is to be, as a path of the node.
    pub path: PathBuf,
    /// Its bytes, where it is not there yet.
    pub bytes: Option<Vec<u8>>,
}

impl Program {
    /// Where a program that runs from `from` belongs: where it is, if that is a directory of programs below the root; else
    /// `/usr/local/bin`, or `/opt/bin` where that cannot be written (Flatcar). `--bin-dir` (`chosen`) comes before all.
    pub fn place(root: &Root, from: &Path, chosen: Option<&Path>, bytes: Vec<u8>) -> Self {
        let is_there =
            |path: &Path| root.is_host() || root.read_up_to(path, bytes.len() as u64).is_ok_and(|there| there == bytes);
        let at_home = |path: &Path| AT_HOME.map(Path::new).iter().any(|dir| path == dir.join(NAME));
        match chosen {
            Some(dir) if from == dir.join(NAME) && is_there(from) => Self { path: from.to_path_buf(), bytes: None },
            Some(dir) => Self { path: dir.join(NAME), bytes: Some(bytes) },
            None if at_home(from) && is_there(from) => Self { path: from.to_path_buf(), bytes: None },
            None => {
                let local = Path::new("/usr/local/bin");
                let dir = if root.is_read_only(local) { Path::new("/opt/bin") } else { local };
                Self { path: dir.join(NAME), bytes: Some(bytes) }
            }
        }
    }
}

/// Puts everything in place, or says that it is.
///
/// # Errors
/// [`Exit::NotRoot`]; [`Exit::Busy`] where something is to be done during a run or another installation; [`Exit::State`] where a file cannot be written; [`Exit::ToolMissing`]; [`Exit::Config`] where a unit is masked, something
/// is in the way, systemd refuses, or the job would still not be started by the timer.
pub fn install(job: &Job<'_>, console: &mut Console<'_>) -> Result<Exit, Failure> {
    may_act(job)?;
    let (mut seen, mut actions) = planned(job)?;
    let mut lock = None;
    if !job.dry_run && !actions.is_empty() {
        lock = alone::made(job)?;
        // another installation may have come in between, and what it has noted is not to be lost
        (seen, actions) = planned(job)?;
    }
    for line in drop_in::workarounds(seen.systemd) {
        console.note(&line);
    }
    for job in competing(&job.root, DEFAULT_TIMER) {
        console.warn(&job.to_string());
    }
    if actions.is_empty() {
        console.say("Everything is in place");
    } else {
        let another = |(program, _): &(PathBuf, PathBuf)| program.file_name().is_none_or(|name| name != NAME);
        if let Some((program, file)) = starts(&seen.service).filter(another) {
            console.say(&format!("taking over from {}; {} stays as it is", program.display(), file.display()));
        }
        let start = Action::systemctl(&["start", DEFAULT_TIMER]);
        // the run that a start may set off at once needs the lock
        let locked = actions.iter().position(|action| !job.dry_run && *action == start).unwrap_or(actions.len());
        walk(job, &actions[..locked], console)?;
        drop(lock.take());
        if locked < actions.len() {
            walk(job, &actions[locked..], console)?;
        }
    }
    if job.dry_run {
        return Ok(Exit::Ok);
    }
    told(job, console)
}

/// What stands there, and what an installation has to do about it.
///
/// # Errors
/// As [`install`], for what is seen before anything is changed.
pub fn planned(job: &Job<'_>) -> Result<(Seen, Vec<Action>), Failure> {
    let seen = Seen::look(&job.root, &job.systemctl, &targets(&job.program.path))?;
    let wanted = Wanted {
        program: &job.program.path,
        bytes: job.program.bytes.as_deref(),
        configuration: job.configuration,
        paths: writable::drop_in(&job.root, &job.written, seen.systemd),
        packaged: packaged_drop_in(&job.root, DROP_INS[0]).map(|(_, text)| text),
        live: job.systemctl.is_live(),
    };
    let actions = plan::plan(&seen, &wanted)?;
    Ok((seen, actions))
}

/// Whether this process may change what it is to change.
fn may_act(job: &Job<'_>) -> Result<(), Failure> {
    if job.root.is_host() && !job.is_root && !job.dry_run {
        let error = anyhow!("only root can do this; start it with sudo, or look with --dry-run");
        return Err(Failure::new(Exit::NotRoot, error));
    }
    Ok(())
}

/// Does one after another, or prints them.
fn walk(job: &Job<'_>, actions: &[Action], console: &mut Console<'_>) -> Result<(), Failure> {
    let program = job.program.bytes.as_deref().unwrap_or_default();
    for action in actions {
        let line = action.line(&job.systemctl);
        console.say(&if job.dry_run { format!("would {line}") } else { line });
        if job.dry_run || console.voice.verbose {
            let whole = console.voice.verbose;
            action.text(whole).iter().for_each(|line| console.say(line));
        }
        if job.dry_run {
            continue;
        }
        if let Some(number) = job.signals.received() {
            let error = anyhow!("ended by signal {number} between two steps; the same command again goes on from here");
            return Err(Failure::new(Exit::Signal(number), error));
        }
        action.act(&job.root, &job.systemctl, program)?;
    }
    if job.dry_run {
        console.say("Dry run: nothing was changed");
    }
    Ok(())
}

/// The program that the service starts, and the file that says so.
fn starts(service: &Unit) -> Option<(PathBuf, PathBuf)> {
    let last = service.assignments("Service").filter(|one| one.key == "ExecStart" && !one.value.is_empty()).last()?;
    let program =
        words(last.value.trim_start_matches(['-', ':', '+', '!', '@'])).into_iter().next()?.replace("%%", "%");
    Some((PathBuf::from(program.replace("$$", "$")), last.file.clone()))
}

/// Refuses a timer that starts another unit (`Unit=`, systemd.timer(5)), unless that one runs this program.
fn starts_our_service(job: &Job<'_>) -> Result<(), Failure> {
    let timer = Unit::load(&job.root, DEFAULT_TIMER).or_exit(Exit::Config)?;
    let Some(other) = timer.last("Timer", "Unit").filter(|name| !name.is_empty() && *name != SERVICE) else {
        return Ok(());
    };
    if Armed::look(&job.root, DEFAULT_TIMER).or_exit(Exit::Config)? == Armed::Yes {
        return Ok(());
    }
    let line = timer.assignments("Timer").filter(|one| one.key == "Unit").last();
    let file = line.map(|one| one.file.display().to_string()).unwrap_or_default();
    let error = anyhow!(
        "everything is in place, and {DEFAULT_TIMER} starts {other}, not {SERVICE}, as Unit= in {file} says; take it out of there, then install again"
    );
    Err(Failure::new(Exit::Config, error))
}

/// What is in force now, read again from what is there.
fn told(job: &Job<'_>, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let service = Unit::load(&job.root, SERVICE).or_exit(Exit::Config)?;
    match starts(&service) {
        Some((program, _)) if program == job.program.path => {}
        Some((program, file)) => {
            let error = anyhow!(
                "{SERVICE} still starts '{}', as {} says; take its ExecStart= out of there, or move the file away, then install again",
                program.display(),
                file.display()
            );
            return Err(Failure::new(Exit::Config, error));
        }
        None => {
            return Err(Failure::new(Exit::Config, anyhow!("{SERVICE} starts nothing, though its files were written")));
        }
    }
    if job.systemctl.is_live() && job.systemctl.state(DEFAULT_TIMER)? != "active" {
        let error = anyhow!("{DEFAULT_TIMER} was started and is not active; see why: systemctl status {DEFAULT_TIMER}");
        return Err(Failure::new(Exit::Config, error));
    }
    starts_our_service(job)?;
    let timer = TimerSettings::read(&job.root, DEFAULT_TIMER)?;
    let zone = local_zone(&job.root).or_exit(Exit::Config)?;
    let when = match timer.next_firing(job.now, zone) {
        Some(firing) if job.systemctl.is_live() => format!("fires next on {}", moment(firing.at)),
        Some(firing) => format!("starts with the machine, and fires next on {}", moment(firing.at)),
        None if timer.other_triggers => "fires by no calendar any more, only by its other triggers".to_owned(),
        None => {
            let files: Vec<String> = timer.files.iter().map(|file| file.display().to_string()).collect();
            let error = anyhow!(
                "everything is in place, and {DEFAULT_TIMER} never fires again, as its OnCalendar= says ({}); change that, then install again",
                files.join(", ")
            );
            return Err(Failure::new(Exit::Config, error));
        }
    };
    console.say(&format!("{DEFAULT_TIMER} {when}; it starts {} run", job.program.path.display()));
    console.say(&format!("Next: {NAME} --dry-run"));
    Ok(Exit::Ok)
}
