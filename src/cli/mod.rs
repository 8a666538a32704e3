//! The command line: what is typed, put together with the other settings, and handed to what it asks for.

pub mod args;
pub mod calendar;
mod run;

use std::ffi::OsString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};

use crate::exit::{Exit, Failure};
use crate::host::{Clock, Signals};
use crate::node::timespan::{self, Timespan};
use crate::report::words::tame;
use crate::settings::layers::{self, LayerError};

use args::{Cli, Verb};

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

/// What stdout and stderr are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terminal {
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

/// Runs the program, and tells how the process is to end. A panic becomes [`Exit::Fault`].
pub fn main(process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let result = catch_unwind(AssertUnwindSafe(|| dispatch(process, out, err)));
    let failure = match result {
        Ok(Ok(exit)) => return exit,
        Ok(Err(failure)) => failure,
        // the panic itself has said where; what it was about is not repeated, since it could hold anything
        Err(_) => Failure::new(
            Exit::Fault,
            anyhow::anyhow!("this is a fault of k8s-certs-renew; please report it with the lines above"),
        ),
    };
    // several lines for several expressions, each tamed; nobody is left to be told if stderr is gone
    let text = failure.to_string();
    let lines: Vec<_> = text.lines().map(tame).collect();
    let _ = writeln!(err, "error: {}", lines.join("\n"));
    failure.exit
}

fn dispatch(process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
    let parsed = layers::matches(&Cli::command(), &process.argv, &process.environment)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(LayerError::Clap));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(LayerError::Setting(failure)) => return Err(failure),
        Err(LayerError::Clap(error)) => return Ok(show(&error, process.terminal, out, err)),
    };
    match cli.command {
        None => run::run(&cli.run, process, out, err),
        Some(Verb::Run(args)) => run::run(&args, process, out, err),
        Some(Verb::Calendar(args)) => calendar::run(&args, process.clock.now(), out),
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
