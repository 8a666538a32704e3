//! The turn in a run: waited for before the first restart, looked at again before each further one, given back on every way out.

use std::net::SocketAddr;

use chrono::{DateTime, TimeDelta, Utc};

use crate::decision::{kubeadm_leaves, moment};
use crate::exit::{Exit, Failure, OrExit};
use crate::inventory::Inventory;
use crate::journal::{Journal, TurnSeen};
use crate::report::{Console, Outcome, RunReport};
use crate::steps::{Context, quorum};
use crate::turn::hooks::Hooks;
use crate::turn::{Around, Ended, Party, Word};

use super::walk::{Progress, Walk};
use super::{Job, etcd};

/// How a run stands to the other control-plane nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turns {
    /// It asks nobody, and waits for nobody (`--alone`).
    pub alone: bool,
    /// What is called around each restart.
    pub hooks: Hooks,
}

/// Why waiting for others does more harm than going on, if so: a certificate that is in use ends within the days-buffer, one that was on
/// disk before this run, or one that an earlier run has replaced.
pub(super) fn ends_soon(
    inventory: &Inventory,
    journal: &Journal,
    now: DateTime<Utc>,
    days_buffer: u32,
) -> Option<String> {
    let on_disk = kubeadm_leaves(inventory).filter_map(|one| Some((one.not_after()?, one.name.as_str())));
    let replaced = journal
        .open
        .as_ref()
        .and_then(|open| open.expires)
        .map(|end| (end, "one that was replaced, and is in use still"));
    let (end, name) = on_disk.chain(replaced).min()?;
    let soon = now + TimeDelta::days(i64::from(days_buffer));
    (end < soon).then(|| format!("a certificate in use ends on {} ({name}), and waiting would be worse", moment(end)))
}

/// The run, as the turn sees it.
struct Surroundings<'x, 'c, 'w> {
    walk: &'x Walk<'w>,
    urgent: bool,
    journal: &'x mut Journal,
    console: &'x mut Console<'c>,
    /// Why the journal could not be written before the turn was taken.
    failed: Option<Failure>,
}

impl Around for Surroundings<'_, '_, '_> {
    fn etcd(&mut self) -> Option<String> {
        if self.urgent {
            return None;
        }
        // where etcd did not tell how its members are, that was said before
        let Some(Ok(_)) = &self.walk.ground.etcd else { return None };
        let manifest = self.walk.context.node.manifest("etcd")?;
        let down = quorum::look(&self.walk.context, manifest).ok()?.down()?;
        Some(etcd::nothing_is_restarted(&down))
    }

    fn note(&mut self, seen: Option<TurnSeen>, peers: &[SocketAddr]) {
        self.journal.turn.peers = peers.to_vec();
        if self.journal.turn.seen == seen {
            return;
        }
        self.journal.turn.seen = seen;
        if let Err(error) = self.journal.write(&self.walk.job.root, true) {
            self.console.warn(&format!("whom this node waits for is not kept, and the next run waits anew: {error:#}"));
        }
    }

    fn takes(&mut self) -> Result<(), String> {
        if self.journal.turn.held {
            return Ok(());
        }
        self.journal.turn.held = true;
        self.journal.write(&self.walk.job.root, true).or_exit(Exit::State).map_err(|failure| {
            let why = failure.to_string();
            self.failed = Some(failure);
            why
        })
    }

    fn say(&mut self, word: Word) {
        match word {
            Word::Head(text) => self.console.obstacle(&text),
            Word::Line(text) => self.console.say(&text),
            Word::Warn(text) => self.console.warn(&text),
        }
    }
}

