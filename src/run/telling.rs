//! What a run tells the cluster: an Event when it begins to act, and one when it ends.

use crate::exit::{Exit, Failure};
use crate::host::Clock;
use crate::report::{Console, Outcome, RunReport};
use crate::turn::events::{Events, Reason};

/// Characters of a cause that are told.
const CAUSE: usize = 300;

/// Tells that a run begins to act.
pub(super) fn begins(events: &mut Events<'_>, report: &RunReport, clock: &dyn Clock, console: &mut Console<'_>) {
    send(events, Reason::Renewing, &format!("k8s-certs-renew begins: {}", acts(report)), clock, console);
}

/// Tells how a run ended that acted, or did not end well; nothing of a skip, nor of one that another keeps out.
pub(super) fn ended(
    events: &mut Events<'_>,
    report: &RunReport,
    result: &Result<(), Failure>,
    clock: &dyn Clock,
    console: &mut Console<'_>,
) {
    let exit = result.as_ref().map_or_else(|failure| failure.exit, |()| report.exit);
    let (reason, how) = match exit {
        Exit::Busy => return,
        _ if exit.is_success() && report.steps.is_empty() => return,
        _ if exit.is_success() => (Reason::Renewed, "has done, and seen in use"),
        Exit::Deferred => (Reason::Deferred, "put restarts off"),
        _ => (Reason::Failed, "did not end well"),
    };
    let cause = match result {
        _ if exit.is_success() => None,
        Err(failure) => Some(failure.to_string()),
        Ok(()) => cause(report, exit),
    };
    let cause = cause.map(|cause| format!("; {}", cause.chars().take(CAUSE).collect::<String>())).unwrap_or_default();
    let code = exit.code();
    let message = format!("k8s-certs-renew {how} (exit code {code}): {}{cause}", acts(report));
    send(events, reason, &message, clock, console);
}

fn send(events: &mut Events<'_>, reason: Reason, message: &str, clock: &dyn Clock, console: &mut Console<'_>) {
    if let Err(why) = events.tell(reason, message, clock.now()) {
        console.detail(&format!("no Event {} was created: {why}", reason.as_str()));
    }
}

/// What was due, in words.
fn acts(report: &RunReport) -> String {
    let decision = &report.decision;
    let list = |verb: &str, names: Vec<&str>| (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")));
    let names: [Option<String>; 3] = [
        list("renew", decision.renew.iter().map(|item| item.name.as_str()).collect()),
        list("restart", decision.restart.iter().map(|item| item.name.as_str()).collect()),
        list("update", decision.copy.iter().map(|item| item.name.as_str()).collect()),
    ];
    let acts: Vec<String> = names.into_iter().flatten().collect();
    if acts.is_empty() { "nothing was due".to_owned() } else { acts.join("; ") }
}

/// Why a run that came to its end did not end well.
fn cause(report: &RunReport, exit: Exit) -> Option<String> {
    let of_steps = |deferred: bool| {
        report.steps.iter().find_map(|step| match &step.outcome {
            Outcome::Deferred(why) if deferred => Some(why.clone()),
            Outcome::Failed(why) if !deferred => Some(why.clone()),
            _ => None,
        })
    };
    let of_alarms = || {
        let alarm = report.decision.alarms.iter().find(|alarm| alarm.exit == exit)?;
        Some(format!("{}: {}", alarm.name, alarm.message))
    };
    match exit {
        Exit::Deferred => of_steps(true).or_else(of_alarms),
        _ => of_steps(false).or_else(of_alarms).or_else(|| of_steps(true)),
    }
}
