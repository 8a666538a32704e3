//! systemd unit files with their drop-ins, read as systemd 252 itself reads them.
//!
//! Checked against `systemd-analyze verify`, which names the files that it reads in its own order. Not followed: aliases
//! that lead to the unit from another name, and specifiers (`%i`), which stay as they are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::files::{Root, is_absent};

/// Where unit files are, the strongest first (systemd.unit(5)).
pub const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Links from one unit name to another that are followed at most.
const MOST_ALIASES: usize = 8;

/// A unit with its drop-ins.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The name that it was asked for by.
    pub name: String,
    /// Whether there is a unit file (a masked unit has one).
    pub found: bool,
    /// Whether it is masked: its file is empty or a link to `/dev/null`.
    pub masked: bool,
    /// The files read, in order: the unit file, then drop-ins by name.
    pub files: Vec<PathBuf>,
    assignments: Vec<Assignment>,
}

/// One `Key=value` of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The section, without brackets.
    pub section: String,
    /// What stands before the `=`.
    pub key: String,
    /// What stands behind the `=`, continued lines joined; empty is a reset.
    pub value: String,
    /// The file that it is in.
    pub file: PathBuf,
    /// The line that it starts in, counted from 1.
    pub line: usize,
}

/// A unit file or drop-in that cannot be read, or a name that is none of a unit.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// It is there, but cannot be read.
    #[error("cannot read unit file '{file}': {source}")]
    Unreadable {
        /// The file or directory, as a path of the node.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not the name of a unit.
    #[error("'{0}' is not the name of a unit, such as 'k8s-certs-renew.timer'")]
    Name(String),
}

impl Unit {
    /// Reads the unit of this name below the root, with all its drop-ins.
    ///
    /// A unit that is not there is no error: see [`Unit::found`]. It then has no drop-ins either, as for systemd.
    ///
    /// # Errors
    /// A file that counts cannot be read.
    pub fn load(root: &Root, name: &str) -> Result<Self, UnitError> {
        // systemd's `UNIT_NAME_MAX`
        let refused = || UnitError::Name(name.chars().take(255).collect());
        let (stem, kind) = name.rsplit_once('.').ok_or_else(refused)?;
        if stem.is_empty() || kind.is_empty() || name.contains('/') || name.len() > 255 {
            return Err(refused());
        }
        let directories = directories(root)?;
        let mut unit =
            Self { name: name.to_owned(), found: false, masked: false, files: Vec::new(), assignments: Vec::new() };
        let mut names = vec![name.to_owned()];
        match find(root, &directories, &mut names)? {
            Fragment::Absent => {}
            Fragment::Masked(path) => {
                (unit.found, unit.masked) = (true, true);
                unit.files.push(path);
            }
            Fragment::File(path, text) => {
                unit.found = true;
                parse(&text, &path, &mut unit.assignments);
                unit.files.push(path);
                for path in drop_ins(root, &directories, &names, kind)? {
                    // a link to nowhere, or to /dev/null, only hides its namesakes
                    let Some(text) = read(root, &path)? else { continue };
                    parse(&text, &path, &mut unit.assignments);
                    unit.files.push(path);
                }
            }
        }
        Ok(unit)
    }

    /// All assignments of a section, in the order in which systemd applies them, resets among them.
    pub fn assignments(&self, section: &str) -> impl Iterator<Item = &Assignment> {
        self.assignments.iter().filter(move |assignment| assignment.section == section)
    }

    /// The values of a list setting: they add up, and an empty one resets what came before.
    pub fn values(&self, section: &str, key: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for assignment in self.assignments(section).filter(|assignment| assignment.key == key) {
            if assignment.value.is_empty() {
                values.clear();
            } else {
                values.push(assignment.value.as_str());
            }
        }
        values
    }

    /// The last value of a setting that resets when it is empty.
    pub fn last(&self, section: &str, key: &str) -> Option<&str> {
        self.values(section, key).pop()
    }
}

