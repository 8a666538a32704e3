//! Commands around a restart: a load balancer is told to leave the node alone, and to come back.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::host::{Call, Status};
use crate::node::unit_command::words;

/// The variables that a hook gets: the node's name, the component, and the phase (`pre-restart` or `post-restart`).
pub const VARIABLES: [&str; 3] = ["K8S_CERTS_RENEW_NODE", "K8S_CERTS_RENEW_COMPONENT", "K8S_CERTS_RENEW_PHASE"];

/// A command: a program by its absolute path, and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    program: String,
    args: Vec<String>,
}

/// The hooks that a run has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before a component is taken down (`--pre-restart`).
    pub before: Option<Hook>,
    /// After it is proven to be back, or was not taken down after all (`--post-restart`).
    pub after: Option<Hook>,
}

/// A hook that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which, and its exit code: for all who may read the cluster's Events.
    pub what: String,
    /// The program and its last words, which may hold what is not for them: for the log of the node, and nowhere else.
    pub words: String,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the restart.
    Before,
    /// After it.
    After,
}

impl Phase {
    /// The value of `K8S_CERTS_RENEW_PHASE`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "pre-restart",
            Self::After => "post-restart",
        }
    }
}

impl FromStr for Hook {
    type Err = String;

    /// Splits the command into its words, as systemd does with a command line: at blanks, quotes hold a word together, no shell.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = words(text).into_iter();
        match words.next() {
            None => Err("there is no command".to_owned()),
            Some(program) if !Path::new(&program).is_absolute() => {
                Err(format!("'{program}' is no absolute path; no shell and no PATH is used, as in a unit's ExecStart="))
            }
            Some(program) => Ok(Self { program, args: words.collect() }),
        }
    }
}

impl Hooks {
    /// Runs one for a component, if there is one; whether there was.
    ///
    /// It gets the [`VARIABLES`] besides the environment that every tool gets, and is killed at `deadline`.
    ///
    /// # Errors
    /// It cannot be started, ends with another code than 0, or not in time.
    pub fn run(&self, phase: Phase, node: &str, component: &str, deadline: Duration) -> Result<bool, Failed> {
        let hook = match phase {
            Phase::Before => &self.before,
            Phase::After => &self.after,
        };
        let Some(Hook { program, args }) = hook else { return Ok(false) };
        let call = Call::new(Path::new(program))
            .args(args.iter().cloned())
            .env(VARIABLES[0], node)
            .env(VARIABLES[1], component)
            .env(VARIABLES[2], phase.word())
            .deadline(deadline);
        let failed = |how: &str, words: String| Failed {
            what: format!("the {} hook for {component} failed ({how})", phase.word()),
            words: format!("'{program}': {words}"),
        };
        let output = call.run().map_err(|error| failed("it could not be run to its end", error.to_string()))?;
        match output.status {
            Status::Code(0) => Ok(true),
            Status::Code(code) => Err(failed(&format!("exit code {code}"), output.last_words())),
            Status::Signal(number) => Err(failed(&format!("signal {number}"), output.last_words())),
            Status::TimedOut => Err(failed("not in time", output.last_words())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Hook;

    #[test]
    fn a_command_is_split_as_systemd_does_and_needs_an_absolute_path() {
        let hook: Hook = "/opt/drain --host 'a b' \"c\"".parse().unwrap();
        assert_eq!((hook.program.as_str(), hook.args), ("/opt/drain", vec!["--host".into(), "a b".into(), "c".into()]));
        for wrong in ["", "  ", "drain now", "./drain", "'' x"] {
            assert!(wrong.parse::<Hook>().is_err(), "{wrong}");
        }
    }
}
