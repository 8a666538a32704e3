//! The command line: what is typed, put together with the other settings, and handed to what it asks for.

pub mod args;
pub mod calendar;
mod check;
pub mod completions;
pub mod install;
mod kubelet;
mod kubelet_approve;
mod kubelet_rbac;
mod output;
mod restore;
mod run;
mod textfile;
pub mod uninstall;

use std::ffi::OsString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::ask::Answer;
use crate::host::{Clock, Signals};
use crate::node::Overrides;
use crate::node::timespan::{self, Timespan};
use crate::report::Voice;
use crate::report::words::tame;
use crate::settings::layers::{self, LayerError, short};

use args::{Cli, Color, PlaceArgs, Verb, VoiceArgs};
use output::Output;

/// What the process was started with.
#[derive(Debug)]
pub struct Process<'a> {
    /// The arguments, the program's own name first.
    pub argv: Vec<OsString>,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The terminals at stdout and stderr.
    pub terminal: Terminal,
    /// Whether root started it.
    pub is_root: bool,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Signals that ask it to end.
    pub signals: &'a Signals,
}

/// What stdin, stdout and stderr are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    /// Reads a line from stdin, where that is a terminal ([`crate::host::ask::line`]).
    pub answer: Option<Answer>,
    /// Columns, where stdout is a terminal.
    pub width: Option<u16>,
    /// Whether stderr is one.
    pub err: bool,
}

impl Process<'_> {
    fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }
}

/// Runs the program, and tells how the process is to end. A panic becomes [`Exit::Fault`]; what went well and could not be said,
/// [`Exit::State`].
pub fn main(process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let mut out = Output::new(out);
    let exit = lead(process, &mut out, err);
    let Some(why) = out.failed() else { return exit };
    let _ = writeln!(err, "error: cannot write the output: {why}");
    if exit.is_success() { as_told(process, Exit::State) } else { exit }
}

fn lead(process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let result = catch_unwind(AssertUnwindSafe(|| dispatch(process, out, err)));
    let failure = match result {
        Ok(Ok(exit)) => return as_told(process, exit),
        Ok(Err(failure)) => failure,
        // the panic itself has said where; what it was about is not repeated, since it could hold anything
        Err(_) => Failure::new(
            Exit::Fault,
            anyhow!("this is a fault of k8s-certs-renew; please report it with the lines above"),
        ),
    };
    // several lines for several expressions, each tamed; nobody is left to be told if stderr is gone
    let text = failure.to_string();
    let lines: Vec<_> = text.lines().map(tame).collect();
    let _ = writeln!(err, "error: {}", lines.join("\n"));
    as_told(process, failure.exit)
}

/// Monitoring knows four codes, and takes any other for one of them.
fn as_told(process: &Process<'_>, exit: Exit) -> Exit {
    let is_plugin = check::is_asked_for(&process.argv) || kubelet::is_asked_for(&process.argv);
    if is_plugin { check::plugin(exit) } else { exit }
}

fn dispatch(process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
    let parsed = layers::matches(&Cli::command(), &process.argv, &process.environment)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(LayerError::Clap));
    let cli = match parsed {
        Ok(cli) => cli,
        // wrong settings are no reason to keep what is to go
        Err(LayerError::Setting(failure)) => match Cli::try_parse_from(&process.argv) {
            Ok(typed @ Cli { command: Some(Verb::Uninstall(_)), .. }) => typed,
            _ => return Err(failure),
        },
        Err(LayerError::Clap(error)) => return Ok(show(&error, process.terminal, out, err)),
    };
    match cli.command {
        None => run::run(&cli.run, process, out, err),
        Some(Verb::Run(args)) => run::run(&args, process, out, err),
        Some(Verb::Check(args)) => check::run(&args, process, out, err),
        Some(Verb::Calendar(args)) => calendar::run(&args, process.clock.now(), out),
        Some(Verb::Kubelet { verb }) => kubelet::run(&verb, process, out, err),
        Some(Verb::Restore(args)) => restore::run(&args, process, out, err),
        Some(Verb::Completions(args)) => completions::run(&args, out),
        Some(Verb::Install(args)) => install::run(&args, process, out, err),
        Some(Verb::Uninstall(args)) => uninstall::run(&args, process, out, err),
    }
}

/// Help and version go to stdout and end well; what was typed wrong goes to stderr.
fn show(error: &clap::Error, terminal: Terminal, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let text = error.render();
    if error.use_stderr() {
        write_help(&text, terminal.err, err);
        Exit::Usage
    } else {
        write_help(&text, terminal.width.is_some(), out);
        Exit::Ok
    }
}

fn write_help(text: &clap::builder::StyledStr, colored: bool, to: &mut dyn Write) {
    let _ = if colored { write!(to, "{}", text.ansi()) } else { write!(to, "{text}") };
}

/// The root that was asked for.
fn root_at(place: &PlaceArgs) -> Result<Root, Failure> {
    root_of(&place.root)
}

fn root_of(dir: &Path) -> Result<Root, Failure> {
    Root::new(dir).map_err(|error| anyhow!("cannot use '{}' as the root: {error}", dir.display())).or_exit(Exit::Usage)
}

fn overrides(place: &PlaceArgs) -> Overrides {
    Overrides {
        kubernetes_dir: place.kubernetes_dir.clone(),
        cert_dir: place.cert_dir.clone(),
        etcd_cert_dir: place.etcd_cert_dir.clone(),
    }
}

/// `none` among the copies means that there are none.
fn copies(given: &[PathBuf]) -> Vec<PathBuf> {
    if given.iter().any(|path| path == Path::new("none")) { Vec::new() } else { given.to_vec() }
}

/// Whether these paths, and the node's directories, are absolute.
fn absolute<'a>(place: &'a PlaceArgs, others: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<()> {
    let dirs = [&place.cert_dir, &place.etcd_cert_dir].into_iter().flatten();
    match [&place.kubernetes_dir].into_iter().chain(dirs).chain(others).find(|path| path.is_relative()) {
        Some(path) => Err(anyhow!("'{}' is not an absolute path", short(&path.display().to_string()))),
        None => Ok(()),
    }
}

fn voice(args: &VoiceArgs, text: bool, process: &Process<'_>) -> Voice {
    let Terminal { width, err, .. } = process.terminal;
    let plain = process.variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let color = |terminal: bool| match args.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !plain,
    };
    Voice {
        text,
        quiet: args.quiet,
        verbose: args.verbose,
        color_out: color(width.is_some()),
        color_err: color(err),
        width,
    }
}

/// A length of time as systemd writes it: `5m`, `90`, `1h 30min`.
fn duration(text: &str) -> Result<Duration, String> {
    match timespan::parse(text) {
        Ok(Timespan::Finite(span)) => Ok(span),
        Ok(Timespan::Infinite) => Err("it has to end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::args::Cli;

    #[test]
    fn the_command_line_is_sound_and_every_option_has_help() {
        Cli::command().help_expected(true).debug_assert();
    }
}
