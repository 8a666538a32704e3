//! A check as a monitoring plugin says it (Monitoring Plugins development guidelines): a first line with the status and
//! performance data, then what was found, a line each.

use chrono::{DateTime, Duration, Utc};

use crate::inventory::{Certificate, Kind};

use super::check_report::{CheckReport, Limits, Row, Status};
use super::words;

/// What the first line begins with, as plugins are called in upper case.
const SERVICE: &str = "K8S-CERTS-RENEW";

/// Performance data is for so many certificates at most, those that end first: Nagios reads 8 KiB of a plugin's output (4.x
/// `MAX_PLUGIN_OUTPUT_LENGTH`), and cuts off what is beyond.
const MOST_DATA: usize = 50;

/// The lines.
pub fn text(report: &CheckReport, limits: Limits) -> String {
    let word = report.status.as_str().to_uppercase();
    let mut first = format!("{SERVICE} {word} - {}", line(&summary(report)));
    let data = data(report, limits);
    if !data.is_empty() {
        first.push_str(" | ");
        first.push_str(&data);
    }
    let mut lines = vec![first];
    if let Some(dates) = &report.dates {
        lines.push(line(&dates.what));
        lines.extend(dates.todo.iter().map(|todo| line(&format!("to do: {todo}"))));
    }
    lines.extend(report.findings.iter().map(|finding| {
        line(&format!("{}: {}: {}", finding.status.as_str().to_uppercase(), finding.about, finding.message))
    }));
    lines.join("\n")
}

/// The worst finding and how many there are beside it; where there is none, what ends first and when the job runs next.
fn summary(report: &CheckReport) -> String {
    let mut found = report.findings.iter().filter(|finding| finding.status > Status::Ok);
    if let Some(worst) = found.next() {
        let more = found.count();
        let rest = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        return format!("{}: {}{rest}", worst.about, worst.message);
    }
    let first = by_end(report).first().map_or_else(String::new, |(end, row)| {
        format!(", {} ends first, in {}", row.name, words::residual(*end, report.at))
    });
    let next = report.schedule.as_ref().and_then(|schedule| schedule.threshold.next_firing);
    let next = next.map_or_else(String::new, |at| format!(", next run {} UTC", words::minute(at)));
    match report.rows.len() {
        1 => format!("1 certificate{first}{next}"),
        count => format!("{count} certificates{first}{next}"),
    }
}

fn by_end(report: &CheckReport) -> Vec<(DateTime<Utc>, &Row)> {
    let mut rows: Vec<_> = report.rows.iter().filter_map(|row| Some((row.not_after?, row))).collect();
    rows.sort_by(|(end, row), (of_other, other)| end.cmp(of_other).then_with(|| row.name.cmp(&other.name)));
    rows
}

/// Days left, by certificate, with the ranges that are judged by.
fn data(report: &CheckReport, limits: Limits) -> String {
    let values = by_end(report).into_iter().take(MOST_DATA).map(|(end, row)| {
        let mut value = format!("{}={}", label(&row.name), days(end - report.at));
        if let Some(before) = row.warn_before {
            value.push_str(&format!(";{}:", days(before - report.at)));
            if let Some(critical) = critical(report, row, limits) {
                value.push_str(&format!(";{}:", days(critical)));
            }
        }
        value
    });
    values.collect::<Vec<_>>().join(" ")
}

/// The time left below which a certificate is critical; none where that is only its end.
fn critical(report: &CheckReport, row: &Row, limits: Limits) -> Option<Duration> {
    let is_kubeconfig = |certificate: &Certificate| matches!(certificate.kind, Kind::Kubeconfig { .. });
    match (row.manager.as_str(), &row.certificate) {
        (_, None) | ("kubelet", _) => None,
        ("kubeadm", _) if !row.is_authority => {
            let buffer = report.schedule.as_ref()?.threshold.days_buffer;
            Some(Duration::days(i64::from(buffer)))
        }
        // a copy of admin.conf
        ("external", Some(certificate)) if is_kubeconfig(certificate) => None,
        _ => Some(limits.critical),
    }
}

/// Days to two places, rounded down, so that nothing looks better than it is.
fn days(left: Duration) -> String {
    let hundredths = left.num_seconds().div_euclid(864);
    let (sign, hundredths) =
        if hundredths < 0 { ("-", hundredths.unsigned_abs()) } else { ("", hundredths.unsigned_abs()) };
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{sign}{whole}"),
        (whole, part) => format!("{sign}{whole}.{part:02}"),
    }
}

/// In quotes; one in the name is doubled, and an equals sign, which cannot be, is replaced.
fn label(name: &str) -> String {
    format!("'{}'", line(name).replace('=', "_").replace('\'', "''"))
}

/// One line without the mark that begins performance data.
fn line(text: &str) -> String {
    words::tame(text).replace('|', "/")
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::{days, label, line};

    #[test]
    fn days_are_rounded_down_and_whole_ones_have_no_places() {
        let table = [(86_400, "1"), (86_399, "0.99"), (0, "0"), (-1, "-0.01"), (-86_400, "-1"), (129_600, "1.50")];
        for (seconds, text) in table {
            assert_eq!(days(Duration::seconds(seconds)), text, "{seconds} s");
        }
    }

    #[test]
    fn no_name_breaks_the_first_line() {
        assert_eq!(label("/srv/it's=a|b c.pem"), "'/srv/it''s_a/b c.pem'");
        assert_eq!(line("a\nb | 'c'=1"), "a\\nb / 'c'=1");
    }
}
