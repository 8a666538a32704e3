//! As much of Markdown as the pages that go into man pages are written in.

use clap_mangen::roff::{Inline, Roff, bold, roman};

/// Paragraphs, lists and indented blocks of a text; headings and comments are left out.
pub fn render(text: &str, roff: &mut Roff) {
    let text: String = text.lines().filter(|line| !line.starts_with("<!--")).flat_map(|line| [line, "\n"]).collect();
    for block in
        text.split("\n\n").map(str::trim_end).filter(|block| !block.trim().is_empty() && !block.starts_with('#'))
    {
        if block.starts_with("    ") {
            roff.control("PP", []);
            roff.control("nf", []);
            block.lines().for_each(|line| {
                roff.text([roman(line)]);
            });
            roff.control("fi", []);
        } else if block.starts_with("- ") {
            for item in format!("\n{block}").split("\n- ").filter(|item| !item.is_empty()) {
                roff.control("IP", ["\\(bu", "2"]);
                roff.text(inline(&joined(item)));
            }
        } else {
            roff.control("PP", []);
            roff.text(inline(&joined(block)));
        }
    }
}

/// The rows of all tables of a text, heads and rules left out.
pub fn rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("| ---");
    lines
        .iter()
        .enumerate()
        .filter(|(index, line)| {
            line.starts_with("| ") && !is_rule(line) && !lines.get(index + 1).is_some_and(|next| is_rule(next))
        })
        .map(|(_, line)| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// A line's `code` in bold, and links as their text.
pub fn inline(text: &str) -> Vec<Inline> {
    let mut unlinked = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((label, tail)) = after.split_once("](") else { break };
        unlinked.push_str(before);
        unlinked.push_str(label);
        rest = tail.split_once(')').map_or("", |(_, tail)| tail);
    }
    unlinked.push_str(rest);
    let styled = unlinked.split('`').enumerate().filter(|(_, part)| !part.is_empty());
    styled.map(|(index, part)| if index % 2 == 1 { bold(part) } else { roman(part) }).collect()
}

fn joined(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
