//! What an installation has done, so that it can be undone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::files::{Root, is_absent};
use crate::inventory::x509::sha256;

/// Where it is kept.
pub const FILE: &str = "/var/lib/k8s-certs-renew/install.json";
/// Version of the format.
const VERSION: u32 = 1;

/// The record, `/var/lib/k8s-certs-renew/install.json`. It is written before anything else, and a later installation adds to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    version: u32,
    /// The files that were written, by path.
    pub files: BTreeMap<PathBuf, Written>,
    /// The directories that were made, those above others first.
    pub directories: Vec<PathBuf>,
    /// The links that started the timer at boot before.
    pub links_before: Vec<PathBuf>,
    /// Whether the timer was active before.
    pub active_before: bool,
}

/// A file that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// SHA-256 of each content that an installation gave it: what has another one is no longer ours.
    pub sha256: Vec<String>,
    /// What stood there before, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its text.
    pub text: String,
    /// Its permission bits.
    pub mode: u32,
}

impl Record {
    /// A record of a machine whose timer was like this.
    pub fn new(links_before: Vec<PathBuf>, active_before: bool) -> Self {
        Self { version: VERSION, files: BTreeMap::new(), directories: Vec::new(), links_before, active_before }
    }

    /// Reads it; `None` where nothing was installed.
    ///
    /// # Errors
    /// [`Exit::State`]: it cannot be read, is damaged, or is a newer program's.
    pub fn read(root: &Root) -> Result<Option<Self>, Failure> {
        let refused = |why: String| {
            Failure::new(
                Exit::State,
                anyhow!(
                    "cannot use the record of the installation, '{FILE}': {why}; move it away, and what it would have undone stays"
                ),
            )
        };
        let bytes = match root.read(Path::new(FILE)) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let error = anyhow!("cannot read the record of the installation, '{FILE}': {error}; look as root");
                return Err(Failure::new(Exit::NotRoot, error));
            }
            Err(error) => return Err(refused(error.to_string())),
        };
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        if record.version == VERSION {
            Ok(Some(record))
        } else {
            Err(refused(format!("it has version {}, and this program knows {VERSION}", record.version)))
        }
    }

    /// The text that is written.
    ///
    /// # Errors
    /// [`Exit::Fault`]: never seen.
    pub fn text(&self) -> Result<String, Failure> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| Failure::new(Exit::Fault, error))?;
        text.push('\n');
        Ok(text)
    }

    /// Whether the file at this path has a content that an installation gave it.
    pub fn is_ours(&self, path: &Path, bytes: &[u8]) -> bool {
        self.files.get(path).is_some_and(|written| written.sha256.contains(&sha256(bytes)))
    }

    /// Notes that a file gets this content. What stood there counts as before only the first time.
    pub fn note(&mut self, path: &Path, bytes: &[u8], before: Option<Before>) {
        let known = self.files.contains_key(path);
        let written = self.files.entry(path.to_path_buf()).or_default();
        if !known {
            written.before = before;
        }
        let hash = sha256(bytes);
        if !written.sha256.contains(&hash) {
            written.sha256.push(hash);
        }
    }
}