impl<'a> Walk<'a> {
    /// Waits for this node's turn before its first restart, and looks again before each further one. What comes of the restart where it
    /// is not to be; none where it may be.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn turn(
        &self,
        component: &str,
        journal: &mut Journal,
        progress: &mut Progress<'a>,
        console: &mut Console<'_>,
        report: &RunReport,
    ) -> Result<Option<Outcome>, Failure> {
        if self.job.turns.alone || self.ground.deferral.is_some() || self.ground.runtime.is_none() {
            return Ok(None);
        }
        let days_buffer = report.schedule.as_ref().map_or(0, |schedule| schedule.threshold.days_buffer);
        let ends_soon = ends_soon(&self.found.inventory, journal, self.job.now, days_buffer);
        let urgent = etcd::is_urgent(&self.found.inventory, journal, self.job.now);
        // owed, should the run be killed while it waits
        journal.write(&self.job.root, true).or_exit(Exit::State)?;
        let kept = journal.turn.clone();
        let mut around = Surroundings { walk: self, urgent, journal, console, failed: None };
        let ended = match &mut progress.party {
            Some(party) => {
                let heavy = ["kube-apiserver", "etcd"].contains(&component);
                party.again(heavy, &mut around).map_or_else(Ended::Deferred, |()| Ended::Go)
            }
            None => {
                let party = Party::new(self.context, self.job.now, self.began, &kept, ends_soon);
                let party = progress.party.insert(party);
                let ended = party.wait(&mut around);
                if let Some(failure) = around.failed {
                    return Err(failure);
                }
                progress.turn = Some(match &ended {
                    Ended::Go => Outcome::Done,
                    Ended::Deferred(why) => Outcome::Deferred(why.clone()),
                    Ended::Signal(number) => Outcome::Failed(format!("ended by signal {number} while it waited")),
                });
                ended
            }
        };
        let waited = progress.party.as_ref().map(|party| party.outcome.waited);
        journal.turn.waited_ms = waited.map(|waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
        // nothing is taken down any more
        let ended = match (ended, self.context.signals.received()) {
            (Ended::Go, Some(number)) => Ended::Signal(number),
            (ended, _) => ended,
        };
        Ok(match ended {
            Ended::Go => None,
            Ended::Deferred(why) => {
                console.obstacle(&format!("Deferred: {why}"));
                progress.exits.push(Exit::Deferred);
                let outcome = Outcome::Deferred(why);
                progress.stopped = Some(outcome.clone());
                Some(outcome)
            }
            // the walk ends at the next step
            Ended::Signal(number) => {
                Some(Outcome::Failed(format!("ended by signal {number} while it waited for its turn")))
            }
        })
    }

    /// Gives the turn back, and reports what came of it.
    pub(super) fn end_turn(&self, progress: &mut Progress<'_>, console: &mut Console<'_>, report: &mut RunReport) {
        let step = report.steps.iter_mut().find(|step| step.step == "turn");
        if let (Some(step), Some(outcome)) = (step, progress.turn.take()) {
            step.outcome = outcome;
        }
        let Some(party) = &mut progress.party else {
            give_back_left(self.job, &self.context, console);
            return;
        };
        match party.give_back() {
            Ok(()) => not_held(self.job, console),
            // the journal has it still, and the next run tries again
            Err(why) => {
                let minutes = party.duration().as_secs().div_ceil(60);
                console.warn(&format!(
                    "the turn cannot be given back, and the other nodes wait it out, {minutes} minutes from its taking on, unless the next run here can: {why}"
                ));
            }
        }
        report.turn = Some(party.outcome.clone());
    }
}

/// Gives back the turn that an earlier run of this node was killed in, if the journal tells of one: nobody has to wait that out. One try;
/// the others wait for it if it fails.
pub(super) fn give_back_left(job: &Job<'_>, context: &Context<'_>, console: &mut Console<'_>) {
    let (journal, _) = Journal::read(&job.root);
    if !journal.turn.held || job.dry_run {
        return;
    }
    let mut party = Party::new(*context, job.now, job.clock.since_boot(), &journal.turn, None);
    match party.give_back() {
        Ok(()) => not_held(job, console),
        Err(why) => console.warn(&format!("the turn of a run that was cut off is not given back yet: {why}")),
    }
}

fn not_held(job: &Job<'_>, console: &mut Console<'_>) {
    let (mut journal, warning) = Journal::read(&job.root);
    if warning.is_some() || !journal.turn.held {
        return;
    }
    journal.turn.held = false;
    if let Err(error) = journal.write(&job.root, true) {
        console.warn(&format!("{error:#}"));
    }
}
