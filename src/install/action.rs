//! What an installation does, one thing after another, as a list that a dry run prints and a real one walks.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::files::{Replace, Root};

use super::systemctl::Systemctl;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make a directory.
    MakeDir {
        /// Where.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Write a whole file.
    Write {
        /// Where.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What.
        content: Content,
        /// The text that it replaces.
        before: Option<String>,
    },
    /// Remove a file.
    Remove {
        /// Which.
        path: PathBuf,
    },
    /// Remove a directory if nothing is in it.
    RemoveEmpty {
        /// Which.
        path: PathBuf,
    },
    /// Remove a directory with all that is in it.
    RemoveAll {
        /// Which.
        path: PathBuf,
    },
    /// Have systemd do something.
    Systemctl(Vec<String>),
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// This very program.
    Program,
}

impl Action {
    /// A call of systemctl.
    pub fn systemctl(words: &[&str]) -> Self {
        Self::Systemctl(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// What it does, in a line.
    pub fn line(&self, systemctl: &Systemctl) -> String {
        match self {
            Self::MakeDir { path, mode } => format!("make directory {} ({mode:04o})", path.display()),
            Self::Write { path, mode, content: Content::Program, .. } => {
                format!("write {} ({mode:04o}): this program", path.display())
            }
            Self::Write { path, before: Some(_), .. } => format!("change {}", path.display()),
            Self::Write { path, mode, .. } => format!("write {} ({mode:04o})", path.display()),
            Self::Remove { path } => format!("remove {}", path.display()),
            Self::RemoveEmpty { path } => format!("remove directory {}, if it is empty", path.display()),
            Self::RemoveAll { path } => format!("remove directory {} and all that is in it", path.display()),
            Self::Systemctl(words) => format!("run {}", systemctl.line(words)),
        }
    }

    /// The lines that a file loses and gets, or all of a new one where `whole`.
    pub fn text(&self, whole: bool) -> Vec<String> {
        match self {
            Self::Write { content: Content::Text(text), before: Some(before), .. } => difference(before, text),
            Self::Write { content: Content::Text(text), .. } if whole => {
                text.lines().map(|line| format!("    {line}").trim_end().to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// [`Exit::State`]: a file cannot be written or removed. Those of [`Systemctl::act`].
    pub fn act(&self, root: &Root, systemctl: &Systemctl, program: &[u8]) -> Result<(), Failure> {
        let failed = |act: &str, path: &Path| {
            let shown = root.on_host(path).display().to_string();
            let act = act.to_owned();
            move |error: std::io::Error| Failure::new(Exit::State, anyhow!("cannot {act} '{shown}': {error}"))
        };
        match self {
            Self::MakeDir { path, mode } => root.create_dir(path, *mode).map_err(failed("make directory", path)),
            Self::Write { path, mode, content, .. } => {
                let bytes = match content {
                    Content::Text(text) => text.as_bytes(),
                    Content::Program => program,
                };
                root.replace(path, bytes, &Replace::with_mode(*mode)).map_err(failed("write", path))
            }
            Self::Remove { path } => root.remove_file(path).map_err(failed("remove", path)),
            Self::RemoveEmpty { path } => root.remove_empty_dir(path).map(drop).map_err(failed("remove", path)),
            Self::RemoveAll { path } => root.remove_dir(path).map_err(failed("remove", path)),
            Self::Systemctl(words) => systemctl.act(words),
        }
    }
}

/// Lines of the one that are not in the other, and the other way round; as a person reads a unit file, where order hardly counts.
fn difference(before: &str, after: &str) -> Vec<String> {
    let missing = |of: &str, from: &str, sign: char| -> Vec<String> {
        let known: Vec<&str> = from.lines().collect();
        of.lines().filter(|line| !known.contains(line)).map(|line| format!("    {sign} {line}")).collect()
    };
    let mut lines = missing(before, after, '-');
    lines.extend(missing(after, before, '+'));
    lines
}
