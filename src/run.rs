//! The job: look, decide, say why, and walk the steps.

mod ahead;
mod etcd;
mod hooking;
pub mod look;
mod mending;
mod narrate;
mod rehearsal;
mod renewing;
pub(crate) mod restarting;
pub mod survey;
mod telling;
pub mod turning;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use chrono::{DateTime, Utc};

use crate::decision::{Decision, RestartPolicy};
use crate::evidence::{Evidence, Moment};
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::{Clock, Signals};
use crate::inventory::Inventory;
use crate::journal::Journal;
use crate::kubelet::check::in_passing;
use crate::kubelet::finding::KubeletFinding;
use crate::kubelet::view::{Looked, View};
use crate::lock::{Lock, LockError};
use crate::node::proc::Processes;
use crate::node::{Node, Overrides};
use crate::plan::{Step, plan};
use crate::report::check_report::KubeletState;
use crate::report::{Console, Outcome, RunReport, StepReport};
use crate::settings::schedule::Wishes;
use crate::steps::preflight::{Tools, preflight};
use crate::steps::renew::{Config, config};
use crate::steps::{Context, Deadlines};
use crate::turn::events::Events;

use ahead::Ahead;
use etcd::Weight;
use rehearsal::{backed_up, needs, rehearse};
use survey::{Survey, survey};
use turning::Turns;
use walk::Walk;

pub use crate::lock::FILE as LOCK;
pub(crate) use walk::ca_key_hashes;

/// Everything that a run is told.
#[derive(Debug)]
pub struct Job<'a> {
    /// What the node's paths lie below.
    pub root: Root,
    /// The node's directories.
    pub overrides: Overrides,
    /// The schedule.
    pub wishes: Wishes<'a>,
    /// The tools.
    pub tools: Tools<'a>,
    /// The instant to judge by (UTC).
    pub now: DateTime<Utc>,
    /// Whether the kernel takes the clock that this instant comes from to be set; `None` where another instant was given, or it
    /// does not tell.
    pub synchronised: Option<bool>,
    /// Change nothing.
    pub dry_run: bool,
    /// Renew whatever the dates say.
    pub force: bool,
    /// What may be restarted.
    pub restart: RestartPolicy,
    /// Exit codes 10 and 11.
    pub detailed_exitcode: bool,
    /// kubeadm's configuration, if it is named.
    pub kubeadm_config: Option<&'a Path>,
    /// Kubeconfig copies to keep up to date.
    pub copies: Vec<PathBuf>,
    /// Where backups are.
    pub backup_dir: &'a Path,
    /// How many of them are kept.
    pub keep_backups: usize,
    /// Whether root started us.
    pub is_root: bool,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Signals.
    pub signals: &'a Signals,
    /// How long everything may take.
    pub deadlines: Deadlines,
    /// How it stands to the other control-plane nodes.
    pub turns: Turns,
}

/// Runs the job, tells it on the console, and gives the report. What fails is in the report too.
pub fn run(job: &Job<'_>, console: &mut Console<'_>) -> RunReport {
    let mut report = RunReport {
        at: job.now,
        dry_run: job.dry_run,
        node: String::new(),
        schedule: None,
        before: Inventory::default(),
        after: None,
        evidence: Evidence::default(),
        decision: Decision::default(),
        steps: Vec::new(),
        turn: None,
        kubelet: Vec::new(),
        exit: Exit::Ok,
        error: None,
    };
    if let Err(failure) = attempt(job, console, &mut report) {
        console.error(&failure.to_string());
        report.exit = failure.exit;
        report.error = Some(failure.to_string());
    }
    report
}

