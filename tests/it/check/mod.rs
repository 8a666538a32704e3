//! `check` on whole nodes: what it shows, what it says to do, and how it ends.

mod also;
mod authorities;
mod binary;
mod dates;
mod kubelet;
mod machines;
mod reset;
mod settings;
mod starts;
pub mod states;
mod table;
pub mod turn;
mod whole;

use std::ffi::OsString;

use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::{Clock, Signals};

use crate::support::site::Site;

use states::State;

/// What came of a check.
#[derive(Debug)]
pub struct Checked {
    /// Exit code.
    pub code: u8,
    /// stdout.
    pub out: String,
    /// stderr.
    pub err: String,
}

impl Checked {
    /// The line of a certificate, its columns parted by one blank.
    pub fn row(&self, name: &str) -> String {
        let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with("  "));
        let line = self.out.lines().find(is_of).unwrap_or_else(|| panic!("no line of '{name}' in: {}", self.out));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether there is a finding of this weight that names this, and holds these words.
    pub fn says(&self, weight: &str, about: &str, words: &str) -> bool {
        let found = |line: &str| {
            let rest = line.strip_prefix(weight).map(str::trim_start);
            rest.and_then(|rest| rest.split_once(": "))
                .is_some_and(|(names, text)| names.split(", ").any(|name| name == about) && text.contains(words))
        };
        self.out.lines().any(found)
    }

    /// Everything of a weight, as it is told.
    pub fn all(&self, weight: &str) -> Vec<&str> {
        self.out.lines().filter(|line| line.starts_with(weight)).collect()
    }

    /// Asserts that a finding of this weight about this holds these words.
    pub fn expect(&self, weight: &str, about: &str, words: &str) {
        assert!(
            self.says(weight, about, words),
            "no {weight} about '{about}' with '{words}' in:\n{}{}",
            self.out,
            self.err
        );
    }
}

/// Checks a node in a state, with these arguments behind `check`; its output goes to a pipe.
pub fn check(state: &State, args: &[&str]) -> Checked {
    check_at(state, args, None)
}

/// Likewise, on a terminal of so many columns.
pub fn check_at(state: &State, args: &[&str], width: Option<u16>) -> Checked {
    run(&state.clock, command_line(&state.site, args), &[], width, true)
}

/// The command line of a check of this node with the tools of its world.
pub fn command_line(site: &Site, args: &[&str]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "check".into()];
    argv.extend(args.iter().map(OsString::from));
    argv.extend(site.options());
    argv
}

/// Runs the program with exactly this command line.
pub fn run(
    clock: &dyn Clock,
    argv: Vec<OsString>,
    environment: &[(&str, &str)],
    width: Option<u16>,
    is_root: bool,
) -> Checked {
    let process = Process {
        argv,
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        terminal: Terminal { width, err: width.is_some(), ..Terminal::default() },
        is_root,
        clock,
        signals: &Signals::none(),
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = main(&process, &mut out, &mut err).code();
    Checked { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}
