//! Backups of the files that a run may rewrite: one directory each, whole or not there at all.

mod error;
mod index;
mod make;

use std::path::{Path, PathBuf};

pub use error::BackupError;
use error::io;
pub use index::{About, Saved, Skipped};
use index::{HALF_MADE, INDEX, Index, VERSION, half_made, inside, is_plain, order_of, sha256};
pub use make::space_needed;

use crate::files::{Replace, Root};

/// A complete backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    id: String,
    dir: PathBuf,
    index: Index,
}

impl Backup {
    /// The backup with this id, each of its files compared with its hash.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn open(root: &Root, dir: &Path, id: &str) -> Result<Self, BackupError> {
        let backup = Self::load(root, dir, id)?;
        for saved in &backup.index.files {
            backup.bytes_of(root, saved)?;
        }
        Ok(backup)
    }

    /// The ids of what is called as a backup is, and is a directory, oldest first; whether each is sound shows when it is
    /// opened.
    ///
    /// # Errors
    /// The directory cannot be read; one that is not there holds none.
    pub fn ids(root: &Root, dir: &Path) -> Result<Vec<String>, BackupError> {
        let mut names = match root.list(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(io("read", dir))?,
        };
        names.retain(|name| order_of(name).is_some() && is_directory(root, &dir.join(name)));
        names.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
        Ok(names)
    }

    /// What runs that were killed have left half-made or half removed in `dir`, sorted: with private keys inside, and no backup. The next
    /// run that makes one removes it.
    ///
    /// # Errors
    /// The directory cannot be read; one that is not there holds none.
    pub fn half_made(root: &Root, dir: &Path) -> Result<Vec<PathBuf>, BackupError> {
        let names = match root.list(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(io("read", dir))?,
        };
        let id = |name: &str| order_of(name.strip_prefix('.')?.strip_suffix(HALF_MADE)?).map(|_| ());
        let of_one = names.into_iter().filter(|name| id(name).is_some()).map(|name| dir.join(name));
        Ok(of_one.filter(|path| is_directory(root, path)).collect())
    }

    /// The backups in `dir`, oldest first, their files not compared with their hashes. What is no backup is passed over.
    ///
    /// # Errors
    /// The directory cannot be read; one that is not there holds none.
    pub fn list(root: &Root, dir: &Path) -> Result<Vec<Self>, BackupError> {
        Ok(Self::ids(root, dir)?.iter().filter_map(|id| Self::load(root, dir, id).ok()).collect())
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its directory, as a path of the node.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// When, why and of which cluster it was made.
    pub fn about(&self) -> &About {
        &self.index.about
    }

    /// The files in it, sorted by path.
    pub fn files(&self) -> &[Saved] {
        &self.index.files
    }

    /// What was there and could not be saved.
    pub fn skipped(&self) -> &[Skipped] {
        &self.index.skipped
    }

    /// Puts these files back: bytes, mode and owner, each replaced as a whole, in the order given. The bytes of all are
    /// read and compared with their hashes before the first is written.
    ///
    /// A path that is a symbolic link now is written through, as kubeadm does; the link stays. One that
    /// leads nowhere is replaced by the file.
    ///
    /// # Errors
    /// A path is not in the backup, a saved file is damaged, or the file system refuses; the files before it are back then.
    pub fn put_back(&self, root: &Root, paths: &[PathBuf]) -> Result<(), BackupError> {
        let mut all = Vec::new();
        for path in paths {
            let saved = self.index.files.iter().find(|saved| &saved.path == path);
            let saved = saved.ok_or_else(|| BackupError::NotInIt { id: self.id.clone(), path: path.clone() })?;
            all.push((saved, self.bytes_of(root, saved)?));
        }
        for (saved, bytes) in all {
            let target = root.canonicalize(&saved.path).unwrap_or_else(|_| saved.path.clone());
            let label = root.as_it_is(&target).ok().and_then(|how| how.label);
            let how = Replace { mode: saved.mode, owner: Some((saved.uid, saved.gid)), label, durable: true };
            root.replace(&target, &bytes, &how).map_err(io("put back", &saved.path))?;
        }
        Ok(())
    }

    /// Whether a file of the node is not what this backup holds of it; not there, or not to be read, is not what it was either.
    pub fn differs(&self, root: &Root, path: &Path) -> bool {
        let Some(saved) = self.index.files.iter().find(|saved| saved.path == path) else { return true };
        root.read(path).map_or(true, |bytes| sha256(&bytes) != saved.sha256)
    }

    /// The backup with this id, its files not compared with their hashes.
    ///
    /// # Errors
    /// There is none, or its index cannot be used.
    pub fn load(root: &Root, dir: &Path, id: &str) -> Result<Self, BackupError> {
        order_of(id).ok_or_else(|| BackupError::Id(id.to_owned()))?;
        let own = dir.join(id);
        if !is_directory(root, &own) {
            return Err(BackupError::NotThere { id: id.to_owned(), dir: dir.to_path_buf() });
        }
        let damaged = |what: String| BackupError::Damaged { id: id.to_owned(), what };
        let text = root.read(&own.join(INDEX)).map_err(|error| damaged(format!("'{INDEX}': {error}")))?;
        let index: Index = serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("'{INDEX}': line {}, column {}", error.line(), error.column())))?;
        if index.version != VERSION {
            return Err(BackupError::Version { id: id.to_owned(), version: index.version, known: VERSION });
        }
        if let Some(saved) = index.files.iter().find(|saved| saved.mode & !0o777 != 0) {
            return Err(damaged(format!("'{INDEX}': mode {:o} of '{}'", saved.mode, saved.path.display())));
        }
        match index.files.iter().find(|saved| !is_plain(&saved.path)) {
            Some(saved) => Err(damaged(format!("'{INDEX}': path '{}'", saved.path.display()))),
            None => Ok(Self { id: id.to_owned(), dir: own, index }),
        }
    }

    /// The bytes of one of its files, compared with their hash.
    ///
    /// # Errors
    /// They are not there, are not what they were, or a link leads to them: a backup holds none.
    pub fn bytes_of(&self, root: &Root, saved: &Saved) -> Result<Vec<u8>, BackupError> {
        let damaged = |what| BackupError::Damaged { id: self.id.clone(), what };
        let shown = saved.path.display();
        let unreadable = |error: std::io::Error| damaged(format!("'{shown}': {error}"));
        let place = inside(&self.dir, &saved.path);
        let own = root.canonicalize(&self.dir).map_err(unreadable)?;
        if root.canonicalize(&place).map_err(unreadable)? != inside(&own, &saved.path) {
            return Err(damaged(format!("'{shown}' is behind a link")));
        }
        let bytes = root.read(&place).map_err(unreadable)?;
        if sha256(&bytes) == saved.sha256 {
            Ok(bytes)
        } else {
            Err(damaged(format!("'{shown}' does not have its hash")))
        }
    }
}

