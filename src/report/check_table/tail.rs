//! Below the table: what to do, why dates do not fit, and what was not seen.

use crate::report::check_report::{CheckReport, Finding};
use crate::report::words::tame;

use super::text::wrap;
use super::{Look, paint};

/// Columns of the labels.
const LABEL: usize = 10;
/// So many names are told of what befalls many alike.
const MOST_NAMES: usize = 12;

/// What has to be said, the worst first; what is said of several alike stands once.
pub fn findings(report: &CheckReport, look: &Look) -> Vec<String> {
    let mut groups: Vec<(&Finding, Vec<&str>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for finding in &report.findings {
        let place = *places.entry((finding.status, &finding.message)).or_insert_with(|| {
            groups.push((finding, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(&finding.about);
    }
    let mut lines = Vec::new();
    for (finding, names) in groups {
        let word =
            if finding.status == crate::report::check_report::Status::Ok { "note" } else { finding.status.as_str() };
        let label = format!("{}{}", paint(word, finding.status, look), " ".repeat(LABEL.saturating_sub(word.len())));
        let more = names.len().saturating_sub(MOST_NAMES);
        let mut about = names.into_iter().take(MOST_NAMES).collect::<Vec<_>>().join(", ");
        if more > 0 {
            about.push_str(&format!(" and {more} more"));
        }
        let text = if about == "note" { finding.message.clone() } else { format!("{about}: {}", finding.message) };
        lines.extend(wrap(&label, &tame(&text), LABEL, look.width));
    }
    lines
}

/// Whether the clock is wrong or the time of certificates is over.
pub fn dates(report: &CheckReport, look: &Look) -> Vec<String> {
    let Some(dates) = &report.dates else { return Vec::new() };
    let mut lines = wrap(
        "",
        &tame(&format!("Why \"certificate has expired or is not yet valid\": {}.", dates.what)),
        2,
        look.width,
    );
    for sign in &dates.signs {
        lines.extend(wrap("  - ", &tame(sign), 4, look.width));
    }
    for (index, todo) in dates.todo.iter().enumerate() {
        lines.extend(wrap(&format!("  {}. ", index + 1), &tame(todo), 5, look.width));
    }
    lines
}

/// What could not be seen.
pub fn unseen(report: &CheckReport, look: &Look) -> Vec<String> {
    let item = |text: &String| wrap("  - ", &tame(text), 4, look.width);
    let items: Vec<String> = report.unseen.iter().flat_map(item).collect();
    if items.is_empty() { items } else { [vec!["Not seen:".to_owned()], items].concat() }
}
