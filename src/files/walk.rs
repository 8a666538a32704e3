//! What `openat2(2)` does with `RESOLVE_IN_ROOT`, one component after another: for kernels before 5.6, and for sandboxes that
//! forbid a call they do not know.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// As many links as the kernel follows (`MAXSYMLINKS`, `linux/namei.h`).
const LINKS: usize = 40;

/// Opens `inside`, a relative path, below `root`: absolute links begin there, and `..` does not lead out of it. Links of
/// procfs that lead anywhere ("magic links") are refused.
///
/// # Errors
/// As `openat2(2)`.
pub(super) fn open(root: &OwnedFd, inside: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut ahead = Vec::new();
    put(inside, &mut ahead);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            above.pop();
            continue;
        }
        let dir = above.last().unwrap_or(root).as_fd();
        let is_last = ahead.is_empty();
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(dir, &name, look, Mode::empty()) {
            Err(Errno::NOENT) if is_last && flags.contains(OFlags::CREATE) => {
                return Ok(rustix::fs::openat(dir, &name, flags | OFlags::NOFOLLOW, mode)?);
            }
            found => found?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink if !(is_last && flags.contains(OFlags::NOFOLLOW)) => {
                links += 1;
                let text = OsString::from_vec(rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes());
                let target = Path::new(&text);
                if links > LINKS || (target.is_absolute() && is_procfs(&found)) {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    above.clear();
                }
                put(target, &mut ahead);
            }
            // by its name once more, since what was opened to be looked at cannot be read
            _ if is_last => return Ok(rustix::fs::openat(dir, &name, flags | OFlags::NOFOLLOW, mode)?),
            FileType::Directory => above.push(found),
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(rustix::fs::openat(above.last().unwrap_or(root), ".", flags, mode)?)
}

/// Puts a path's components before what is still ahead; the next one stands last.
fn put(path: &Path, ahead: &mut Vec<OsString>) {
    ahead.extend(path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

/// Before Linux 3.12 it cannot be told; such a link is then followed by its text, below the root.
fn is_procfs(file: &OwnedFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

    use super::super::tests::tree;

    fn text(opened: io::Result<OwnedFd>) -> Result<String, io::ErrorKind> {
        let mut text = String::new();
        File::from(opened.map_err(|error| error.kind())?).read_to_string(&mut text).map_err(|error| error.kind())?;
        Ok(text)
    }

    #[test]
    fn it_finds_what_the_kernel_finds() {
        let (dir, _) = tree();
        let here = |path: &str| dir.path().join(path);
        for (target, link) in [
            ("/etc/kubernetes/ssl", "etc/kubernetes/pki"),
            ("../../../../etc/kubernetes/ssl/ca.crt", "up"),
            ("ssl/../ssl/./ca.crt", "etc/kubernetes/down"),
            ("/up", "etc/twice"),
            ("/etc/passwd", "escape"),
            ("loop", "loop"),
            ("nothing", "dangling"),
            ("/", "top"),
            ("..", "etc/above"),
        ] {
            symlink(target, here(link)).unwrap();
        }
        let root = rustix::fs::openat(CWD, dir.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut found = 0;
        for path in [
            "etc/kubernetes/ssl/ca.crt",
            "etc/kubernetes/pki/ca.crt",
            "up",
            "etc/kubernetes/down",
            "etc/twice",
            "escape",
            "loop",
            "dangling",
            "top/etc/above/up",
            "top/../../../up",
            "../../up",
            "etc/kubernetes/ssl/ca.crt/x",
            "etc/nothing/ca.crt",
            "etc",
            ".",
            "..",
            "etc/above",
        ] {
            for flags in [read, read | OFlags::NOFOLLOW, read | OFlags::DIRECTORY, OFlags::PATH | OFlags::CLOEXEC] {
                let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                let theirs = rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve).map_err(io::Error::from);
                let ours = super::open(&root, Path::new(path), flags, Mode::empty());
                let (theirs, ours) = (text(theirs), text(ours));
                assert_eq!(ours, theirs, "{path} {flags:?}");
                found += usize::from(ours.is_ok());
            }
        }
        assert!(found > 8, "only {found} of them can be read");
    }

    #[test]
    fn a_magic_link_of_procfs_leads_nowhere_and_an_ordinary_one_does() {
        let proc = rustix::fs::openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        assert!(super::open(&proc, Path::new("self/stat"), read, Mode::empty()).is_ok());
        assert!(super::open(&proc, Path::new("self/root/etc/passwd"), read, Mode::empty()).is_err());
    }

    #[test]
    fn a_file_is_created_where_the_path_leads() {
        let (dir, _) = tree();
        symlink("/etc/kubernetes", dir.path().join("link")).unwrap();
        let root = rustix::fs::openat(CWD, dir.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        super::open(&root, Path::new("link/new"), flags, Mode::from_raw_mode(0o600)).unwrap();
        assert!(dir.path().join("etc/kubernetes/new").is_file());
    }
}
