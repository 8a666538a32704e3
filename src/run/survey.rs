//! What a run finds before it acts: what is on disk, what an earlier run owes, what is in use, and what follows from it.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::decision::{ClockFacts, Decision, Facts, RestartPolicy, decide, distrust};
use crate::evidence::Evidence;
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::inventory::Inventory;
use crate::journal::Journal;
use crate::node::Node;
use crate::node::proc::Processes;
use crate::settings::schedule::Schedule;

use super::look::{Found, evidence, look, note_serials};
use super::mending::HalfWritten;
use super::{Job, walk};

/// Everything that was found, and the decision.
#[derive(Debug)]
pub struct Survey {
    /// The certificates, who reads them, and the copies.
    pub found: Found,
    /// The journal as it is to be written next: the serials of now noted, and only what is still owed.
    pub journal: Journal,
    /// What is in use.
    pub evidence: Evidence,
    /// What is to be done.
    pub decision: Decision,
    /// When the job runs next.
    pub schedule: Schedule,
    /// Components that were restarted and seen back with exactly what they read now: once more would not help.
    pub tried: Vec<String>,
    /// What is to be said.
    pub warnings: Vec<String>,
}

/// Looks at the node, and decides. Changes nothing but this: in a run that is no dry run, a journal of another cluster is set
/// aside, and what an earlier run was killed in is put back from its backup.
///
/// # Errors
/// [`Exit::State`]: the journal of another cluster cannot be set aside.
pub fn survey(
    job: &Job<'_>,
    node: &Node,
    processes: Option<&Processes>,
    schedule: Schedule,
) -> Result<Survey, Failure> {
    let mut found = look(node, processes, &job.copies, job.now);
    let (mut journal, mut warnings, other_cluster) = recall(&job.root, &found.inventory);
    let trusted = distrust(&ClockFacts {
        inventory: &found.inventory,
        now: job.now,
        synchronised: job.synchronised,
        last_run: journal.last_run,
        force: job.force,
    })
    .is_none();
    // a run that is refused changes nothing
    let look_only = job.dry_run || !trusted;
    if other_cluster && !look_only {
        warnings.push(set_aside(&job.root)?);
    }
    let half_written = match HalfWritten::find(job, &journal, &found.inventory) {
        Ok(Some(half_written)) => Some(half_written),
        Ok(None) => {
            // everything is whole: that backup is owed nothing any more
            journal.open.iter_mut().for_each(|open| open.backup = None);
            None
        }
        Err(why) => {
            warnings.push(why);
            None
        }
    };
    if let Some(half_written) = &half_written {
        warnings.push(half_written.put_back(job, look_only));
        found = look(node, processes, &job.copies, job.now);
    }
    found.half_written = half_written.map(|found| found.names).unwrap_or_default();
    note_serials(&mut journal, node, &found.inventory, job.clock);
    warnings.extend(journal.last_run.and_then(|last_run| schedule.missed(last_run, job.now)));
    let evidence =
        evidence(node, processes, &found.inventory, &journal, &BTreeMap::new(), job.clock, job.deadlines.handshakes);
    let owed = journal.open.as_ref().map(|open| open.restart.clone()).unwrap_or_default();
    let cut_off = journal.open.is_some();
    let tried: Vec<String> = journal
        .restarted
        .iter()
        .filter(|(component, serials)| **serials == found.serials_of(component, &found.inventory))
        .map(|(component, _)| component.clone())
        .collect();
    let decision = decide(&Facts {
        inventory: &found.inventory,
        threshold: schedule.threshold,
        now: job.now,
        synchronised: job.synchronised,
        last_run: journal.last_run,
        force: job.force,
        readers: &found.readers,
        owed: &owed,
        cut_off,
        copies: &found.copies,
        evidence: &evidence,
        restart: job.restart,
        tried: &tried,
        half_written: &found.half_written,
    });
    // one that is proven, reads nothing any more, or is gone, is owed nothing; one whose manifest cannot be read now may come back
    let keep = job.restart == RestartPolicy::None;
    // one that was restarted in vain stays owed until it is proven, so that no later run takes silence for success
    let in_vain = |owed: &str| decision.alarms.iter().any(|alarm| alarm.exit == Exit::NotProven && alarm.name == owed);
    let hidden = |owed: &str| node.manifest(owed).is_none() && node.hides_some();
    journal.settle(|owed| keep || decision.restarts(owed) || in_vain(owed) || hidden(owed));
    Ok(Survey { found, journal, evidence, decision, schedule, tried, warnings })
}

/// The journal, what is to be said of it, and whether it is another cluster's: then it is as none. A node that was reset and
/// built anew has other CAs.
pub fn recall(root: &Root, inventory: &Inventory) -> (Journal, Vec<String>, bool) {
    let (mut journal, warning) = Journal::read(root);
    let mut warnings: Vec<String> = warning.into_iter().collect();
    let hashes = walk::ca_key_hashes(inventory);
    let other_cluster = !journal.is_of(&hashes);
    if other_cluster {
        journal = Journal::default();
        warnings.push("the journal is of a cluster with other CAs, and is not gone by".to_owned());
    }
    journal.ca_key_hashes = hashes;
    (journal, warnings, other_cluster)
}

/// Keeps the journal of another cluster under another name, and says so.
///
/// # Errors
/// [`Exit::State`]: it cannot be renamed.
pub fn set_aside(root: &Root) -> Result<String, Failure> {
    let aside = Journal::set_aside(root)
        .context("cannot set the journal of a cluster with other CAs aside")
        .or_exit(Exit::State)?;
    Ok(format!("that journal is kept as '{}'", aside.display()))
}
