//! An approval as text and as JSON.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::report::Console;
use crate::report::json::API_VERSION;
use crate::report::words::span;

use super::rules::Refusal;
use super::{Approval, Fate, Line};

/// Says it: a line a request on stdout, and below it each rule that does not hold; what could not be done on stderr.
pub fn text(approval: &Approval, console: &mut Console<'_>) {
    if let Some(unseen) = &approval.failure {
        console.error(&format!("nothing was approved: {unseen}"));
        return;
    }
    if let Some(approver) = &approval.approver {
        console.note(&format!(
            "nothing is approved here: deployment '{}' does it ({} of {} pods available); its log says why it has not",
            approver.name, approver.available, approver.wanted
        ));
    }
    if approval.lines.is_empty() {
        console.say("no serving request is pending");
    }
    for line in &approval.lines {
        let names = if line.names.is_empty() { "no names".to_owned() } else { line.names.join(", ") };
        let age = age(line, approval.at).map_or_else(String::new, |age| format!(", {age} old"));
        console.say(&format!(
            "{}: '{}' of '{}' ({names}{age})",
            word(&line.fate),
            line.request.name,
            line.request.username
        ));
        for refusal in refusals(&line.fate) {
            console.say(&format!("    {}: {}", refusal.rule.as_str(), refusal.why));
        }
        if let Fate::Failed(unseen) = &line.fate {
            console.error(&format!("'{}' was not approved: {unseen}", line.request.name));
        }
    }
    if approval.lines.iter().any(|line| matches!(line.fate, Fate::Refused(_))) {
        console.note(
            "what is refused is left pending; after a look at it: kubectl certificate approve NAME, or deny NAME",
        );
    }
    if approval.others > 0 {
        console.note(&format!("{} more of other nodes are pending: --all-nodes", approval.others));
    }
}

/// As JSON: `kind: KubeletApproval`.
pub fn json(approval: &Approval) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "KubeletApproval",
        "node": approval.node,
        "at": time(approval.at),
        "dryRun": approval.dry_run,
        "status": approval.status().as_str(),
        "exitCode": approval.status().code(),
        "error": approval.failure.as_ref().map(ToString::to_string),
        "approver": approval.approver.as_ref().map(|approver| json!({
            "name": approver.name,
            "wanted": approver.wanted,
            "available": approver.available,
        })),
        "otherNodes": approval.others,
        "requests": approval.lines.iter().map(|line| json!({
            "name": line.request.name,
            "username": line.request.username,
            "names": line.names,
            "created": line.request.created.map(time),
            "result": result(&line.fate),
            "refusals": refusals(&line.fate).iter().map(|refusal| json!({
                "rule": refusal.rule.as_str(),
                "why": refusal.why,
            })).collect::<Vec<_>>(),
            "message": match &line.fate {
                Fate::Failed(unseen) => Some(unseen.to_string()),
                _ => None,
            },
        })).collect::<Vec<_>>(),
    })
}

fn word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Approved { again: false } => "approved",
        Fate::Approved { again: true } => "approved at the second try",
        Fate::WouldBeApproved => "would be approved",
        Fate::Left(_) => "left to the approver",
        Fate::Refused(_) => "refused",
        Fate::Overtaken => "decided by somebody else",
        Fate::Failed(_) => "failed",
    }
}

/// Names for programs.
fn result(fate: &Fate) -> &'static str {
    match fate {
        Fate::Approved { .. } => "approved",
        Fate::WouldBeApproved => "wouldBeApproved",
        Fate::Left(_) => "left",
        Fate::Refused(_) => "refused",
        Fate::Overtaken => "overtaken",
        Fate::Failed(_) => "failed",
    }
}

fn refusals(fate: &Fate) -> &[Refusal] {
    match fate {
        Fate::Refused(refusals) | Fate::Left(refusals) => refusals,
        _ => &[],
    }
}

fn age(line: &Line, now: DateTime<Utc>) -> Option<String> {
    Some(span((now - line.request.created?).max(chrono::Duration::zero())))
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
