//! Lines that fit.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

/// An instant in a zone, to the minute: `Mon 2026-04-06 03:00 CEST`.
pub fn moment(at: DateTime<Utc>, zone: Tz) -> String {
    at.with_timezone(&zone).format("%a %Y-%m-%d %H:%M %Z").to_string()
}

/// Breaks a text into lines of at most `width` columns where that is given, all but the first behind `indent` blanks. `first` is
/// what stands before it in the first line, and counts as `indent` columns.
pub fn wrap(first: &str, text: &str, indent: usize, width: Option<usize>) -> Vec<String> {
    let Some(width) = width.filter(|width| *width > indent + 10) else { return vec![format!("{first}{text}")] };
    let room = width - indent;
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let mut word: String = word.to_owned();
        let needed = length(&line) + usize::from(!line.is_empty()) + length(&word);
        if needed > room && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        // what has no blank, such as a long path, is broken where the line ends
        while length(&word) > room {
            lines.push(word.chars().take(room).collect());
            word = word.chars().skip(room).collect();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    let blanks = " ".repeat(indent);
    let with = |(index, line): (usize, String)| format!("{}{line}", if index == 0 { first } else { &blanks });
    lines.into_iter().enumerate().map(with).map(|line| line.trim_end().to_owned()).collect()
}

/// A name in at most `room` columns, its middle left out where it is longer: beginnings and ends tell names apart.
pub fn elide(name: &str, room: usize) -> String {
    let all = length(name);
    if all <= room {
        return name.to_owned();
    }
    let head = room.saturating_sub(2) / 3;
    let tail = room.saturating_sub(2 + head);
    let begin: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(all - tail).collect();
    format!("{begin}..{end}")
}

/// Columns of a text: its characters.
pub fn length(text: &str) -> usize {
    text.chars().count()
}

/// The text, and blanks up to this many columns.
pub fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(length(text))))
}
