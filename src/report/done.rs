//! Whether a control-plane node is done: what a fleet is asked for.

use crate::evidence::Verdict;

use super::check_report::CheckReport;

/// What is still to be done here, each in words; empty where the node is done: nothing due, nothing stale, nothing owed, and the last run, if
/// any, ended well; what a run could not help counts too. None on a node that is no control plane.
pub fn to_do(report: &CheckReport) -> Option<Vec<String>> {
    if !report.control_plane {
        return None;
    }
    let mut to_do = Vec::new();
    let decision = &report.decision;
    if report.schedule.is_none() {
        to_do.push("what is due cannot be told".to_owned());
    }
    to_do.extend(decision.refused.iter().map(|why| format!("nothing is renewed: {why}")));
    to_do.extend(decision.renew.iter().map(|item| format!("renew {}: {}", item.name, item.reason)));
    let pending = &report.job.restart_pending;
    to_do.extend(decision.restart.iter().map(|item| format!("restart {}: {}", item.name, item.reason)));
    let is_told = |name: &str| decision.restart.iter().any(|item| item.name == name);
    let stale = report.components.iter().map(|row| &row.component).filter(|one| one.verdict == Verdict::Stale);
    to_do.extend(stale.filter(|one| !is_told(&one.name)).map(|one| format!("restart {}: {}", one.name, one.reason)));
    let owed = pending.iter().filter(|name| !is_told(name));
    to_do.extend(owed.map(|name| format!("restart {name}: an earlier run has not seen it back")));
    to_do.extend(decision.copy.iter().map(|item| format!("update {}: {}", item.name, item.reason)));
    to_do.extend(decision.alarms.iter().map(|alarm| format!("{}: {}", alarm.name, alarm.message)));
    // 0 and 10: see the exit codes
    let failed = report.job.last_exit.filter(|code| ![0, 10].contains(code));
    to_do.extend(failed.map(|code| format!("the last run ended with {code}")));
    Some(to_do)
}
