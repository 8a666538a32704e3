//! A check as metrics, in Prometheus' text format: for `-o prometheus`, and for the textfile collector of node_exporter.
//!
//! Sorted by name and labels, so the same report gives the same bytes. What is not known has no sample.

use std::collections::BTreeMap;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use prometheus::{GaugeVec, Opts, Registry, TextEncoder};

use crate::evidence::Verdict;
use crate::inventory::Kind;

use super::check_report::{CheckReport, KubeletState, Row, Status};
use super::{done, words};

/// What every name begins with.
const NAMESPACE: &str = "k8s_certs_renew";

/// Labels of everything that is about one certificate.
const OF_CERTIFICATE: [&str; 5] = ["name", "path", "manager", "kind", "authority"];

/// The report as metrics.
///
/// # Errors
/// None that a report could cause: a metric that is defined twice.
pub fn text(report: &CheckReport) -> anyhow::Result<String> {
    let metrics = Metrics { registry: Registry::new() };
    metrics.all(report).context("cannot put the metrics together")
}

struct Metrics {
    registry: Registry,
}

impl Metrics {
    fn all(&self, report: &CheckReport) -> prometheus::Result<String> {
        self.node(report)?;
        self.job(report)?;
        self.turn(report)?;
        self.certificates(&report.rows)?;
        self.components(report)?;
        self.kubelet(&report.kubelet)?;
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn node(&self, report: &CheckReport) -> prometheus::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        self.labelled("build_info", "The program, by its version; always 1.", &["version"], [(vec![version], 1.0)])?;
        let node = [(vec![report.node.as_str()], 1.0)];
        self.labelled("node_info", "The node, by its Kubernetes name; always 1.", &["node"], node)?;
        self.one("control_plane", "Whether this is a control-plane node (1) or not (0).", truth(report.control_plane))?;
        self.one("check_timestamp_seconds", "When all of this was looked at.", seconds(report.at))?;
        let help = "The worst of all that was found: 0 ok, 1 warning, 2 critical, 3 unknown.";
        self.one("status", help, code(report.status))
    }

    fn job(&self, report: &CheckReport) -> prometheus::Result<()> {
        let job = &report.job;
        let help = "When the job last came to a decision.";
        self.some("last_run_timestamp_seconds", help, job.last_run.map(seconds))?;
        self.some("last_success_timestamp_seconds", "When the job last ended well.", job.last_success.map(seconds))?;
        let help = "The exit code that the job last ended with: 0 and 10 are success.";
        self.some("last_exit_code", help, job.last_exit.map(f64::from))?;
        let took = job.last_duration.map(|took| took.as_secs_f64());
        self.some("last_duration_seconds", "How long the job then took.", took)?;
        let help = "Whether nothing is due, stale or owed, and the last run ended well (1), or not (0); of control-plane nodes.";
        self.some("done", help, done::to_do(report).map(|to_do| truth(to_do.is_empty())))?;
        let help = "Whether the timer's unit files are there, not masked, and enabled (1), or not (0).";
        self.some("timer_armed", help, job.timer_armed.map(truth))?;
        let help =
            "Whether tools, runtime and kubelet are fit for a renewal now (1), or something stands in its way (0).";
        let fit = report.could_renew.as_ref().map(|could| truth(could.of_the_ground.is_empty()));
        self.some("could_renew", help, fit)?;

        let Some(schedule) = &report.schedule else { return Ok(()) };
        let threshold = &schedule.threshold;
        let help = "When the job will have been started again at the latest, counted from its last run; in the past, a firing \
                    was missed.";
        let expected = job.last_run.and_then(|last_run| schedule.expected(last_run));
        self.some("expected_run_timestamp_seconds", help, expected.map(seconds))?;
        let help = "When the timer fires next.";
        self.some("next_firing_timestamp_seconds", help, threshold.next_firing.map(seconds))?;
        let help = "When the job will have started then at the latest: random delay and accuracy added.";
        self.some("latest_start_timestamp_seconds", help, threshold.latest_start.map(seconds))?;
        let help = "What ends before this is due: the latest start and the days-buffer.";
        self.some("threshold_timestamp_seconds", help, threshold.at().map(seconds))?;
        let buffer = f64::from(threshold.days_buffer) * 86_400.0;
        self.one("buffer_seconds", "How long a certificate must outlast the latest start (--days-buffer).", buffer)
    }

    fn turn(&self, report: &CheckReport) -> prometheus::Result<()> {
        let help = "How long the last run waited for its turn; no sample where it took none.";
        self.some("turn_waited_seconds", help, report.job.last_waited.map(|waited| waited.as_secs_f64()))?;
        let Some(turn) = &report.turn else { return Ok(()) };
        self.some("turn_held", "Whether this node has the turn to restart (1) or not (0).", turn.held().map(truth))?;
        let holder = turn.holder.as_ref();
        let help = "The node that has the turn to restart; always 1.";
        let samples = holder.map(|holder| (vec![holder.node.as_str()], 1.0));
        self.labelled("turn_holder_info", help, &["node"], samples)?;
        let help = "When the turn was taken, by the clock of the node that has it.";
        let since = holder.and_then(|holder| holder.since).map(seconds);
        self.some("turn_acquired_timestamp_seconds", help, since)?;
        let help = "API servers of the other control-plane nodes, by whether they are ready.";
        let samples = turn.others.into_iter().flat_map(|others| {
            [("ready", others.ready), ("not_ready", others.of - others.ready)]
                .map(|(state, count)| (vec![state], count as f64))
        });
        self.labelled("other_api_servers", help, &["state"], samples)
    }

