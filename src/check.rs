//! Looking and judging without changing anything: what `check` reports.

mod advice;
mod also;
mod authorities;
mod clock;
mod findings;
mod machine;
mod next_run;
mod renewable;
mod rows;
mod starts;
mod unseen;

use std::path::{Path, PathBuf};

use chrono_tz::Tz;

use crate::decision::Decision;
use crate::evidence::{Moment, beyond};
use crate::inventory::{Certificate, Inventory, trust};
use crate::journal::Journal;
use crate::kubelet::check::in_passing;
use crate::kubelet::finding::KubeletFinding;
use crate::kubelet::view::{Looked, View};
use crate::node::Node;
use crate::node::proc::Processes;
use crate::plan::plan;
use crate::remains;
use crate::remains::machine::machine;
use crate::remains::ours::Places;
use crate::report::check_report::{
    CheckReport, ComponentRow, Finding, JobFacts, Limits, Machine, Remain, Role, Status,
};
use crate::run::Job;
use crate::run::look::node_name;
use crate::run::survey::{Survey, survey};
use crate::settings::armed::Armed;
use crate::settings::schedule::{Schedule, pending_schedule, unknown};
use crate::turn::glance::{Glance, glance};

/// Looks at the node as a dry run of the job would, and judges all of it. Never fails: what cannot be known is a finding.
///
/// `also` are further files with certificates or kubeconfigs, and patterns of such; `textfile` is where metrics are written.
pub fn check(job: &Job<'_>, limits: Limits, also: &[PathBuf], textfile: Option<&Path>) -> CheckReport {
    let node = Node::look(job.root.clone(), &job.overrides);
    let mut report = empty(job, &node);
    for finding in &node.findings {
        say(&mut report, Status::Unknown, &finding.path.display().to_string(), finding.message.clone());
    }
    let schedule = match pending_schedule(&job.root, &job.wishes, job.now) {
        Ok(schedule) => schedule,
        Err(failure) => {
            if report.control_plane {
                say(&mut report, Status::Unknown, "schedule", failure.to_string());
            }
            // everything else is judged by the days-buffer alone
            unknown(job.wishes.days_buffer, job.now)
        }
    };
    report.zone = schedule.zone;
    let processes = Processes::read(&job.root);
    report.machine = machine(&node, processes.as_ref(), job.backup_dir);
    let (survey, beyond, turn) = std::thread::scope(|scope| {
        let beyond = scope.spawn(|| beyond::look(&node, processes.as_ref(), job.deadlines.handshakes));
        let turn = scope.spawn(|| turn(job, &node, processes.as_ref()));
        let survey = survey(job, &node, processes.as_ref(), schedule);
        (survey, beyond.join().unwrap_or_default(), turn.join().unwrap_or_default())
    });
    report.turn = turn;
    let survey = match survey {
        Ok(survey) => survey,
        Err(failure) => {
            say(&mut report, Status::Unknown, "node", failure.to_string());
            return finished(report);
        }
    };
    report.node.clone_from(&survey.found.node_name);
    report.job = job_facts(&survey.journal);
    armed(&mut report, job);
    if let Some(why) = node.was_a_control_plane().filter(|_| !report.control_plane) {
        say(&mut report, Status::Warning, "kube-apiserver", why);
    }
    let also = further(&mut report, &node, also);
    let (files, kubeconfigs) = trust(&node, &survey.found.inventory, &also);
    let beside = authorities::beside(&survey.found.inventory.authorities, &files, &kubeconfigs, job.now);
    let judge = rows::Judge { survey: &survey, limits, now: job.now, control_plane: report.control_plane };
    report.rows = judge.rows(&also, &beyond, &beside.certificates);
    report.findings.extend(beside.findings);
    // on what is no node nothing is to run
    let live = processes.is_some() && report.machine.role != Role::Nothing;
    let components = survey.evidence.components.iter();
    report.components = components
        .map(|component| ComponentRow { status: findings::of_component(component, live), component: component.clone() })
        .collect();
    if report.control_plane {
        decided(&mut report, job, &node, &survey);
    }
    let looked = remains::Looked {
        node: &node,
        processes: processes.as_ref(),
        inventory: &survey.found.inventory,
        kubeconfigs: &kubeconfigs,
        name: &survey.found.node_name,
        places: Places { backup_dir: job.backup_dir, textfile },
    };
    report.remains = remains::remains(&looked, &report.machine);
    if report.rows.is_empty() && report.remains.is_empty() && report.machine.was.is_empty() {
        let nothing = format!("no certificate of a Kubernetes node is below '{}', nor what one leaves", job.root);
        say(&mut report, Status::Unknown, "node", nothing);
    }
    stayed(&mut report);
    let found = findings::findings(&report, &survey, &beyond);
    report.findings.extend(found);
    kubelet(&mut report, job, &node, processes.as_ref(), &survey);
    report.dates = clock::explain(&machine::facts(job, &report, &survey));
    report.unseen = unseen::unseen(job, &report, live);
    finished(report)
}