/// The links below `*.wants` and `*.requires` by which other units (a target, at boot) start the unit of this name: it is
/// enabled where there is one.
///
/// # Errors
/// A directory cannot be read.
pub fn wanted_by(root: &Root, name: &str) -> Result<Vec<PathBuf>, UnitError> {
    let mut links = Vec::new();
    for (dir, _) in directories(root)? {
        for below in root.list(&dir).map_err(|source| UnitError::Unreadable { file: dir.clone(), source })? {
            let link = dir.join(&below).join(name);
            if (below.ends_with(".wants") || below.ends_with(".requires")) && root.symlink_metadata(&link).is_ok() {
                links.push(link);
            }
        }
    }
    Ok(links)
}

/// A directory of unit files: as it is called, and as it really is.
type Directory = (PathBuf, PathBuf);

fn directories(root: &Root) -> Result<Vec<Directory>, UnitError> {
    let mut found: Vec<Directory> = Vec::new();
    for dir in DIRECTORIES.map(PathBuf::from) {
        match root.canonicalize(&dir) {
            // /lib is often a link to /usr/lib
            Ok(real) if found.iter().any(|(_, known)| *known == real) => {}
            Ok(real) => found.push((dir, real)),
            Err(error) if is_absent(&error) => {}
            Err(source) => return Err(UnitError::Unreadable { file: dir, source }),
        }
    }
    Ok(found)
}

enum Fragment {
    Absent,
    Masked(PathBuf),
    File(PathBuf, String),
}

/// The unit file itself; names that a link leads to are added to `names`.
fn find(root: &Root, directories: &[Directory], names: &mut Vec<String>) -> Result<Fragment, UnitError> {
    'name: for _ in 0..MOST_ALIASES {
        let Some(name) = names.last().cloned() else { break };
        for (dir, _) in directories {
            let path = dir.join(&name);
            let unreadable = |source| UnitError::Unreadable { file: path.clone(), source };
            match root.symlink_metadata(&path) {
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(unreadable(error)),
                Ok(metadata) if metadata.is_symlink() => {
                    let target = plain(&dir.join(root.read_link(&path).map_err(unreadable)?));
                    if target == Path::new("/dev/null") {
                        return Ok(Fragment::Masked(path));
                    }
                    if let Some(other) = alias(root, directories, &target).filter(|other| !names.contains(other)) {
                        names.push(other);
                        continue 'name;
                    }
                }
                Ok(_) => {}
            }
            match read(root, &path)? {
                Some(text) if text.is_empty() => return Ok(Fragment::Masked(path)),
                Some(text) => return Ok(Fragment::File(path, text)),
                None => {}
            }
        }
        break;
    }
    Ok(Fragment::Absent)
}

/// The name of the unit that a link leads to, if that is one among the unit files.
fn alias(root: &Root, directories: &[Directory], target: &Path) -> Option<String> {
    let parent = root.canonicalize(target.parent()?).ok()?;
    let name = target.file_name()?.to_str()?;
    directories.iter().any(|(_, real)| *real == parent).then(|| name.to_owned())
}

/// The path with `.` and `..` worked out by their text alone, as systemd reads the links of units.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Drop-ins in the order in which they are applied: by file name. Of files with the same name the first counts: those for
/// the unit and the dashed prefixes of its name, directory by directory, before those for all units of its type.
fn drop_ins(root: &Root, directories: &[Directory], names: &[String], kind: &str) -> Result<Vec<PathBuf>, UnitError> {
    let mut places = Vec::new();
    for name in names {
        for (dir, _) in directories {
            places.extend(drop_in_names(name).into_iter().map(|name| dir.join(name)));
        }
    }
    places.extend(directories.iter().map(|(dir, _)| dir.join(format!("{kind}.d"))));

    let mut files = BTreeMap::new();
    for place in places {
        let names = match root.list(&place) {
            Err(error) if is_absent(&error) => continue,
            names => names.map_err(|source| UnitError::Unreadable { file: place.clone(), source })?,
        };
        for name in names.into_iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.')) {
            let path = place.join(&name);
            files.entry(name).or_insert(path);
        }
    }
    Ok(files.into_values().collect())
}

