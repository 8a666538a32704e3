//! What a backup is made of on disk: its index, its names, its hashes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(super) const INDEX: &str = "manifest.json";
pub(super) const VERSION: u32 = 1;
/// What a half-made backup is called: a leading dot, the id, this.
pub(super) const HALF_MADE: &str = ".partial";

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// When it was made, RFC 3339, UTC.
    pub created: String,
    /// Why it was made, such as `renewal`.
    pub reason: String,
    /// The version of this program.
    pub program: String,
    /// The key hash of each CA, by the CA's name, so that another cluster's backup is known.
    pub ca_key_hashes: BTreeMap<String, String>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Its path on the node; also its place below the backup's directory.
    pub path: PathBuf,
    /// SHA-256 of its bytes, lower case hex.
    pub sha256: String,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The link's text where the path was a symbolic link; bytes, mode and owner are the file's behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<PathBuf>,
}

/// Something that was at a path and could not be saved, being no regular file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The path on the node.
    pub path: PathBuf,
    /// What it is.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    pub version: u32,
    #[serde(flatten)]
    pub about: About,
    pub files: Vec<Saved>,
    pub skipped: Vec<Skipped>,
}

/// An id's place in time: when, and which of that moment. `None` for what is no id.
pub(super) fn order_of(id: &str) -> Option<(&str, u32)> {
    let (time, number) = match id.split_once('-') {
        Some((time, number)) => (time, number.parse().ok().filter(|number| *number > 1)?),
        None => (id, 1),
    };
    let shape = time.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq(b"00000000T000000Z".iter().copied()).then_some((time, number))
}

/// The name of a backup that is being made or removed.
pub(super) fn half_made(id: &str) -> String {
    format!(".{id}{HALF_MADE}")
}

/// Whether a path of an index stays below the backup's directory.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Where a file of the node stands below a backup's directory.
pub(super) fn inside(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path.strip_prefix("/").unwrap_or(path))
}

/// SHA-256 as lower case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write;
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().iter().fold(String::new(), |mut hex, byte| {
        // writing into a String does not fail
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
