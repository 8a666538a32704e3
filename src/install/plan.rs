//! From what stands there to what is to be done. Pure.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::remains::ours::{DROP_INS, SERVICE};
use crate::settings::layers;
use crate::settings::timer::DEFAULT_TIMER;

use super::action::{Action, Content};
use super::drop_in;
use super::record::{self, Before, Record};
use super::seen::{Seen, There, UNITS};

/// What is to stand there in the end.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Where the program is to be.
    pub program: &'a Path,
    /// Its bytes, where they have to be put there.
    pub bytes: Option<&'a [u8]>,
    /// The file of settings, for where there is none.
    pub configuration: &'a str,
    /// The drop-in for paths that hardening forbids, if one is needed.
    pub paths: Option<String>,
    /// The text of a package's drop-in of the same name.
    pub packaged: Option<String>,
    /// Whether systemd runs.
    pub live: bool,
}

/// The paths that an installation may write.
pub fn targets(program: &Path) -> Vec<PathBuf> {
    let mut paths = vec![program.to_path_buf(), PathBuf::from(layers::FILE), unit(SERVICE), unit(DEFAULT_TIMER)];
    paths.extend(DROP_INS.map(drop_in_path));
    paths
}

/// Where a unit of the administrator is.
pub fn unit(name: &str) -> PathBuf {
    Path::new(UNITS).join(name)
}

/// Where a drop-in for the service is.
pub fn drop_in_path(name: &str) -> PathBuf {
    Path::new(UNITS).join(format!("{SERVICE}.d")).join(name)
}

/// What is to be done, in order; nothing where all is in place. The record comes first, so that whatever is cut off can be undone.
///
/// # Errors
/// [`Exit::Config`]: a unit is masked, or something is in the way that is not to be written over.
pub fn plan(seen: &Seen, wanted: &Wanted<'_>) -> Result<Vec<Action>, Failure> {
    not_masked(seen)?;
    let record = seen.record.clone().unwrap_or_else(|| Record::new(seen.links.clone(), seen.active));
    let mut plan = Plan { seen, record, actions: Vec::new() };
    if let Some(bytes) = wanted.bytes {
        plan.program(wanted.program, bytes)?;
    }
    let configuration = Path::new(layers::FILE);
    if *seen.at(configuration) == There::Nothing {
        plan.text(configuration, wanted.configuration)?;
    }
    let before_units = plan.actions.len();
    for (unit_now, text) in
        [(&seen.service, drop_in::service(wanted.program)), (&seen.timer, drop_in::TIMER.to_owned())]
    {
        let path = unit(&unit_now.name);
        // another's base is left as it is, an older one of ours is brought up to date
        if !unit_now.found || plan.is_ours(&path) {
            plan.text(&path, &text)?;
        }
    }
    let [all, paths] = DROP_INS.map(drop_in_path);
    let text = drop_in::drop_in(wanted.program, seen.systemd);
    let ships_it = wanted.packaged.as_ref().is_some_and(|packaged| *packaged == text);
    if !ships_it || *seen.at(&all) != There::Nothing {
        plan.text(&all, &text)?;
    }
    match &wanted.paths {
        Some(text) => plan.text(&paths, text)?,
        None if plan.is_ours(&paths) => plan.actions.push(Action::Remove { path: paths }),
        None => {}
    }
    let units_change = plan.actions.len() > before_units;
    if wanted.live && (units_change || seen.reload) {
        plan.actions.push(Action::systemctl(&["daemon-reload"]));
    }
    if seen.links.is_empty() {
        plan.actions.push(Action::systemctl(&["enable", DEFAULT_TIMER]));
    }
    if wanted.live && !seen.active {
        plan.actions.push(Action::systemctl(&["start", DEFAULT_TIMER]));
    }
    plan.with_record()
}

struct Plan<'a> {
    seen: &'a Seen,
    record: Record,
    actions: Vec<Action>,
}

impl Plan<'_> {
    fn is_ours(&self, path: &Path) -> bool {
        matches!(self.seen.at(path), There::File { bytes, .. } if self.record.is_ours(path, bytes))
    }

    fn program(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        match self.seen.at(path) {
            There::File { bytes: there, mode } if there == bytes && mode & 0o555 == 0o555 => return Ok(()),
            There::Nothing | There::File { .. } => {}
            There::Link(to) => return Err(in_the_way(path, &format!("a link to '{}'", to.display()))),
            There::Other => return Err(in_the_way(path, "no file")),
        }
        self.write(path, 0o755, Content::Program, bytes, None);
        Ok(())
    }

    fn text(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let before = match self.seen.at(path) {
            There::Nothing => None,
            There::File { bytes, .. } if bytes == text.as_bytes() => return Ok(()),
            There::File { bytes, mode } => {
                let text = String::from_utf8(bytes.clone()).map_err(|_| in_the_way(path, "not UTF-8 text"))?;
                Some(Before { text, mode: *mode })
            }
            There::Link(to) => return Err(in_the_way(path, &format!("a link to '{}'", to.display()))),
            There::Other => return Err(in_the_way(path, "no file")),
        };
        self.write(path, 0o644, Content::Text(text.to_owned()), text.as_bytes(), before);
        Ok(())
    }

    fn write(&mut self, path: &Path, mode: u32, content: Content, bytes: &[u8], before: Option<Before>) {
        self.make_dirs(path, 0o755);
        self.record.note(path, bytes, before.clone());
        self.actions.push(Action::Write {
            path: path.to_path_buf(),
            mode,
            content,
            before: before.map(|before| before.text),
        });
    }

    fn make_dirs(&mut self, path: &Path, mode: u32) {
        for dir in self.seen.missing_above(path) {
            let make = Action::MakeDir { path: dir.clone(), mode };
            if !self.actions.contains(&make) {
                self.actions.push(make);
            }
            if !self.record.directories.contains(&dir) {
                self.record.directories.push(dir);
            }
        }
    }

    /// The actions with the record before them, where there are any and it changes.
    fn with_record(mut self) -> Result<Vec<Action>, Failure> {
        let actions = std::mem::take(&mut self.actions);
        if actions.is_empty() {
            return Ok(actions);
        }
        let path = Path::new(record::FILE);
        self.make_dirs(path, 0o755);
        // the journal's directory is nobody else's to look into
        if let Some(Action::MakeDir { mode, .. }) = self.actions.last_mut() {
            *mode = 0o700;
        }
        if self.seen.record.as_ref() != Some(&self.record) {
            let content = Content::Text(self.record.text()?);
            self.actions.push(Action::Write { path: path.to_path_buf(), mode: 0o600, content, before: None });
        }
        for action in actions {
            if !self.actions.contains(&action) {
                self.actions.push(action);
            }
        }
        Ok(self.actions)
    }
}

fn in_the_way(path: &Path, what: &str) -> Failure {
    let error = anyhow!(
        "'{}' is in the way: it is {what}, and nothing is written over it or through it; move it away, then install again",
        path.display()
    );
    Failure::new(Exit::Config, error)
}

/// A masked unit is a decision of somebody's.
fn not_masked(seen: &Seen) -> Result<(), Failure> {
    let Some(unit) = [&seen.timer, &seen.service].into_iter().find(|unit| unit.masked) else { return Ok(()) };
    let file = unit.files.first().map(|file| file.display().to_string()).unwrap_or_default();
    let error = anyhow!(
        "{} is masked ({file}), so that nothing starts it; nothing was changed. If that is no longer wanted: rm {file}, then install again",
        unit.name
    );
    Err(Failure::new(Exit::Config, error))
}
