//! Above the table: how the node stands, when the job runs next, what it will do, and whether it could.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::decision::Decision;
use crate::evidence::Verdict;
use crate::exit::Exit;
use crate::report::check_report::{CheckReport, ComponentRow, CouldRenew, Machine, NextRun, Role, Status};
use crate::report::words::{span, tame};
use crate::settings::schedule::Schedule;
use crate::turn::glance::{Glance, Holder};

use super::text::{moment, wrap};
use super::{Look, paint};

/// Columns of the labels.
const LABEL: usize = 16;

/// The lines.
pub fn lines(report: &CheckReport, look: &Look) -> Vec<String> {
    let node = if report.node.is_empty() { "this node" } else { &report.node };
    let mut lines = vec![format!("{}: {}", tame(node), paint(report.status.as_str(), report.status, look))];
    let mut said = vec![
        ("as of", moment(report.at, report.zone)),
        ("certificates", certificates(report)),
        ("components", components(report)),
    ];
    if report.control_plane {
        said.extend(job(report));
    } else {
        said.push(("job", format!("none: {}", none(&report.machine))));
        said.push(("before", before(&report.machine)));
    }
    for (label, text) in said.iter().filter(|(_, text)| !text.is_empty()) {
        lines.extend(wrap(&format!("  {label:<14}"), &tame(text), LABEL, look.width));
    }
    lines
}

/// Why there is no job, by what the machine is.
fn none(machine: &Machine) -> &'static str {
    match machine.role {
        Role::ControlPlane | Role::Stopped => {
            "kube-apiserver's manifest is away, and nothing is renewed until it is back"
        }
        Role::Hidden => "whether this is a control-plane node cannot be told: its static pods cannot be listed",
        Role::Worker => "this is no control-plane node but a worker, and nothing is renewed here",
        Role::Etcd => "this is no control-plane node but a member of etcd, and nothing is renewed here",
        Role::Nothing if machine.was.is_empty() => {
            "this is no node of a Kubernetes cluster, and nothing is renewed here"
        }
        Role::Nothing => "this is no node of a Kubernetes cluster any more, and nothing is renewed here",
    }
}

fn before(machine: &Machine) -> String {
    if machine.was.is_empty() || machine.role == Role::Stopped {
        return String::new();
    }
    format!("a control plane: {}", machine.was.join("; "))
}

fn job(report: &CheckReport) -> Vec<(&'static str, String)> {
    let mut said = match &report.schedule {
        Some(schedule) => next(report, schedule),
        None => vec![("next run", "cannot be told".to_owned())],
    };
    said.push(("a run now", now(report)));
    said.extend(report.could_renew.as_ref().map(|could| ("could renew", could_renew(could))));
    said.push(("last run", last(report)));
    said.extend(report.turn.as_ref().and_then(|seen| turn(report, seen)).map(|text| ("turn", text)));
    if !report.job.restart_pending.is_empty() {
        said.push(("owed", format!("a restart of {}", report.job.restart_pending.join(", "))));
    }
    said
}

fn next(report: &CheckReport, schedule: &Schedule) -> Vec<(&'static str, String)> {
    let at = |instant| moment(instant, report.zone);
    let from = format!("{}: {}", schedule.source, schedule.expressions.join(" | "));
    let Some(next) = &report.next_run else { return vec![("next run", format!("never ({from})"))] };
    let slack = chrono::Duration::from_std(schedule.slack).unwrap_or_default();
    let late = if slack.is_zero() { String::new() } else { format!(", or up to {} later", span(slack)) };
    let mut said = vec![("next run", format!("{}{late} ({from})", at(next.at))), ("", will(next))];
    let threshold = &schedule.threshold;
    if let (Some(end), Some(start)) = (threshold.at(), threshold.latest_start) {
        let days = threshold.days_buffer;
        said.push(("threshold", format!("{}: its latest start, {}, and {days} days", at(end), at(start))));
    }
    said
}

