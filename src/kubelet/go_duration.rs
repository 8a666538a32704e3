//! Lengths of time as Go programs take them in flags (`time.ParseDuration`).

use chrono::TimeDelta;

/// Parses `8760h0m0s`, `1.5h`, `90m`; None where it is none, is negative, or does not fit. Parts below a second are left out.
pub fn parse(text: &str) -> Option<TimeDelta> {
    if text == "0" {
        return Some(TimeDelta::zero());
    }
    let mut total = 0.0_f64;
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match rest.get(..unit)? {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * seconds;
        rest = rest.get(unit..)?;
    }
    // Go's own limit is 292 years
    (total < 9.2e9).then(|| TimeDelta::seconds(total as i64))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let table = [
            ("8760h0m0s", Some(8760 * 3600)),
            ("87600h0m0s", Some(87600 * 3600)),
            ("1.5h", Some(5400)),
            ("90m", Some(5400)),
            ("1500ms", Some(1)),
            ("0", Some(0)),
            ("365d", None),
            ("8760", None),
            ("h", None),
            ("", None),
            ("-1h", None),
            ("9999999h", None),
        ];
        for (text, seconds) in table {
            assert_eq!(parse(text).map(|span| span.num_seconds()), seconds, "{text}");
        }
    }
}