/// Removes the oldest backups in `dir` but for the newest `keep` (at least one), and what killed runs left half-made or half
/// removed.
/// Gives the removed ids. Only directories with the name and the index of a backup are touched.
///
/// `made` is this run's own, which counts among those kept and is never removed: after a step of the clock the names of
/// older ones may be later.
///
/// To be called by the run that holds the lock.
///
/// # Errors
/// The directory cannot be read, or a backup cannot be removed.
pub fn prune(root: &Root, dir: &Path, keep: usize, made: Option<&Backup>) -> Result<Vec<String>, BackupError> {
    let mut backups = Backup::list(root, dir)?;
    backups.retain(|backup| made.is_none_or(|made| made.id != backup.id));
    let keep = keep.max(1) - usize::from(made.is_some());
    let mut removed = Vec::new();
    for backup in &backups[..backups.len().saturating_sub(keep)] {
        // under its own name one that is half removed would be no backup, and with its keys stay for ever
        let going = dir.join(half_made(&backup.id));
        root.remove_dir(&going).map_err(io("remove", &going))?;
        root.rename_new(&backup.dir, &going).map_err(io("remove", &backup.dir))?;
        root.remove_dir(&going).map_err(io("remove", &going))?;
        removed.push(backup.id.clone());
    }
    for path in Backup::half_made(root, dir)? {
        root.remove_dir(&path).map_err(io("remove", &path))?;
    }
    Ok(removed)
}

/// Whether a directory, and no link to one, is there.
fn is_directory(root: &Root, path: &Path) -> bool {
    root.symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
