//! A dry run: what a real one would do, and what would stand in its way; and what both look for before anything is changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::decision::{Cause, Decision, kubeadm_leaves};
use crate::exit::{Exit, Failure};
use crate::journal::Journal;
use crate::plan::Step;
use crate::report::{Console, Outcome, RunReport};
use crate::steps::preflight::{Ground, Needs, preflight};
use crate::steps::renew::{Config, config};
use crate::steps::{Context, Deadlines};
use crate::turn::Party;

use super::etcd::Weight;
use super::look::Found;
use super::{Job, etcd, narrate, restarting, tools_are_of_the_node, turning};

/// A dry run: what would be done, and what would stand in its way.
pub(super) fn rehearse(
    job: &Job<'_>,
    context: &Context<'_>,
    console: &mut Console<'_>,
    report: &mut RunReport,
    found: &Found,
    journal: &Journal,
    steps: &[Step],
) -> Result<Vec<Exit>, Failure> {
    narrate::rehearsal(console, steps);
    for step in &mut report.steps {
        step.outcome = Outcome::Planned;
    }
    if let Config::Leave(why) = config(context.node, job.kubeadm_config) {
        console.warn(&why);
    }
    // a single look: waiting is for the run that needs it
    let deadlines = Deadlines { runtime: Duration::ZERO, ..job.deadlines };
    let context = Context { deadlines: &deadlines, ..*context };
    let files = backed_up(found, &report.decision);
    let mut ground = if tools_are_of_the_node(job) {
        preflight(&context, &Needs { dry_run: true, ..needs(job, &files, &report.decision) }, &job.tools)?
    } else {
        console
            .note("the tools of this machine tell nothing of another root, and are not asked whether it could be done");
        Ground::default()
    };
    let urgent = etcd::is_urgent(&found.inventory, journal, job.now);
    etcd::weigh(&mut ground, urgent, Weight::of(job), console);
    narrate::images(console, &ground.images);
    let others = turn(job, &context, console, report, journal, found);
    let mut exits = Vec::new();
    // what is half-written is put back first
    let unreadable = kubeadm_leaves(&found.inventory)
        .any(|certificate| certificate.is_unreadable() && !found.half_written.contains(&certificate.name));
    if unreadable && !report.decision.renew.is_empty() {
        exits.push(Exit::RenewalFailed);
    }
    let renewing: Vec<&str> = report.decision.renew.iter().map(|item| item.name.as_str()).collect();
    // what re-reads its files is not restarted at all, as a rule
    let restarts = report.decision.restart.iter().filter(|item| !(item.rereads && item.cause == Cause::Renewed));
    let in_the_way = restarts.filter_map(|item| {
        let lasting = |name: &str| !renewing.contains(&name);
        restarting::in_the_way(context.node, &item.name, &found.inventory, &lasting)
            .or_else(|| ground.images.missing.get(&item.name).cloned())
    });
    let etcd_stays = etcd::stays(&ground, &report.decision);
    for why in ground.deferral.iter().cloned().chain(in_the_way).chain(etcd_stays).chain(others) {
        console.obstacle(&format!("Deferred: {why}"));
        exits.push(Exit::Deferred);
    }
    console.headline("Dry run: nothing was changed");
    if job.detailed_exitcode {
        exits.push(Exit::WouldChange);
    }
    Ok(exits)
}

/// What has to be there for it.
pub(super) fn needs<'a>(job: &'a Job<'_>, files: &'a [PathBuf], decision: &'a Decision) -> Needs<'a> {
    Needs {
        files,
        copies: decision.copy.iter().map(|item| Path::new(&item.name)).collect(),
        backup_dir: job.backup_dir,
        components: decision.restart.iter().map(|item| item.name.as_str()).collect(),
        dry_run: false,
    }
}

/// The files that are backed up: everything that kubeadm may rewrite, and the copies that are updated.
pub(super) fn backed_up(found: &Found, decision: &Decision) -> Vec<PathBuf> {
    if decision.renew.is_empty() {
        return Vec::new();
    }
    let of_kubeadm = kubeadm_leaves(&found.inventory).flat_map(|certificate| certificate.files());
    let mut files: Vec<PathBuf> = of_kubeadm.map(Path::to_path_buf).collect();
    files.extend(decision.copy.iter().map(|item| PathBuf::from(&item.name)));
    files.sort_unstable();
    files.dedup();
    files
}

/// Whose turn it is, where it is to be waited for; and what the others lack, if that would make it wait.
fn turn(
    job: &Job<'_>,
    context: &Context<'_>,
    console: &mut Console<'_>,
    report: &mut RunReport,
    journal: &Journal,
    found: &Found,
) -> Option<String> {
    if !report.steps.iter().any(|step| step.step == Step::Turn.name()) {
        return None;
    }
    let days_buffer = report.schedule.as_ref().map_or(0, |schedule| schedule.threshold.days_buffer);
    let ends_soon = turning::ends_soon(&found.inventory, journal, job.now, days_buffer);
    let mut party = Party::new(*context, job.now, job.clock.since_boot(), &journal.turn, ends_soon);
    let looked = party.look();
    report.turn = Some(party.outcome.clone());
    let others = party.outcome.others.filter(|others| others.of > 0);
    if let (Ok(_), Some(others)) = (&looked, others) {
        let turn = match &party.outcome.holder {
            Some(node) => format!("node '{node}' has it now"),
            None => "nobody has it now".to_owned(),
        };
        console.say(&format!("turn          {turn}; other API servers ready: {} of {}", others.ready, others.of));
    }
    looked.unwrap_or_else(|why| {
        console.warn(&format!("whose turn it is cannot be seen: {why}"));
        None
    })
}
