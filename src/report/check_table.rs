//! A check for people: how the node stands, one line a certificate, then what to do, then what was not seen.

mod grid;
mod head;
mod left;
mod tail;
pub mod text;

use super::Console;
use super::check_report::{CheckReport, Status};

pub use grid::Order;

/// How the table is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// In which order.
    pub order: Order,
    /// With serials and paths, however long the lines get.
    pub wide: bool,
    /// Columns of the terminal; none where it is none, and then nothing is cut or wrapped.
    pub width: Option<usize>,
    /// Whether to use colour. It is never the only sign.
    pub color: bool,
}

/// Writes it.
pub fn write(report: &CheckReport, order: Order, wide: bool, console: &mut Console<'_>) {
    let width = console.voice.width.map(usize::from);
    let look = Look { order, wide, width, color: console.voice.color_out };
    console.table(&text(report, &look));
}

/// The whole of it, lines without blanks at their end.
pub fn text(report: &CheckReport, look: &Look) -> String {
    let parts = [
        head::lines(report, look),
        grid::lines(report, look),
        tail::dates(report, look),
        tail::findings(report, look),
        left::lines(report, look),
        tail::unseen(report, look),
    ];
    let parts: Vec<String> = parts.iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")).collect();
    parts.join("\n\n")
}

/// A word in the colour of a status.
fn paint(word: &str, status: Status, look: &Look) -> String {
    let color = match status {
        Status::Ok => "32",
        Status::Warning => "33",
        Status::Unknown => "35",
        Status::Critical => "31",
    };
    if look.color { format!("\x1b[{color}m{word}\x1b[0m") } else { word.to_owned() }
}

#[cfg(test)]
mod tests;