fn attempt(job: &Job<'_>, console: &mut Console<'_>, report: &mut RunReport) -> Result<(), Failure> {
    let began = job.clock.since_boot();
    if job.root.is_host() && !job.is_root && !job.dry_run {
        let error = anyhow!("only root can renew certificates; start it with sudo, or look with --dry-run");
        return Err(Failure::new(Exit::NotRoot, error));
    }
    let Ahead { node, processes, schedule } = Ahead::look(job);
    if !node.is_control_plane() {
        // a directory that cannot be listed hides a control plane as well as none
        if let Some(finding) = node.findings.iter().find(|finding| finding.path == node.manifests_dir()) {
            let exit = if job.is_root { Exit::CannotRead } else { Exit::NotRoot };
            return Err(Failure::new(exit, anyhow!("cannot tell whether this is a control-plane node: {finding}")));
        }
        let manifest = node.manifests_dir().join("kube-apiserver.yaml");
        console.headline(&format!(
            "Nothing to do: there is no '{}', so this is no control-plane node",
            manifest.display()
        ));
        if let Some(why) = node.was_a_control_plane() {
            console.warn(&why);
        }
        return Ok(());
    }
    let lock = if job.dry_run { None } else { Some(take_lock(&job.root)?) };
    let mut events = None;
    let result = keep_clear_of_kubeadm(processes.as_ref().filter(|_| !job.dry_run))
        .and(schedule)
        .and_then(|schedule| survey(job, &node, processes.as_ref(), schedule))
        .and_then(|survey| {
            events = (!job.dry_run).then(|| events_of(job, &node, &survey));
            locked(job, (&node, processes.as_ref()), survey, (lock.as_ref(), events.as_mut()), began, console, report)
        });
    let exit = result.as_ref().map_or_else(|failure| failure.exit, |()| report.exit);
    if !job.dry_run && (result.is_err() || matches!(exit, Exit::Signal(_))) {
        remember_failure(job, exit, began);
    }
    if let Some(events) = &mut events {
        telling::ended(events, report, &result, job.clock, console);
    }
    result
}

/// What the cluster is told.
fn events_of<'a>(job: &Job<'_>, node: &'a Node, survey: &Survey) -> Events<'a> {
    let peers = survey.journal.turn.peers.clone();
    Events::new(node, &survey.found.node_name, job.now, job.deadlines.event, peers)
}

