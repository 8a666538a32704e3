//! From what an installation has done to what gives back what was there. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::inventory::x509::sha256;
use crate::journal;
use crate::remains::ours::{DROP_INS, Ours, Part, SERVICE};
use crate::settings::layers;
use crate::settings::timer::DEFAULT_TIMER;

use super::action::{Action, Content};
use super::drop_in;
use super::plan::{drop_in_path, unit};
use super::record::{self, Record, Written};
use super::seen::{Seen, There};

/// What is to be done, and what stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undo {
    /// In order.
    pub actions: Vec<Action>,
    /// What stays though an installation wrote it, and why, each a line.
    pub stays: Vec<String>,
}

/// The record of an installation that left none, from before there was one, or by hand: files that hold just what would be written now.
pub fn without_record(seen: &Seen, program: &Path, configuration: &str) -> Record {
    let mut record = Record::new(Vec::new(), false);
    let timer = (unit(DEFAULT_TIMER), drop_in::TIMER.to_owned());
    let service = (unit(SERVICE), drop_in::service(program));
    let all = (drop_in_path(DROP_INS[0]), drop_in::drop_in(program, seen.systemd));
    let settings = (PathBuf::from(layers::FILE), configuration.to_owned());
    for (path, text) in [timer, service, all, settings] {
        // a package ships the very same settings, and keeps them when it is removed
        let packaged = path == Path::new(layers::FILE) && !record.files.contains_key(&unit(SERVICE));
        if !packaged && matches!(seen.at(&path), There::File { bytes, .. } if bytes == text.as_bytes()) {
            record.files.insert(path, Written { sha256: vec![sha256(text.as_bytes())], before: None });
        }
    }
    if seen.only_made {
        record.directories.push(PathBuf::from(journal::DIRECTORY));
    }
    // who has enabled a timer that is not ours is not known
    if !record.files.contains_key(&unit(DEFAULT_TIMER)) {
        (record.links_before, record.active_before) = (seen.links.clone(), seen.active);
    }
    record
}

/// Undoes what the record says, and where `purge` is given removes that of ours too; `live`: systemd runs.
pub fn undo(seen: &Seen, record: &Record, live: bool, purge: &[Ours]) -> Undo {
    let mut undo = Undo::default();
    let mut files: Vec<Action> = Vec::new();
    for (path, written) in in_order(&record.files) {
        match seen.at(path) {
            There::Nothing => {}
            There::File { bytes, .. } if record.is_ours(path, bytes) => files.push(give_back(path, written, bytes)),
            _ if path == Path::new(layers::FILE) => {}
            _ => undo.stays.push(format!("{} was changed since, and stays", path.display())),
        }
    }
    purge_files(&mut files, &mut undo.stays, purge);
    let timer = unit(DEFAULT_TIMER);
    let replaced = undo.stays.iter().any(|line| line.starts_with(&format!("{} ", timer.display())));
    let goes = |path: &Path| files.iter().any(|action| matches!(action, Action::Remove { path: gone } if gone == path));
    if replaced && !seen.links.is_empty() {
        undo.stays.push(format!("{DEFAULT_TIMER} stays enabled, since its file is another's now"));
    }
    let purged = !purge.is_empty() && goes(&timer);
    if live && !replaced && seen.active && (purged || !record.active_before) {
        undo.actions.push(Action::systemctl(&["stop", DEFAULT_TIMER]));
    }
    if !replaced && !seen.links.is_empty() && (purged || record.links_before.is_empty()) {
        undo.actions.push(Action::systemctl(&["disable", DEFAULT_TIMER]));
    }
    // a failed run that systemd would start again in half an hour: by then, another program may stand there
    if live && !files.is_empty() && seen.state == "activating" {
        undo.actions.push(Action::systemctl(&["stop", SERVICE]));
    }
    let of_units = |action: &Action| match action {
        Action::Remove { path } | Action::Write { path, .. } => path.starts_with(super::seen::UNITS),
        _ => false,
    };
    let units_change = files.iter().any(of_units);
    let service_goes = goes(&unit(SERVICE));
    let (units, others): (Vec<Action>, Vec<Action>) = files.into_iter().partition(of_units);
    undo.actions.extend(units);
    let state = Path::new(journal::DIRECTORY);
    let (of_state, made): (Vec<&PathBuf>, Vec<&PathBuf>) =
        record.directories.iter().rev().partition(|dir| state.starts_with(dir));
    if live && units_change {
        undo.actions.push(Action::systemctl(&["daemon-reload"]));
    }
    if live && service_goes && seen.state == "failed" {
        undo.actions.push(Action::systemctl(&["reset-failed", SERVICE]));
    }
    // what purges needs the program until the keys are gone; what gives back needs the record until the program is
    let (last, others): (Vec<Action>, Vec<Action>) =
        others.into_iter().partition(|action| !purge.is_empty() && is_program(action));
    let holds_last =
        |dir: &PathBuf| last.iter().any(|action| matches!(action, Action::Remove { path } if path.starts_with(dir)));
    let (made_for_last, made): (Vec<&PathBuf>, Vec<&PathBuf>) = made.into_iter().partition(|dir| holds_last(dir));
    let empty = |path: &PathBuf| Action::RemoveEmpty { path: path.clone() };
    undo.actions.extend(others);
    undo.actions.extend(made.into_iter().map(empty));
    purge_too(&mut undo, purge);
    if *seen.at(Path::new(record::FILE)) != There::Nothing {
        undo.actions.push(Action::Remove { path: PathBuf::from(record::FILE) });
    }
    if purge.iter().any(|ours| ours.part == Part::State) {
        undo.actions.push(Action::RemoveAll { path: state.to_path_buf() });
    }
    undo.actions.extend(of_state.into_iter().map(empty));
    undo.actions.extend(last);
    undo.actions.extend(made_for_last.into_iter().map(empty));
    undo
}

