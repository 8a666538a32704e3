//! The hooks around a restart, and what of them the journal owes: a node that was taken out of a load balancer has to come back.

use crate::exit::{Exit, Failure, OrExit};
use crate::journal::Journal;
use crate::report::{Console, Outcome};
use crate::steps::restart::{Restarted, healthy};
use crate::turn::door::{Door, is_ready};
use crate::turn::hooks::Phase;

use super::walk::{Progress, Walk};

impl Walk<'_> {
    /// Restarts a component behind its hook; the journal knows of it before, so that a run that is killed leaves no node drained. What
    /// was not taken down after all gets the hook after a restart at once.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn with_hooks(
        &self,
        component: &str,
        journal: &mut Journal,
        progress: &mut Progress<'_>,
        console: &mut Console<'_>,
        restart: impl FnOnce(&mut Console<'_>) -> Restarted,
    ) -> Result<Restarted, Failure> {
        let hooks = &self.job.turns.hooks;
        if hooks.before.is_none() && hooks.after.is_none() {
            return Ok(restart(console));
        }
        if !journal.turn.drained.iter().any(|one| one == component) {
            journal.turn.drained.push(component.to_owned());
            journal.write(&self.job.root, true).or_exit(Exit::State)?;
        }
        let restarted = match self.hook(Phase::Before, component, console) {
            Ok(()) => restart(console),
            Err(why) => Restarted::Deferred(format!("{why}; {component} is left running")),
        };
        if matches!(restarted, Restarted::Deferred(_)) {
            self.after_restart(component, journal, progress, console)?;
        }
        Ok(restarted)
    }

    /// Runs the hook after a restart; why it failed, if it did. One that fails stays owed: the next run runs it again (23).
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn after_restart(
        &self,
        component: &str,
        journal: &mut Journal,
        progress: &mut Progress<'_>,
        console: &mut Console<'_>,
    ) -> Result<Option<String>, Failure> {
        if !journal.turn.drained.iter().any(|one| one == component) {
            return Ok(None);
        }
        if self.job.turns.hooks.after.is_none() && self.job.turns.hooks.before.is_none() {
            console.warn(&format!(
                "an earlier run has called a hook before the restart of {component}, and there is no --post-restart any more: see that its load balancer uses this node again"
            ));
        } else if let Err(why) = self.hook(Phase::After, component, console) {
            console.error(&format!("{why}; the next run calls it again, and until then the node may be drained"));
            progress.exits.push(Exit::Deferred);
            return Ok(Some(why));
        }
        journal.turn.drained.retain(|one| one != component);
        journal.write(&self.job.root, true).or_exit(Exit::State)?;
        Ok(None)
    }

    /// Runs the hooks that an earlier run owes, also for what is still to be restarted, since nobody knows when that will be: the restart
    /// drains it again. But not for what this run has taken down and not seen to be back, nor for what is down. In all no longer than
    /// two hooks may take.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn owed_hooks(
        &self,
        journal: &mut Journal,
        progress: &mut Progress<'_>,
        console: &mut Console<'_>,
    ) -> Result<Outcome, Failure> {
        let begin = self.context.clock.since_boot();
        let owed = |component: &String| journal.open.as_ref().is_some_and(|open| open.restart.contains(component));
        let mut drained = Vec::new();
        for component in &journal.turn.drained {
            match owed(component).then(|| self.may_come_back(component, progress)) {
                Some(Err(why)) => console.warn(&format!("the node stays drained for {component}: {why}")),
                Some(Ok(())) | None => drained.push(component.clone()),
            }
        }
        let mut outcome = if drained.is_empty() { Outcome::NotReached } else { Outcome::Done };
        for component in drained {
            if self.context.clock.since_boot().saturating_sub(begin) >= self.context.deadlines.hook {
                progress.exits.push(Exit::Deferred);
                return Ok(Outcome::Deferred("the time for hooks is over".to_owned()));
            }
            if let Some(why) = self.after_restart(&component, journal, progress, console)? {
                outcome = Outcome::Failed(why);
            }
        }
        Ok(outcome)
    }

    /// Whether a component whose restart is put off serves as it did before it was drained.
    ///
    /// # Errors
    /// It does not: why.
    fn may_come_back(&self, component: &str, progress: &Progress<'_>) -> Result<(), String> {
        if progress.down.iter().any(|one| one == component) {
            return Err("it was taken down, and is not proven to be back".to_owned());
        }
        let context = &self.context;
        let manifest = context.node.manifest(component).ok_or("its manifest cannot be read")?;
        if component != "kube-apiserver" {
            return healthy(context, manifest);
        }
        // it may well show the certificate from before the renewal
        let key = Door::new(context.node, self.job.now, context.deadlines.api, Vec::new()).key();
        let mut state = "there is no address to ask it at".to_owned();
        for addr in manifest.serving() {
            match is_ready(addr, &key, self.job.now, context.deadlines.api) {
                Ok(()) => return Ok(()),
                Err(why) => state = format!("{addr}{why}"),
            }
        }
        Err(state)
    }

    fn hook(&self, phase: Phase, component: &str, console: &mut Console<'_>) -> Result<(), String> {
        let hooks = &self.job.turns.hooks;
        match hooks.run(phase, self.context.node_name, component, self.context.deadlines.hook) {
            Ok(true) => console.detail(&format!("the {} hook for {component} has ended well", phase.word())),
            Ok(false) => {}
            Err(failed) => {
                // not in the outcome: that goes into an Event
                console.error(&format!("{}: {}", failed.what, failed.words));
                return Err(failed.what);
            }
        }
        Ok(())
    }
}
