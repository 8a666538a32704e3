//! What programs and monitoring read: JSON, metrics, the plugin's lines, and what `docs/monitoring` makes of them.

pub mod json;
mod metrics;
mod nagios;
mod ready_made;
mod textfile;

use regex_lite::Regex;

/// A report without what differs from node to node of a test: serials, ports, directories of tools, the version.
fn redacted(text: &str) -> String {
    let replaced = [
        (r#"("(?:serial|servedSerial)": )"[0-9a-f]+""#, r#"$1"SERIAL""#),
        (r"\b[0-9a-f]{12,}\b", "SERIAL"),
        (r"(127\.0\.0\.1|\[::1\]|localhost):[0-9]+", "$1:PORT"),
        (r"/[^' ]*/world-[^/' ]+", "WORLD"),
        (r#"version="[0-9.]+""#, r#"version="VERSION""#),
    ];
    replaced
        .into_iter()
        .fold(text.to_owned(), |text, (pattern, by)| Regex::new(pattern).unwrap().replace_all(&text, by).into_owned())
}

/// Compares a report of a state with the one that was approved.
fn approve(name: String, text: &str) {
    let settings = || {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../snapshots/monitoring");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings().bind(|| insta::assert_snapshot!(name, redacted(text)));
}

/// The samples of metrics, by the metric's name: labels as they are written, and the value.
fn samples(text: &str) -> Vec<(&str, &str, f64)> {
    let of_line = |line| {
        let (series, value): (&str, &str) = str::rsplit_once(line, ' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        (name, labels.trim_end_matches('}'), value.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(of_line).collect()
}

/// The value of the only sample of this name, without the prefix that all have.
fn value(text: &str, name: &str) -> Option<f64> {
    let name = format!("k8s_certs_renew_{name}");
    let mut found = samples(text).into_iter().filter(|(of, ..)| *of == name);
    let first = found.next();
    assert!(found.next().is_none(), "{name} has several samples");
    first.map(|(_, _, value)| value)
}
