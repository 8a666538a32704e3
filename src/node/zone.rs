//! The node's own time zone: that of its PID 1, and so of its timers.

use std::path::{Path, PathBuf};

use chrono_tz::Tz;

use crate::calendar::zone_named;
use crate::files::{Root, is_absent};

const LOCALTIME: &str = "/etc/localtime";
const ZONEINFO: &str = "/usr/share/zoneinfo";
/// Files that are compared at most; the whole database has 600 names, twice that with its `posix/` copy.
const MOST_FILES: usize = 2000;
const DEEPEST: usize = 3;

/// The node's time zone cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The link or the file is there and cannot be read.
    #[error("cannot read '{LOCALTIME}' below '{root}': {source}; name the node's time zone with --timezone")]
    Unreadable {
        /// The node's root.
        root: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A zone that this program's database lacks.
    #[error("'{LOCALTIME}' below '{root}' names no known time zone: '{name}'; name the node's with --timezone")]
    Unknown {
        /// The node's root.
        root: PathBuf,
        /// What the link says.
        name: String,
    },
    /// A plain file that is not one of the node's database.
    #[error(
        "'{LOCALTIME}' below '{root}' is a plain file, and no file below '{ZONEINFO}' has the same content; name the \
         node's time zone with --timezone"
    )]
    Nameless {
        /// The node's root.
        root: PathBuf,
    },
}

/// The zone that `/etc/localtime` below the root names; UTC where that is absent, as for glibc and systemd. Never `$TZ`:
/// timers are PID 1's.
///
/// A link is judged by its text (`.../zoneinfo/NAME`), else by what it leads to; a plain file is given the name of the file
/// below `/usr/share/zoneinfo` with the same bytes: the one that `/etc/timezone` names, UTC, or the first in order.
///
/// # Errors
/// The zone cannot be told; the message asks for `--timezone`.
pub fn local_zone(root: &Root) -> Result<Tz, ZoneError> {
    let path = Path::new(LOCALTIME);
    let unreadable = |source| ZoneError::Unreadable { root: root.dir().to_path_buf(), source };
    match root.symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            let link = root.read_link(path).map_err(unreadable)?;
            if let Some(name) = name_in(&link).or_else(|| name_in(&root.canonicalize(path).ok()?)) {
                return zone_named(&name).ok_or_else(|| ZoneError::Unknown { root: root.dir().to_path_buf(), name });
            }
        }
        Ok(_) => {}
        Err(error) if is_absent(&error) => return Ok(Tz::UTC),
        Err(error) => return Err(unreadable(error)),
    }
    let bytes = root.read(path).map_err(unreadable)?;
    zone_with(root, &bytes).ok_or_else(|| ZoneError::Nameless { root: root.dir().to_path_buf() })
}

/// What stands behind `zoneinfo/` in a path.
fn name_in(path: &Path) -> Option<String> {
    let (_, name) = path.to_str()?.rsplit_once("zoneinfo/")?;
    Some(name.to_owned())
}

fn zone_with(root: &Root, bytes: &[u8]) -> Option<Tz> {
    let has_bytes = |file: &Path| root.read(file).is_ok_and(|other| other == bytes);
    // many names share their rules, so the one that the node goes by comes first
    let preferred = root.read_to_string(Path::new("/etc/timezone")).unwrap_or_default();
    for name in [preferred.trim(), "UTC"] {
        if let Some(zone) = zone_named(name)
            && has_bytes(&Path::new(ZONEINFO).join(name))
        {
            return Some(zone);
        }
    }
    let mut left = MOST_FILES;
    let mut found = None;
    visit(root, Path::new(ZONEINFO), DEEPEST, &mut left, &mut |file| {
        let same_size = root.metadata(file).is_ok_and(|metadata| metadata.len() == bytes.len() as u64);
        found = name_in(file).and_then(|name| zone_named(&name)).filter(|_| same_size && has_bytes(file));
        found.is_some()
    });
    found
}

