//! What a purge removes, and what it leaves since it is not known to be ours.

use std::path::{Path, PathBuf};

use crate::files::Root;
use crate::journal;
use crate::remains::ours::{Ours, Part, Places, ours};
use crate::steps::backup::Backup;

use super::Job;
use super::record::Record;
use super::seen::{Seen, There};

/// What goes beside what was recorded, and what stays, each with a line about it.
pub fn purged(job: &Job<'_>, seen: &Seen, record: &Record, places: &Places<'_>) -> (Vec<Ours>, Vec<(PathBuf, String)>) {
    let timer_stays = seen.timer.files.first().is_some_and(|base| !record.files.contains_key(base));
    let (mut goes, mut stays) = (Vec::new(), Vec::new());
    for ours in ours(&job.root, places) {
        match ours.part {
            // it is the other timer's as well
            Part::Stamp if timer_stays => continue,
            // told at the end, with all other programs that stay
            Part::Program if !is_this_program(job, seen, &ours.path) => continue,
            _ => {}
        }
        match why_it_stays(&job.root, &ours, places) {
            Some(line) => stays.push((ours.path, line)),
            None => goes.push(ours),
        }
    }
    (goes, stays)
}

/// Why something that has our name is not removed, in a line: what is a link was put there by somebody, and its target is not ours.
pub fn why_it_stays(root: &Root, ours: &Ours, places: &Places<'_>) -> Option<String> {
    let path = &ours.path;
    let shown = path.display();
    let Ok(metadata) = root.symlink_metadata(path) else { return None };
    let is_dir = matches!(ours.part, Part::State | Part::Backup);
    match ours.part {
        Part::Link => None,
        _ if metadata.is_symlink() => {
            let to = root.read_link(path).unwrap_or_else(|_| PathBuf::from("somewhere"));
            let keys = if is_dir { ", with private keys where backups are in it" } else { "" };
            Some(format!("{shown} is a link to {}{keys}, and stays; remove that yourself", to.display()))
        }
        _ if is_dir && !metadata.is_dir() => Some(format!("{shown} is no directory, and stays")),
        _ if !is_dir && !metadata.is_file() => Some(format!("{shown} is no file, and stays")),
        // what is in our own directory goes with it
        Part::Backup if !path.starts_with(journal::DIRECTORY) && !is_backup(root, path, places) => Some(format!(
            "{shown} is called as a backup is and has no index of one, and stays; see whether keys are in it"
        )),
        _ => None,
    }
}

/// Whether it is one by its index, as when old ones are removed; a half-made one is by its name.
fn is_backup(root: &Root, path: &Path, places: &Places<'_>) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    name.starts_with('.') || Backup::load(root, places.backup_dir, name).is_ok()
}

/// Whether the program at this path is, byte by byte, the one that runs. One that an installation has put there is known by its record.
fn is_this_program(job: &Job<'_>, seen: &Seen, path: &Path) -> bool {
    let this = job.program.bytes.as_deref().or_else(|| match seen.at(&job.program.path) {
        There::File { bytes, .. } => Some(bytes),
        _ => None,
    });
    this.is_some_and(|this| job.root.read_up_to(path, this.len() as u64).is_ok_and(|there| there == this))
}
