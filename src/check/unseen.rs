//! What a check cannot see, and what it did not look at: said, so that a green table is not taken for more than it is.

use crate::evidence::Verdict;
use crate::report::check_report::CheckReport;
use crate::run::Job;

/// Each in a sentence.
pub fn unseen(job: &Job<'_>, report: &CheckReport, live: bool) -> Vec<String> {
    let mut unseen = Vec::new();
    let reread: Vec<&str> = report.rows.iter().filter(|row| row.rereads).map(|row| row.name.as_str()).collect();
    if !reread.is_empty() {
        let readers = report.rows.iter().filter(|row| row.rereads).flat_map(|row| row.readers.clone());
        let mut readers: Vec<String> = readers.collect();
        readers.sort_unstable();
        readers.dedup();
        unseen.push(format!(
            "whether {} uses {} as they are on disk: it reads them again by itself, which does not show from outside",
            readers.join(", "),
            reread.join(", ")
        ));
    }
    if !live && !report.rows.is_empty() {
        unseen.push("what is in use: no processes show below this root".to_owned());
    }
    for row in report.components.iter().filter(|row| row.component.name == "kubelet") {
        if live && row.component.verdict == Verdict::InUse {
            unseen.push("which client certificate kubelet uses: it rotates inside the process".to_owned());
        }
    }
    if !job.is_root && job.root.is_host() {
        unseen.push("what only root can read: look as root".to_owned());
    }
    let copies: Vec<String> = job.copies.iter().map(|copy| copy.display().to_string()).collect();
    if report.control_plane && !copies.is_empty() {
        unseen.push(format!("copies of admin.conf elsewhere than at {}: name them with --also", copies.join(", ")));
    } else if report.control_plane {
        unseen.push("copies of admin.conf: name them with --also".to_owned());
    }
    if !report.rows.is_empty() {
        unseen
            .push("certificates that are kept in the cluster (secrets, webhooks, ingress), and other nodes".to_owned());
    }
    unseen
}
