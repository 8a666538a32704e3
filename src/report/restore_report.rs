//! What putting a backup back changed, or would change, as one value, with its table and its JSON.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::decision::Item;
use crate::exit::Exit;
use crate::inventory::Leaf;
use crate::steps::backup::About;

use super::backups::made;
use super::json::API_VERSION;
use super::{table, words};

/// A backup that was, or was to be, put back.
#[derive(Debug)]
pub struct RestoreReport {
    /// Its id.
    pub id: String,
    /// The instant at which it was looked at (UTC).
    pub at: DateTime<Utc>,
    /// Whether it was only looked at.
    pub dry_run: bool,
    /// When and why the backup was made.
    pub about: Option<About>,
    /// What is not on disk as it is in the backup.
    pub changes: Vec<Change>,
    /// Names of what is.
    pub unchanged: Vec<String>,
    /// Kubeconfig copies in the backup that are not put back: why.
    pub left_alone: Vec<Item>,
    /// What came of it.
    pub ending: Ending,
    /// The backup that keeps what was there before.
    pub kept_in: Option<String>,
    /// Components that the next run has to restart.
    pub restart: Vec<String>,
    /// How it ended.
    pub exit: Exit,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A certificate, kubeconfig or copy that differs between disk and backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// kubeadm's name of it; the path of a copy.
    pub name: String,
    /// Its files that the backup holds.
    pub files: Vec<PathBuf>,
    /// Whether it is a copy of admin.conf.
    pub is_copy: bool,
    /// What differs.
    pub difference: Difference,
    /// The certificate on disk; `None` where none can be read.
    pub on_disk: Option<Leaf>,
    /// The certificate in the backup.
    pub in_backup: Option<Leaf>,
}

/// What differs between disk and backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The content.
    Content,
    /// Mode or owner only.
    Mode,
}

/// What came of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A real one would put it back.
    Planned,
    /// Everything was as it is in the backup already.
    NothingToDo,
    /// The person who was asked said no.
    Declined,
    /// Put back.
    Restored,
    /// Not put back, or not whole.
    Failed,
}

impl Ending {
    /// The word for it in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::NothingToDo => "nothingToDo",
            Self::Declined => "declined",
            Self::Restored => "restored",
            Self::Failed => "failed",
        }
    }
}

/// What changes: a line for each, which certificate is on disk and which is in the backup.
pub fn changes(changes: &[Change], width: Option<u16>) -> String {
    // 96 columns hold two serials of 64 bits and two times to the minute beside the names
    let short = width.is_some_and(|width| width < 96);
    let serial = |leaf: &Option<Leaf>| match leaf.as_ref().map(|leaf| leaf.serial.as_str()) {
        Some(serial) if short && serial.len() > 8 => format!("{}..", serial.get(..8).unwrap_or(serial)),
        Some(serial) => serial.to_owned(),
        None => "-".to_owned(),
    };
    let end = |leaf: &Option<Leaf>| match leaf.as_ref().map(|leaf| leaf.not_after) {
        Some(end) if short => end.format("%Y-%m-%d").to_string(),
        Some(end) => words::minute(end),
        None => "-".to_owned(),
    };
    let mut table = table::plain(&["CERTIFICATE", "ON DISK", "EXPIRES", "IN BACKUP", "EXPIRES"]);
    for Change { name, difference, on_disk, in_backup, .. } in changes {
        let same = on_disk.as_ref().map(|leaf| &leaf.der_sha256) == in_backup.as_ref().map(|leaf| &leaf.der_sha256);
        let (backup, its_end) = match difference {
            Difference::Mode => ("same".to_owned(), "other mode".to_owned()),
            Difference::Content if same => ("same".to_owned(), "other text".to_owned()),
            Difference::Content => (serial(in_backup), end(in_backup)),
        };
        table.add_row([words::tame(name).into_owned(), serial(on_disk), end(on_disk), backup, its_end]);
    }
    table::finish(&table)
}

/// A backup in one line.
pub fn heading(id: &str, about: &About) -> String {
    format!("backup {id}, made on {} UTC ({})", made(&about.created), about.reason)
}

/// The report as JSON.
pub fn json(report: &RestoreReport) -> Value {
    let leaf = |leaf: &Option<Leaf>| {
        leaf.as_ref().map(|leaf| {
            json!({
                "serial": leaf.serial,
                "expirationDate": leaf.not_after.to_rfc3339_opts(SecondsFormat::Secs, true),
            })
        })
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": "RestoreReport",
        "id": report.id,
        "at": report.at.to_rfc3339_opts(SecondsFormat::Secs, true),
        "dryRun": report.dry_run,
        "exitCode": report.exit.code(),
        "error": report.error,
        "created": report.about.as_ref().map(|about| &about.created),
        "reason": report.about.as_ref().map(|about| &about.reason),
        "changes": report.changes.iter().map(|change| json!({
            "name": change.name,
            "files": change.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "onlyMode": change.difference == Difference::Mode,
            "onDisk": leaf(&change.on_disk),
            "inBackup": leaf(&change.in_backup),
        })).collect::<Vec<_>>(),
        "unchanged": report.unchanged,
        "leftAlone": report.left_alone.iter().map(|item| json!({ "name": item.name, "reason": item.reason })).collect::<Vec<_>>(),
        "result": report.ending.word(),
        "keptIn": report.kept_in,
        "restart": report.restart,
    })
}
