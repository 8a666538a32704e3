//! The node's files: every path lies below one root, and a write replaces a whole file or nothing.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

mod usage;
mod walk;
mod write;

pub use usage::Usage;
pub use write::Replace;

/// Files above this are never read whole: no certificate, kubeconfig, manifest or unit file comes near.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The directory that holds the node: `/`, a mounted image, or a test's tree.
///
/// Paths handed to its methods are absolute paths *of the node*. Symbolic links are followed as the node itself would
/// follow them: an absolute one is resolved below the root (`openat2` with `RESOLVE_IN_ROOT` from Linux 5.6 on).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    dir: PathBuf,
}

impl Root {
    /// The root at `dir`, which must be an absolute path of a directory.
    ///
    /// # Errors
    /// `dir` does not exist, or is no directory.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let dir = fs::canonicalize(dir)?;
        if !dir.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self { dir })
    }

    /// The machine's own root.
    pub fn host() -> Self {
        Self { dir: PathBuf::from("/") }
    }

    /// Whether this is the machine's own root.
    pub fn is_host(&self) -> bool {
        self.dir == Path::new("/")
    }

    /// The root directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path on this machine of a node's path, links unresolved. Only for messages and for tools that are told paths.
    pub fn on_host(&self, path: &Path) -> PathBuf {
        if self.is_host() { path.to_path_buf() } else { self.dir.join(below(path)) }
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// As `open(2)` and `read(2)`; a directory is `IsADirectory`, anything but a regular file and everything over 16 MiB
    /// is `InvalidData`, so that a pipe or a device never blocks the run.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_up_to(path, LARGEST)
    }

    /// A file's bytes, up to another size: a program is larger than any text.
    ///
    /// # Errors
    /// As [`Root::read`], with this many bytes as the bound.
    pub fn read_up_to(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let file = File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        // files of /proc claim to be empty, so the bound is on what is read, not on what is claimed
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(most)).unwrap_or(0) + 1);
        if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {} MiB", most >> 20)));
        }
        Ok(bytes)
    }

    /// A file's text.
    ///
    /// # Errors
    /// As [`Root::read`]; `InvalidData` where it is not UTF-8.
    pub fn read_to_string(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
    }

    /// What `stat(2)` says of the path, links followed.
    ///
    /// # Errors
    /// As `stat(2)`.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open(path, OFlags::PATH)?).metadata()
    }

    /// What `lstat(2)` says of the path: the last component is not followed.
    ///
    /// # Errors
    /// As `lstat(2)`.
    pub fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?).metadata()
    }

    /// Whether something is there, links followed. What cannot be looked at counts as there.
    pub fn exists(&self, path: &Path) -> bool {
        !matches!(self.metadata(path), Err(error) if is_absent(&error))
    }

    /// The text of a symbolic link, unresolved.
    ///
    /// # Errors
    /// As `readlink(2)`; `InvalidInput` where it is no link.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let link = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let text = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
    }

    /// The node's path with every symbolic link resolved, as the node would resolve it.
    ///
    /// # Errors
    /// As `realpath(3)`.
    pub fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        if self.is_host() {
            return fs::canonicalize(path);
        }
        let file = self.open(path, OFlags::PATH)?;
        let host = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)))?;
        host.strip_prefix(&self.dir)
            .map(|rest| Path::new("/").join(rest))
            .map_err(|_| io::Error::new(io::ErrorKind::NotFound, "outside of the root"))
    }

    /// The names in a directory, sorted; what is not UTF-8 in them is replaced, so that such a name leads to no file.
    ///
    /// # Errors
    /// As `opendir(3)`.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.list_raw(dir)?;
        let mut names: Vec<String> = names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The names in a directory as they are, sorted by their bytes.
    ///
    /// # Errors
    /// As `opendir(3)`.
    pub fn list_raw(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let dir = self.open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(dir)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
        let flags = flags | OFlags::CLOEXEC;
        if self.is_host() {
            return Ok(rustix::fs::openat(CWD, path, flags, mode)?);
        }
        let root =
            rustix::fs::openat(CWD, &self.dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let inside = below(path);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { &inside };
        // an absolute link of procfs ("magic link") leads out of any root, so those are refused there
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root, inside, flags, mode, resolve) {
            // an older kernel; or a sandbox that does not know the call
            Err(Errno::NOSYS | Errno::PERM) => walk::open(&root, inside, flags, mode),
            opened => Ok(opened?),
        }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dir.display().fmt(f)
    }
}

/// Whether the error means that nothing is there. A file that exists and cannot be read is another thing.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// `path` without its leading slash, `.` and `..` worked out, so that it can be joined below a root.
fn below(path: &Path) -> PathBuf {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => inside.push(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{Replace, Root};

    pub(super) fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        root.create_dir(Path::new("/etc/kubernetes/ssl"), 0o755).unwrap();
        root.replace(Path::new("/etc/kubernetes/ssl/ca.crt"), b"ca", &Replace::with_mode(0o644)).unwrap();
        (dir, root)
    }

    #[test]
    fn absolute_links_resolve_below_the_root() {
        let (dir, root) = tree();
        symlink("/etc/kubernetes/ssl", dir.path().join("etc/kubernetes/pki")).unwrap();
        assert_eq!(root.read(Path::new("/etc/kubernetes/pki/ca.crt")).unwrap(), b"ca");
        let real = root.canonicalize(Path::new("/etc/kubernetes/pki/ca.crt")).unwrap();
        assert_eq!(real, Path::new("/etc/kubernetes/ssl/ca.crt"));
        assert_eq!(root.read_link(Path::new("/etc/kubernetes/pki")).unwrap(), Path::new("/etc/kubernetes/ssl"));
    }

    #[test]
    fn no_path_leads_out_of_the_root() {
        let (dir, root) = tree();
        symlink("/etc/passwd", dir.path().join("escape")).unwrap();
        assert!(root.read(Path::new("/escape")).is_err());
        assert!(root.read(Path::new("/../../../../etc/passwd")).is_err());
    }

    #[test]
    fn a_directory_a_pipe_and_a_huge_file_are_errors_not_hangs() {
        let (dir, root) = tree();
        assert!(root.read(Path::new("/etc/kubernetes")).is_err());
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(root.read(Path::new("/fifo")).unwrap_err().to_string().contains("regular"));
        std::fs::File::create(dir.path().join("huge")).unwrap().set_len(17 << 20).unwrap();
        assert!(root.read(Path::new("/huge")).unwrap_err().to_string().contains("16 MiB"));
    }
}