/// Whether it removes the program: of the files of an installation all others are units, drop-ins and settings.
fn is_program(action: &Action) -> bool {
    matches!(action, Action::Remove { path } if !path.starts_with(super::seen::UNITS) && path != Path::new(layers::FILE))
}

/// Drop-ins, then units, then the rest, then the program: what is cut off in between still starts what is there.
fn in_order(files: &BTreeMap<PathBuf, Written>) -> Vec<(&PathBuf, &Written)> {
    let rank = |path: &Path| match path {
        path if path.parent() == drop_in_path("x").parent() => 0,
        path if path.starts_with(super::seen::UNITS) => 1,
        path if path == Path::new(layers::FILE) => 2,
        _ => 3,
    };
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|(path, _)| rank(path));
    files
}

fn give_back(path: &Path, written: &Written, now: &[u8]) -> Action {
    match &written.before {
        None => Action::Remove { path: path.to_path_buf() },
        Some(before) => Action::Write {
            path: path.to_path_buf(),
            mode: before.mode,
            content: Content::Text(before.text.clone()),
            before: Some(String::from_utf8_lossy(now).into_owned()),
        },
    }
}

/// Units, drop-ins and a program of ours that no record tells of, put there by hand, or changed since. A package's are the package's to
/// remove.
fn purge_files(files: &mut Vec<Action>, stays: &mut Vec<String>, purge: &[Ours]) {
    for Ours { part, path } in purge {
        let by_hand = match part {
            Part::Unit | Part::DropIn => path.starts_with(super::seen::UNITS),
            Part::Program => !path.starts_with("/usr/bin"),
            _ => false,
        };
        let known = |action: &Action| matches!(action, Action::Remove { path: of } | Action::Write { path: of, .. } if of == path);
        if by_hand && !files.iter().any(known) {
            stays.retain(|line| !line.starts_with(&format!("{} ", path.display())));
            files.push(Action::Remove { path: path.clone() });
        }
    }
}

fn purge_too(undo: &mut Undo, purge: &[Ours]) {
    for ours in purge {
        let path = ours.path.clone();
        // what is in our directory goes with it
        if path.starts_with(journal::DIRECTORY) {
            continue;
        }
        let action = match ours.part {
            Part::Backup => Action::RemoveAll { path },
            Part::Settings | Part::Lock | Part::Metrics | Part::Stamp => Action::Remove { path },
            Part::Unit | Part::DropIn | Part::Link | Part::Program | Part::State => continue,
        };
        if !undo.actions.contains(&action) {
            undo.actions.push(action);
        }
    }
}
