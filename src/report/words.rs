//! Times in words.

use std::borrow::Cow;

use chrono::{DateTime, Duration, Utc};

/// How long something still lasts, in the form that kubeadm uses from 1.31 on (apimachinery `HumanDuration`): `364d`,
/// `5d2h`, `23h`, `12m`. What is over is said in words, where kubeadm has `<invalid>` for all of it.
pub fn residual(until: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let left = until - now;
    if left < Duration::zero() { format!("expired {} ago", span(-left)) } else { span(left) }
}

/// A length of time; see [`residual`].
pub fn span(length: Duration) -> String {
    let (seconds, minutes, hours, days) =
        (length.num_seconds(), length.num_minutes(), length.num_hours(), length.num_days());
    let pair = |big: i64, unit: char, small: i64, of: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{of}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, 'd', hours % 24, 'h'),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => pair(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

/// A number of bytes, in units of 1000: `12 kB`, `543 MB`.
pub fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes < unit * 10 => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}

/// Text that neither talks to a terminal nor looks like another line of the log: names of files, of components and of the
/// node are whatever somebody wrote. Control characters, line feeds among them, and those that turn the direction of
/// writing are escaped.
pub fn tame(text: &str) -> Cow<'_, str> {
    let wild = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(wild) {
        return Cow::Borrowed(text);
    }
    let mut tamed = String::with_capacity(text.len());
    for character in text.chars() {
        if wild(character) { tamed.extend(character.escape_default()) } else { tamed.push(character) }
    }
    Cow::Owned(tamed)
}

/// An instant to the minute, UTC, for tables.
pub fn minute(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Duration};

    use super::{residual, size, span, tame};

    #[test]
    fn spans_read_as_kubeadm_writes_them() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * minute + 5, "9m5s"),
            (179 * minute, "179m"),
            (7 * hour + 30 * minute, "7h30m"),
            (47 * hour, "47h"),
            (7 * day + 3 * hour, "7d3h"),
            (8 * day + 3 * hour, "8d"),
            (729 * day, "729d"),
            (2 * 365 * day + day, "2y1d"),
            (8 * 365 * day, "8y"),
        ];
        for (seconds, words) in table {
            assert_eq!(span(Duration::seconds(seconds)), words);
        }
    }

    #[test]
    fn sizes_have_two_figures_at_least() {
        let table =
            [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (9_999, "9.9 kB"), (12_345, "12 kB")];
        let large = [(543_200_000, "543 MB"), (1_250_000_000, "1.2 GB"), (u64::MAX, "18446744073 GB")];
        for (bytes, words) in table.into_iter().chain(large) {
            assert_eq!(size(bytes), words);
        }
    }

    #[test]
    fn what_would_play_with_the_terminal_is_escaped_and_nothing_else() {
        assert_eq!(tame("/etc/kubernetes/käse 'x'.pem"), "/etc/kubernetes/käse 'x'.pem");
        assert_eq!(tame("a\x1b[31m\nb\r\u{9b}c\u{202e}d"), "a\\u{1b}[31m\\nb\\r\\u{9b}c\\u{202e}d");
    }

    #[test]
    fn the_far_future_does_not_overflow_and_the_past_is_told() {
        let now = "2026-03-02T03:00:00Z".parse().unwrap();
        assert_eq!(residual("9999-12-31T23:59:59Z".parse().unwrap(), now), "7979y");
        assert_eq!(residual(DateTime::UNIX_EPOCH, now), "expired 56y ago");
    }
}
