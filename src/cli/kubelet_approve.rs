//! `k8s-certs-renew kubelet approve`: approves pending requests for kubelet's serving certificates.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::exit::{Exit, Failure, OrExit};
use crate::kubelet::approve::{Job, approve, report};
use crate::kubelet::objects::kubeconfigs;
use crate::node::Node;
use crate::node::flags::flag;
use crate::node::proc::Processes;
use crate::report::Console;
use crate::report::check_report::Status;

use super::args::{Format, PlaceArgs, VoiceArgs};
use super::kubelet_rbac::REQUEST;
use super::{Process, absolute, overrides, root_at, voice};

/// Options of approve.
#[derive(Debug, Clone, Args)]
pub struct KubeletApproveArgs {
    /// Where the node's files are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Say which would be approved, and why not the others; approve none
    #[arg(long)]
    pub dry_run: bool,
    /// Look at the requests of every node, not of this one only
    #[arg(long)]
    pub all_nodes: bool,
    /// The kubeconfig to log in by [default: admin.conf, then super-admin.conf, in the kubernetes dir]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Report as text, or as one JSON document
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

/// Approves what can be approved, and says why the rest cannot.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`]; admin.conf is root's: [`Exit::NotRoot`].
pub fn run(
    args: &KubeletApproveArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    absolute(&args.place, args.kubeconfig.iter()).or_exit(Exit::Usage)?;
    if !process.is_root && args.kubeconfig.is_none() {
        let error =
            anyhow!("it logs in by admin.conf, which is root's; run it with sudo, or name a kubeconfig (--kubeconfig)");
        return Err(Failure::new(Exit::NotRoot, error));
    }
    let node = Node::look(root_at(&args.place)?, &overrides(&args.place));
    let kubelet = Processes::read(&node.root).and_then(|processes| processes.find_kubelet());
    let name = node.node_name(kubelet.as_ref().and_then(|kubelet| flag(&kubelet.argv, "--hostname-override")));
    let approval = approve(&Job {
        node: &node,
        name: &name,
        kubeconfigs: &args.kubeconfig.clone().map_or_else(|| kubeconfigs(&node), |path| vec![path]),
        all_nodes: args.all_nodes,
        dry_run: args.dry_run,
        now: process.clock.now(),
        deadline: REQUEST,
    });
    let mut console = Console::new(out, err, voice(&args.voice, args.output == Format::Text, process));
    match args.output {
        Format::Text => report::text(&approval, &mut console),
        Format::Json => console.out(&format!("{:#}", report::json(&approval))),
    }
    Ok(match approval.status() {
        Status::Ok => Exit::Ok,
        Status::Warning => Exit::Warning,
        Status::Unknown => Exit::Unknown,
        Status::Critical => Exit::Critical,
    })
}
