//! Looking, before anything is changed, whether everything that follows can be done.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::exit::{Exit, Failure, OrExit};
use crate::files::Root;
use crate::host::ToolError;
use crate::host::tools::find;
use crate::node::proc::{Process, Processes};
use crate::node::{Node, flags::flag, yaml};
use crate::runtime::{Around, Runtime, RuntimeError, Wanted, choose};

use super::images::{self, Images};
use super::quorum::{self, Cluster};
use super::ready::{Waited, until};
use super::{Context, backup};

/// Which tools to use.
#[derive(Debug, Clone, Default)]
pub struct Tools<'a> {
    /// `--kubeadm`.
    pub kubeadm: Option<&'a Path>,
    /// `--crictl`.
    pub crictl: Option<&'a Path>,
    /// `--docker`.
    pub docker: Option<&'a Path>,
    /// `--runtime`.
    pub runtime: Wanted,
    /// The `PATH` to look on.
    pub path: Option<&'a OsStr>,
}

/// What the steps work with.
#[derive(Debug, Default)]
pub struct Ground {
    /// kubeadm, where something is to be renewed.
    pub kubeadm: Option<PathBuf>,
    /// The runtime, where something is to be restarted and it answers.
    pub runtime: Option<Runtime>,
    /// The kubelet that brings removed pods back, where it can be seen.
    pub kubelet: Option<Process>,
    /// Why nothing may be restarted now, if so: it would not come back.
    pub deferral: Option<String>,
    /// The cluster of this node's etcd, where that is a static pod and something is to be restarted; or why it cannot be seen.
    pub etcd: Option<Result<Cluster, String>>,
    /// What was seen of the images, where something may be restarted.
    pub images: Images,
}

/// What is going to be done.
#[derive(Debug, Clone)]
pub struct Needs<'a> {
    /// Files that kubeadm may rewrite, if anything is to be renewed; else none.
    pub files: &'a [PathBuf],
    /// Those of them that are copies: one that cannot be written is no reason to renew nothing.
    pub copies: Vec<&'a Path>,
    /// Where they are backed up.
    pub backup_dir: &'a Path,
    /// Components that are to be restarted.
    pub components: Vec<&'a str>,
    /// Whether nothing may be written, not even to see whether it can be.
    pub dry_run: bool,
}

/// Looks whether it can be done.
///
/// # Errors
/// What makes the run stop with nothing changed: a tool is missing (69), no room or no right to write (74).
pub fn preflight(context: &Context<'_>, needs: &Needs<'_>, tools: &Tools<'_>) -> Result<Ground, Failure> {
    let renews = !needs.files.is_empty();
    let restarts = !needs.components.is_empty();
    let kubeadm = renews.then(|| find("kubeadm", tools.kubeadm, tools.path)).transpose().or_exit(Exit::ToolMissing)?;
    let programs = Programs::find(&context.node.root, tools);
    if restarts {
        programs.are_there(tools.runtime)?;
    }
    if renews && !needs.dry_run {
        writable(context.node, needs)?;
    }
    let mut ground =
        Ground { kubeadm, runtime: None, kubelet: None, deferral: None, etcd: None, images: Images::default() };
    if !restarts {
        return Ok(ground);
    }
    let processes = Processes::read(&context.node.root);
    ground.kubelet = processes.as_ref().and_then(Processes::find_kubelet);
    if processes.is_some() && ground.kubelet.is_none() {
        ground.deferral = Some(
            "kubelet is not running, so nothing would bring a removed pod back (systemctl start kubelet)".to_owned(),
        );
    }
    // a missed firing is made up for right at boot, when the runtime is still starting, and kubelet its pods
    let mut found = None;
    let kubelet_runs = ground.deferral.is_none();
    let answer = until(
        context.clock,
        context.signals,
        context.deadlines.runtime,
        context.deadlines.runtime_pause,
        || {
            let text = |error: RuntimeError| error.to_string();
            found = None;
            let runtime = programs.choose(context, tools.runtime, ground.kubelet.as_ref()).map_err(text)?;
            let listed = runtime.all().map_err(text)?;
            found = Some(runtime);
            // and kubelet, its pods
            let missing = |component: &&&str| {
                let pod = context.node.manifest(component).map(|manifest| manifest.pod_name(context.node_name));
                pod.is_some_and(|pod| listed.iter().all(|sandbox| sandbox.pod != pod))
            };
            match needs.components.iter().find(missing) {
                Some(component) if kubelet_runs => Err(format!(
                    "the container runtime knows no sandbox of static pod '{component}' on node '{}': kubelet has not brought it up, and might not bring up another that is removed (journalctl -u kubelet; crictl pods --namespace kube-system)",
                    context.node_name
                )),
                _ => Ok(()),
            }
        },
    );
    match answer {
        Waited::Done(_) => ground.runtime = found,
        Waited::TooLong(why) if found.is_some() => ground.deferral = Some(why),
        Waited::TooLong(why) => {
            ground.deferral.get_or_insert(format!("the container runtime does not answer: {why}"));
        }
        Waited::Signal(number) => {
            return Err(Failure::new(Exit::Signal(number), anyhow!("ended by signal {number} with nothing changed")));
        }
    }
    if let (Some(runtime), None) = (&ground.runtime, &ground.deferral) {
        let kubelet = ground.kubelet.as_ref();
        ground.images = images::look(context, runtime, &needs.components, processes.as_ref(), kubelet);
        ground.deferral.clone_from(&ground.images.no_pause);
    }
    if ground.deferral.is_none() {
        ground.etcd = context.node.manifest("etcd").map(|etcd| quorum::look(context, etcd));
    }
    Ok(ground)
}

