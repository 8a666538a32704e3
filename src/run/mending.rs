//! What a run and its kubeadm were both killed in: kubeadm empties a file before it writes it, key first, then certificate
//! (kubeadm `renewal.readwriter`, all versions), so that a pair can be torn, and a kubeconfig empty.

use std::path::PathBuf;

use crate::decision::kubeadm_leaves;
use crate::inventory::{Certificate, Inventory, Problem};
use crate::journal::Journal;
use crate::steps::backup::Backup;

use super::Job;
use super::walk::ca_key_hashes;

/// Certificates that were left half-written, and the backup that holds them whole.
#[derive(Debug)]
pub struct HalfWritten {
    /// Their names.
    pub names: Vec<String>,
    files: Vec<PathBuf>,
    backup: Backup,
}

impl HalfWritten {
    /// Looks for them: only after a run that was cut off before it had read again what kubeadm wrote, and only what is not as that
    /// run found it. Good new files are never among them.
    ///
    /// # Errors
    /// There may be some, and the backup is gone, damaged, or of another cluster: why.
    pub fn find(job: &Job<'_>, journal: &Journal, inventory: &Inventory) -> Result<Option<Self>, String> {
        let Some(id) = journal.open.as_ref().and_then(|open| open.backup.as_deref()) else { return Ok(None) };
        let broken: Vec<&Certificate> =
            kubeadm_leaves(inventory).filter(|certificate| is_broken(certificate)).collect();
        if broken.is_empty() {
            return Ok(None);
        }
        let backup = Backup::open(&job.root, job.backup_dir, id)
            .map_err(|error| format!("what a run that was cut off left half-written stays so: {error}"))?;
        let hashes = ca_key_hashes(inventory);
        let own =
            backup.about().ca_key_hashes.iter().all(|(name, hash)| hashes.get(name).is_none_or(|now| now == hash));
        if !own {
            return Err(format!(
                "what a run that was cut off left half-written stays so: the backup '{id}' is of a cluster with other CAs"
            ));
        }
        let mut half_written = Self { names: Vec::new(), files: Vec::new(), backup };
        for certificate in broken {
            let mut files: Vec<PathBuf> = certificate.files().into_iter().map(PathBuf::from).collect();
            files.retain(|file| half_written.backup.files().iter().any(|saved| saved.path == *file));
            let other = |file: &PathBuf| half_written.backup.differs(&job.root, file);
            if files.iter().any(other) {
                half_written.names.push(certificate.name.clone());
                half_written.files.extend(files);
            }
        }
        Ok(Some(half_written).filter(|found| !found.names.is_empty()))
    }

    /// Puts them back, and says so; or only says so.
    pub fn put_back(&self, job: &Job<'_>, look_only: bool) -> String {
        let names = self.names.join(", ");
        let id = self.backup.id();
        if look_only {
            return format!(
                "{names}: half-written by a run that was cut off; a run puts it back from the backup '{id}' first"
            );
        }
        match self.backup.put_back(&job.root, &self.files) {
            Ok(()) => format!("{names}: half-written by a run that was cut off; put back from the backup '{id}'"),
            Err(error) => format!("{names}: half-written by a run that was cut off, and cannot be put back: {error}"),
        }
    }
}

/// Whether it is as kubeadm leaves it when it is killed while it writes, or as it never should: signed by another CA.
fn is_broken(certificate: &Certificate) -> bool {
    let breaks = |problem: &Problem| {
        matches!(
            problem,
            Problem::Missing
                | Problem::NotACertificate(_)
                | Problem::BadKubeconfig(_)
                | Problem::KeyMissing
                | Problem::KeyUnreadable(_)
                | Problem::KeyMismatch
                | Problem::NotSignedByCa { .. }
                | Problem::CaMismatch { .. }
        )
    };
    certificate.problems.iter().any(breaks)
}
