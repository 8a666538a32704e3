//! What the demo promises is looked at, not taken from the program's word.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::support::fake::say;
use super::support::site::Site;

/// The components whose pods a renewal replaces.
pub const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// What can be seen of the node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Serials by name.
    pub serials: BTreeMap<String, String>,
    /// Sandbox ids of the components.
    pub sandboxes: Vec<Option<String>>,
    /// root's kubeconfig.
    pub copy: String,
}

impl Seen {
    /// Looks.
    pub fn at(site: &Site) -> Self {
        Self {
            serials: site.serials(),
            sandboxes: COMPONENTS.map(|component| site.world.sandbox(component).map(|one| one.id)).to_vec(),
            copy: site.tree.read("/root/.kube/config"),
        }
    }
}

/// Runs the program on the node, shows what it says, and returns its exit code. Lines for which `why_not` has a reason are
/// counted instead of shown, so that the same table does not come four times.
///
/// # Errors
/// It cannot be run, or was killed.
pub fn run(
    program: &Path,
    site: &Site,
    options: &[&str],
    mut why_not: impl FnMut(&str) -> Option<&'static str>,
) -> Result<i32, String> {
    say(format!("$ k8s-certs-renew run {}", options.join(" ")));
    let output = Command::new(program)
        .arg("run")
        .args(site.options())
        .args(options)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run '{}': {error}", program.display()))?;
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    let mut left_out = (0, "");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let reason = why_not(line);
        if reason != Some(left_out.1) {
            tell_left_out(std::mem::take(&mut left_out));
        }
        match reason {
            Some(reason) => left_out = (left_out.0 + 1, reason),
            None => say(format!("  | {line}")),
        }
    }
    tell_left_out(left_out);
    output.status.code().ok_or_else(|| format!("the program was ended by a signal: {}", output.status))
}

fn tell_left_out((lines, reason): (usize, &str)) {
    if lines > 0 {
        say(format!("  : ({lines} lines left out here: {reason})"));
    }
}

/// Says what was found, and stops the demo if it is not so.
///
/// # Errors
/// It is not so.
pub fn check(is_so: bool, what: &str) -> Result<(), String> {
    if is_so {
        say(format!("  ok: {what}"));
        return Ok(());
    }
    Err(format!("this does not hold: {what}"))
}
