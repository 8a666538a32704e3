//! What stayed of a cluster or of this program, with the command that removes each.

use crate::files::Usage;
use crate::report::check_report::{CheckReport, Remain};
use crate::report::words::{size, tame};

use super::Look;
use super::text::wrap;

/// The lines.
pub fn lines(report: &CheckReport, look: &Look) -> Vec<String> {
    if report.remains.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["What stayed (check removes nothing; look at each before you do):".to_owned()];
    for (index, Remain { place, what, usage, why, remove, .. }) in report.remains.iter().enumerate() {
        let much = usage.as_ref().map(|usage| format!(" ({})", much(usage))).unwrap_or_default();
        lines.extend(wrap("  - ", &tame(&format!("{place}{much}: {what}; {why}")), 4, look.width));
        // what one command removes has it once; it is to be copied, and so not broken
        if report.remains.get(index + 1).is_none_or(|next| next.remove != *remove) {
            lines.push(format!("      {}", tame(remove)));
        }
    }
    lines
}

fn much(usage: &Usage) -> String {
    let files = if usage.files == 1 { "1 file".to_owned() } else { format!("{} files", usage.files) };
    let least = if usage.complete { "" } else { "at least " };
    format!("{least}{files}, {}", size(usage.bytes))
}
