//! Makes a backup under another name, and names it when it is complete.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{BackupError, io};
use super::index::{About, INDEX, Index, Saved, Skipped, VERSION, half_made, inside, order_of, sha256};
use super::{Backup, is_directory};
use crate::files::{Replace, Root, is_absent};

/// Private keys that a backup never holds: kubeadm's CAs and service accounts, and kubespray's etcd CA.
const NEVER: [&str; 4] = ["ca.key", "front-proxy-ca.key", "sa.key", "ca-key.pem"];

impl Backup {
    /// Saves the files into `<dir>/<id>`, or `<id>-2` and so on where that is taken; directories 0700, files 0600, all on
    /// the disk (fsync) before the backup gets its name.
    ///
    /// Left out: paths where nothing is, and the private keys `ca.key`, `front-proxy-ca.key`, `sa.key` and `ca-key.pem`,
    /// also behind a link. What is no regular file is told by [`Backup::skipped`]. `id` is the run's start,
    /// `20261130T030000Z`.
    ///
    /// # Errors
    /// `dir` lies in the kubelet's `manifests` directory, `id` has another form, a file cannot be read, or the backup
    /// cannot be written; then none is there.
    pub fn make(
        root: &Root,
        dir: &Path,
        manifests: &Path,
        id: &str,
        files: &[PathBuf],
        about: &About,
    ) -> Result<Self, BackupError> {
        if order_of(id).is_none_or(|(_, number)| number != 1) {
            return Err(BackupError::Id(id.to_owned()));
        }
        if real(root, dir).starts_with(real(root, manifests)) {
            return Err(BackupError::InManifests { dir: dir.to_path_buf(), manifests: manifests.to_path_buf() });
        }
        root.create_dir(dir, 0o700).map_err(io("create", dir))?;
        let half_made = dir.join(half_made(id));
        let made = (|| {
            // left by a run that was killed
            let left = if is_directory(root, &half_made) { Root::remove_dir } else { Root::remove_file };
            left(root, &half_made).map_err(io("remove", &half_made))?;
            let index = save_all(root, &half_made, files, about)?;
            let id = name(root, dir, &half_made, id)?;
            Ok(Self { dir: dir.join(&id), id, index })
        })();
        if made.is_err() {
            // best effort: the error that counts is the one above
            let _ = root.remove_dir(&half_made);
        }
        made
    }
}

/// Bytes on the disk that a backup of these files takes, blocks of 4 KiB, index and directories included.
pub fn space_needed(root: &Root, files: &[PathBuf]) -> u64 {
    const BLOCK: u64 = 4096;
    let sizes = files.iter().map(|file| root.metadata(file).map_or(0, |metadata| metadata.len()));
    // a block for each file's own directory and one for each of its lines in the index is more than enough
    sizes.map(|size| (size.div_ceil(BLOCK) + 2) * BLOCK).sum::<u64>() + 4 * BLOCK
}

fn save_all(root: &Root, to: &Path, files: &[PathBuf], about: &About) -> Result<Index, BackupError> {
    let mut index = Index { version: VERSION, about: about.clone(), files: Vec::new(), skipped: Vec::new() };
    let mut directories = BTreeSet::from([to.to_path_buf()]);
    root.create_dir(to, 0o700).map_err(io("create", to))?;
    for path in files.iter().collect::<BTreeSet<_>>() {
        if is_never_saved(root, path) {
            continue;
        }
        let bytes = match root.read(path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => continue,
            Err(error) if nobody_can_read(&error) => {
                index.skipped.push(Skipped { path: path.clone(), reason: error.to_string() });
                continue;
            }
            Err(error) => return Err(io("read", path)(error)),
        };
        let metadata = root.metadata(path).map_err(io("read", path))?;
        let copy = inside(to, path);
        let parent = copy.parent().unwrap_or(to);
        root.create_dir(parent, 0o700).map_err(io("create", parent))?;
        directories.extend(parent.ancestors().take_while(|dir| dir.starts_with(to)).map(Path::to_path_buf));
        root.replace(&copy, &bytes, &Replace::with_mode(0o600)).map_err(io("write", &copy))?;
        index.files.push(Saved {
            path: path.clone(),
            sha256: sha256(&bytes),
            mode: metadata.mode() & 0o777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            link: root.read_link(path).ok(),
        });
    }
    let written = to.join(INDEX);
    let text = serde_json::to_vec_pretty(&index).map_err(|error| io("write", &written)(error.into()))?;
    root.replace(&written, &text, &Replace::with_mode(0o600)).map_err(io("write", &written))?;
    for directory in directories.iter().rev() {
        root.sync_dir(directory).map_err(io("write", directory))?;
    }
    Ok(index)
}

/// Whether the path itself is the fault, for kubeadm as for us: no regular file, a link that leads to itself. It must not
/// stand in the way of all others.
fn nobody_can_read(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Gives the complete backup its name: the id, or the next free one.
fn name(root: &Root, dir: &Path, half_made: &Path, id: &str) -> Result<String, BackupError> {
    let mut number = 1_u32;
    loop {
        let name = if number == 1 { id.to_owned() } else { format!("{id}-{number}") };
        let path = dir.join(&name);
        match root.rename_new(half_made, &path) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(io("create", &path)(error)),
        }
    }
}

fn is_never_saved(root: &Root, path: &Path) -> bool {
    let named = |path: &Path| path.file_name().is_some_and(|name| NEVER.iter().any(|never| name == *never));
    named(path) || root.canonicalize(path).is_ok_and(|real| named(&real))
}

/// The path with links resolved as far as it exists.
fn real(root: &Root, path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (root.canonicalize(ancestor), path.strip_prefix(ancestor)) {
            return real.join(rest);
        }
    }
    path.to_path_buf()
}
