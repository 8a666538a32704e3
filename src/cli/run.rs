//! `k8s-certs-renew run`: the job.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use anyhow::anyhow;

use crate::decision::RestartPolicy;
use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::report::{Console, json};
use crate::run::turning::Turns;
use crate::run::{Job, run as run_job};
use crate::runtime::Wanted;
use crate::settings::schedule::Wishes;
use crate::steps::Deadlines;
use crate::steps::preflight::Tools;
use crate::turn::hooks::Hooks;

use super::args::{Format, NodeArgs, RestartKind, RunArgs, RuntimeKind};
use super::check::limits;
use super::{Process, absolute, copies, overrides, root_at, textfile, voice};

/// Runs the job as it was asked for.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`].
pub fn run(args: &RunArgs, process: &Process<'_>, out: &mut dyn Write, err: &mut dyn Write) -> Result<Exit, Failure> {
    let node = &args.node;
    let root = root_at(&node.place)?;
    check(args, &root).or_exit(Exit::Usage)?;
    let limits = limits(&args.watch)?;
    let began = process.clock.since_boot();
    let job = Job {
        root,
        overrides: overrides(&node.place),
        wishes: wishes(node),
        tools: tools(node, process),
        now: node.at.unwrap_or_else(|| process.clock.now()),
        // an instant that was given owes nothing to the clock
        synchronised: if node.at.is_some() { None } else { process.clock.synchronised() },
        dry_run: args.dry_run,
        force: args.force,
        restart: match args.restart {
            RestartKind::Stale => RestartPolicy::Stale,
            RestartKind::All => RestartPolicy::All,
            RestartKind::None => RestartPolicy::None,
        },
        detailed_exitcode: args.detailed_exitcode,
        kubeadm_config: args.kubeadm_config.as_deref(),
        copies: copies(&args.kubeconfig_copy),
        backup_dir: &args.backup_dir,
        keep_backups: usize::try_from(args.keep_backups).unwrap_or(usize::MAX),
        is_root: process.is_root,
        clock: process.clock,
        signals: process.signals,
        deadlines: Deadlines {
            ready: args.ready_timeout,
            turn: args.turns.turn_timeout,
            hook: args.turns.hook_timeout,
            ..Deadlines::default()
        },
        turns: Turns {
            alone: args.turns.alone,
            hooks: Hooks { before: args.turns.pre_restart.clone(), after: args.turns.post_restart.clone() },
        },
    };
    let voice = voice(&node.voice, args.output == Format::Text, process);
    let mut console = Console::new(out, err, voice);
    let report = run_job(&job, &mut console);
    if args.output == Format::Json {
        console.out(&format!("{:#}", json::run(&report)));
    }
    // another run writes its own; and as of another instant nothing is true of now
    if !args.dry_run && report.exit != Exit::Busy && node.at.is_none() {
        let took = process.clock.since_boot().saturating_sub(began);
        textfile::write_after(job, report.exit, took, limits, &args.watch, &mut console);
    }
    Ok(report.exit)
}

/// What was said of the schedule.
pub fn wishes(node: &NodeArgs) -> Wishes<'_> {
    Wishes {
        on_calendar: &node.on_calendar,
        timer: &node.timer,
        timezone: node.timezone.as_deref(),
        days_buffer: node.days_buffer,
    }
}

/// The tools that were named, and where to look for the others.
pub fn tools<'a>(node: &'a NodeArgs, process: &'a Process<'_>) -> Tools<'a> {
    Tools {
        kubeadm: node.kubeadm.as_deref(),
        crictl: node.crictl.as_deref(),
        docker: node.docker.as_deref(),
        runtime: match node.runtime {
            RuntimeKind::Auto => Wanted::Auto,
            RuntimeKind::Cri => Wanted::Cri,
            RuntimeKind::Docker => Wanted::Docker,
        },
        path: process.variable("PATH").map(OsString::as_os_str),
    }
}

/// What clap cannot see: options that only make sense together.
///
/// # Errors
/// Which do not, or a path that is not absolute.
pub(super) fn check(args: &RunArgs, root: &Root) -> anyhow::Result<()> {
    let node = &args.node;
    let elsewhere = !root.is_host();
    if node.at.is_some() && !args.dry_run && !elsewhere {
        return Err(anyhow!("--at judges as of another instant, so it needs --dry-run, or another --root"));
    }
    let copies = copies(&args.kubeconfig_copy);
    let given = [&args.backup_dir].into_iter().chain(&args.kubeadm_config).chain(&copies);
    absolute(&node.place, given.chain(&args.watch.also).chain(&args.watch.textfile))?;
    textfile::is_the_collectors(&args.watch)?;
    // kubeadm knows no other directory for kubeconfigs, and acts on the machine that it runs on
    let foreign = elsewhere || node.place.kubernetes_dir != Path::new("/etc/kubernetes");
    let named = node.kubeadm.is_some() && (node.crictl.is_some() || node.docker.is_some());
    if foreign && !args.dry_run && !named {
        return Err(anyhow!(
            "kubeadm and crictl act on this machine and on /etc/kubernetes; with another --root or --kubernetes-dir name the \
             tools to use with --kubeadm and --crictl or --docker, or look only, with --dry-run"
        ));
    }
    Ok(())
}
