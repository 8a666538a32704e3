//! `k8s-certs-renew install`: program, units and settings in place, the timer armed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches};

use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::{program, tools};
use crate::install::systemctl::Systemctl;
use crate::install::{Job, NAME, Program, install};
use crate::report::Console;
use crate::settings::layers::{self, LayerError};
use crate::settings::table;

use super::args::{Cli, RunArgs, Verb, VoiceArgs};
use super::check::limits;
use super::{Process, overrides, voice};

/// Options of install.
#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// Where, and how it is told.
    #[command(flatten)]
    pub base: BaseArgs,
    /// Where the program goes [default: it stays in /usr/bin, /usr/local/bin, /opt/bin; from elsewhere to /usr/local/bin, or to
    /// /opt/bin where that is read-only]
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
}

/// Options of install and uninstall.
#[derive(Debug, Clone, Args)]
pub struct BaseArgs {
    /// Every path lies below this directory: an image that is not booted. Nothing is started then
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Show every file and command; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// systemctl [default: found on PATH, then in /usr/local/bin, /opt/bin, /usr/bin]
    #[arg(long, value_name = "PATH")]
    pub systemctl: Option<PathBuf>,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

/// Puts everything in place.
///
/// # Errors
/// As [`install`]; [`Exit::Usage`] for what was typed.
pub fn run(
    args: &InstallArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let root = root(&args.base)?;
    if let Some(dir) = args.bin_dir.as_deref().filter(|dir| dir.is_relative()) {
        return Err(Failure::new(Exit::Usage, anyhow!("'{}' is not an absolute path", dir.display())));
    }
    let settings = settings(&root)?;
    let configuration = table::file(&Cli::command());
    let program = this_program(&root, args.bin_dir.as_deref())?;
    let job = job(&args.base, root, process, program, &configuration, &settings, written(&settings))?;
    install(&job, &mut Console::new(out, err, voice(&args.base.voice, true, process)))
}

pub(super) fn root(args: &BaseArgs) -> Result<Root, Failure> {
    super::root_of(&args.root)
}

pub(super) fn this_program(root: &Root, chosen: Option<&Path>) -> Result<Program, Failure> {
    let unreadable = |error| anyhow!("cannot read this very program: {error}");
    let from = program::path().map_err(unreadable).or_exit(Exit::Fault)?;
    let bytes = program::bytes().map_err(unreadable).or_exit(Exit::Fault)?;
    Ok(Program::place(root, &from, chosen, bytes))
}

pub(super) fn job<'a>(
    args: &BaseArgs,
    root: Root,
    process: &'a Process<'_>,
    program: Program,
    configuration: &'a str,
    settings: &RunArgs,
    written: Vec<PathBuf>,
) -> Result<Job<'a>, Failure> {
    let path = process.variable("PATH").map(OsString::as_os_str);
    let systemctl = tools::find("systemctl", args.systemctl.as_deref(), path).or_exit(Exit::ToolMissing)?;
    // sd_booted(3)
    let live = root.is_host() && root.symlink_metadata(Path::new("/run/systemd/system")).is_ok_and(|it| it.is_dir());
    Ok(Job {
        systemctl: Systemctl::new(systemctl, &root, live),
        root,
        program,
        configuration,
        written,
        overrides: overrides(&settings.node.place),
        now: process.clock.now(),
        is_root: process.is_root,
        dry_run: args.dry_run,
        signals: process.signals,
    })
}

/// The settings of the timer's run: those in the file, as nothing else reaches it.
///
/// # Errors
/// [`Exit::Config`]: the file is wrong, and the run would end with that.
pub(super) fn settings(root: &Root) -> Result<RunArgs, Failure> {
    let argv: Vec<OsString> = vec![NAME.into(), "run".into(), "--root".into(), root.dir().into()];
    let wrong = |error: clap::Error| Failure::new(Exit::Config, anyhow!("the settings cannot be used: {error}"));
    let matches = layers::matches(&Cli::command(), &argv, &[]).map_err(|error| match error {
        LayerError::Setting(failure) => failure,
        LayerError::Clap(error) => wrong(error),
    })?;
    let args = of_run(&matches).map_err(wrong)?;
    // as each run will, on the machine itself
    let unusable = |error: anyhow::Error| Failure::new(Exit::Config, error.context("the settings cannot be used"));
    super::run::check(&args, &Root::host()).map_err(unusable)?;
    limits(&args.watch).map_err(|failure| unusable(failure.error))?;
    Ok(args)
}

/// The settings of a run where nothing is set.
///
/// # Errors
/// [`Exit::Fault`]: never seen.
pub(super) fn usual_settings() -> Result<RunArgs, Failure> {
    let matches = Cli::command().try_get_matches_from([NAME, "run"]).or_exit(Exit::Fault)?;
    of_run(&matches).or_exit(Exit::Fault)
}

fn of_run(matches: &ArgMatches) -> Result<RunArgs, clap::Error> {
    match Cli::from_arg_matches(matches)?.command {
        Some(Verb::Run(args)) => Ok(*args),
        _ => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
    }
}

/// The directories that the job then writes to, beside its own and kubeadm's usual ones.
fn written(settings: &RunArgs) -> Vec<PathBuf> {
    let place = &settings.node.place;
    let mut dirs = vec![settings.backup_dir.clone(), place.kubernetes_dir.clone()];
    dirs.extend(place.cert_dir.clone());
    // files are replaced by a new one beside them
    let files = super::copies(&settings.kubeconfig_copy).into_iter().chain(settings.watch.textfile.clone());
    dirs.extend(files.filter_map(|file| file.parent().map(Path::to_path_buf)));
    dirs
}
