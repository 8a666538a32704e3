//! How much is in a directory: a bounded look through it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::Root;

/// Directories within directories that are entered at most, an open one each.
const DEEPEST: usize = 64;

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the regular files, as they claim (`st_size`).
    pub bytes: u64,
    /// Regular files.
    pub files: usize,
    /// Whether all was seen: no bound was reached, nothing refused, no other file system below.
    pub complete: bool,
}

impl Root {
    /// Looks through what is at `path`: a file, or a directory with everything in it. No link is followed, no other file system
    /// entered, and after `most` entries it ends. Each regular file is handed to `visit`, by its path on the node.
    ///
    /// # Errors
    /// As `open(2)` for `path` itself; what is refused below it makes the answer incomplete.
    pub fn walk(&self, path: &Path, most: usize, visit: &mut dyn FnMut(&Path)) -> io::Result<Usage> {
        let own = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = rustix::fs::fstat(&own)?;
        let mut usage = Usage { bytes: 0, files: 0, complete: true };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                usage = Usage { bytes: u64::try_from(stat.st_size).unwrap_or(0), files: 1, complete: true };
                visit(path);
            }
            FileType::Directory => {
                let dir = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
                let mut walk = Walk { device: stat.st_dev, left: most, usage, visit };
                walk.directory(dir.as_fd(), path, 1);
                usage = walk.usage;
            }
            _ => {}
        }
        Ok(usage)
    }
}

struct Walk<'a> {
    device: u64,
    left: usize,
    usage: Usage,
    visit: &'a mut dyn FnMut(&Path),
}

impl Walk<'_> {
    fn directory(&mut self, dir: BorrowedFd<'_>, path: &Path, depth: usize) {
        let Ok(entries) = Dir::read_from(dir) else {
            self.usage.complete = false;
            return;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                self.usage.complete = false;
                return;
            };
            let name = entry.file_name();
            if [".", ".."].iter().any(|own| name.to_bytes() == own.as_bytes()) {
                continue;
            }
            if self.left == 0 {
                self.usage.complete = false;
                return;
            }
            self.left -= 1;
            let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                self.usage.complete = false;
                continue;
            };
            let below: PathBuf = path.join(OsStr::from_bytes(name.to_bytes()));
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    self.usage.files += 1;
                    let size = u64::try_from(stat.st_size).unwrap_or(0);
                    self.usage.bytes = self.usage.bytes.saturating_add(size);
                    (self.visit)(&below);
                }
                FileType::Directory => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let is_ours = stat.st_dev == self.device && depth < DEEPEST;
                    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
                        Ok(inner) if is_ours => self.directory(inner.as_fd(), &below, depth + 1),
                        _ => self.usage.complete = false,
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use super::super::tests::tree;
    use super::Usage;

    #[test]
    fn files_are_counted_and_links_are_not_followed() {
        let (dir, root) = tree();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("tmp/releases/images")).unwrap();
        std::fs::write(at("tmp/releases/etcd"), vec![0; 1000]).unwrap();
        std::fs::write(at("tmp/releases/images/a.tar"), vec![0; 500]).unwrap();
        symlink("..", at("tmp/releases/images/up")).unwrap();
        symlink("/etc", at("tmp/releases/etc")).unwrap();
        let mut seen: Vec<PathBuf> = Vec::new();
        let usage = root.walk(Path::new("/tmp/releases"), 100, &mut |path| seen.push(path.into())).unwrap();
        assert_eq!(usage, Usage { bytes: 1500, files: 2, complete: true });
        seen.sort_unstable();
        assert_eq!(seen, [Path::new("/tmp/releases/etcd"), Path::new("/tmp/releases/images/a.tar")]);
        // a link is looked at as such
        let usage = root.walk(Path::new("/tmp/releases/etc"), 100, &mut |_| {}).unwrap();
        assert_eq!(usage, Usage { bytes: 0, files: 0, complete: true });
        assert!(root.walk(Path::new("/nowhere"), 100, &mut |_| {}).is_err());
    }

    #[test]
    fn it_ends_at_its_bounds_and_says_so() {
        let (dir, root) = tree();
        let mut deep = dir.path().join("deep");
        for _ in 0..100 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        assert!(!root.walk(Path::new("/deep"), 1000, &mut |_| {}).unwrap().complete);
        let many = dir.path().join("many");
        std::fs::create_dir(&many).unwrap();
        for number in 0..50 {
            std::fs::write(many.join(number.to_string()), "x").unwrap();
        }
        let usage = root.walk(Path::new("/many"), 20, &mut |_| {}).unwrap();
        assert_eq!(usage, Usage { bytes: 20, files: 20, complete: false });
        assert_eq!(root.walk(Path::new("/many"), 50, &mut |_| {}).unwrap().bytes, 50);
    }
}
