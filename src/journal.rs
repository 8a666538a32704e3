//! What is remembered between runs: when the job last ran, and what a run that was cut off still owes.

mod turn;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::files::{Replace, Root, is_absent};

pub use turn::{Turn, TurnSeen};

/// Our directory for state and backups.
pub const DIRECTORY: &str = "/var/lib/k8s-certs-renew";
const FILE: &str = "/var/lib/k8s-certs-renew/state.json";
const ASIDE: &str = "/var/lib/k8s-certs-renew/state.json.damaged";
const OTHER_CLUSTER: &str = "/var/lib/k8s-certs-renew/state.json.other-cluster";
/// More certificates than this are not kept: no node comes near, and the journal is read at each run.
const MOST_SERIALS: usize = 1000;
/// Version of the format; a file of a newer one is set aside, not guessed at.
const VERSION: u32 = 1;

/// The journal, `/var/lib/k8s-certs-renew/state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    version: u32,
    /// When a run last got as far as a decision (UTC).
    #[serde(default)]
    pub last_run: Option<DateTime<Utc>>,
    /// When a run last ended well (UTC).
    #[serde(default)]
    pub last_success: Option<DateTime<Utc>>,
    /// The exit code that the last run ended with, also one that came to no decision.
    #[serde(default)]
    pub last_exit: Option<u8>,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub last_duration_ms: Option<u64>,
    /// The run that has begun and not ended, if any.
    #[serde(default)]
    pub open: Option<OpenRun>,
    /// When each serial that is on disk was first seen there, by [`serial_key`].
    #[serde(default)]
    pub serials: BTreeMap<String, FirstSeen>,
    /// When the serials were last noted.
    #[serde(default)]
    pub looked: Option<Look>,
    /// For each component, the serials ([`serial_key`]) that it read when it was last restarted and seen back.
    #[serde(default)]
    pub restarted: BTreeMap<String, Vec<String>>,
    /// What is known of the turn, and of the other control-plane nodes.
    #[serde(default, skip_serializing_if = "Turn::is_empty")]
    pub turn: Turn,
    /// The public key of each CA (SHA-256, lower-case hexadecimal), by the CA's name: which cluster this is.
    #[serde(default)]
    pub ca_key_hashes: BTreeMap<String, String>,
}

/// When a serial was first seen on disk. Told by the clock since boot, which no step of the wall clock moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstSeen {
    /// The boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Milliseconds since that boot: it was there by then, and may have been for longer.
    pub since_boot_ms: u64,
    /// Milliseconds since the same boot at which another serial was still in its place: it was not there yet. None where
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_until_ms: Option<u64>,
}

/// A look at the serials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Look {
    /// The boot.
    pub boot_id: String,
    /// Milliseconds since that boot.
    pub since_boot_ms: u64,
}

/// The key of a certificate in [`Journal::serials`]. The name belongs to it, since authorities number independently.
pub fn serial_key(name: &str, serial: &str) -> String {
    format!("{serial} {name}")
}

/// A run, or a restore, that changes the node. It stays in the journal until everything that it owes is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRun {
    /// When it began (UTC).
    pub began: DateTime<Utc>,
    /// Components that were to be restarted and have not been seen to be back.
    pub restart: Vec<String>,
    /// The backup that was made before kubeadm was called, until what kubeadm wrote has been read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// The earliest end of the certificates that it renewed (UTC): what is still to be restarted works with them until then. None where
    /// it renewed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime<Utc>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            version: VERSION,
            last_run: None,
            last_success: None,
            last_exit: None,
            last_duration_ms: None,
            open: None,
            serials: BTreeMap::new(),
            looked: None,
            restarted: BTreeMap::new(),
            turn: Turn::default(),
            ca_key_hashes: BTreeMap::new(),
        }
    }
}

