//! What a node looks like on disk: where things are, and how its files are read.

pub mod competing;
pub mod endpoints;
pub mod flags;
pub mod kubeconfig;
pub mod kubeconfig_edit;
pub mod manifest;
pub mod pem;
pub mod probe;
pub mod proc;
pub mod reading;
pub mod timespan;
pub mod unit_command;
pub mod unit_files;
pub mod yaml;
pub mod zone;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::{Root, is_absent};

pub use manifest::{Container, HostPath, Manifest, Mount};
pub use probe::Probe;
pub use reading::{Reading, halves};

/// Directories that the command line sets, as paths of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrides {
    /// Kubeconfigs and `manifests/`; usually `/etc/kubernetes`.
    pub kubernetes_dir: PathBuf,
    /// kubeadm's PKI.
    pub cert_dir: Option<PathBuf>,
    /// Host etcd's certificates.
    pub etcd_cert_dir: Option<PathBuf>,
}

impl Default for Overrides {
    fn default() -> Self {
        Self { kubernetes_dir: PathBuf::from("/etc/kubernetes"), cert_dir: None, etcd_cert_dir: None }
    }
}

/// Who runs etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdKind {
    /// kubeadm, as a static pod here: its certificates are kubeadm's.
    Stacked,
    /// Somebody else: kubespray's etcd.service on this host, or other machines.
    External,
}

/// Something about the node's layout that a person should look at; never a reason to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.path.display(), self.message)
    }
}

/// A node: its directories and its static pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What every path lies below.
    pub root: Root,
    /// Kubeconfigs and `manifests/`.
    pub kubernetes_dir: PathBuf,
    /// kubeadm's PKI.
    pub cert_dir: PathBuf,
    /// etcd's certificates.
    pub etcd_cert_dir: PathBuf,
    /// Who runs etcd.
    pub etcd: EtcdKind,
    /// The static pods, sorted by file name.
    pub manifests: Vec<Manifest>,
    /// What is odd about the layout.
    pub findings: Vec<Finding>,
    broken: Vec<PathBuf>,
}

impl Node {
    /// Looks at the node below `root`. Never fails: what cannot be read becomes a finding.
    ///
    /// `cert_dir`, where not set: the directory of kube-apiserver's `--kubelet-client-certificate`, if it holds `ca.crt`;
    /// else `ssl` (kubespray), else `pki` (kubeadm) below the kubernetes directory. The flag is the one to ask, since
    /// kubeadm always sets it, and people replace the serving certificate alone.
    pub fn look(root: Root, overrides: &Overrides) -> Self {
        let mut node = Self {
            root,
            kubernetes_dir: overrides.kubernetes_dir.clone(),
            cert_dir: PathBuf::new(),
            etcd_cert_dir: PathBuf::new(),
            etcd: EtcdKind::External,
            manifests: Vec::new(),
            findings: Vec::new(),
            broken: Vec::new(),
        };
        node.read_manifests();
        node.cert_dir = overrides.cert_dir.clone().unwrap_or_else(|| node.find_cert_dir());
        node.etcd = node.find_etcd_kind();
        node.etcd_cert_dir = overrides.etcd_cert_dir.clone().unwrap_or_else(|| node.find_etcd_cert_dir());
        node
    }

    /// What speaks for a control plane whose kube-apiserver manifest was moved away, as people do to stop it: the manifests of the
    /// others, or the CA's key beside admin.conf. None where nothing does.
    pub fn was_a_control_plane(&self) -> Option<String> {
        let others = self
            .static_pods()
            .iter()
            .filter(|pod| ["kube-controller-manager", "kube-scheduler"].contains(&pod.component.as_str()));
        let sign = others.map(|pod| pod.path.clone()).next();
        let ca_key = self.cert_dir.join("ca.key");
        let sign = sign.or_else(|| {
            let both = self.root.exists(&ca_key) && self.root.exists(&self.kubernetes_dir.join("admin.conf"));
            both.then_some(ca_key)
        })?;
        Some(format!(
            "'{}' is there, and the manifest of kube-apiserver is not: if it was only moved away, nothing is renewed until it is back",
            sign.display()
        ))
    }

    /// Whether a kube-apiserver is to run here: its manifest exists, even a broken one.
    pub fn is_control_plane(&self) -> bool {
        self.runs("kube-apiserver")
    }

    /// The manifest of a component; of several, the one whose file has kubeadm's name.
    pub fn manifest(&self, component: &str) -> Option<&Manifest> {
        let mut all = self.manifests.iter().filter(|manifest| manifest.component == component);
        let first = all.next()?;
        let own_name = |manifest: &&Manifest| manifest.path.file_stem().is_some_and(|stem| stem == component);
        Some(std::iter::once(first).chain(all).find(own_name).unwrap_or(first))
    }

