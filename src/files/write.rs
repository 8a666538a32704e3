//! Writing: a whole file or nothing, directories, locks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Root, is_absent};

const LABEL: &str = "security.selinux";

/// Mode, owner and durability of a file that is written as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replace {
    /// Permission bits.
    pub mode: u32,
    /// User and group; `None` is the writer's own.
    pub owner: Option<(u32, u32)>,
    /// SELinux label, as the file system keeps it.
    pub label: Option<Vec<u8>>,
    /// Whether to wait until it is on the disk (fsync).
    pub durable: bool,
}

impl Replace {
    /// A file of the writer's own, with this mode, durable.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode, owner: None, label: None, durable: true }
    }
}

impl Root {
    /// Creates a directory and what is missing above it, with this mode; one that exists is left as it is.
    ///
    /// # Errors
    /// As `mkdir(2)`.
    pub fn create_dir(&self, dir: &Path, mode: u32) -> io::Result<()> {
        match self.metadata(dir) {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Ok(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (parent, name) = split(dir)?;
        self.create_dir(parent, mode)?;
        let parent = self.open(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a whole file in place of what is there, or leaves that untouched: temporary file in the same directory,
    /// mode, owner, fsync, rename, fsync of the directory.
    ///
    /// Links in the directory part are followed, below the root; a link at the last component is itself replaced, so
    /// nothing is written through it. A caller that wants to write through resolves it first.
    ///
    /// # Errors
    /// As the calls above; what was there before is then still there.
    pub fn replace(&self, path: &Path, bytes: &[u8], how: &Replace) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let parent = self.open(parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        // the same name each time, so that what a killed run has left of a credential goes at the next write
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(".k8s-certs-renew");
        let result = (|| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || rustix::fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600));
            let mut file = match open() {
                // left by a run that was killed
                Err(Errno::EXIST) => {
                    rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty())?;
                    File::from(open()?)
                }
                opened => File::from(opened?),
            };
            file.write_all(bytes)?;
            if let Some((uid, gid)) = how.owner {
                let metadata = file.metadata()?;
                if (metadata.uid(), metadata.gid()) != (uid, gid) {
                    std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
                }
            }
            file.set_permissions(fs::Permissions::from_mode(how.mode))?;
            if let Some(label) = &how.label {
                rustix::fs::fsetxattr(&file, LABEL, label, rustix::fs::XattrFlags::empty())?;
            }
            if how.durable {
                file.sync_all()?;
            }
            rustix::fs::renameat(&parent, &temporary, &parent, name)?;
            if how.durable {
                rustix::fs::fsync(&parent)?;
            }
            Ok(())
        })();
        if result.is_err() {
            // best effort: the error that counts is the one above
            let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
        }
        result
    }

    /// How to replace the file at `path` so that its mode, owner and security label stay.
    ///
    /// # Errors
    /// As `stat(2)`.
    pub fn as_it_is(&self, path: &Path) -> io::Result<Replace> {
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut label = vec![0; 256];
        let label = match rustix::fs::fgetxattr(&file, LABEL, label.as_mut_slice()) {
            Ok(length) => {
                label.truncate(length);
                Some(label)
            }
            // no label there, or a file system without labels
            Err(_) => None,
        };
        let metadata = File::from(file).metadata()?;
        Ok(Replace {
            mode: metadata.mode() & 0o7777,
            owner: Some((metadata.uid(), metadata.gid())),
            label,
            durable: true,
        })
    }

