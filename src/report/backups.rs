//! The list of backups.

use std::path::Path;

use comfy_table::ContentArrangement;
use serde_json::{Value, json};

use crate::steps::backup::About;

use super::json::API_VERSION;
use super::{table, words};

/// A backup in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its id.
    pub id: String,
    /// When and why it was made; `None` where its index cannot be used.
    pub about: Option<About>,
    /// How many files it holds.
    pub files: usize,
    /// Whether it can be put back.
    pub standing: Standing,
}

/// Whether a backup can be put back on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is sound, and of this cluster.
    Good,
    /// It is of a cluster with other CAs: which ones.
    OtherCluster(String),
    /// It cannot be told whether it is of this cluster: why.
    NotTold(String),
    /// It is not what it was: why.
    Damaged(String),
}

impl Standing {
    /// The words for it in every report.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::OtherCluster(_) => "other cluster",
            Self::NotTold(_) => "cannot be told",
            Self::Damaged(_) => "damaged",
        }
    }

    /// Why it cannot be put back.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Good => None,
            Self::OtherCluster(why) | Self::NotTold(why) | Self::Damaged(why) => Some(why),
        }
    }
}

/// The list as a table, a line each, in the order given; where the terminal is narrower than that, the reason is wrapped.
pub fn table(lines: &[Line], width: Option<u16>) -> String {
    let mut table = table::plain(&["BACKUP", "MADE (UTC)", "FILES", "STATE", "WHY"]);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for line in lines {
        let made = line.about.as_ref().map_or_else(|| "-".to_owned(), |about| made(&about.created));
        let reason = line.about.as_ref().map_or("-", |about| about.reason.as_str());
        table.add_row([
            line.id.clone(),
            made,
            line.files.to_string(),
            line.standing.as_str().to_owned(),
            words::tame(reason).into_owned(),
        ]);
    }
    table::finish(&table)
}

/// The list as JSON.
pub fn json(dir: &Path, lines: &[Line]) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "BackupList",
        "directory": dir.display().to_string(),
        "backups": lines.iter().map(|line| json!({
            "id": line.id,
            "created": line.about.as_ref().map(|about| &about.created),
            "reason": line.about.as_ref().map(|about| &about.reason),
            "program": line.about.as_ref().map(|about| &about.program),
            "files": line.files,
            "state": line.standing.as_str(),
            "message": line.standing.why(),
        })).collect::<Vec<_>>(),
    })
}

/// When a backup was made, to the minute; as it stands in its index where that is no instant.
pub(super) fn made(created: &str) -> String {
    chrono::DateTime::parse_from_rfc3339(created)
        .map_or_else(|_| words::tame(created).into_owned(), |at| words::minute(at.to_utc()))
}