    /// Whether the manifest of this component is there and cannot be read.
    pub fn is_hidden(&self, component: &str) -> bool {
        self.manifest(component).is_none() && self.runs(component)
    }

    /// Whether there are manifests that cannot be read, whosever they are.
    pub fn hides_some(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The static pods, sorted by file name.
    pub fn static_pods(&self) -> &[Manifest] {
        &self.manifests
    }

    /// The directory of the static pods' manifests.
    pub fn manifests_dir(&self) -> PathBuf {
        self.kubernetes_dir.join("manifests")
    }

    /// A path with its links resolved; the path itself where that fails.
    pub fn real(&self, path: &Path) -> PathBuf {
        self.root.canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }

    /// The node's name, lower case, as kubelet adds it to static pods: kubelet's `--hostname-override` where the caller
    /// knows one, else the host name: the kernel's on the machine itself, `/etc/hostname` below another root.
    pub fn node_name(&self, hostname_override: Option<&str>) -> String {
        let name = match hostname_override {
            Some(name) => name.to_owned(),
            None if self.root.is_host() => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            None => self.root.read_to_string(Path::new("/etc/hostname")).unwrap_or_default(),
        };
        name.trim().to_lowercase()
    }

    fn runs(&self, component: &str) -> bool {
        self.manifest(component).is_some()
            || self.broken.iter().any(|path| path.file_stem().is_some_and(|stem| stem == component))
    }

    fn read_manifests(&mut self) {
        let dir = self.manifests_dir();
        let names = match self.root.list(&dir) {
            Ok(names) => names,
            Err(error) if is_absent(&error) => return,
            Err(error) => return self.find(&dir, format!("cannot list the static pods: {error}")),
        };
        for name in names.iter().filter(|name| !name.starts_with('.')) {
            let path = dir.join(name);
            // kubelet does not look into directories here
            if self.root.metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            let parsed = match self.root.read(&path) {
                Ok(text) => Manifest::parse(&path, &text).map_err(|error| error.to_string()),
                Err(error) => Err(format!("cannot be read: {error}")),
            };
            match parsed {
                Ok(manifest) => {
                    let twin =
                        |other: &&Manifest| (&other.name, &other.namespace) == (&manifest.name, &manifest.namespace);
                    if let Some(other) = self.manifests.iter().find(twin) {
                        let message = format!(
                            "a second pod named '{}' beside '{}'; kubelet runs either; keep copies outside of this directory",
                            manifest.name,
                            other.path.display()
                        );
                        self.find(&path, message);
                    }
                    self.manifests.push(manifest);
                }
                Err(message) => {
                    self.find(&path, message);
                    self.broken.push(path);
                }
            }
        }
    }

    fn find_cert_dir(&mut self) -> PathBuf {
        let named =
            self.manifest("kube-apiserver").and_then(|manifest| manifest.flag_path("--kubelet-client-certificate"));
        if let Some(dir) = named.as_deref().and_then(Path::parent) {
            if self.root.exists(&dir.join("ca.crt")) {
                return dir.to_path_buf();
            }
            self.find(dir, "kube-apiserver's --kubelet-client-certificate is in it, but no ca.crt".to_owned());
        }
        let ssl = self.kubernetes_dir.join("ssl");
        if self.root.exists(&ssl) { ssl } else { self.kubernetes_dir.join("pki") }
    }

    fn find_etcd_kind(&self) -> EtcdKind {
        let client = self.cert_dir.join("apiserver-etcd-client.crt");
        let named = self.manifest("kube-apiserver").map(|manifest| manifest.flag_path("--etcd-certfile"));
        let ours = match named {
            Some(Some(path)) => self.real(&path) == self.real(&client),
            Some(None) => false,
            // nothing says what kube-apiserver uses: take what is there
            None => self.root.exists(&client),
        };
        if ours || self.runs("etcd") { EtcdKind::Stacked } else { EtcdKind::External }
    }

    fn find_etcd_cert_dir(&self) -> PathBuf {
        if self.etcd == EtcdKind::Stacked {
            return self.cert_dir.join("etcd");
        }
        self.manifest("kube-apiserver")
            .and_then(|manifest| manifest.flag_path("--etcd-certfile")?.parent().map(Path::to_path_buf))
            .unwrap_or_else(|| PathBuf::from("/etc/ssl/etcd/ssl"))
    }

    fn find(&mut self, path: &Path, message: String) {
        self.findings.push(Finding { path: path.to_path_buf(), message });
    }
}