    /// Removes a file or a link; one that is not there is no error.
    ///
    /// # Errors
    /// As `unlink(2)`.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let parent = match self.open(parent, OFlags::PATH | OFlags::DIRECTORY) {
            Err(error) if is_absent(&error) => return Ok(()),
            opened => opened?,
        };
        match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a directory with nothing in it, and tells whether it is gone; one with something in it stays, and one that is not there
    /// is no error.
    ///
    /// # Errors
    /// As `rmdir(2)`.
    pub fn remove_empty_dir(&self, dir: &Path) -> io::Result<bool> {
        let (parent, name) = split(dir)?;
        let parent = match self.open(parent, OFlags::PATH | OFlags::DIRECTORY) {
            Err(error) if is_absent(&error) => return Ok(true),
            opened => opened?,
        };
        match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a directory and all below it, links unfollowed; one that is not there is no error.
    ///
    /// # Errors
    /// As `unlink(2)` and `rmdir(2)`.
    #[expect(clippy::disallowed_methods, reason = "files is the door to the disk")]
    pub fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match self.canonicalize(dir) {
            Ok(real) => fs::remove_dir_all(self.on_host(&real)),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a directory or file a new name, never in place of something that has it already; waits until the directory
    /// that holds the new name is on the disk.
    ///
    /// # Errors
    /// As `renameat2(2)` with `RENAME_NOREPLACE`; `AlreadyExists` where the new name is taken.
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = split(from)?;
        let (to_dir, to_name) = split(to)?;
        let from_dir = self.open(from_dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let to_dir = self.open(to_dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        match rustix::fs::renameat_with(&from_dir, from_name, &to_dir, to_name, rustix::fs::RenameFlags::NOREPLACE) {
            // a kernel before 3.15, or a file system that does not know the flag (NFS)
            Err(Errno::NOSYS | Errno::INVAL) => match rustix::fs::statat(&to_dir, to_name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(&from_dir, from_name, &to_dir, to_name)?,
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(io::Error::from(io::ErrorKind::AlreadyExists)),
            },
            renamed => renamed?,
        }
        Ok(rustix::fs::fsync(&to_dir)?)
    }

    /// Waits until the entries of a directory are on the disk.
    ///
    /// # Errors
    /// As `fsync(2)`.
    pub fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?)?)
    }

    /// Opens (and creates, 0600) a file that stays open as a lock.
    ///
    /// # Errors
    /// As `open(2)`.
    pub fn open_lock(&self, path: &Path) -> io::Result<File> {
        self.open(path, OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW).map(File::from)
    }

    /// Bytes that an unprivileged-reserve-respecting writer can still put into the file system that holds `dir`.
    ///
    /// # Errors
    /// As `fstatvfs(3)`.
    pub fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.open(dir, OFlags::RDONLY)?)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Whether `dir`, or what is there of it, lies in a file system that is mounted read-only. Nobody has to be root to see it.
    pub fn is_read_only(&self, dir: &Path) -> bool {
        let there = dir.ancestors().find_map(|dir| self.open(dir, OFlags::RDONLY).ok());
        let stat = there.and_then(|dir| rustix::fs::fstatvfs(dir).ok());
        stat.is_some_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// Whether a file can be created in `dir` right now: created, and taken away again.
    ///
    /// # Errors
    /// Why not.
    pub fn probe_writable(&self, dir: &Path) -> io::Result<()> {
        let dir = self.open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let name = ".k8s-certs-renew.probe";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o600))?;
        rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
        Ok(())
    }
}

fn split(path: &Path) -> io::Result<(&Path, &std::ffi::OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use super::super::tests::tree;
    use super::Replace;

    #[test]
    fn a_replaced_file_keeps_mode_and_leaves_no_temporary_behind() {
        let (dir, root) = tree();
        let path = Path::new("/etc/kubernetes/ssl/ca.crt");
        std::fs::set_permissions(dir.path().join("etc/kubernetes/ssl/ca.crt"), PermissionsExt::from_mode(0o640))
            .unwrap();
        let how = root.as_it_is(path).unwrap();
        root.replace(path, b"new", &how).unwrap();
        assert_eq!(root.metadata(path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(root.read(path).unwrap(), b"new");
        assert_eq!(root.list(Path::new("/etc/kubernetes/ssl")).unwrap(), ["ca.crt"]);
    }

    #[test]
    fn what_a_killed_write_has_left_goes_with_the_next_one() {
        let (dir, root) = tree();
        std::fs::write(dir.path().join("etc/kubernetes/ssl/.ca.crt.k8s-certs-renew"), "half a k").unwrap();
        root.replace(Path::new("/etc/kubernetes/ssl/ca.crt"), b"new", &Replace::with_mode(0o600)).unwrap();
        assert_eq!(root.list(Path::new("/etc/kubernetes/ssl")).unwrap(), ["ca.crt"]);
    }

    #[test]
    fn a_failed_replace_leaves_what_was_there() {
        let (_dir, root) = tree();
        root.create_dir(Path::new("/etc/kubernetes/ssl/taken"), 0o755).unwrap();
        let how = Replace::with_mode(0o600);
        assert!(root.replace(Path::new("/etc/kubernetes/ssl/taken"), b"x", &how).is_err());
        assert_eq!(root.list(Path::new("/etc/kubernetes/ssl")).unwrap(), ["ca.crt", "taken"]);
    }
}