    fn certificates(&self, rows: &[Row]) -> prometheus::Result<()> {
        let labels: Vec<[String; 5]> = rows.iter().map(labels_of).collect();
        let mut ends: BTreeMap<&[String; 5], f64> = BTreeMap::new();
        let mut statuses: BTreeMap<&[String; 5], Status> = BTreeMap::new();
        for (row, labels) in rows.iter().zip(&labels) {
            // a file that is named twice, or holds several: the one that ends first, and the worst
            if let Some(end) = row.not_after.map(seconds) {
                ends.entry(labels).and_modify(|other| *other = other.min(end)).or_insert(end);
            }
            statuses.entry(labels).and_modify(|other| *other = row.status.max(*other)).or_insert(row.status);
        }
        let name = "certificate_not_after_timestamp_seconds";
        let samples = ends.iter().map(|(labels, end)| (texts(labels), *end));
        self.labelled(name, "The last moment of a certificate's validity.", &OF_CERTIFICATE, samples)?;
        let help = "How a certificate stands: 0 ok, 1 warning, 2 critical, 3 unknown.";
        let samples = statuses.iter().map(|(labels, status)| (texts(labels), code(*status)));
        self.labelled("certificate_status", help, &OF_CERTIFICATE, samples)
    }

    fn components(&self, report: &CheckReport) -> prometheus::Result<()> {
        let help = "Whether a component is proven to use what is on disk (in_use), works with something older (stale), or \
                    neither can be told (unknown): 1 at the one that holds.";
        let verdicts = [(Verdict::InUse, "in_use"), (Verdict::Stale, "stale"), (Verdict::Unknown, "unknown")];
        let samples = report.components.iter().flat_map(|row| {
            let component = &row.component;
            verdicts.map(|(verdict, word)| (vec![component.name.as_str(), word], truth(component.verdict == verdict)))
        });
        self.labelled("component_verdict", help, &["component", "verdict"], samples)?;
        let pending = &report.job.restart_pending;
        let mut names: Vec<&str> = report.components.iter().map(|row| row.component.name.as_str()).collect();
        names.extend(pending.iter().map(String::as_str));
        let samples = names.iter().map(|name| (vec![*name], truth(pending.iter().any(|owed| owed == name))));
        let help = "Whether an earlier run was to restart a component, and has not seen it back (1).";
        self.labelled("restart_pending", help, &["component"], samples)
    }

    fn kubelet(&self, states: &[KubeletState]) -> prometheus::Result<()> {
        let help = "How one of the things stands that kubelet's own certificates depend on: 0 ok, 1 warning, 2 critical, 3 unknown.";
        let samples = states.iter().map(|state| (vec![state.id], code(state.status)));
        self.labelled("kubelet_finding_status", help, &["finding"], samples)
    }

    fn one(&self, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
        self.labelled(name, help, &[], [(Vec::new(), value)])
    }

    fn some(&self, name: &str, help: &str, value: Option<f64>) -> prometheus::Result<()> {
        self.labelled(name, help, &[], value.map(|value| (Vec::new(), value)))
    }

    fn labelled<'a>(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        samples: impl IntoIterator<Item = (Vec<&'a str>, f64)>,
    ) -> prometheus::Result<()> {
        let gauge = GaugeVec::new(Opts::new(name, help).namespace(NAMESPACE), labels)?;
        for (values, value) in samples {
            let values: Vec<String> = values.into_iter().map(harmless).collect();
            gauge.get_metric_with_label_values(&values)?.set(value);
        }
        self.registry.register(Box::new(gauge))
    }
}

/// A label that does not talk to a terminal; line feeds the format itself escapes, and nothing else of that kind.
fn harmless(text: &str) -> String {
    text.split('\n').map(words::tame).collect::<Vec<_>>().join("\n")
}

fn labels_of(row: &Row) -> [String; 5] {
    let certificate = row.certificate.as_ref();
    let kind = match certificate.map(|certificate| &certificate.kind) {
        _ if row.is_authority => "authority",
        None => "memory",
        Some(Kind::Kubeconfig { .. }) => "kubeconfig",
        Some(Kind::Pair { .. } | Kind::Authority { .. } | Kind::Bundle) => "certificate",
    };
    [
        row.name.clone(),
        certificate.map(|certificate| certificate.path.display().to_string()).unwrap_or_default(),
        row.manager.clone(),
        kind.to_owned(),
        certificate.and_then(|certificate| certificate.ca_name.clone()).unwrap_or_default(),
    ]
}

fn texts(labels: &[String; 5]) -> Vec<&str> {
    labels.iter().map(String::as_str).collect()
}

fn code(status: Status) -> f64 {
    f64::from(status.code())
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Whole seconds since 1970; exact, as no date of a certificate comes near 2^53.
fn seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp() as f64
}