/// What only one run at a time may do; a dry run, which changes nothing, has no lock.
fn locked(
    job: &Job<'_>,
    (node, processes): (&Node, Option<&Processes>),
    survey: Survey,
    (lock, events): (Option<&Lock>, Option<&mut Events<'_>>),
    began: Duration,
    console: &mut Console<'_>,
    report: &mut RunReport,
) -> Result<(), Failure> {
    let Survey { found, mut journal, evidence, decision, schedule, warnings, .. } = survey;
    report.evidence = evidence;
    report.node.clone_from(&found.node_name);
    report.before = found.inventory.clone();
    report.decision = decision.clone();
    report.schedule = Some(schedule);
    let kubelet = kubelet(job, node, processes, &report.before, &report.evidence);
    report.kubelet = kubelet.0;
    narrate::before(console, report, node);
    for warning in &warnings {
        console.warn(warning);
    }
    if let Some(why) = &decision.refused {
        return Err(Failure::new(Exit::ClockUntrusted, anyhow!("{why}")));
    }
    let mut steps = plan(&decision, job.backup_dir, job.deadlines.reread);
    steps.retain(|step| *step != Step::Turn || !job.turns.alone);
    if !journal.turn.drained.is_empty() {
        steps.push(Step::AfterRestart { components: journal.turn.drained.clone() });
    }
    report.steps = steps
        .iter()
        .map(|step| StepReport { step: step.name(), object: step.object(), outcome: Outcome::NotReached })
        .collect();
    let context = Context {
        node,
        node_name: &found.node_name,
        clock: job.clock,
        signals: job.signals,
        deadlines: &job.deadlines,
    };
    let mut exits: Vec<Exit> = decision.alarms.iter().map(|alarm| alarm.exit).collect();
    if steps.is_empty() {
        narrate::kubelet(console, &kubelet.1);
        // where only a backup is owed, what is still broken has an alarm of its own
        if let Some(open) = journal.open.as_ref().filter(|open| !open.restart.is_empty()) {
            narrate::owed(console, open);
            exits.push(Exit::Deferred);
        } else {
            narrate::skip(console, report);
        }
        if !job.dry_run {
            journal.turn.waited_ms = None;
            remember(job, &mut journal, &exits, began)?;
            if journal.turn.held {
                turning::give_back_left(job, &context, console);
            }
        }
        report.exit = Exit::worst(exits);
        return Ok(());
    }
    if job.dry_run {
        narrate::kubelet(console, &kubelet.1);
        exits.extend(rehearse(job, &context, console, report, &found, &journal, &steps)?);
        report.exit = Exit::worst(exits);
        return Ok(());
    }
    let files = backed_up(&found, &decision);
    // of the last run, this one
    journal.turn.waited_ms = None;
    let config = config(node, job.kubeadm_config);
    if let Config::Leave(why) = &config {
        console.warn(why);
    }
    let mut ground = preflight(&context, &needs(job, &files, &decision), &job.tools)?;
    etcd::weigh(&mut ground, etcd::is_urgent(&found.inventory, &journal, job.now), Weight::of(job), console);
    narrate::images(console, &ground.images);
    if let Some(events) = events {
        telling::begins(events, report, job.clock, console);
    }
    let walk = Walk { job, context, ground, config, files, found: &found, lock, began };
    exits.extend(walk.walk(&steps, journal, console, report)?);
    narrate::kubelet(console, &kubelet.1);
    report.exit = Exit::worst(exits);
    Ok(())
}

/// What keeps kubelet's own certificates from rotating: told, and never acted on.
fn kubelet(
    job: &Job<'_>,
    node: &Node,
    processes: Option<&Processes>,
    inventory: &Inventory,
    evidence: &Evidence,
) -> (Vec<KubeletState>, Vec<KubeletFinding>) {
    let at = Moment { now: job.clock.now(), since_boot: job.clock.since_boot() };
    let kubelet = evidence.get("kubelet");
    in_passing(&View::new(Looked { node, inventory, processes, kubelet, now: job.now, at }))
}

/// Alone: no other run of this program.
pub(crate) fn take_lock(root: &Root) -> Result<Lock, Failure> {
    Lock::take(root, Path::new(LOCK)).map_err(|error| {
        let exit = if matches!(error, LockError::Busy { .. }) { Exit::Busy } else { Exit::State };
        Failure::new(exit, error)
    })
}

/// No kubeadm of somebody else's at work.
pub(crate) fn keep_clear_of_kubeadm(processes: Option<&Processes>) -> Result<(), Failure> {
    let at_work = processes.map(|processes| processes.find_named("kubeadm")).unwrap_or_default();
    let Some(kubeadm) = at_work.first() else { return Ok(()) };
    let error = anyhow!("kubeadm is at work on this node (pid {}); try again when it has ended", kubeadm.pid);
    Err(Failure::new(Exit::Busy, error))
}

/// Writes down that a run came to a decision and had nothing to do. Not waited for: nothing depends on it.
fn remember(job: &Job<'_>, journal: &mut Journal, exits: &[Exit], began: Duration) -> Result<(), Failure> {
    journal.last_run = Some(job.now);
    journal.note_end(Exit::worst(exits.iter().copied()).code(), job.clock.since_boot().saturating_sub(began));
    if exits.is_empty() {
        journal.last_success = Some(job.now);
    }
    journal.write(&job.root, false).or_exit(Exit::State)
}

/// Writes down how a run ended that stopped on its way, for who asks how the job is. A journal that is not there is not made:
/// nothing was done.
fn remember_failure(job: &Job<'_>, exit: Exit, began: Duration) {
    if exit == Exit::Busy {
        return;
    }
    let (mut journal, warning) = Journal::read(&job.root);
    if warning.is_none() && journal != Journal::default() {
        journal.note_end(exit.code(), job.clock.since_boot().saturating_sub(began));
        // what made the run fail is what has to be told
        let _ = journal.write(&job.root, true);
    }
}

/// Whether kubeadm and the container runtime are those of the node that is looked at: on this machine, or where they were named.
pub fn tools_are_of_the_node(job: &Job<'_>) -> bool {
    job.root.is_host() || (job.tools.kubeadm.is_some() && (job.tools.crictl.is_some() || job.tools.docker.is_some()))
}
