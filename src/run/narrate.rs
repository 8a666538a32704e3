//! What a run says: the old job's lines word for word, and lines of the same form for what the old job did not know.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::decision::{Alarm, Item, kubeadm_leaves};
use crate::evidence::{Component, Evidence, Verdict};
use crate::exit::Exit;
use crate::journal::OpenRun;
use crate::kubelet::finding::KubeletFinding;
use crate::node::Node;
use crate::plan::Step;
use crate::report::{Console, RunReport, table};
use crate::steps::images::Images;

/// The table, the schedule, the reasons, and what needs a person.
pub fn before(console: &mut Console<'_>, report: &RunReport, node: &Node) {
    let due: Vec<&str> = report.decision.renew.iter().map(|item| item.name.as_str()).collect();
    console.headline("Check Expiration before renewal");
    console.table(&table::certificates(&report.before, &due, report.at, console.voice.color_out));
    console.say("");
    schedule(console, report);
    components(console, &report.evidence);
    for (names, reason) in by_reason(&report.decision.renew) {
        console.say(&format!("due           {}: {reason}", names.join(", ")));
    }
    for finding in &node.findings {
        console.warn(&format!("'{}': {}", finding.path.display(), finding.message));
    }
    if let Some(schedule) = &report.schedule {
        schedule.warnings.iter().for_each(|warning| console.warn(warning));
    }
    for note in &report.decision.notes {
        console.note(note);
    }
    for Alarm { name, message, .. } in &report.decision.alarms {
        console.warn(&format!("{name}: {message}"));
    }
}

/// Who uses what is on disk.
fn components(console: &mut Console<'_>, evidence: &Evidence) {
    let of = |verdict| evidence.components.iter().filter(move |component| component.verdict == verdict);
    let in_use: Vec<&str> = of(Verdict::InUse).map(|component| component.name.as_str()).collect();
    if !in_use.is_empty() {
        console.say(&format!("in use        {}", in_use.join(", ")));
    }
    for Component { name, reason, .. } in of(Verdict::Stale) {
        console.say(&format!("stale         {name}: {reason}"));
    }
    for Component { name, reason, .. } in of(Verdict::Unknown) {
        console.say(&format!("unknown       {name}: {reason}"));
    }
}

/// What is due for the same reason, together.
fn by_reason(items: &[Item]) -> Vec<(Vec<&str>, &str)> {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|(_, reason)| *reason == item.reason) {
            Some((names, _)) => names.push(&item.name),
            None => groups.push((vec![&item.name], &item.reason)),
        }
    }
    groups
}

fn schedule(console: &mut Console<'_>, report: &RunReport) {
    let Some(schedule) = &report.schedule else { return };
    let local = |at: DateTime<Utc>| local(at, schedule.zone);
    let of = format!("{}: {}", schedule.source, schedule.expressions.join(" | "));
    let threshold = &schedule.threshold;
    match (threshold.next_firing, threshold.latest_start, threshold.at()) {
        (Some(next), Some(latest), Some(at)) => {
            console.say(&format!("next firing   {}  ({of})", local(next)));
            console.say(&format!("latest start  {}", local(latest)));
            console.say(&format!("threshold     {}  (latest start and {} days)", local(at), threshold.days_buffer));
        }
        _ => console.say(&format!("next firing   never  ({of})")),
    }
}

fn local(at: DateTime<Utc>, zone: Tz) -> String {
    at.with_timezone(&zone).format("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

/// What keeps kubelet's own certificates from rotating, the worst of it.
pub fn kubelet(console: &mut Console<'_>, found: &[KubeletFinding]) {
    let Some(worst) = found.first() else { return };
    let more = match found.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let KubeletFinding { status, about, seen, .. } = worst;
    console.say(&format!("kubelet       {status}: {about}: {seen}{more}; see: k8s-certs-renew kubelet check"));
}

/// Nothing is done: because nothing is due, or because nothing can be.
pub fn skip(console: &mut Console<'_>, report: &RunReport) {
    let helpless: Vec<&str> = report
        .decision
        .alarms
        .iter()
        .filter(|alarm| alarm.exit == Exit::CannotRenew && report.before.get(&alarm.name).is_some())
        .map(|alarm| alarm.name.as_str())
        .collect();
    let unread: Vec<&str> = kubeadm_leaves(&report.before)
        .filter(|certificate| certificate.leaf.is_none())
        .map(|certificate| certificate.name.as_str())
        .collect();
    if !unread.is_empty() && unread.len() == kubeadm_leaves(&report.before).count() {
        console.headline(&format!("Cannot judge: {}", unread.join(", ")));
    } else if helpless.is_empty() {
        console.headline("Skip cert renew and K8S container restart, since all residualTimes are beyond threshold");
    } else {
        console.headline(&format!("Cannot renew: {}", helpless.join(", ")));
    }
}

/// What an earlier run owes and this one cannot do.
pub fn owed(console: &mut Console<'_>, open: &OpenRun) {
    console.obstacle(&format!("Deferred: the restart of {}, whose manifests cannot be read", open.restart.join(", ")));
}

/// The steps that a run would take.
pub fn rehearsal(console: &mut Console<'_>, steps: &[Step]) {
    console.headline("Dry run: a real run would");
    for (index, step) in steps.iter().enumerate() {
        console.say(&format!("{:>3}. {step}", index + 1));
    }
}

/// What could not be seen of the images. What is missing is told where it stands in the way.
pub fn images(console: &mut Console<'_>, images: &Images) {
    if let Some(why) = &images.unseen {
        console.warn(why);
    }
    if images.pause_untold {
        console.detail("the container runtime does not tell its pause image, so that is not looked for");
    }
}

/// What is going to be done.
pub fn intent(console: &mut Console<'_>, report: &RunReport) {
    let decision = &report.decision;
    let never = report.schedule.as_ref().is_some_and(|schedule| schedule.threshold.at().is_none());
    if never && !decision.renew.is_empty() {
        console.headline(
            "Skip expiry comparison due to fail to parse next elapse from systemd calendar,do renewal directly",
        );
    }
    if decision.renew.is_empty() && !decision.restart.is_empty() {
        let names: Vec<&str> = decision.restart.iter().map(|item| item.name.as_str()).collect();
        console.headline(&format!("Restarting only: {}", names.join(", ")));
    }
}
