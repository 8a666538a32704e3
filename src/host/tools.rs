//! Where the programs are that the job needs: kubeadm, crictl, docker.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Looked into after `PATH`: kubespray's `bin_dir` is `/usr/local/bin`, on Flatcar `/opt/bin`, and neither is in
/// every service's `PATH`; distribution packages install to `/usr/bin`.
pub const PLACES: [&str; 3] = ["/usr/local/bin", "/opt/bin", "/usr/bin"];

/// A program that cannot be used: where it was looked for, and why what was found there will not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot be used: {}; name one with --{name} PATH", Tried(.tried))]
pub struct ToolError {
    /// The program's name, which is its option's name too.
    pub name: String,
    /// Each path that was tried, and why it will not do.
    pub tried: Vec<(PathBuf, Unfit)>,
}

/// Why a path is not a program that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// Nothing is there.
    Absent,
    /// Something is there that is not a regular file.
    NotAFile,
    /// A file that may not be executed by this user.
    NotExecutable,
    /// It cannot be looked at.
    Unreadable,
}

/// Finds the program `name`: the path that was given, else the first fit one on `path_var` (the value of `PATH`), else
/// in [`PLACES`].
///
/// A given path is taken or refused, nothing else is tried in its place. The path found is absolute.
///
/// # Errors
/// No path of these is a regular file that this user may execute.
pub fn find(name: &str, given: Option<&Path>, path_var: Option<&OsStr>) -> Result<PathBuf, ToolError> {
    find_in(name, given, path_var, &PLACES.map(Path::new))
}

/// As [`find`], with other places than [`PLACES`] after `PATH`.
///
/// # Errors
/// As [`find`].
pub fn find_in(
    name: &str,
    given: Option<&Path>,
    path_var: Option<&OsStr>,
    places: &[&Path],
) -> Result<PathBuf, ToolError> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let Some(given) = given {
        candidates.push(std::path::absolute(given).unwrap_or_else(|_| given.to_path_buf()));
    } else {
        let on_path = path_var.into_iter().flat_map(std::env::split_paths);
        for dir in on_path.chain(places.iter().map(|dir| dir.to_path_buf())) {
            // a relative or empty entry means the directory that the job happens to be started in
            let path = dir.join(name);
            if dir.is_absolute() && !candidates.contains(&path) {
                candidates.push(path);
            }
        }
    }
    let mut tried = Vec::new();
    for path in candidates {
        match unfit(&path) {
            None => return Ok(path),
            Some(why) => tried.push((path, why)),
        }
    }
    Err(ToolError { name: name.to_owned(), tried })
}

#[expect(clippy::disallowed_methods, reason = "programs are the host's, never below another root")]
fn unfit(path: &Path) -> Option<Unfit> {
    match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Some(Unfit::Absent)
        }
        Err(_) => Some(Unfit::Unreadable),
        Ok(metadata) if !metadata.is_file() => Some(Unfit::NotAFile),
        Ok(_) if rustix::fs::access(path, Access::EXEC_OK).is_err() => Some(Unfit::NotExecutable),
        Ok(_) => None,
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "not there",
            Self::NotAFile => "not a regular file",
            Self::NotExecutable => "not executable",
            Self::Unreadable => "cannot be looked at",
        })
    }
}

struct Tried<'a>(&'a [(PathBuf, Unfit)]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no place to look for it");
        }
        for (at, (path, why)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{:?} {why}", path.as_os_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use super::{Unfit, find, find_in};

    fn program(dir: &Path, name: &str, mode: u32) -> PathBuf {
        std::fs::create_dir_all(dir).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn path_comes_first_then_the_usual_places() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, opt) = (dir.path().join("bin"), dir.path().join("opt"));
        let later = program(&opt, "kubeadm", 0o755);
        let path_var = OsString::from(format!("relative::{}", bin.display()));
        assert_eq!(find_in("kubeadm", None, Some(&path_var), &[&opt]).unwrap(), later);
        let first = program(&bin, "kubeadm", 0o755);
        assert_eq!(find_in("kubeadm", None, Some(&path_var), &[&opt]).unwrap(), first);
        assert_eq!(find_in("kubeadm", None, None, &[&opt]).unwrap(), later);
    }

    #[test]
    fn a_file_that_is_not_executable_and_a_directory_are_passed_over_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        program(&a, "crictl", 0o644);
        std::fs::create_dir_all(b.join("crictl")).unwrap();
        let error = find_in("crictl", None, Some(a.as_os_str()), &[&b]).unwrap_err();
        assert_eq!(error.tried, [(a.join("crictl"), Unfit::NotExecutable), (b.join("crictl"), Unfit::NotAFile)]);
        let said = error.to_string();
        assert!(said.contains("not executable") && said.contains("--crictl PATH"), "{said}");
        let good = program(&dir.path().join("c"), "crictl", 0o700);
        assert_eq!(find_in("crictl", None, Some(a.as_os_str()), &[&b, good.parent().unwrap()]).unwrap(), good);
    }

    #[test]
    fn a_given_path_is_taken_or_refused_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let good = program(dir.path(), "kubeadm", 0o755);
        assert_eq!(find("anything", Some(&good), None).unwrap(), good);
        let wrong = dir.path().join("nowhere/kubeadm");
        let error = find("kubeadm", Some(&wrong), Some(dir.path().as_os_str())).unwrap_err();
        assert_eq!(error.tried, [(wrong, Unfit::Absent)]);
    }
}