/// The programs that speak to container runtimes.
#[derive(Debug)]
struct Programs {
    crictl: Result<PathBuf, ToolError>,
    docker: Result<PathBuf, ToolError>,
}

impl Programs {
    /// Below another root only the programs that were named count, where one was: those of this machine would show this
    /// machine's pods.
    fn find(root: &Root, tools: &Tools<'_>) -> Self {
        let named_only = !root.is_host() && (tools.crictl.is_some() || tools.docker.is_some());
        let find_one = |name: &str, given: Option<&Path>| match given {
            None if named_only => Err(ToolError { name: name.to_owned(), tried: Vec::new() }),
            _ => find(name, given, tools.path),
        };
        Self { crictl: find_one("crictl", tools.crictl), docker: find_one("docker", tools.docker) }
    }

    /// # Errors
    /// What is asked for cannot be had with them (69).
    fn are_there(&self, wanted: Wanted) -> Result<(), Failure> {
        let missing = match wanted {
            Wanted::Cri => self.crictl.as_ref().err(),
            Wanted::Docker => self.docker.as_ref().err(),
            Wanted::Auto => self.crictl.as_ref().err().filter(|_| self.docker.is_err()),
        };
        missing.map_or(Ok(()), |error| Err(Failure::new(Exit::ToolMissing, RuntimeError::from(error.clone()))))
    }

    fn choose(
        &self,
        context: &Context<'_>,
        wanted: Wanted,
        kubelet: Option<&Process>,
    ) -> Result<Runtime, RuntimeError> {
        let endpoint = kubelet.and_then(|kubelet| configured_endpoint(context.node, &kubelet.argv));
        let around = Around {
            root: &context.node.root,
            kubelet: kubelet.map(|kubelet| kubelet.argv.as_slice()),
            kubelet_endpoint: endpoint.as_deref(),
            crictl: self.crictl.as_deref(),
            docker: self.docker.as_deref(),
        };
        choose(wanted, &around, context.deadlines.limits)
    }
}

/// `containerRuntimeEndpoint` of the configuration file that this kubelet was started with (Kubernetes 1.27 and later).
fn configured_endpoint(node: &Node, argv: &[String]) -> Option<String> {
    let file = flag(argv, "--config")?;
    let value: serde_json::Value = yaml::parse(&node.root.read(Path::new(file)).ok()?).ok()?;
    yaml::text_at(&value, &["containerRuntimeEndpoint"])
}

fn writable(node: &Node, needs: &Needs<'_>) -> Result<(), Failure> {
    let Needs { files, copies, backup_dir, .. } = needs;
    let root = &node.root;
    root.create_dir(backup_dir, 0o700)
        .with_context(|| format!("cannot create the backup directory '{}'", backup_dir.display()))
        .or_exit(Exit::State)?;
    let needed = backup::space_needed(root, files);
    // one copy for the backup, and one for what kubeadm writes anew where both are on one disk
    room(root, backup_dir, needed.saturating_mul(2), "; make room, or set --backup-dir")?;
    let mut dirs: Vec<&Path> =
        files.iter().filter(|file| !copies.contains(&file.as_path())).filter_map(|file| file.parent()).collect();
    dirs.push(backup_dir);
    dirs.sort_unstable();
    dirs.dedup();
    for dir in dirs.into_iter().filter(|dir| root.exists(dir)) {
        root.probe_writable(dir)
            .with_context(|| {
                format!("cannot write to '{}', where files are to be renewed; nothing was changed", dir.display())
            })
            .or_exit(Exit::State)?;
        // kubeadm empties a file before it writes it: on a full disk the key would be lost
        room(root, dir, needed, ", where files are to be renewed; make room")?;
    }
    Ok(())
}

fn room(root: &Root, dir: &Path, needed: u64, what_then: &str) -> Result<(), Failure> {
    let dir_shown = dir.display();
    let free = root
        .free_space(dir)
        .with_context(|| format!("cannot see how much room there is in '{dir_shown}'"))
        .or_exit(Exit::State)?;
    if free < needed {
        let error = anyhow!("no room in '{dir_shown}': {free} bytes are free, {needed} are needed{what_then}");
        return Err(Failure::new(Exit::State, error));
    }
    Ok(())
}
