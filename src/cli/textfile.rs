//! `--textfile`: the metrics of a check in a file, for node_exporter's textfile collector.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use crate::check::check;
use crate::exit::Exit;
use crate::files::{Replace, Root};
use crate::host::Signals;
use crate::report::check_report::{CheckReport, Limits};
use crate::report::{Console, metrics};
use crate::run::Job;
use crate::settings::layers::short;
use crate::steps::Deadlines;

use super::args::WatchArgs;
use super::check::HANDSHAKES;

/// Whether the file may be one of the collector's: it reads what ends with `.prom` and nothing else, and a slip in a setting must
/// not put metrics in the place of a key.
///
/// # Errors
/// It has another name.
pub fn is_the_collectors(watch: &WatchArgs) -> anyhow::Result<()> {
    match &watch.textfile {
        Some(path) if path.extension().is_none_or(|end| end != "prom") => Err(anyhow!(
            "--textfile: '{}' does not end with .prom; the collector reads no other file, and none is replaced",
            short(&path.display().to_string())
        )),
        _ => Ok(()),
    }
}

/// Writes the metrics of a report in place of the file, by rename, so that the collector never reads half of it; it is
/// readable for all (0644), as the collector is not root. The collector passes over the temporary file, whose name does not end
/// with `.prom`.
///
/// A file that cannot be written is a warning: whoever asked for the check or the run has more to learn from its exit code, and
/// the age of the file tells the monitoring.
pub fn write(path: &Path, root: &Root, report: &CheckReport, console: &mut Console<'_>) {
    let how = Replace { durable: false, ..Replace::with_mode(0o644) };
    let written = metrics::text(report)
        .and_then(|text| Ok(root.replace(path, text.as_bytes(), &how)?))
        .with_context(|| format!("cannot write the metrics to '{}'", path.display()));
    if let Err(error) = written {
        console.warn(&format!("{error:#}; does its directory exist, and may it be written to?"));
    }
}

/// Writes the metrics as they are after a run: those of a check, and how this run has ended, which the journal need not know.
pub fn write_after(
    job: Job<'_>,
    exit: Exit,
    took: Duration,
    limits: Limits,
    watch: &WatchArgs,
    console: &mut Console<'_>,
) {
    let Some(path) = &watch.textfile else { return };
    // a signal has ended the run, and is not to cut the look at what it left
    let signals = Signals::none();
    let deadlines = Deadlines { handshakes: HANDSHAKES, ..job.deadlines };
    let look = Job { now: job.clock.now(), dry_run: true, force: false, signals: &signals, deadlines, ..job };
    let mut report = check(&look, limits, &watch.also, Some(path));
    report.job.last_exit = Some(exit.code());
    report.job.last_duration = Some(took);
    write(path, &look.root, &report, console);
}
