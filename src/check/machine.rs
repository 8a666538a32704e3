//! What the machine itself tells of the time.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};

use crate::decision::{CopyFact, Standing};
use crate::files::Root;
use crate::inventory::{Certificate, Inventory};
use crate::report::check_report::CheckReport;
use crate::run::Job;
use crate::run::survey::Survey;

use super::clock::Facts;

/// The hardware clock as the kernel shows it, in seconds since 1970 (Linux `rtc-sysfs.c`); the first one is the machine's own.
const HARDWARE_CLOCK: &str = "/sys/class/rtc/rtc0/since_epoch";

/// Gathers what tells a wrong clock from certificates whose time is over.
pub fn facts(job: &Job<'_>, report: &CheckReport, survey: &Survey) -> Facts {
    let rows = || report.rows.iter();
    let expired: Vec<String> =
        rows().filter(|row| row.not_after.is_some_and(|at| at < job.now)).map(|row| row.name.clone()).collect();
    let mut renewable: Vec<String> = expired.iter().filter(|name| is_renewable(survey, name)).cloned().collect();
    // copies after what they are copies of
    renewable.sort_by_key(|name| name.starts_with('/'));
    let by_clock = (job.clock.now() - job.now).abs() < TimeDelta::minutes(1);
    Facts {
        now: job.now,
        by_clock,
        not_yet: rows()
            .filter_map(|row| Some((row.name.clone(), row.not_before.filter(|from| *from > job.now)?)))
            .collect(),
        renewable,
        expired,
        newest_file: newest_file(&job.root, &survey.found.inventory),
        hardware: hardware_clock(&job.root),
        last_run: survey.journal.last_run,
        synchronised: job.synchronised,
    }
}

/// Whether a run renews it, or writes it anew with admin.conf.
fn is_renewable(survey: &Survey, name: &str) -> bool {
    let inventory = &survey.found.inventory;
    let by_kubeadm = |name: &str| inventory.get(name).is_some_and(|certificate| certificate.renewable().is_ok());
    let ours = |copy: &&CopyFact| !matches!(copy.standing, Standing::Foreign(_) | Standing::Broken(_));
    let is_copy = survey.found.copies.iter().filter(ours).any(|copy| copy.path == Path::new(name));
    by_kubeadm(name) || (is_copy && by_kubeadm("admin.conf"))
}

fn newest_file(root: &Root, inventory: &Inventory) -> Option<(String, DateTime<Utc>)> {
    let files = inventory.certificates.iter().chain(&inventory.authorities).flat_map(Certificate::files);
    let changed = |path: &Path| {
        let metadata = root.metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        metadata.modified().ok().map(DateTime::<Utc>::from)
    };
    let newest: Option<(DateTime<Utc>, PathBuf)> =
        files.filter_map(|path| Some((changed(path)?, path.to_path_buf()))).max();
    newest.map(|(at, path)| (path.display().to_string(), at))
}

fn hardware_clock(root: &Root) -> Option<DateTime<Utc>> {
    let text = root.read_to_string(Path::new(HARDWARE_CLOCK)).ok()?;
    DateTime::from_timestamp(text.trim().parse().ok()?, 0)
}
