//! Which version a program is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::evidence::version::{Version, parse};
use crate::files::Root;
use crate::host::command::{Call, Status};

/// How long a program may take to tell its version.
const ANSWER: Duration = Duration::from_secs(5);

/// The version that a program of Kubernetes tells when it is called with `--version` (`Kubernetes v1.20.2`): the one that the
/// process runs, whatever has been put in the place of its file since; without a process the one at the path. Asked on the machine's
/// own root only.
///
/// # Errors
/// It does not tell: why.
pub fn ask(root: &Root, pid: Option<u32>, program: &Path) -> Result<String, String> {
    if !root.is_host() {
        return Err("programs are run on the machine's own root only".to_owned());
    }
    let program = pid.map_or_else(|| program.to_path_buf(), |pid| PathBuf::from(format!("/proc/{pid}/exe")));
    let output = Call::new(&program).args(["--version"]).deadline(ANSWER).run().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    match (output.status, of(&text)) {
        (Status::Code(0), Some(version)) => Ok(version.to_owned()),
        _ => Err(format!("'{} --version' tells none", program.display())),
    }
}

/// The word for the version in what `--version` prints.
fn of(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| parse(word).is_some())
}

/// Whether a version is known, and is at least this one.
pub fn from(version: Option<Version>, first: Version) -> bool {
    version.is_some_and(|version| version >= first)
}

/// Whether a version is known, and is older than this one.
pub fn before(version: Option<Version>, first: Version) -> bool {
    version.is_some_and(|version| version < first)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_version_is_a_word_of_what_is_printed() {
        assert_eq!(of("Kubernetes v1.20.2\n"), Some("v1.20.2"));
        assert_eq!(of("Kubernetes v1.9.3-rc.1+abc"), Some("v1.9.3-rc.1+abc"));
        assert_eq!(of("usage: hyperkube"), None);
    }
}
