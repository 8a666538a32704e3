//! systemd, as far as an installation needs it: `systemctl`, with a deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;

use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::{Call, Output};

/// More than a start of a timer, or reading all units anew, takes on any machine.
const DEADLINE: Duration = Duration::from_secs(90);

/// The tool, and where it acts.
#[derive(Debug, Clone)]
pub struct Systemctl {
    program: PathBuf,
    /// The tree whose links it makes; `None`: the running machine.
    offline: Option<PathBuf>,
}

impl Systemctl {
    /// The tool at `program`, for the running machine or for the tree at `root`.
    pub fn new(program: PathBuf, root: &Root, live: bool) -> Self {
        Self { program, offline: (!live).then(|| root.dir().to_path_buf()) }
    }

    /// Whether it acts on systemd as it runs.
    pub fn is_live(&self) -> bool {
        self.offline.is_none()
    }

    /// systemd's version: below another root by the library that its programs share (231 and later), else the tool's own.
    ///
    /// # Errors
    /// [`Exit::ToolMissing`]: it cannot be run, or says no version.
    pub fn version(&self, root: &Root) -> Result<u32, Failure> {
        if let Some(version) = Some(root).filter(|root| !root.is_host() && !self.is_live()).and_then(shared_library) {
            return Ok(version);
        }
        let output = self.call(&["--version"])?;
        let text = output.stdout_text();
        let said = text
            .split_whitespace()
            .nth(1)
            .map(|word| word.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        said.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            let error = anyhow!("'{} --version' tells no version: {}", self.program.display(), output.last_words());
            Failure::new(Exit::ToolMissing, error)
        })
    }

    /// The state of a unit (`active`, `inactive`, `failed`, `activating`); empty where systemd does not run.
    ///
    /// # Errors
    /// [`Exit::ToolMissing`]: it cannot be run.
    pub fn state(&self, unit: &str) -> Result<String, Failure> {
        if !self.is_live() {
            return Ok(String::new());
        }
        Ok(self.call(&["is-active", unit])?.stdout_text().trim().to_owned())
    }

    /// Whether systemd has read other unit files than those that are there now.
    ///
    /// # Errors
    /// [`Exit::ToolMissing`]: it cannot be run.
    pub fn needs_reload(&self, units: &[&str]) -> Result<bool, Failure> {
        if !self.is_live() {
            return Ok(false);
        }
        let mut words = vec!["show", "-p", "NeedDaemonReload"];
        words.extend(units);
        Ok(self.call(&words)?.stdout_text().lines().any(|line| line == "NeedDaemonReload=yes"))
    }

    /// The words of a call as they are run, for a message.
    pub fn line(&self, words: &[String]) -> String {
        match &self.offline {
            Some(root) => format!("systemctl --root={} {}", root.display(), words.join(" ")),
            None => format!("systemctl {}", words.join(" ")),
        }
    }

    /// Has it do something.
    ///
    /// # Errors
    /// [`Exit::Config`]: it refuses; the message has its words.
    pub fn act(&self, words: &[String]) -> Result<(), Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self.call(&words)?;
        if output.success() {
            return Ok(());
        }
        let line = self.line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        Err(Failure::new(Exit::Config, anyhow!("'{line}' failed: {}", output.last_words())))
    }

    fn call(&self, words: &[&str]) -> Result<Output, Failure> {
        let root = self.offline.as_deref().map(|root| format!("--root={}", root.display()));
        let words = root.into_iter().chain(words.iter().map(|word| (*word).to_owned()));
        Call::new(&self.program).args(words).deadline(DEADLINE).run().or_exit(Exit::ToolMissing)
    }
}

/// `libsystemd-shared-252.so`, `libsystemd-shared-252.4-1.fc37.so`.
fn shared_library(root: &Root) -> Option<u32> {
    let mut places: Vec<PathBuf> = ["/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd"].map(PathBuf::from).into();
    for lib in ["/usr/lib", "/lib"].map(Path::new) {
        let triplets = root.list(lib).unwrap_or_default().into_iter().filter(|name| name.ends_with("-linux-gnu"));
        places.extend(triplets.map(|name| lib.join(name).join("systemd")));
    }
    let names = places.iter().flat_map(|place| root.list(place).unwrap_or_default());
    let digits = |name: String| {
        let rest = name.strip_prefix("libsystemd-shared-")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    names.filter_map(digits).max()
}
