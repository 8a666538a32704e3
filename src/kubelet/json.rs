//! A check of kubelet for programs.

use chrono::SecondsFormat;
use serde_json::{Value, json};

use super::check::KubeletReport;

/// The report as one document.
pub fn json(report: &KubeletReport) -> Value {
    json!({
        "apiVersion": "k8s-certs-renew/v1",
        "kind": "KubeletReport",
        "at": report.at.to_rfc3339_opts(SecondsFormat::Secs, true),
        "node": report.node,
        "version": report.version,
        "status": report.status.as_str(),
        "notVisible": report.not_visible,
        "findings": report.findings.iter().map(|finding| json!({
            "id": finding.id,
            "status": finding.status.as_str(),
            "about": finding.about,
            "seen": finding.seen,
            "why": finding.why,
            "mend": finding.mend,
        })).collect::<Vec<_>>(),
    })
}
