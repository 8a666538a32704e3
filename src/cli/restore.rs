//! `k8s-certs-renew restore`: the list of backups, or one put back.

use std::io::Write;

use crate::exit::{Exit, Failure, OrExit};
use crate::report::{Console, backups, restore_report};
use crate::restore::{Consent, Job, list, restore};

use super::args::{Format, RestoreArgs};
use super::{Process, absolute, copies, overrides, root_at, voice};

/// Lists the backups, or puts the one that was asked for back.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`]. The backup directory cannot be read: [`Exit::State`],
/// [`Exit::NotRoot`].
pub fn run(
    args: &RestoreArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let root = root_at(&args.place)?;
    let copies = copies(&args.kubeconfig_copy);
    absolute(&args.place, [&args.backup_dir].into_iter().chain(&copies)).or_exit(Exit::Usage)?;
    let job = Job {
        root,
        overrides: overrides(&args.place),
        backup_dir: &args.backup_dir,
        copies,
        now: process.clock.now(),
        is_root: process.is_root,
        clock: process.clock,
        signals: process.signals,
    };
    let text = args.output == Format::Text;
    let mut console = Console::new(out, err, voice(&args.voice, text, process));
    let Some(id) = &args.id else { return show_list(&job, text, &mut console) };
    let consent = match process.terminal.answer {
        _ if args.dry_run => Consent::DryRun,
        _ if args.yes => Consent::Given,
        // whoever reads a document cannot see what would be changed
        Some(answer) if text => Consent::Ask(answer),
        _ => Consent::Missing,
    };
    let report = restore(&job, id, consent, &mut console);
    if !text {
        console.out(&format!("{:#}", restore_report::json(&report)));
    }
    Ok(report.exit)
}

fn show_list(job: &Job<'_>, text: bool, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let lines = list(job)?;
    if !text {
        console.out(&format!("{:#}", backups::json(job.backup_dir, &lines)));
    } else if lines.is_empty() {
        console.out(&format!("there are no backups in '{}'", job.backup_dir.display()));
    } else {
        console.out(&backups::table(&lines, console.voice.width));
    }
    lines.iter().filter_map(|line| line.standing.why()).for_each(|why| console.warn(why));
    Ok(Exit::Ok)
}
