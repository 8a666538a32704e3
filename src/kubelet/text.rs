//! A check of kubelet for people: the worst first, each with what was seen, why it matters and what mends it.

use std::fmt::Write;

use crate::report::check_report::Status;
use crate::report::check_table::text::wrap;
use crate::report::words::{minute, tame};

use super::check::KubeletReport;
use super::finding::KubeletFinding;

/// Columns of the labels.
const LABEL: usize = 10;

/// The whole of it. `width`: columns of the terminal; none where it is none, and then nothing is wrapped.
pub fn text(report: &KubeletReport, width: Option<usize>, color: bool) -> String {
    let mut lines = wrap("", &tame(&head(report)), 2, width);
    let (well, ill): (Vec<_>, Vec<_>) = report.findings.iter().partition(|finding| finding.status == Status::Ok);
    for finding in ill {
        lines.push(String::new());
        lines.extend(whole(finding, width, color));
    }
    if !well.is_empty() {
        lines.push(String::new());
    }
    for finding in well {
        let text = format!("{}: {}", finding.about, finding.seen);
        lines.extend(wrap(&label("ok", Status::Ok, color), &tame(&text), LABEL, width));
    }
    if !report.not_visible.is_empty() {
        let text = format!(
            "not visible from a worker, and not judged: {}; a check on a control plane tells",
            report.not_visible.join(", ")
        );
        lines.push(String::new());
        lines.extend(wrap("", &text, 2, width));
    }
    lines.join("\n")
}

fn head(report: &KubeletReport) -> String {
    let node = if report.node.is_empty() { "this node" } else { &report.node };
    let mut head = format!("kubelet of {node}, {} UTC", minute(report.at));
    if let Some(version) = &report.version {
        let _ = write!(head, ", {version}");
    }
    let count = |status| report.findings.iter().filter(|finding| finding.status == status).count();
    let counts = [Status::Critical, Status::Unknown, Status::Warning, Status::Ok].map(|status| (count(status), status));
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, status)| format!("{count} {status}")).collect();
    let _ = write!(head, ": {}", counts.join(", "));
    head
}

fn whole(finding: &KubeletFinding, width: Option<usize>, color: bool) -> Vec<String> {
    let first = format!("{} ({})", finding.about, finding.id);
    let mut lines = wrap(&label(finding.status.as_str(), finding.status, color), &tame(&first), LABEL, width);
    let parts = [("seen", Some(&finding.seen)), ("why", Some(&finding.why)), ("mend", finding.mend.as_ref())];
    for (word, text) in parts {
        if let Some(text) = text {
            lines.extend(wrap(&format!("  {word:<8}"), &tame(text), LABEL, width));
        }
    }
    lines
}

fn label(word: &str, status: Status, color: bool) -> String {
    let code = match status {
        Status::Ok => "32",
        Status::Warning => "33",
        Status::Unknown => "35",
        Status::Critical => "31",
    };
    let blanks = " ".repeat(LABEL.saturating_sub(word.len()));
    if color { format!("\x1b[{code}m{word}\x1b[0m{blanks}") } else { format!("{word}{blanks}") }
}
