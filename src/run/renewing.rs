//! The step that renews: kubeadm is called, and what it did is judged by what is on disk.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::decision::kubeadm_leaves;
use crate::exit::{Exit, Failure, OrExit};
use crate::inventory::{Certificate, Inventory};
use crate::journal::{Journal, OpenRun};
use crate::report::{Console, Outcome, RunReport};
use crate::steps::Context;
use crate::steps::backup::Backup;
use crate::steps::renew::{Config, Kubeadm, is_spoilt, renew};

use super::look::{inventory, note_serials};
use super::walk::{Progress, Walk};

impl Walk<'_> {
    /// Renews, reads again what came of it, and puts back what came out worse.
    ///
    /// # Errors
    /// The journal cannot be written, so nothing was renewed.
    pub(super) fn renew(
        &self,
        names: &[String],
        all: bool,
        journal: &mut Journal,
        progress: &mut Progress<'_>,
        console: &mut Console<'_>,
        report: &mut RunReport,
    ) -> Result<Outcome, Failure> {
        let Context { node, .. } = self.context;
        let program = self.ground.kubeadm.as_deref().context("kubeadm was not looked for").or_exit(Exit::Fault)?;
        // from here on a cut leaves files that look fresh and processes that are not: the journal knows
        let before_that = journal.open.take();
        let replaced = self.found.inventory.certificates.iter().filter(|one| names.contains(&one.name));
        let expires =
            replaced.filter_map(Certificate::not_after).chain(before_that.as_ref().and_then(|open| open.expires)).min();
        let mut restart = before_that.map(|open| open.restart).unwrap_or_default();
        restart.extend(report.decision.restart.iter().map(|item| item.name.clone()));
        restart.sort_unstable();
        restart.dedup();
        let backup = progress.backup.as_ref().map(|backup| backup.id().to_owned());
        journal.open = Some(OpenRun { began: self.job.now, restart, backup, expires });
        journal.write(&self.job.root, true).context("nothing was renewed").or_exit(Exit::State)?;

        console.headline("Renewing certificates managed by kubeadm");
        let kubeadm = Kubeadm {
            program,
            config: if let Config::Use(path) = &self.config { Some(path) } else { None },
            cert_dir: &node.cert_dir,
            all,
            lock: self.lock,
        };
        let before = &self.found.inventory;
        let read = || inventory(node, &self.job.copies, self.job.now);
        let (backup, console) = (progress.backup.as_ref(), RefCell::new(console));
        let mut mend = |after| self.put_back(before, after, backup, &mut console.borrow_mut());
        let mut say = |call: &str| console.borrow_mut().detail(call);
        let mut renewed = renew(&self.context, &kubeadm, before, names, &read, &mut mend, &mut say);
        renewed.inventory = mend(renewed.inventory);
        let console = console.into_inner();
        // what could not be put back is put back by the next run, from the backup that the journal names
        let still_spoilt =
            kubeadm_leaves(before).any(|old| renewed.inventory.get(&old.name).is_some_and(|new| is_spoilt(old, new)));
        if let Some(open) = &mut journal.open
            && !still_spoilt
        {
            open.backup = None;
        }
        // the moment that every process has to have started after
        note_serials(journal, node, &renewed.inventory, self.context.clock);
        for name in &renewed.done {
            console.say(&format!("{name} renewed"));
        }
        for (name, why) in &renewed.undone {
            console.error(&format!("{name} is not renewed: {why}"));
        }
        let broken = kubeadm_leaves(&renewed.inventory).any(Certificate::is_unreadable);
        let still_due = self.still_due(&renewed.inventory, &renewed.done, report);
        for (name, reason) in &still_due {
            console.error(&format!("{name} is renewed, and still due: {reason}; its validity is shorter than interval and days-buffer together"));
        }
        if !renewed.undone.is_empty() || !still_due.is_empty() || broken {
            progress.exits.push(Exit::RenewalFailed);
        }
        let outcome = if renewed.undone.is_empty() {
            Outcome::Done
        } else {
            let names: Vec<&str> = renewed.undone.iter().map(|(name, _)| name.as_str()).collect();
            Outcome::Failed(format!("not renewed: {}", names.join(", ")))
        };
        progress.changed |= !renewed.done.is_empty();
        progress.renewed = Some(renewed.done);
        report.after = Some(renewed.inventory);
        Ok(outcome)
    }

    /// What came out worse than it was goes back to what it was: a torn pair, another CA's certificate, other names.
    fn put_back(
        &self,
        before: &Inventory,
        after: Inventory,
        backup: Option<&Backup>,
        console: &mut Console<'_>,
    ) -> Inventory {
        let Some(backup) = backup else { return after };
        let mut any = false;
        for old in kubeadm_leaves(before) {
            let Some(new) = after.get(&old.name).filter(|new| is_spoilt(old, new)) else { continue };
            let problem = new.problems.first().map_or_else(|| "other names".to_owned(), ToString::to_string);
            let files: Vec<PathBuf> = old.files().into_iter().map(Path::to_path_buf).collect();
            any = true;
            match backup.put_back(&self.job.root, &files) {
                Ok(()) => console.warn(&format!(
                    "{}: kubeadm left it worse than it was ({problem}); put back from the backup",
                    old.name
                )),
                Err(error) => {
                    console.error(&format!(
                        "{}: kubeadm left it worse than it was ({problem}), and it cannot be put back: {error}",
                        old.name
                    ));
                }
            }
        }
        if any { inventory(self.context.node, &self.job.copies, self.job.now) } else { after }
    }

    /// What was renewed and would be renewed again by the very next run.
    fn still_due(&self, after: &Inventory, done: &[String], report: &RunReport) -> Vec<(String, String)> {
        let Some(threshold) = report.schedule.as_ref().map(|schedule| schedule.threshold) else { return Vec::new() };
        let again = |name: &String| {
            let leaf = after.get(name)?.leaf.as_ref()?;
            Some((name.clone(), threshold.due(leaf, self.job.now)?))
        };
        done.iter().filter_map(again).collect()
    }
}