impl Journal {
    /// Reads the journal. One that is damaged or of a newer version counts as none, and the warning says so.
    pub fn read(root: &Root) -> (Self, Option<String>) {
        let text = match root.read(Path::new(FILE)) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return (Self::default(), None),
            Err(error) => {
                return (
                    Self::default(),
                    Some(format!("cannot read the journal '{FILE}': {error}; going on without it")),
                );
            }
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(journal) if journal.version == VERSION => (journal, None),
            Ok(journal) => {
                let version = journal.version;
                (
                    Self::default(),
                    Some(format!(
                        "the journal '{FILE}' is of version {version}, this program knows {VERSION}; going on without it"
                    )),
                )
            }
            Err(error) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                (Self::default(), Some(format!("the journal '{FILE}' is damaged ({place}); going on without it")))
            }
        }
    }

    /// The journal that was set aside for being another cluster's; none where there is none that can be read.
    pub fn of_other_cluster(root: &Root) -> Option<Self> {
        serde_json::from_slice(&root.read(Path::new(OTHER_CLUSTER)).ok()?).ok()
    }

    /// Whether it was written for the cluster whose CAs have these key hashes, by name. A node that was reset and built anew has
    /// other CAs, and what an old journal says means nothing there. One that names no CA is taken as it is.
    pub fn is_of(&self, ca_key_hashes: &BTreeMap<String, String>) -> bool {
        self.ca_key_hashes.iter().all(|(name, hash)| ca_key_hashes.get(name).is_none_or(|now| now == hash))
    }

    /// Keeps the journal that is on disk beside the one that is written from now on: it is of another cluster, and gives its
    /// new name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn set_aside(root: &Root) -> io::Result<&'static Path> {
        let aside = Path::new(OTHER_CLUSTER);
        root.remove_file(aside)?;
        root.rename_new(Path::new(FILE), aside)?;
        Ok(aside)
    }

    /// Notes how a run has ended, and how long it took.
    pub fn note_end(&mut self, exit_code: u8, took: Duration) {
        self.last_exit = Some(exit_code);
        self.last_duration_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    /// Keeps of what is owed only the components that `still` holds for; a run that owes nothing is closed. One whose backup is still to
    /// be put back owes that.
    pub fn settle(&mut self, still: impl Fn(&str) -> bool) {
        if let Some(open) = &mut self.open {
            open.restart.retain(|component| still(component));
        }
        self.open.take_if(|open| open.restart.is_empty() && open.backup.is_none());
    }

    /// Writes the journal in place of the old one, which is kept beside it if it could not be read.
    ///
    /// `durable` waits for the disk; a run that changes nothing need not.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, root: &Root, durable: bool) -> anyhow::Result<()> {
        root.create_dir(Path::new(DIRECTORY), 0o700).with_context(|| format!("cannot create '{DIRECTORY}'"))?;
        self.keep_unreadable(root).with_context(|| format!("cannot set the damaged journal '{FILE}' aside"))?;
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| anyhow!("cannot encode the journal: {error}"))?;
        text.push(b'\n');
        let how = Replace { durable, ..Replace::with_mode(0o600) };
        root.replace(Path::new(FILE), &text, &how).with_context(|| format!("cannot write the journal '{FILE}'"))
    }

    /// Notes which serials are on disk now (name and serial of each certificate that was read). One that is known keeps its
    /// moment; one that is gone is forgotten, so that an old file put back from a backup counts as new. At most 1000 are kept.
    ///
    /// Call it with a moment that was taken after the files were read.
    pub fn note_serials<'a>(
        &mut self,
        on_disk: impl IntoIterator<Item = (&'a str, &'a str)>,
        boot_id: &str,
        since_boot: Duration,
    ) {
        let since_boot_ms = u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX);
        let before = std::mem::take(&mut self.serials);
        let last = self.looked.as_ref().filter(|look| look.boot_id == boot_id).map(|look| look.since_boot_ms);
        for (name, serial) in on_disk.into_iter().take(MOST_SERIALS) {
            let key = serial_key(name, serial);
            let seen = before.get(&key).cloned().unwrap_or_else(|| {
                let had_another = before.keys().any(|key| key.split_once(' ').is_some_and(|(_, of)| of == name));
                FirstSeen { boot_id: boot_id.to_owned(), since_boot_ms, other_until_ms: last.filter(|_| had_another) }
            });
            self.serials.insert(key, seen);
        }
        self.looked = Some(Look { boot_id: boot_id.to_owned(), since_boot_ms });
    }

    fn keep_unreadable(&self, root: &Root) -> io::Result<()> {
        match root.read(Path::new(FILE)) {
            Ok(text) if serde_json::from_slice::<Self>(&text).is_ok_and(|journal| journal.version == VERSION) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            // a directory, a link to itself or gigabytes are set aside just so
            _ => {
                root.remove_file(Path::new(ASIDE))?;
                root.rename_new(Path::new(FILE), Path::new(ASIDE))
            }
        }
    }
}

#[cfg(test)]
mod tests;
