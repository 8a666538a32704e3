//! Static pod manifests: what a component is started with, and which of the node's files it sees.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::flags;
use super::probe::Probe;
use super::yaml::{self, YamlError};

/// A static pod's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The file.
    pub path: PathBuf,
    /// `metadata.name`; kubelet adds the node's name to it ([`Manifest::pod_name`]).
    pub name: String,
    /// `metadata.namespace`, else `default`.
    pub namespace: String,
    /// The label `component`, as kubeadm sets it, else the name.
    pub component: String,
    /// Whether it shares the node's network.
    pub host_network: bool,
    /// Its containers, in the manifest's order.
    pub containers: Vec<Container>,
    /// Every image that it needs, of its init containers too; none twice.
    pub images: Vec<String>,
    /// The node's files and directories that it sees.
    pub host_paths: Vec<HostPath>,
}

/// One container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// `command`, then `args`.
    pub argv: Vec<String>,
    /// Variables with a plain value, in order.
    pub env: Vec<(String, String)>,
    /// What it mounts, in order.
    pub mounts: Vec<Mount>,
    /// `startupProbe.httpGet`.
    pub startup: Option<Probe>,
    /// `livenessProbe.httpGet`.
    pub liveness: Option<Probe>,
    /// `readinessProbe.httpGet`.
    pub readiness: Option<Probe>,
}

/// A mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name.
    pub volume: String,
    /// Where the container sees it.
    pub path: PathBuf,
    /// Whether it can only be read.
    pub read_only: bool,
}

/// A volume that is a file or a directory of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath {
    /// The volume's name.
    pub volume: String,
    /// The node's path.
    pub path: PathBuf,
}

/// Why a file below `manifests/` is no static pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// It is empty.
    #[error(
        "the file is empty; kubelet reads every file here that does not begin with a dot, so keep others elsewhere"
    )]
    Empty,
    /// It is another object, or none.
    #[error(
        "no pod (kind '{0}'); kubelet reads every file here that does not begin with a dot, so keep others elsewhere"
    )]
    NotAPod(String),
    /// A field that a static pod needs is not there.
    #[error("field '{0}' is missing")]
    NoField(&'static str),
}

impl Manifest {
    /// Reads a manifest. kubelet takes the first document of a file (kubelet `config/common.go`, YAML or JSON).
    ///
    /// # Errors
    /// It is no YAML, no pod, or has no name or containers.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, ManifestError> {
        let documents = yaml::parse_all(text)?;
        let pod = documents.first().ok_or(ManifestError::Empty)?;
        match yaml::text_at(pod, &["kind"]) {
            Some(kind) if kind == "Pod" => {}
            kind => return Err(ManifestError::NotAPod(kind.unwrap_or_default())),
        }
        let name = yaml::text_at(pod, &["metadata", "name"])
            .filter(|name| !name.is_empty())
            .ok_or(ManifestError::NoField("metadata.name"))?;
        let containers: Vec<_> = yaml::list_at(pod, &["spec", "containers"]).iter().map(container).collect();
        if containers.is_empty() {
            return Err(ManifestError::NoField("spec.containers"));
        }
        let before = yaml::list_at(pod, &["spec", "initContainers"]);
        let mut images: Vec<String> = before.iter().filter_map(|one| yaml::text_at(one, &["image"])).collect();
        images.extend(containers.iter().map(|container| container.image.clone()));
        images.retain(|image| !image.is_empty());
        images.sort_unstable();
        images.dedup();
        let host_paths = yaml::list_at(pod, &["spec", "volumes"])
            .iter()
            .filter_map(|volume| {
                Some(HostPath {
                    volume: yaml::text_at(volume, &["name"])?,
                    path: yaml::text_at(volume, &["hostPath", "path"])?.into(),
                })
            })
            .collect();
        Ok(Self {
            path: path.to_path_buf(),
            namespace: yaml::text_at(pod, &["metadata", "namespace"]).unwrap_or_else(|| "default".to_owned()),
            component: yaml::text_at(pod, &["metadata", "labels", "component"]).unwrap_or_else(|| name.clone()),
            host_network: yaml::text_at(pod, &["spec", "hostNetwork"]).as_deref() == Some("true"),
            name,
            containers,
            images,
            host_paths,
        })
    }

    /// The pod's name in the cluster and at the runtime: kubelet adds the node's name (kubelet `config/common.go`,
    /// `generatePodName`: lower case).
    pub fn pod_name(&self, node_name: &str) -> String {
        format!("{}-{}", self.name, node_name.to_lowercase())
    }

    /// The value of a flag (`--secure-port`) of the first container that has it.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.containers.iter().find_map(|container| flags::flag(&container.argv, name))
    }

    /// The node's path of a path that the pod's containers use: through the mount with the longest matching path. What no
    /// mount covers is given back as it is.
    pub fn host_path(&self, in_container: &Path) -> PathBuf {
        self.containers
            .iter()
            .filter_map(|container| self.through(container, in_container))
            .max_by_key(|(depth, _)| *depth)
            .map_or_else(|| in_container.to_path_buf(), |(_, path)| path)
    }

    /// The node's path of the file that a flag names.
    pub fn flag_path(&self, name: &str) -> Option<PathBuf> {
        self.flag(name).filter(|value| value.starts_with('/')).map(|value| self.host_path(Path::new(value)))
    }

    /// The node's path behind a container's path, and how long the mount's own path is.
    pub(super) fn through(&self, container: &Container, path: &Path) -> Option<(usize, PathBuf)> {
        let mount = container
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.path))
            .max_by_key(|mount| mount.path.components().count())?;
        let volume = self.host_paths.iter().find(|volume| volume.volume == mount.volume)?;
        let rest = path.strip_prefix(&mount.path).ok()?;
        let host = if rest.as_os_str().is_empty() { volume.path.clone() } else { volume.path.join(rest) };
        Some((mount.path.components().count(), host))
    }
}

fn container(value: &Value) -> Container {
    let text = |key: &str| yaml::text_at(value, &[key]).unwrap_or_default();
    let ports: Vec<(String, u16)> = yaml::list_at(value, &["ports"])
        .iter()
        .filter_map(|port| {
            Some((yaml::text_at(port, &["name"])?, yaml::text_at(port, &["containerPort"])?.parse().ok()?))
        })
        .collect();
    let probe = |key: &str| Probe::read(yaml::at(value, &[key, "httpGet"])?, &ports);
    Container {
        name: text("name"),
        image: text("image"),
        argv: ["command", "args"]
            .iter()
            .flat_map(|key| yaml::list_at(value, &[key]))
            .filter_map(yaml::scalar)
            .collect(),
        env: yaml::list_at(value, &["env"])
            .iter()
            .filter_map(|entry| Some((yaml::text_at(entry, &["name"])?, yaml::text_at(entry, &["value"])?)))
            .collect(),
        mounts: yaml::list_at(value, &["volumeMounts"])
            .iter()
            .filter_map(|mount| {
                Some(Mount {
                    volume: yaml::text_at(mount, &["name"])?,
                    path: yaml::text_at(mount, &["mountPath"])?.into(),
                    read_only: yaml::text_at(mount, &["readOnly"]).as_deref() == Some("true"),
                })
            })
            .collect(),
        startup: probe("startupProbe"),
        liveness: probe("livenessProbe"),
        readiness: probe("readinessProbe"),
    }
}
