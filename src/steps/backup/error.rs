//! Why a backup was not made, found or put back.

use std::io;
use std::path::{Path, PathBuf};

/// Why a backup was not made, found or put back. Ends a run with exit code 74.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The kubelet would read the backup as static pods.
    #[error("backup directory '{}' lies in the manifests directory '{}'; choose another (--backup-dir)", dir.display(), manifests.display())]
    InManifests {
        /// The backup directory.
        dir: PathBuf,
        /// Where the kubelet reads static pods.
        manifests: PathBuf,
    },
    /// Not the form of an id.
    #[error("'{0}' is no backup id; such as 20261130T030000Z")]
    Id(String),
    /// No such backup.
    #[error("there is no backup '{id}' in '{}'", dir.display())]
    NotThere {
        /// The id.
        id: String,
        /// The backup directory.
        dir: PathBuf,
    },
    /// The backup is not what it was when it was made.
    #[error("backup '{id}' is damaged: {what}; use an older one")]
    Damaged {
        /// The id.
        id: String,
        /// The file, and what is wrong with it.
        what: String,
    },
    /// Another program's, or a later one's.
    #[error("backup '{id}' is of version {version}, and this program knows {known}; use the program that made it")]
    Version {
        /// The id.
        id: String,
        /// The version that it says.
        version: u32,
        /// The version that is known.
        known: u32,
    },
    /// The backup does not hold this file.
    #[error("backup '{id}' does not hold '{}'", path.display())]
    NotInIt {
        /// The id.
        id: String,
        /// The path on the node.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot {act} '{}': {error}", path.display())]
    Io {
        /// What was being done.
        act: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Says what was being done to which path.
pub(super) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    move |error| BackupError::Io { act, path: path.to_path_buf(), error }
}
