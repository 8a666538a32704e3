//! Puts the files back: what is there is kept first, and the journal knows what will be stale.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};

use crate::exit::{Exit, Failure, OrExit};
use crate::journal::{Journal, OpenRun};
use crate::node::Node;
use crate::report::{Change, Console, Difference, Ending, RestoreReport};
use crate::run::ca_key_hashes;
use crate::run::look::{Found, inventory, note_serials};
use crate::run::survey::{recall, set_aside};
use crate::steps::backup::{About, Backup};

use super::Job;
use super::compare::{Comparison, directories};

/// Puts back what was compared. To be called by who holds the lock.
///
/// # Errors
/// 74: backup or journal cannot be written, or a file cannot be replaced; then those before it are taken back. A copy that
/// cannot be written is no error but 24 in the report.
pub(super) fn put_back(
    job: &Job<'_>,
    node: &Node,
    found: &Found,
    shown: &Comparison,
    console: &mut Console<'_>,
    report: &mut RestoreReport,
) -> Result<(), Failure> {
    let (mut journal, mut warnings, other_cluster) = recall(&job.root, &found.inventory);
    if other_cluster {
        warnings.push(set_aside(&job.root)?);
    }
    warnings.iter().for_each(|warning| console.warn(warning));
    // what is on disk now, so that what comes in its place counts as new, and who started with this as stale
    note_serials(&mut journal, node, &found.inventory, job.clock);
    let (own, copies): (Vec<&Change>, Vec<&Change>) = shown.changes.iter().partition(|change| !change.is_copy);
    let files: Vec<PathBuf> = own.iter().flat_map(|change| change.files.clone()).collect();
    for dir in directories(&job.root, &files) {
        job.root
            .probe_writable(&dir)
            .with_context(|| format!("cannot write to '{}'; nothing was changed", dir.display()))
            .or_exit(Exit::State)?;
    }
    let kept = keep(job, node, found, shown)
        .context("nothing was changed, since what is there could not be backed up")
        .or_exit(Exit::State)?;
    console.say(&format!("what was there is kept as backup {}", kept.id()));
    report.kept_in = Some(kept.id().to_owned());

    let earlier = journal.clone();
    open(&mut journal, found, &own, &kept, job);
    journal.write(&job.root, true).context("nothing was changed").or_exit(Exit::State)?;
    for (index, change) in own.iter().enumerate() {
        if let Err(error) = shown.backup.put_back(&job.root, &change.files) {
            return Err(take_back(job, &own[..=index], &kept, &earlier, &anyhow!(error)));
        }
        console.detail(&format!("put back '{}'", change.name));
    }
    let mut done: Vec<&str> = own.iter().map(|change| change.name.as_str()).collect();
    for copy in copies {
        match shown.backup.put_back(&job.root, &copy.files) {
            Ok(()) => {
                console.detail(&format!("put back '{}'", copy.name));
                done.push(&copy.name);
            }
            Err(error) => {
                console.error(&error.to_string());
                report.exit = Exit::CopyFailed;
            }
        }
    }
    let after = inventory(node, &job.copies, job.now);
    note_serials(&mut journal, node, &after, job.clock);
    settle(&mut journal, &earlier);
    report.restart = journal.open.as_ref().map(|open| open.restart.clone()).unwrap_or_default();
    report.ending = Ending::Restored;
    for change in own {
        let problem = after.get(&change.name).and_then(|now| now.problems.iter().find(|problem| problem.is_damage()));
        if let Some(problem) = problem {
            console.warn(&format!("{}: {problem}", change.name));
        }
    }
    if !done.is_empty() {
        console.say(&format!("put back: {}", done.join(", ")));
    }
    console.say(&next(&report.restart));
    journal
        .write(&job.root, true)
        .context("the files are put back; the journal says so, but not the moment")
        .or_exit(Exit::State)
}

/// A backup of what is going to be replaced.
fn keep(job: &Job<'_>, node: &Node, found: &Found, shown: &Comparison) -> anyhow::Result<Backup> {
    let about = About {
        created: job.now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        reason: format!("before restore of {}", shown.backup.id()),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        ca_key_hashes: ca_key_hashes(&found.inventory),
    };
    let id = job.now.format("%Y%m%dT%H%M%SZ").to_string();
    let files: Vec<PathBuf> = shown.changes.iter().flat_map(|change| change.files.clone()).collect();
    Ok(Backup::make(&job.root, job.backup_dir, &node.manifests_dir(), &id, &files, &about)?)
}

/// Opens the journal: what has to be restarted once these are put back is every static pod that reads one of them and does not
/// re-read it by itself; and a pair that a cut leaves torn is whole in `kept`, or in the backup of an earlier run that was cut off.
fn open(journal: &mut Journal, found: &Found, own: &[&Change], kept: &Backup, job: &Job<'_>) {
    let content = || own.iter().filter(|change| change.difference == Difference::Content);
    let changed = |name: &String| content().any(|change| change.name == *name);
    let readers = found.readers.iter().filter(|reader| !reader.rereads && reader.reads.iter().any(changed));
    let readers: Vec<String> = readers.map(|reader| reader.component.clone()).collect();
    for component in &readers {
        // it may have been restarted with these very certificates, before it was with those that go now
        journal.restarted.remove(component);
    }
    let earlier = journal.open.take();
    let replaced = content().filter_map(|change| change.on_disk.as_ref()).map(|leaf| leaf.not_after);
    let expires = replaced.chain(earlier.as_ref().and_then(|open| open.expires)).min();
    let (mut restart, backup) = earlier.map(|open| (open.restart, open.backup)).unwrap_or_default();
    restart.extend(readers);
    restart.sort_unstable();
    restart.dedup();
    let backup = backup.or_else(|| Some(kept.id().to_owned()));
    journal.open = Some(OpenRun { began: job.now, restart, backup, expires });
}

/// Everything is put back: what is left of the journal's open run is what is owed.
fn settle(journal: &mut Journal, earlier: &Journal) {
    if let Some(open) = &mut journal.open {
        open.backup = earlier.open.as_ref().and_then(|open| open.backup.clone());
    }
    journal.open.take_if(|open| open.restart.is_empty() && open.backup.is_none());
}

/// A file could not be replaced: those before it become again what they were, and the journal too.
fn take_back(job: &Job<'_>, changes: &[&Change], kept: &Backup, earlier: &Journal, error: &anyhow::Error) -> Failure {
    let is_kept = |file: &&PathBuf| kept.files().iter().any(|saved| saved.path == **file);
    let files: Vec<PathBuf> = changes.iter().flat_map(|change| &change.files).filter(is_kept).cloned().collect();
    let taken_back = kept.put_back(&job.root, &files).map_err(anyhow::Error::new);
    let error = match taken_back.and_then(|()| earlier.write(&job.root, true)) {
        Ok(()) => anyhow!("{error}; what was replaced before it is as it was"),
        Err(other) => anyhow!(
            "{error}; and what was replaced before it could not be taken back: {other}; mend that, then restore '{}', which is what was there",
            kept.id()
        ),
    };
    Failure::new(Exit::State, error)
}

/// What the person has to do next.
fn next(restart: &[String]) -> String {
    let look = "`k8s-certs-renew run --dry-run` says what it would do";
    match restart {
        [] => format!("Next: `k8s-certs-renew run`. It renews what is due; {look}"),
        restart => format!(
            "Next: `k8s-certs-renew run`. It restarts {}, which still work with what was replaced, and renews what is due; {look}",
            restart.join(", ")
        ),
    }
}
