//! The stand-in tools: one executable that acts as the tool that it is called as.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::events::{self, Point};
use super::faults::{Faults, Removal, at};
use super::kubelet::State;
use super::world::{self, Setup};
use super::{fake_crictl, fake_docker, fake_kubeadm};

/// One call of a tool.
#[derive(Debug)]
pub struct Call {
    /// The world's directory.
    pub dir: PathBuf,
    /// Its setup.
    pub setup: Setup,
    /// What is to go wrong.
    pub faults: Faults,
    /// The arguments, without the tool's name.
    pub args: Vec<String>,
    /// Its line in the log.
    pub line: String,
}

/// How a tool ends that does not end well: what it says on stderr, and its exit code.
#[derive(Debug)]
pub struct End {
    /// The exit code.
    pub code: u8,
    /// The text for stderr.
    pub message: String,
}

impl End {
    /// Ends with 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

/// Acts as the tool, if this process was started as one: `argv0` is `WORLD/bin/<tool>`. The program under test calls tools by
/// absolute path and with an environment of its own, so nothing else says where the world is.
pub fn act(argv0: &Path, args: Vec<String>) -> Option<ExitCode> {
    let name = argv0.file_name()?.to_str().filter(|name| world::TOOLS.contains(name))?;
    let dir = argv0.parent()?.parent()?.to_path_buf();
    let setup: Setup = world::read(&dir, "setup.json");
    let mut words = vec![name.to_owned()];
    words.extend(args.iter().cloned());
    let line = world::log(&dir, &setup, &words);
    let faults = world::read(&dir, "faults.json");
    let call = Call { dir, setup, faults, args, line };
    events::reach(&call, &Point::Before);
    let ended = match name {
        "kubeadm" => fake_kubeadm::run(&call),
        "crictl" => fake_crictl::run(&call),
        _ => fake_docker::run(&call),
    };
    events::reach(&call, &Point::After);
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) => {
            let _ = writeln!(std::io::stderr(), "{}", end.message);
            ExitCode::from(end.code)
        }
    })
}

/// Never returns if the next removal of a sandbox is to hang.
pub fn hang_where_told(call: &Call) {
    let state: State = world::read(&call.dir, "state.json");
    while at(&call.faults.removals, state.removals) == Removal::Hangs {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Prints a line at once, as far as somebody still reads.
pub fn say(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout(), "{}", line.as_ref());
}

/// Prints the line that a call ends well with.
///
/// # Errors
/// Never; so that it can stand where a call ends.
pub fn tell(line: impl AsRef<str>) -> Result<(), End> {
    say(line);
    Ok(())
}

/// Flags of a command line: those with a value, those without, and what is no flag.
#[derive(Debug, Default)]
pub struct Flags {
    /// Flags with a value, by their first name, in order.
    pub values: Vec<(&'static str, String)>,
    /// Flags without a value, by their first name.
    pub set: Vec<&'static str>,
    /// The rest.
    pub words: Vec<String>,
}

impl Flags {
    /// Reads `args`. Each flag is given by its names, first name first (`&["--quiet", "-q"]`). With `stop`, what follows the first word that is no flag stays unread in
    /// `words`.
    ///
    /// # Errors
    /// The first flag that is not known, or has no value.
    pub fn read(
        args: &[String],
        valued: &[&[&'static str]],
        plain: &[&[&'static str]],
        stop: bool,
    ) -> Result<Self, String> {
        let mut flags = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if !arg.starts_with('-') || arg == "-" {
                flags.words.push(arg.clone());
                if stop {
                    flags.words.extend(rest.by_ref().cloned());
                }
                continue;
            }
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let first = |names: &[&[&'static str]]| names.iter().find(|all| all.contains(&name)).map(|all| all[0]);
            if let Some(flag) = first(valued) {
                let value = value.or_else(|| rest.next().cloned());
                flags.values.push((flag, value.ok_or_else(|| format!("flag needs an argument: {name}"))?));
            } else if let Some(flag) = first(plain) {
                flags.set.push(flag);
            } else {
                return Err(format!("flag provided but not defined: {name}"));
            }
        }
        Ok(flags)
    }

    /// The last value of a flag.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(flag, _)| *flag == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a flag.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.values.iter().filter(|(flag, _)| *flag == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a flag is set.
    pub fn has(&self, name: &str) -> bool {
        self.set.contains(&name)
    }
}

/// Whether `text` holds a match of `pattern`, as Go's `regexp.MatchString`: not anchored; a pattern that is none matches nothing.
pub fn matches(pattern: Option<&str>, text: &str) -> bool {
    pattern.is_none_or(|pattern| regex_lite::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)))
}
