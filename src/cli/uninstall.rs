//! `k8s-certs-renew uninstall`: what was there before install, given back.

use std::io::Write;

use clap::{Args, CommandFactory};

use crate::exit::{Exit, Failure};
use crate::install::uninstall::{Consent, Purge, uninstall};
use crate::remains::ours::Places;
use crate::report::Console;
use crate::settings::table;

use super::args::Cli;
use super::install::{BaseArgs, job, root, settings, this_program, usual_settings};
use super::{Process, voice};

/// Options of uninstall.
#[derive(Debug, Clone, Args)]
pub struct UninstallArgs {
    /// Where, and how it is told.
    #[command(flatten)]
    pub base: BaseArgs,
    /// Also remove settings, state, backups (private keys are in them) and metrics
    #[arg(long)]
    pub purge: bool,
    /// Purge without asking
    #[arg(long, requires = "purge")]
    pub yes: bool,
}

/// Takes it off.
///
/// # Errors
/// As [`uninstall`].
pub fn run(
    args: &UninstallArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let root = root(&args.base)?;
    let purge = match process.terminal.answer {
        _ if !args.purge => Purge::No,
        _ if args.yes => Purge::Yes(Consent::Given),
        Some(answer) => Purge::Yes(Consent::Ask(answer)),
        None => Purge::Yes(Consent::Missing),
    };
    let mut console = Console::new(out, err, voice(&args.base.voice, true, process));
    let settings = match settings(&root) {
        Ok(settings) => settings,
        // they tell a purge where things are, and are no reason to keep what is to go
        Err(failure) => {
            if args.purge {
                console.warn(&format!(
                    "{failure}; backups, with private keys in them, and metrics are looked for in their usual places only: where these settings name \
                     others, remove what is there yourself"
                ));
            }
            usual_settings()?
        }
    };
    let places = Places { backup_dir: &settings.backup_dir, textfile: settings.watch.textfile.as_deref() };
    let configuration = table::file(&Cli::command());
    let program = this_program(&root, None)?;
    let job = job(&args.base, root, process, program, &configuration, &settings, Vec::new())?;
    uninstall(&job, &places, purge, &mut console)
}
