//! A check as JSON: `kind: CertificateReport`. Field names of certificates are kubeadm's (`output.kubeadm.k8s.io/v1alpha3`), ours
//! added.

use serde_json::{Value, json};

use crate::turn::glance::Glance;

use super::check_report::{CheckReport, ComponentRow, JobFacts, Remain, Row};
use super::done;
use super::json::{API_VERSION, certificate, component, decision, kubelet, schedule, time};

/// The report as JSON. The same report gives the same bytes.
pub fn check(report: &CheckReport) -> Value {
    let rows = |authorities: bool| -> Vec<Value> {
        report.rows.iter().filter(|row| row.is_authority == authorities).map(|row| self::row(row, report)).collect()
    };
    let to_do = done::to_do(report);
    json!({
        "apiVersion": API_VERSION,
        "kind": "CertificateReport",
        "node": report.node,
        "at": time(report.at),
        "controlPlane": report.control_plane,
        "machine": {"role": report.machine.role.as_str(), "was": report.machine.was},
        "status": report.status.as_str(),
        "exitCode": report.status.code(),
        "schedule": report.schedule.as_ref().map(schedule),
        "decision": decision(&report.decision),
        "steps": report.steps,
        "nextRun": report.next_run.as_ref().map(|next| json!({
            "at": time(next.at),
            "renew": next.renew,
            "restart": next.restart,
            "copy": next.copy,
        })),
        "couldRenew": report.could_renew.as_ref().map(|could| json!({
            "possible": could.is_yes(),
            "obstacles": could.obstacles,
        })),
        "job": job(&report.job),
        "turn": report.turn.as_ref().map(turn),
        "done": to_do.as_ref().map(Vec::is_empty),
        "toDo": to_do.unwrap_or_default(),
        "components": report.components.iter().map(used).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(|finding| json!({
            "status": finding.status.as_str(),
            "about": finding.about,
            "message": finding.message,
        })).collect::<Vec<_>>(),
        "dates": report.dates.as_ref().map(|dates| json!({
            "cause": dates.cause.as_str(),
            "what": dates.what,
            "signs": dates.signs,
            "todo": dates.todo,
        })),
        "kubelet": kubelet(&report.kubelet),
        "remains": report.remains.iter().map(remain).collect::<Vec<_>>(),
        "unseen": report.unseen,
        "certificates": rows(false),
        "certificateAuthorities": rows(true),
    })
}

fn job(job: &JobFacts) -> Value {
    json!({
        "lastRun": job.last_run.map(time),
        "lastSuccess": job.last_success.map(time),
        "lastExitCode": job.last_exit,
        "lastDurationSeconds": job.last_duration.map(|took| took.as_secs_f64()),
        "lastWaitedSeconds": job.last_waited.map(|waited| waited.as_secs()),
        "restartPending": job.restart_pending,
        "timerArmed": job.timer_armed,
    })
}

fn turn(turn: &Glance) -> Value {
    let holder = turn.holder.as_ref();
    json!({
        "held": turn.held(),
        "holder": holder.map(|holder| holder.node.clone()),
        "since": holder.and_then(|holder| holder.since).map(time),
        "others": turn.others.map(|others| json!({ "ready": others.ready, "of": others.of })),
        "unseen": turn.unseen,
    })
}

fn remain(remain: &Remain) -> Value {
    json!({
        "status": remain.status.as_str(),
        "owner": remain.owner.as_str(),
        "place": remain.place,
        "what": remain.what,
        "files": remain.usage.map(|usage| usage.files),
        "bytes": remain.usage.map(|usage| usage.bytes),
        "complete": remain.usage.map(|usage| usage.complete),
        "why": remain.why,
        "remove": remain.remove,
    })
}

fn used(row: &ComponentRow) -> Value {
    let mut value = component(&row.component);
    value["covers"] = json!(row.component.covers);
    value["rereads"] = json!(row.component.rereads);
    value["status"] = json!(row.status.as_str());
    value
}

fn row(row: &Row, report: &CheckReport) -> Value {
    let mut value = match &row.certificate {
        Some(found) => certificate(found, &row.state, report.at),
        None => in_memory(row, report),
    };
    value["status"] = json!(row.status.as_str());
    value["due"] = json!(row.due);
    value["warnBefore"] = json!(row.warn_before.map(time));
    value["usedBy"] = json!(row.readers);
    value["inUse"] = json!(row.in_use.map(crate::evidence::Verdict::as_str));
    value
}

/// A certificate without a file has no path, no problems and no key to speak of.
fn in_memory(row: &Row, report: &CheckReport) -> Value {
    json!({
        "name": row.name,
        "expirationDate": row.not_after.map(time),
        "residualTime": row.not_after.map_or(0, |at| (at - report.at).num_seconds()),
        "externallyManaged": false,
        "caName": "",
        "missing": false,
        "path": null,
        "manager": row.manager,
        "state": row.state,
        "problems": [],
        "subject": null,
        "serial": row.serial,
        "notBefore": row.not_before.map(time),
        "keyAlgorithm": null,
    })
}
