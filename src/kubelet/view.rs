//! Everything that findings are made from.

use chrono::{DateTime, TimeDelta, Utc};
use std::path::{Path, PathBuf};

use crate::evidence::version::{Version, parse};
use crate::evidence::{Component, Moment};
use crate::inventory::{Certificate, Inventory, Manager};
use crate::node::Node;
use crate::node::proc::{Process, Processes};

use super::client::CURRENT;
use super::program::Program;
use super::settings::Settings;
use super::versions::before;

/// What was looked at before.
#[derive(Debug, Clone, Copy)]
pub struct Looked<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its certificates.
    pub inventory: &'a Inventory,
    /// Its processes, if it shows any.
    pub processes: Option<&'a Processes>,
    /// What was seen of kubelet ([`crate::evidence`]).
    pub kubelet: Option<&'a Component>,
    /// The instant to judge by (UTC).
    pub now: DateTime<Utc>,
    /// This moment by both clocks of the machine.
    pub at: Moment,
}

/// kubelet and what its certificates depend on.
#[derive(Debug)]
pub struct View<'a> {
    /// What was looked at before.
    pub looked: Looked<'a>,
    /// kubelet's process.
    pub live: Option<Process>,
    /// The settings that it runs with; without a process those of its next start.
    pub settings: Settings,
    /// The settings of its next start, where they can be told.
    pub next: Result<Option<Settings>, String>,
    /// The node's name, lower case; empty where it cannot be told.
    pub node_name: String,
    /// kubelet's version as it tells it; why not.
    pub told: Option<Result<String, String>>,
    /// The same as a number.
    pub version: Option<Version>,
    /// kube-apiserver on this node.
    pub apiserver: Result<Option<Program<'a>>, String>,
    /// kube-controller-manager on this node.
    pub controller_manager: Result<Option<Program<'a>>, String>,
}

impl<'a> View<'a> {
    /// Looks.
    pub fn new(looked: Looked<'a>) -> Self {
        let Looked { node, processes, .. } = looked;
        let live = processes.and_then(Processes::find_kubelet);
        let next = Settings::of_next_start(&node.root);
        let files = next.iter().flatten().flat_map(|next| next.files.clone()).collect();
        let settings = match (&live, &next) {
            (Some(process), _) => Settings::of(&node.root, process.argv.clone(), files),
            (None, Ok(Some(next))) => next.clone(),
            (None, _) => Settings::default(),
        };
        Self {
            node_name: node.node_name(settings.hostname_override()),
            live,
            settings,
            next,
            told: None,
            version: None,
            apiserver: Program::find(node, processes, "kube-apiserver"),
            controller_manager: Program::find(node, processes, "kube-controller-manager"),
            looked,
        }
    }

    /// Whether there is any sign of a kubelet on this node.
    pub fn has_kubelet(&self) -> bool {
        let known = |one: &Certificate| one.manager == Manager::Kubelet && !one.missing;
        self.live.is_some() || matches!(self.next, Ok(Some(_))) || self.looked.inventory.certificates.iter().any(known)
    }

    /// With what kubelet tells of its version.
    #[must_use]
    pub fn told(mut self, told: Result<String, String>) -> Self {
        self.version = told.as_ref().ok().and_then(|told| parse(told));
        self.told = Some(told);
        self
    }

    /// kube-apiserver, where it runs here and can be read.
    pub fn apiserver(&self) -> Option<&Program<'a>> {
        self.apiserver.as_ref().ok()?.as_ref()
    }

    /// The kubeconfig that kubelet logs in with.
    pub fn kubeconfig(&self) -> PathBuf {
        self.settings.kubeconfig().unwrap_or_else(|| self.looked.node.kubernetes_dir.join("kubelet.conf"))
    }

    /// A certificate file and its key's, as the inventory has it, else read.
    pub fn certificate(&self, path: &Path, key: &Path) -> Certificate {
        let Looked { node, inventory, now, .. } = self.looked;
        let mut all = inventory.certificates.iter().chain(&inventory.authorities);
        let known = all.find(|one| one.path == path && one.path_of_key() == Some(key));
        known.cloned().unwrap_or_else(|| Inventory::read_pair(node, path, key, now))
    }

    /// The name by which a file is called in findings: that of the inventory, else its path.
    pub fn name_of(&self, path: &Path) -> String {
        let known = self.looked.inventory.certificates.iter().find(|one| one.path == path);
        known.map_or_else(|| path.display().to_string(), |known| known.name.clone())
    }

    /// When kubelet started, by the wall clock of now.
    pub fn started(&self) -> Option<DateTime<Utc>> {
        let Moment { now, since_boot } = self.looked.at;
        let process = self.looked.kubelet?.process?;
        let ago = TimeDelta::from_std(since_boot.checked_sub(process.started)?).ok()?;
        now.checked_sub_signed(ago)
    }

    /// Whether a file was written after kubelet's start. A time in the future proves nothing.
    pub fn is_newer_than_process(&self, path: &Path) -> bool {
        let modified = || Some(DateTime::<Utc>::from(self.looked.node.root.metadata(path).ok()?.modified().ok()?));
        match (self.started(), modified()) {
            (Some(started), Some(modified)) => {
                modified > started + TimeDelta::minutes(1) && modified <= self.looked.at.now
            }
            _ => false,
        }
    }

    /// How to get a new client certificate where kubelet cannot ask for one any more: what to type. Nothing is deleted.
    ///
    /// kubeadm: `alpha kubeconfig user` up to 1.20, and with `--config`, which it demands, from 1.20 on (k/k 94879, 97583).
    pub fn new_client(&self) -> String {
        let node = if self.node_name.is_empty() { "NODE" } else { &self.node_name };
        let conf = self.kubeconfig();
        let conf = conf.display();
        let dir = &self.looked.node.kubernetes_dir;
        let version = self.apiserver().and_then(|apiserver| apiserver.version).or(self.version);
        let alpha = if before(version, (1, 21)) { "alpha " } else { "" };
        // what kubespray leaves there; kubeadm itself keeps it in the cluster
        let kept = Some(dir.join("kubeadm-config.yaml")).filter(|file| self.looked.node.root.exists(file));
        let config = match kept {
            _ if before(version, (1, 20)) => String::new(),
            Some(file) => format!(" --config {}", file.display()),
            None => format!(
                " --config <(kubectl --kubeconfig {}/admin.conf -n kube-system get configmap kubeadm-config -o jsonpath={{.data.ClusterConfiguration}})",
                dir.display()
            ),
        };
        let make =
            format!("kubeadm {alpha}kubeconfig user --org system:nodes --client-name system:node:{node}{config}");
        let put = format!("mv -b -S .old {conf}.new {conf} && systemctl restart kubelet");
        if matches!(self.apiserver, Ok(None)) {
            let older = if version.is_none() { " (up to 1.20: kubeadm alpha kubeconfig user)" } else { "" };
            return format!(
                "on a control plane, in bash: (umask 077; {make} > {node}.conf){older}; with that file here as '{conf}.new': {put}"
            );
        }
        format!("(umask 077; {make} > {conf}.new) && {put}")
    }

    /// How to let kubelet's kubeconfig name the certificate that kubelet rotates, in place of one of its own: what to type.
    pub fn point_at_rotated(&self) -> String {
        format!(
            "sed -E -i 's#client-(certificate|key)(-data)?: .*#client-\\1: {}#' {} && systemctl restart kubelet",
            self.settings.cert_dir().join(CURRENT).display(),
            self.kubeconfig().display()
        )
    }
}