/// What stayed and is more than in the way is a finding too, so that every report and the exit code have it.
fn stayed(report: &mut CheckReport) {
    for Remain { status, place, what, remove, .. } in report.remains.clone() {
        if status > Status::Ok {
            say(report, status, &place, format!("stayed here: {what}: {remove}"));
        }
    }
}

fn empty(job: &Job<'_>, node: &Node) -> CheckReport {
    CheckReport {
        at: job.now,
        node: String::new(),
        control_plane: node.is_control_plane(),
        machine: Machine { role: Role::Nothing, was: Vec::new() },
        zone: Tz::UTC,
        schedule: None,
        rows: Vec::new(),
        components: Vec::new(),
        decision: Decision::default(),
        steps: Vec::new(),
        next_run: None,
        could_renew: None,
        job: JobFacts::default(),
        turn: None,
        dates: None,
        findings: Vec::new(),
        kubelet: Vec::new(),
        remains: Vec::new(),
        unseen: Vec::new(),
        status: Status::Ok,
    }
}

fn say(report: &mut CheckReport, status: Status, about: &str, message: String) {
    report.findings.push(Finding { status, about: about.to_owned(), message });
}

/// What is in the files that were named, and what is to be said of those that hold nothing.
fn further(report: &mut CheckReport, node: &Node, also: &[PathBuf]) -> Vec<Certificate> {
    let files = also::files(&node.root, also);
    for (path, why) in &files.without {
        let status = if why.starts_with("matches") { Status::Warning } else { Status::Unknown };
        say(report, status, &path.display().to_string(), format!("{why} (--also)"));
    }
    let named = Inventory::read_also(node, &files.named, report.at);
    for (path, _) in files.named.iter().zip(&named).filter(|(_, found)| found.is_empty()) {
        let message = "no certificate is in it (--also)".to_owned();
        say(report, Status::Unknown, &path.display().to_string(), message);
    }
    let matched = Inventory::read_also(node, &files.matched, report.at);
    let passed_over = matched.iter().filter(|found| found.is_empty()).count();
    if passed_over > 0 {
        let message = format!("{passed_over} of {} files that match hold no certificate", matched.len());
        say(report, Status::Ok, "--also", message);
    }
    named.into_iter().chain(matched).flatten().collect()
}

/// What a run would do, and whether it could.
fn decided(report: &mut CheckReport, job: &Job<'_>, node: &Node, survey: &Survey) {
    for warning in survey.warnings.iter().chain(&survey.schedule.warnings) {
        say(report, Status::Warning, "job", warning.clone());
    }
    report.decision = survey.decision.clone();
    report.steps =
        plan(&survey.decision, job.backup_dir, job.deadlines.reread).iter().map(ToString::to_string).collect();
    for (about, message) in starts::oddities(job, survey) {
        say(report, Status::Warning, about, message);
    }
    if let Some(why) = &survey.decision.refused {
        say(report, Status::Critical, "clock", format!("a run would renew nothing: {why}"));
    }
    report.could_renew = renewable::could_renew(job, node, survey);
    let obstacles = report.could_renew.iter().flat_map(|could| could.of_the_ground.clone()).collect::<Vec<_>>();
    for obstacle in obstacles {
        say(report, Status::Warning, "renewal", format!("could not be done now: {obstacle}"));
    }
    if is_known(&survey.schedule) && survey.schedule.threshold.at().is_none() {
        let message = format!(
            "the timer never fires again ({}: {}), so nothing renews by itself",
            survey.schedule.source,
            survey.schedule.expressions.join(" | ")
        );
        say(report, Status::Warning, "timer", message);
    }
    if is_known(&survey.schedule) {
        report.next_run = next_run::next_run(job, survey);
        report.schedule = Some(survey.schedule.clone());
    }
}

