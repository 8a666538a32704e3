//! The lock: one run at a time on a node.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::files::Root;

/// The lock that keeps a second run out.
pub const FILE: &str = "/run/k8s-certs-renew.lock";

/// The lock of a run, held until this value is dropped and every program that inherited it has ended.
///
/// It is `flock(2)` on a file that is never deleted: the kernel lets go of it when its holders end, however they end, so
/// what a killed run left behind never blocks the next one.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds it.
    #[error(
        "another run is at work: {path:?} is held by {}; wait for it to end, or look at it with `ps`",
        holder(*.pid)
    )]
    Busy {
        /// The lock file, on the node.
        path: PathBuf,
        /// The process that took it, where the file says so.
        pid: Option<u32>,
    },
    /// The lock file cannot be opened, locked or written.
    #[error("lock file {path:?} cannot be used: {source}")]
    Io {
        /// The lock file, on the node.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock at `path` below the root, at once or not at all, and writes our process id into it. A directory that is
    /// missing is made; a symbolic link is refused.
    ///
    /// # Errors
    /// [`LockError::Busy`] when it is held, [`LockError::Io`] when the file cannot be used.
    pub fn take(root: &Root, path: &Path) -> Result<Self, LockError> {
        let io = |source: io::Error| LockError::Io { path: path.to_path_buf(), source };
        if let Some(dir) = path.parent() {
            root.create_dir(dir, 0o755).map_err(io)?;
        }
        let mut file = root.open_lock(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Busy { path: path.to_path_buf(), pid: written(&file) });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        file.set_len(0).map_err(io)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(io)?;
        Ok(Self { file })
    }

    /// Lets go of it at once, also where a program that is just being started has inherited it without being meant to: for whoever gives
    /// it to none. A failure leaves it to the drop.
    pub fn let_go(&self) {
        let _ = self.file.unlock();
    }

    /// The open file, for [`crate::host::Call::keep_open`]: a program that inherits it holds the lock for as long as it runs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn written(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid} or a kubeadm that it started"),
        None => "a process that has not said who it is".to_owned(),
    }
}
