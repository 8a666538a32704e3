//! The report of a run as JSON. Field names of certificates are kubeadm's (`output.kubeadm.k8s.io/v1alpha3`), ours added.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::decision::{Decision, Item};
use crate::evidence::Component;
use crate::inventory::{Certificate, Inventory};
use crate::settings::schedule::Schedule;
use crate::turn::Outcome as Turn;

use super::RunReport;
use super::check_report::KubeletState;
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
        certificates.iter().map(|certificate| of_run(certificate, report, &due)).collect()
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": "RunReport",
        "node": report.node,
        "at": time(report.at),
        "dryRun": report.dry_run,
        "exitCode": report.exit.code(),
        "error": report.error,
        "schedule": report.schedule.as_ref().map(schedule),
        "decision": decision(&report.decision),
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
        "turn": report.turn.as_ref().map(turn),
        "kubelet": kubelet(&report.kubelet),
        "certificates": list(&inventory.certificates),
        "certificateAuthorities": list(&inventory.authorities),
    })
}

/// How each thing stands that kubelet's certificates depend on.
pub(super) fn kubelet(states: &[KubeletState]) -> Vec<Value> {
    states.iter().map(|state| json!({ "id": state.id, "status": state.status.as_str() })).collect()
}

/// One control-plane node at a time.
fn turn(turn: &Turn) -> Value {
    json!({
        "held": turn.held,
        "waitedSeconds": turn.waited.as_secs(),
        "holder": turn.holder,
        "others": turn.others.map(|others| json!({ "ready": others.ready, "of": others.of })),
    })
}

/// When the job runs next, and what follows.
pub(super) fn schedule(schedule: &Schedule) -> Value {
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

/// What is to be done.
pub(super) fn decision(decision: &Decision) -> Value {
    json!({
        "refused": decision.refused,
        "renew": items(&decision.renew),
        "restart": decision.restart.iter().map(|restart| json!({
            "name": restart.name,
            "reason": restart.reason,
        })).collect::<Vec<_>>(),
        "copy": items(&decision.copy),
    })
}

fn items(items: &[Item]) -> Vec<Value> {
    items.iter().map(|item| json!({ "name": item.name, "reason": item.reason })).collect()
}

/// What is known of a component.
pub(super) fn component(component: &Component) -> Value {
    json!({
        "name": component.name,
        "verdict": component.verdict.as_str(),
        "reason": component.reason,
        "servedSerial": component.served.as_ref().map(|served| served.serial.clone()),
    })
}

fn of_run(certificate: &Certificate, report: &RunReport, due: &[&str]) -> Value {
    let old = |inventory: &Inventory| {
        let old = inventory.get(&certificate.name).or_else(|| inventory.authority(&certificate.name));
        old.and_then(|old| old.leaf.as_ref()).map(|leaf| leaf.serial.clone())
    };
    let leaf = certificate.leaf.as_ref();
    let previous = old(&report.before).filter(|old| leaf.is_none_or(|leaf| leaf.serial != *old));
    let state = state(certificate, due.contains(&certificate.name.as_str()), report.at);
    let mut value = self::certificate(certificate, &state, report.at);
    value["previousSerial"] = json!(previous);
    value
}

/// A certificate as of `at`, the fields that all reports have.
pub(super) fn certificate(certificate: &Certificate, state: &str, at: DateTime<Utc>) -> Value {
    let leaf = certificate.leaf.as_ref();
    json!({
        "name": certificate.name,
        "expirationDate": leaf.map(|leaf| time(leaf.not_after)),
        "residualTime": leaf.map_or(0, |leaf| (leaf.not_after - at).num_seconds()),
        "externallyManaged": certificate.externally_managed,
        "caName": certificate.ca_name.as_deref().unwrap_or_default(),
        "missing": certificate.missing,
        "path": certificate.path.display().to_string(),
        "manager": certificate.manager.as_str(),
        "state": state,
        "problems": certificate.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "subject": leaf.map(|leaf| leaf.subject.clone()),
        "serial": leaf.map(|leaf| leaf.serial.clone()),
        "notBefore": leaf.map(|leaf| time(leaf.not_before)),
        "keyAlgorithm": leaf.map(|leaf| leaf.key_algorithm.clone()),
    })
}

/// An instant: RFC 3339, UTC, whole seconds.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