/// How many stand how, the worst first.
fn certificates(report: &CheckReport) -> String {
    let mut states: BTreeMap<&str, (Status, usize)> = BTreeMap::new();
    for row in &report.rows {
        let (status, number) = states.entry(&row.state).or_insert((row.status, 0));
        *status = (*status).max(row.status);
        *number += 1;
    }
    let mut states: Vec<_> = states.into_iter().collect();
    states.sort_by_key(|(_, (status, _))| std::cmp::Reverse(*status));
    let counts: Vec<String> = states.iter().map(|(state, (_, number))| format!("{number} {state}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

fn components(report: &CheckReport) -> String {
    let of = |verdict| {
        let is = move |row: &&ComponentRow| row.component.verdict == verdict;
        let names: Vec<&str> = report.components.iter().filter(is).map(|row| row.component.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{verdict}: {}", names.join(", ")))
    };
    [Verdict::Stale, Verdict::Unknown, Verdict::InUse].into_iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

/// The first thing that stands in the way; the findings have all of them.
fn could_renew(could: &CouldRenew) -> String {
    match could.obstacles.as_slice() {
        [] => "yes".to_owned(),
        [one] => format!("no: {one}"),
        [first, rest @ ..] => format!("no: {first}; and {} more, below", rest.len()),
    }
}

fn will(next: &NextRun) -> String {
    if next.is_skip() {
        return "will skip: nothing will be due by then".to_owned();
    }
    format!("will {}", acts(&next.renew, &next.restart, &next.copy))
}

fn now(report: &CheckReport) -> String {
    let Decision { refused, renew, restart, copy, .. } = &report.decision;
    if refused.is_some() {
        return format!("would change nothing, as the clock cannot be trusted{}", ending(report));
    }
    if report.decision.is_skip() {
        let ending = ending(report);
        return if ending.is_empty() {
            "would skip: nothing is due".to_owned()
        } else {
            format!("would change nothing{ending}")
        };
    }
    let renew: Vec<String> = renew.iter().map(|item| item.name.clone()).collect();
    let restart: Vec<String> = restart.iter().map(|item| item.name.clone()).collect();
    let copy: Vec<String> = copy.iter().map(|item| item.name.clone()).collect();
    let same = |next: &NextRun| (&next.renew, &next.restart, &next.copy) == (&renew, &restart, &copy);
    if report.next_run.as_ref().is_some_and(same) {
        return format!("would do the same{}", ending(report));
    }
    format!("would {}{}", acts(&renew, &restart, &copy), ending(report))
}

/// How a run would end for what it cannot help; empty where well. What it does itself may go wrong besides.
fn ending(report: &CheckReport) -> String {
    let Decision { refused, alarms, .. } = &report.decision;
    let mut causes: Vec<(Exit, &str)> = alarms.iter().map(|alarm| (alarm.exit, alarm.name.as_str())).collect();
    causes.extend(refused.iter().map(|_| (Exit::ClockUntrusted, "the clock")));
    if report.decision.is_skip() {
        causes.extend(report.job.restart_pending.iter().map(|owed| (Exit::Deferred, owed.as_str())));
    }
    let exit = Exit::worst(causes.iter().map(|(exit, _)| *exit));
    if exit.is_success() {
        return String::new();
    }
    let names: Vec<&str> = causes.iter().filter(|(of, _)| *of == exit).map(|(_, name)| *name).collect();
    format!(", and end with {} ({})", exit.code(), names.join(", "))
}

fn acts(renew: &[String], restart: &[String], copy: &[String]) -> String {
    let mut acts = Vec::new();
    if !renew.is_empty() {
        acts.push(format!("renew {} ({})", renew.len(), renew.join(", ")));
    }
    if !restart.is_empty() {
        acts.push(format!("restart {}", restart.join(", ")));
    }
    if !copy.is_empty() {
        acts.push(format!("update {}", copy.join(", ")));
    }
    acts.join("; ")
}

/// Of several control-plane nodes, who has the turn to restart, and how many of the others are ready; nothing on a single one.
fn turn(report: &CheckReport, seen: &Glance) -> Option<String> {
    if !seen.is_shared {
        return None;
    }
    let mut parts = Vec::new();
    if let Some(why) = &seen.unseen {
        parts.push(format!("cannot be seen: {why}"));
    } else {
        let since =
            |holder: &Holder| holder.since.map(|at| format!(" since {}", moment(at, report.zone))).unwrap_or_default();
        parts.push(match &seen.holder {
            Some(holder) if holder.is_own => format!("this node has it{}", since(holder)),
            Some(holder) => format!("node '{}' has it{}", holder.node, since(holder)),
            None => "nobody has it".to_owned(),
        });
    }
    parts.extend(seen.others.map(|others| format!("other API servers ready: {} of {}", others.ready, others.of)));
    let waited = report.job.last_waited.filter(|waited| waited.as_secs() > 0);
    parts.extend(waited.map(|waited| format!("the last run waited {} s", waited.as_secs())));
    Some(parts.join("; "))
}

fn last(report: &CheckReport) -> String {
    let at = |instant: DateTime<Utc>| moment(instant, report.zone);
    match (report.job.last_run, report.job.last_success) {
        (None, None) => "none that is known of".to_owned(),
        (Some(run), Some(success)) if run == success => format!("{}, ended well", at(run)),
        (Some(run), Some(success)) => format!("{}, did not end well; the last that did: {}", at(run), at(success)),
        (Some(run), None) => format!("{}, did not end well, and none has", at(run)),
        (None, Some(success)) => format!("{}, ended well", at(success)),
    }
}
