//! One at a time: a run, an installation, or what takes it off.

use std::path::Path;

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::lock::{self, Lock, LockError};

use super::Job;

/// The lock of a run, let go of when this is dropped: nothing that an installation starts is to keep it.
#[derive(Debug)]
pub struct Alone(Lock);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The lock of a run, made if need be on a machine that runs: `/run` is empty there after the next boot. In an image it is taken only
/// where it is, since it would stay.
///
/// # Errors
/// As [`if_there`].
pub fn made(job: &Job<'_>) -> Result<Option<Alone>, Failure> {
    if job.root.is_host() || job.systemctl.is_live() { take(job).map(Some) } else { if_there(job) }
}

/// The lock of a run, where there is one.
///
/// # Errors
/// [`Exit::Busy`]: another holds it; it is not waited for, since a run may wait for its turn for half an hour. [`Exit::State`]: it cannot
/// be used.
pub fn if_there(job: &Job<'_>) -> Result<Option<Alone>, Failure> {
    let is_there = job.root.symlink_metadata(Path::new(lock::FILE)).is_ok();
    if is_there { take(job).map(Some) } else { Ok(None) }
}

fn take(job: &Job<'_>) -> Result<Alone, Failure> {
    Lock::take(&job.root, Path::new(lock::FILE)).map(Alone).map_err(|error| {
        let exit = if matches!(error, LockError::Busy { .. }) { Exit::Busy } else { Exit::State };
        Failure::new(exit, anyhow!("{error}; nothing was changed"))
    })
}