fn is_known(schedule: &Schedule) -> bool {
    !schedule.expressions.is_empty()
}

/// Whose turn it is to restart, where it matters. A cluster that is silent is told there, and is no finding: what is wrong with this
/// node's own API server is said with its certificates.
fn turn(job: &Job<'_>, node: &Node, processes: Option<&Processes>) -> Option<Glance> {
    if !node.is_control_plane() {
        return None;
    }
    let (journal, _) = Journal::read(&job.root);
    glance(node, &node_name(node, processes), job.now, &journal.turn, job.deadlines.event)
}

fn job_facts(journal: &Journal) -> JobFacts {
    JobFacts {
        last_run: journal.last_run,
        last_success: journal.last_success,
        last_exit: journal.last_exit,
        last_duration: journal.last_duration_ms.map(std::time::Duration::from_millis),
        last_waited: journal.turn.waited_ms.map(std::time::Duration::from_millis),
        restart_pending: journal.open.as_ref().map(|open| open.restart.clone()).unwrap_or_default(),
        timer_armed: None,
    }
}

/// What keeps kubelet's own certificates from rotating. What has been said of a file is not said again.
fn kubelet(report: &mut CheckReport, job: &Job<'_>, node: &Node, processes: Option<&Processes>, survey: &Survey) {
    let looked = Looked {
        node,
        inventory: &survey.found.inventory,
        processes,
        kubelet: survey.evidence.get("kubelet"),
        now: job.now,
        at: Moment { now: job.clock.now(), since_boot: job.clock.since_boot() },
    };
    let (states, found) = in_passing(&View::new(looked));
    report.kubelet = states;
    for KubeletFinding { status, about, seen, why, mend, .. } in found {
        let told = |known: &Finding| known.about == about && known.status >= status;
        if !report.findings.iter().any(told) {
            let mend = mend.unwrap_or_default();
            say(report, status, &about, format!("{seen}: {why}; {mend}"));
        }
    }
}

/// Whether the timer is set. That there is none has been said with the schedule, and who gives one needs none.
fn armed(report: &mut CheckReport, job: &Job<'_>) {
    let armed = match Armed::look(&job.root, job.wishes.timer) {
        Ok(armed) => armed,
        Err(error) => {
            let message = format!("cannot tell whether the timer is armed: {error}");
            report.findings.push(Finding { status: Status::Unknown, about: "timer".to_owned(), message });
            return;
        }
    };
    report.job.timer_armed = Some(armed == Armed::Yes);
    if armed == Armed::NoTimer && report.control_plane && !job.wishes.on_calendar.is_empty() {
        let message = format!(
            "{} is not installed, or masked; --on-calendar tells when something else starts the job, and starts nothing itself",
            job.wishes.timer
        );
        say(report, Status::Ok, "timer", message);
    }
    if let Armed::No(why) = armed
        && report.control_plane
    {
        report.findings.push(Finding { status: Status::Warning, about: "timer".to_owned(), message: why });
    }
}

/// Sorts what was found, and takes the worst of all.
fn finished(mut report: CheckReport) -> CheckReport {
    report.findings.sort_by(|one, other| other.status.cmp(&one.status).then_with(|| one.about.cmp(&other.about)));
    let of_rows = report.rows.iter().map(|row| row.status);
    let of_components = report.components.iter().map(|row| row.status);
    let of_findings = report.findings.iter().map(|finding| finding.status);
    report.status = of_rows.chain(of_components).chain(of_findings).max().unwrap_or(Status::Ok);
    report
}
