//! `k8s-certs-renew check`: look, judge, change nothing.

use std::ffi::OsString;
use std::io::Write;

use anyhow::anyhow;
use chrono::Duration;

use crate::check::check;
use crate::decision::RestartPolicy;
use crate::exit::{Exit, Failure, OrExit};
use crate::report::check_report::{Limits, Status};
use crate::report::check_table::Order;
use crate::report::{Console, check_json, check_table, metrics, nagios};
use crate::run::Job;
use crate::run::turning::Turns;
use crate::steps::Deadlines;

use super::Process;
use super::args::{CheckArgs, CheckFormat, Sort, WatchArgs};
use super::run::{tools, wishes};
use super::textfile;
use super::{absolute, copies, overrides, root_at, voice};

/// All handshakes with one component. Longer than a run's, which would lengthen each skip: here a slow answer is worth waiting for,
/// since none is an `unknown`, and monitoring wakes somebody for it.
pub const HANDSHAKES: std::time::Duration = std::time::Duration::from_millis(800);

/// Looks at the node as it was asked for, and reports.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`].
pub fn run(args: &CheckArgs, process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
    let node = &args.node;
    let limits = limits(&args.watch)?;
    let copies = copies(&args.kubeconfig_copy);
    let given = args.watch.also.iter().chain(&args.watch.textfile).chain([&args.backup_dir]).chain(&copies);
    absolute(&node.place, given).or_exit(Exit::Usage)?;
    textfile::is_the_collectors(&args.watch).or_exit(Exit::Usage)?;
    let job = Job {
        root: root_at(&node.place)?,
        overrides: overrides(&node.place),
        wishes: wishes(node),
        tools: tools(node, process),
        now: node.at.unwrap_or_else(|| process.clock.now()),
        // an instant that was given owes nothing to the clock
        synchronised: if node.at.is_some() { None } else { process.clock.synchronised() },
        dry_run: true,
        force: false,
        restart: RestartPolicy::Stale,
        detailed_exitcode: false,
        kubeadm_config: None,
        copies,
        backup_dir: &args.backup_dir,
        keep_backups: 1,
        is_root: process.is_root,
        clock: process.clock,
        signals: process.signals,
        deadlines: Deadlines { handshakes: HANDSHAKES, ..Deadlines::default() },
        turns: Turns::default(),
    };
    let report = check(&job, limits, &args.watch.also, args.watch.textfile.as_deref());
    let mut console = Console::new(out, err, voice(&node.voice, args.output == CheckFormat::Table, process));
    let document = match args.output {
        _ if node.voice.quiet => None,
        CheckFormat::Table => {
            check_table::write(&report, order(args.sort), args.wide, &mut console);
            None
        }
        CheckFormat::Json => Some(format!("{:#}", check_json::check(&report))),
        CheckFormat::Prometheus => Some(metrics::text(&report).or_exit(Exit::Fault)?.trim_end().to_owned()),
        CheckFormat::Nagios => Some(nagios::text(&report, limits)),
    };
    if let Some(document) = document {
        console.out(&document);
    }
    // as of another instant nothing is true of now
    if let Some(path) = args.watch.textfile.as_deref().filter(|_| node.at.is_none()) {
        textfile::write(path, &job.root, &report, &mut console);
    }
    Ok(match report.status {
        Status::Ok => Exit::Ok,
        Status::Warning => Exit::Warning,
        Status::Unknown => Exit::Unknown,
        Status::Critical => Exit::Critical,
    })
}

/// When it is an alarm.
///
/// # Errors
/// The limits make no sense: [`Exit::Usage`].
pub fn limits(watch: &WatchArgs) -> Result<Limits, Failure> {
    let limit = |given: std::time::Duration| {
        Duration::from_std(given).map_err(|_| anyhow!("--warning and --critical are too long")).or_exit(Exit::Usage)
    };
    let limits = Limits { warning: limit(watch.warning)?, critical: limit(watch.critical)? };
    if limits.critical > limits.warning {
        return Err(Failure::new(Exit::Usage, anyhow!("--critical is longer than --warning")));
    }
    Ok(limits)
}

fn order(sort: Sort) -> Order {
    match sort {
        Sort::Urgency => Order::Urgency,
        Sort::Name => Order::Name,
    }
}

/// Whether the command line asks for a check, also one that is typed wrong.
pub fn is_asked_for(argv: &[OsString]) -> bool {
    argv.get(1).is_some_and(|first| first == "check")
}

/// How a check ends, by the convention of monitoring plugins: what went wrong with itself is unknown.
pub fn plugin(exit: Exit) -> Exit {
    match exit {
        Exit::Ok | Exit::Warning | Exit::Critical => exit,
        _ => Exit::Unknown,
    }
}