/// `a-b.timer.d`, then `a-.timer.d`.
fn drop_in_names(name: &str) -> Vec<String> {
    let mut names = vec![format!("{name}.d")];
    if let Some((stem, kind)) = name.rsplit_once('.') {
        let dashes = stem.rmatch_indices('-').map(|(at, _)| at + 1).filter(|length| *length < stem.len());
        names.extend(dashes.filter_map(|length| Some(format!("{}.{kind}.d", stem.get(..length)?))));
    }
    names
}

/// A file's text; `None` for a link to nowhere or to `/dev/null`, and for a directory.
fn read(root: &Root, path: &Path) -> Result<Option<String>, UnitError> {
    if let Ok(target) = root.read_link(path)
        && plain(&path.parent().unwrap_or(path).join(target)) == Path::new("/dev/null")
    {
        return Ok(None);
    }
    match root.read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::IsADirectory => Ok(None),
        Err(source) => Err(UnitError::Unreadable { file: path.to_path_buf(), source }),
    }
}

fn parse(text: &str, file: &Path, assignments: &mut Vec<Assignment>) {
    let mut section = String::new();
    let mut open: Option<(usize, String)> = None;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        // a comment does not end a continued line
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let (start, mut whole) = open.take().unwrap_or((index + 1, String::new()));
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            whole.push_str(line.get(..line.len() - 1).unwrap_or_default());
            whole.push(' ');
            open = Some((start, whole));
            continue;
        }
        whole.push_str(line);
        parse_line(&whole, start, file, &mut section, assignments);
    }
    if let Some((start, whole)) = open {
        parse_line(&whole, start, file, &mut section, assignments);
    }
}

/// What is neither a section nor an assignment is left out, as systemd does with a warning in the journal.
fn parse_line(line: &str, number: usize, file: &Path, section: &mut String, assignments: &mut Vec<Assignment>) {
    let line = line.trim();
    if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        name.clone_into(section);
    } else if let Some((key, value)) = line.split_once('=') {
        assignments.push(Assignment {
            section: section.clone(),
            key: key.trim_end().to_owned(),
            value: value.trim_start().to_owned(),
            file: file.to_path_buf(),
            line: number,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{drop_in_names, parse, plain};

    fn pairs(text: &str) -> Vec<(usize, String)> {
        let mut assignments = Vec::new();
        parse(text, Path::new("/x.timer"), &mut assignments);
        assignments.iter().map(|one| (one.line, format!("{}.{}={}", one.section, one.key, one.value))).collect()
    }

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        let text = "\u{feff}# c\n[Timer]\r\nA = a\\\n# between\n b\nB=x\r\n ; c\n#d \\\nC=\nno assignment\n[Other]\nD=[x]\\\\\nE=\\";
        let expected =
            [(3, "Timer.A=a  b"), (6, "Timer.B=x"), (9, "Timer.C="), (12, "Other.D=[x]\\\\"), (13, "Other.E=")];
        assert_eq!(pairs(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn each_dash_of_the_name_has_its_drop_ins() {
        assert_eq!(
            drop_in_names("k8s-certs-renew.timer"),
            ["k8s-certs-renew.timer.d", "k8s-certs-.timer.d", "k8s-.timer.d"]
        );
        assert_eq!(drop_in_names("a.timer"), ["a.timer.d"]);
        assert_eq!(drop_in_names("a-.timer"), ["a-.timer.d"]);
    }

    #[test]
    fn links_are_worked_out_by_their_text() {
        assert_eq!(plain(Path::new("/etc/systemd/system/../../../dev/null")), Path::new("/dev/null"));
    }
}
