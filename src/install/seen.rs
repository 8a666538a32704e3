//! What stands below the root before anything is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::exit::{Exit, Failure, OrExit};
use crate::files::{Root, is_absent};
use crate::journal;
use crate::node::unit_files::{DIRECTORIES, Unit, wanted_by};
use crate::remains::ours::SERVICE;
use crate::settings::timer::DEFAULT_TIMER;

use super::record::{self, Record};
use super::systemctl::Systemctl;

/// Where unit files of the administrator, and ours, are.
pub const UNITS: &str = "/etc/systemd/system";
/// The largest program that is looked at: a debug build.
const LARGEST_PROGRAM: u64 = 1 << 30;

/// What is at a path; links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum There {
    /// Nothing.
    Nothing,
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link to this.
    Link(PathBuf),
    /// A directory, a device, a pipe.
    Other,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    there: BTreeMap<PathBuf, There>,
    missing: BTreeSet<PathBuf>,
    /// The service, with its drop-ins.
    pub service: Unit,
    /// The timer, with its drop-ins.
    pub timer: Unit,
    /// Links by which a target starts the timer.
    pub links: Vec<PathBuf>,
    /// Whether the timer is active.
    pub active: bool,
    /// The service's state, as `systemctl is-active` says it.
    pub state: String,
    /// Whether systemd has read other unit files than these.
    pub reload: bool,
    /// systemd's version.
    pub systemd: u32,
    /// Whether our directory of state is there with nothing in it: an installation made it and came no further.
    pub only_made: bool,
    /// What an earlier installation has done.
    pub record: Option<Record>,
}

impl Seen {
    /// Looks, at these paths among others.
    ///
    /// # Errors
    /// [`Exit::Config`]: a unit file cannot be read. [`Exit::State`]: another file, or the record. [`Exit::ToolMissing`].
    pub fn look(root: &Root, systemctl: &Systemctl, paths: &[PathBuf]) -> Result<Self, Failure> {
        // first, so that whoever may not look is told so
        let record = Record::read(root)?;
        let mut seen = Self {
            there: BTreeMap::new(),
            missing: BTreeSet::new(),
            service: Unit::load(root, SERVICE).or_exit(Exit::Config)?,
            timer: Unit::load(root, DEFAULT_TIMER).or_exit(Exit::Config)?,
            links: wanted_by(root, DEFAULT_TIMER).or_exit(Exit::Config)?,
            active: systemctl.state(DEFAULT_TIMER)? == "active",
            state: systemctl.state(SERVICE)?,
            reload: systemctl.needs_reload(&[SERVICE, DEFAULT_TIMER])?,
            systemd: systemctl.version(root)?,
            only_made: root.list(Path::new(journal::DIRECTORY)).is_ok_and(|names| names.is_empty()),
            record,
        };
        let recorded: Vec<PathBuf> = seen.record.iter().flat_map(|record| record.files.keys().cloned()).collect();
        for path in paths.iter().chain(&recorded).chain([&PathBuf::from(record::FILE)]) {
            seen.note(root, path)?;
        }
        Ok(seen)
    }

    /// What is at a path that was looked at; `Nothing` for another.
    pub fn at(&self, path: &Path) -> &There {
        self.there.get(path).unwrap_or(&There::Nothing)
    }

    /// The directories above a path that are not there, the topmost first.
    pub fn missing_above(&self, path: &Path) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> =
            path.ancestors().skip(1).filter(|dir| self.missing.contains(*dir)).map(Path::to_path_buf).collect();
        dirs.reverse();
        dirs
    }

    fn note(&mut self, root: &Root, path: &Path) -> Result<(), Failure> {
        let failed = |error| Failure::new(Exit::State, anyhow!("cannot look at '{}': {error}", path.display()));
        let there = match root.symlink_metadata(path) {
            Err(error) if is_absent(&error) => There::Nothing,
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.is_symlink() => There::Link(root.read_link(path).map_err(failed)?),
            Ok(metadata) if metadata.is_file() => {
                use std::os::unix::fs::PermissionsExt;
                let bytes = root.read_up_to(path, LARGEST_PROGRAM).map_err(failed)?;
                There::File { bytes, mode: metadata.permissions().mode() & 0o7777 }
            }
            Ok(_) => There::Other,
        };
        self.there.insert(path.to_path_buf(), there);
        for dir in path.ancestors().skip(1) {
            match root.metadata(dir) {
                Ok(metadata) if metadata.is_dir() => break,
                Err(error) if is_absent(&error) && root.symlink_metadata(dir).is_err() => {
                    self.missing.insert(dir.to_path_buf());
                }
                _ => {
                    let error = anyhow!(
                        "'{}' is no directory, and '{}' is to be in it; see what it is, and move it away",
                        dir.display(),
                        path.display()
                    );
                    return Err(Failure::new(Exit::Config, error));
                }
            }
        }
        // a link there would have us write into somebody else's directory
        if let Some(dir) =
            path.parent().filter(|dir| dir.extension().is_some_and(|end| end == "d") && dir.starts_with(UNITS))
            && root.symlink_metadata(dir).is_ok_and(|metadata| metadata.is_symlink())
        {
            let error = anyhow!(
                "'{}' is a link; the drop-ins of the service are written to a directory of its own only",
                dir.display()
            );
            return Err(Failure::new(Exit::Config, error));
        }
        Ok(())
    }
}

/// The strongest drop-in of this name for the service that is not the administrator's own, and its text: a package's.
pub fn packaged_drop_in(root: &Root, name: &str) -> Option<(PathBuf, String)> {
    let below = DIRECTORIES.iter().skip(1).map(|dir| Path::new(dir).join(format!("{SERVICE}.d")).join(name));
    below.into_iter().find_map(|path| Some((path.clone(), root.read_to_string(&path).ok()?)))
}