/// Hands the files below `dir` to `done`, in order, until that says that it is done.
fn visit(root: &Root, dir: &Path, depth: usize, left: &mut usize, done: &mut dyn FnMut(&Path) -> bool) -> bool {
    for name in root.list(dir).unwrap_or_default() {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let path = dir.join(&name);
        let is_dir = root.metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        let stop = match name.as_str() {
            // copies of the whole database
            "posix" | "right" => false,
            _ if is_dir => depth > 0 && visit(root, &path, depth - 1, left, done),
            _ => done(&path),
        };
        if stop {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use chrono_tz::Tz;

    use super::{ZoneError, local_zone};
    use crate::files::{Replace, Root};

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        root.create_dir(Path::new("/etc"), 0o755).unwrap();
        for (path, text) in files {
            let path = Path::new(path);
            root.create_dir(path.parent().unwrap(), 0o755).unwrap();
            root.replace(path, text.as_bytes(), &Replace::with_mode(0o644)).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn a_link_is_judged_by_its_text_even_where_the_tree_has_no_zone_database() {
        for (link, zone) in [
            ("/usr/share/zoneinfo/Europe/Berlin", Tz::Europe__Berlin),
            ("../usr/share/zoneinfo/America/Argentina/Buenos_Aires", Tz::America__Argentina__Buenos_Aires),
            ("/usr/share/zoneinfo/posix/Asia/Tokyo", Tz::Asia__Tokyo),
            ("/usr/share/zoneinfo/Etc/UTC", Tz::Etc__UTC),
        ] {
            let (dir, root) = tree(&[]);
            symlink(link, dir.path().join("etc/localtime")).unwrap();
            assert_eq!(local_zone(&root).unwrap(), zone);
        }
    }

    #[test]
    fn a_link_by_way_of_another_is_followed_below_the_root() {
        let (dir, root) = tree(&[("/usr/share/zoneinfo/Europe/Rome", "rome")]);
        symlink("/etc/zone", dir.path().join("etc/localtime")).unwrap();
        symlink("/usr/share/zoneinfo/Europe/Rome", dir.path().join("etc/zone")).unwrap();
        assert_eq!(local_zone(&root).unwrap(), Tz::Europe__Rome);
    }

    #[test]
    fn a_node_without_localtime_is_in_utc() {
        let (_dir, root) = tree(&[]);
        assert_eq!(local_zone(&root).unwrap(), Tz::UTC);
    }

    #[test]
    fn a_plain_file_gets_the_first_name_with_the_same_bytes() {
        let (_dir, root) = tree(&[
            ("/etc/localtime", "rules"),
            ("/usr/share/zoneinfo/Arctic/Longyearbyen", "rules"),
            ("/usr/share/zoneinfo/Europe/Berlin", "rules"),
            ("/usr/share/zoneinfo/America/New_York", "other"),
            ("/usr/share/zoneinfo/posix/Africa/Abidjan", "rules"),
        ]);
        assert_eq!(local_zone(&root).unwrap(), Tz::Arctic__Longyearbyen);
    }

    #[test]
    fn of_names_with_the_same_bytes_the_one_in_etc_timezone_wins() {
        let (_dir, root) = tree(&[
            ("/etc/localtime", "rules"),
            ("/etc/timezone", "Europe/Berlin\n"),
            ("/usr/share/zoneinfo/Arctic/Longyearbyen", "rules"),
            ("/usr/share/zoneinfo/Europe/Berlin", "rules"),
        ]);
        assert_eq!(local_zone(&root).unwrap(), Tz::Europe__Berlin);
    }

    #[test]
    fn a_zone_that_cannot_be_told_asks_for_the_option() {
        let (_dir, root) = tree(&[("/etc/localtime", "home-made"), ("/usr/share/zoneinfo/Europe/Berlin", "rules")]);
        let error = local_zone(&root).unwrap_err();
        assert!(matches!(error, ZoneError::Nameless { .. }));
        assert!(error.to_string().contains("--timezone"));

        let (dir, root) = tree(&[]);
        symlink("/usr/share/zoneinfo/Mars/Base", dir.path().join("etc/localtime")).unwrap();
        let error = local_zone(&root).unwrap_err();
        assert!(matches!(&error, ZoneError::Unknown { name, .. } if name == "Mars/Base"));
        assert!(error.to_string().contains("--timezone"));
    }
}
