//! `k8s-certs-renew kubelet`: kubelet's own certificates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};

use crate::evidence::{self, Input, Moment, ticks_per_second};
use crate::exit::{Exit, Failure, OrExit};
use crate::inventory::{Extra, Inventory};
use crate::journal::Journal;
use crate::kubelet::check::{Elsewhere, KubeletReport, report};
use crate::kubelet::cluster::{self, About};
use crate::kubelet::objects::{ClusterView, kubeconfigs};
use crate::kubelet::view::{Looked, View};
use crate::kubelet::{bootstrap, json, text, versions, worker};
use crate::node::Node;
use crate::node::proc::{Processes, boot_id};
use crate::report::Console;
use crate::report::check_report::Status;

use super::args::{Format, PlaceArgs, VoiceArgs};
use super::check::HANDSHAKES;
use super::kubelet_approve::{self, KubeletApproveArgs};
use super::kubelet_rbac::{self, KubeletRbacArgs};
use super::{Process, absolute, overrides, root_at, voice};

/// Each question to the API.
const API: Duration = Duration::from_secs(3);

/// The commands about kubelet.
#[derive(Debug, Clone, Subcommand)]
pub enum KubeletVerb {
    /// Look at everything that kubelet's certificates depend on, and say what keeps them from rotating; change nothing. Ends with 0
    /// ok, 1 warning, 2 critical, 3 unknown
    Check(KubeletCheckArgs),
    /// Print the roles and bindings by which kubelets get their client certificates by themselves, for kubectl apply -f -
    Rbac(KubeletRbacArgs),
    /// Approve pending requests for serving certificates, which Kubernetes never does; only those that keep to every rule
    Approve(KubeletApproveArgs),
}

/// Options of a check of kubelet.
#[derive(Debug, Clone, Args)]
pub struct KubeletCheckArgs {
    /// Where the node's files are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Judge as of another instant (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub at: Option<DateTime<Utc>>,
    /// Report as text, or as one JSON document
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

/// Does what was asked for.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`].
pub fn run(
    verb: &KubeletVerb,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match verb {
        KubeletVerb::Check(args) => check(args, process, out, err),
        KubeletVerb::Rbac(args) => kubelet_rbac::run(args, process, out, err),
        KubeletVerb::Approve(args) => kubelet_approve::run(args, process, out, err),
    }
}

fn check(
    args: &KubeletCheckArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    absolute(&args.place, std::iter::empty()).or_exit(Exit::Usage)?;
    let node = Node::look(root_at(&args.place)?, &overrides(&args.place));
    let report = look(&node, args.at, process);
    let mut console = Console::new(out, err, voice(&args.voice, args.output == Format::Text, process));
    let width = console.voice.width.map(usize::from);
    match args.output {
        _ if args.voice.quiet => {}
        Format::Text => {
            let color = console.voice.color_out;
            console.table(&text::text(&report, width, color));
        }
        Format::Json => console.out(&format!("{:#}", json::json(&report))),
    }
    Ok(match report.status {
        Status::Ok => Exit::Ok,
        Status::Warning => Exit::Warning,
        Status::Unknown => Exit::Unknown,
        Status::Critical => Exit::Critical,
    })
}

fn look(node: &Node, at: Option<DateTime<Utc>>, process: &Process<'_>) -> KubeletReport {
    let clock = process.clock;
    let moment = Moment { now: clock.now(), since_boot: clock.since_boot() };
    let now = at.unwrap_or(moment.now);
    let inventory = Inventory::read(node, &Extra::default(), now);
    let processes = Processes::read(&node.root);
    let (journal, _) = Journal::read(&node.root);
    let seen = evidence::kubelet(&Input {
        node,
        inventory: &inventory,
        processes: processes.as_ref(),
        first_seen: &journal.serials,
        boot_id: boot_id(&node.root).as_deref(),
        at: moment,
        ticks_per_second: ticks_per_second(),
        created: &BTreeMap::new(),
        renewed_for: &[],
        deadline: HANDSHAKES,
    });
    let looked =
        Looked { node, inventory: &inventory, processes: processes.as_ref(), kubelet: seen.as_ref(), now, at: moment };
    let mut view = View::new(looked);
    if let Some(program) = view.settings.argv.first().cloned() {
        let pid = view.live.as_ref().map(|process| process.pid);
        view = view.told(versions::ask(&node.root, pid, Path::new(&program)));
    }
    if let Ok(Some(manager)) = &mut view.controller_manager
        && manager.version.is_none()
    {
        let told = versions::ask(&node.root, manager.pid, manager.executable());
        manager.version = told.ok().as_deref().and_then(evidence::version::parse);
    }
    let elsewhere = of_the_cluster(&view);
    report(&view, elsewhere)
}

/// What the API tells, asked as an admin; on a worker as kubelet.
fn of_the_cluster(view: &View<'_>) -> Elsewhere {
    let Looked { node, now, .. } = view.looked;
    // what cannot be read is said by the findings about the files
    let login = bootstrap::look(view).ok().flatten().map(|found| found.login);
    if worker::is_worker(view) {
        return worker::look(view, login.as_ref(), API);
    }
    let tokens = bootstrap::token_file(view).and_then(Result::ok);
    let cluster = ClusterView::look(node, &kubeconfigs(node), login.as_ref(), now, API);
    let about = About { node: &view.node_name, now, login: login.as_ref(), tokens: tokens.as_ref() };
    Elsewhere { findings: cluster::findings(&cluster, &about), not_visible: Vec::new() }
}

/// Whether the command line asks for a check of kubelet, also one that is typed wrong.
pub fn is_asked_for(argv: &[OsString]) -> bool {
    argv.get(1).is_some_and(|first| first == "kubelet") && argv.get(2).is_some_and(|second| second == "check")
}
