//! The report of a run as JSON. Field names of certificates are kubeadm's (`output.kubeadm.k8s.io/v1alpha3`), ours added.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::decision::Item;
use crate::evidence::Component;
use crate::inventory::{Certificate, Inventory};

use super::RunReport;
use super::table::state;

/// What `kubectl`-like tools look at first.
pub const API_VERSION: &str = "k8s-certs-renew/v1";

/// A run as JSON. The same report gives the same bytes.
pub fn run(report: &RunReport) -> Value {
    let inventory = report.after.as_ref().unwrap_or(&report.before);
    let due: Vec<&str> = if report.after.is_some() {
        Vec::new()
    } else {
        report.decision.renew.iter().map(|item| item.name.as_str()).collect()
    };
    let list = |certificates: &[Certificate]| -> Vec<Value> {
        certificates.iter().map(|certificate| self::certificate(certificate, report, &due)).collect()
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": "RunReport",
        "node": report.node,
        "at": time(report.at),
        "dryRun": report.dry_run,
        "exitCode": report.exit.code(),
        "error": report.error,
        "schedule": schedule(report),
        "decision": {
            "refused": report.decision.refused,
            "renew": items(&report.decision.renew),
            "restart": report.decision.restart.iter().map(|restart| json!({
                "name": restart.name,
                "reason": restart.reason,
            })).collect::<Vec<_>>(),
            "copy": items(&report.decision.copy),
        },
        "components": report.evidence.components.iter().map(component).collect::<Vec<_>>(),
        "loopbackCertificate": report.evidence.loopback.as_ref().map(|loopback| json!({
            "serial": loopback.serial,
            "expirationDate": time(loopback.not_after),
        })),
        "alarms": report.decision.alarms.iter().map(|alarm| json!({
            "name": alarm.name,
            "message": alarm.message,
            "exitCode": alarm.exit.code(),
        })).collect::<Vec<_>>(),
        "notes": report.decision.notes,
        "steps": report.steps.iter().map(|step| json!({
            "step": step.step,
            "object": step.object,
            "result": step.outcome.word(),
            "message": step.outcome.why(),
        })).collect::<Vec<_>>(),
        "certificates": list(&inventory.certificates),
        "certificateAuthorities": list(&inventory.authorities),
    })
}

fn schedule(report: &RunReport) -> Value {
    let Some(schedule) = &report.schedule else { return Value::Null };
    let threshold = &schedule.threshold;
    json!({
        "expressions": schedule.expressions,
        "source": schedule.source,
        "timezone": schedule.zone.name(),
        "nextFiring": threshold.next_firing.map(time),
        "latestStart": threshold.latest_start.map(time),
        "daysBuffer": threshold.days_buffer,
        "threshold": threshold.at().map(time),
    })
}

fn items(items: &[Item]) -> Vec<Value> {
    items.iter().map(|item| json!({ "name": item.name, "reason": item.reason })).collect()
}

fn component(component: &Component) -> Value {
    json!({
        "name": component.name,
        "verdict": component.verdict.as_str(),
        "reason": component.reason,
        "servedSerial": component.served.as_ref().map(|served| served.serial.clone()),
    })
}

fn certificate(certificate: &Certificate, report: &RunReport, due: &[&str]) -> Value {
    let leaf = certificate.leaf.as_ref();
    let old = |inventory: &Inventory| {
        let old = inventory.get(&certificate.name).or_else(|| inventory.authority(&certificate.name));
        old.and_then(|old| old.leaf.as_ref()).map(|leaf| leaf.serial.clone())
    };
    let previous = old(&report.before).filter(|old| leaf.is_none_or(|leaf| leaf.serial != *old));
    json!({
        "name": certificate.name,
        "expirationDate": leaf.map(|leaf| time(leaf.not_after)),
        "residualTime": leaf.map_or(0, |leaf| (leaf.not_after - report.at).num_seconds()),
        "externallyManaged": certificate.externally_managed,
        "caName": certificate.ca_name.as_deref().unwrap_or_default(),
        "missing": certificate.missing,
        "path": certificate.path.display().to_string(),
        "manager": certificate.manager.as_str(),
        "state": state(certificate, due.contains(&certificate.name.as_str()), report.at),
        "problems": certificate.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "subject": leaf.map(|leaf| leaf.subject.clone()),
        "serial": leaf.map(|leaf| leaf.serial.clone()),
        "previousSerial": previous,
        "notBefore": leaf.map(|leaf| time(leaf.not_before)),
        "keyAlgorithm": leaf.map(|leaf| leaf.key_algorithm.clone()),
    })
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
