//! What `kubelet check` has to say: one thing, how it stands, and what to do.

use crate::report::check_report::Status;

/// One thing that kubelet's certificates depend on, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletFinding {
    /// How it stands.
    pub status: Status,
    /// Its name for programs: lower case, words joined by `-`; the same thing has the same name whatever its status.
    pub id: &'static str,
    /// The setting, file, process or object that it is about.
    pub about: String,
    /// What was seen.
    pub seen: String,
    /// Why it matters.
    pub why: String,
    /// The command that mends it, or the steps; none where nothing is to be mended.
    pub mend: Option<String>,
}
