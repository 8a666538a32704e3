//! Which of the node's files a static pod reads.

use std::path::{Path, PathBuf};

use super::Node;
use super::manifest::{Container, Manifest};

/// The components that read what their flags name, and nothing else of what they mount.
const KUBEADM: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// The node's files that a static pod reads, links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    named: Vec<PathBuf>,
    mounted: Vec<PathBuf>,
    below_mounts: bool,
}

impl Manifest {
    /// What the pod reads. Each path is resolved once, so ask for it once and then about many files.
    pub fn reading(&self, node: &Node) -> Reading {
        let mut named: Vec<PathBuf> = self.containers.iter().flat_map(|container| self.named(container)).collect();
        named.sort_unstable();
        named.dedup();
        let mounts = |volume: &str| {
            self.containers.iter().any(|container| container.mounts.iter().any(|mount| mount.volume == volume))
        };
        let mounted = self.host_paths.iter().filter(|volume| mounts(&volume.volume));
        Reading {
            named: named.iter().map(|path| node.real(path)).collect(),
            mounted: mounted.map(|volume| node.real(&volume.path)).collect(),
            below_mounts: !KUBEADM.contains(&self.component.as_str()),
        }
    }

    /// The node's paths that arguments and variables of a container name.
    fn named(&self, container: &Container) -> Vec<PathBuf> {
        let arguments =
            container.argv.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
        let values = arguments.chain(container.env.iter().map(|(_, value)| value.as_str()));
        let paths = values.flat_map(|value| value.split(',')).filter(|word| word.starts_with('/')).map(Path::new);
        paths.map(|path| self.through(container, path).map_or_else(|| path.into(), |(_, path)| path)).collect()
    }
}

impl Reading {
    /// Whether the pod is told to read one of these files (see [`halves`]): an argument or a variable names it, or a mount
    /// is that very file.
    pub fn names(&self, files: &[PathBuf]) -> bool {
        files.iter().any(|file| self.named.contains(file) || self.mounted.contains(file))
    }

    /// Whether the pod reads one of these files. A pod other than kubeadm's four is also taken to read what lies in a
    /// directory that it mounts, since its own configuration is not known here.
    pub fn reads(&self, files: &[PathBuf]) -> bool {
        let below = |file: &PathBuf| self.mounted.iter().any(|mount| file.starts_with(mount));
        self.names(files) || (self.below_mounts && files.iter().any(below))
    }
}

/// These files and the other halves of their pairs, links resolved: who reads one half reads the other.
pub fn halves(node: &Node, files: &[&Path]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = files.iter().map(|file| file.to_path_buf()).collect();
    all.extend(files.iter().filter_map(|file| partner(file)));
    all.sort_unstable();
    all.dedup();
    all.iter().map(|path| node.real(path)).collect()
}

/// The name that the other half of a pair has: `x.crt` and `x.key`, `x.pem` and `x-key.pem`.
fn partner(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let partner = match name.rsplit_once('.')? {
        (stem, "crt") => format!("{stem}.key"),
        (stem, "key") => format!("{stem}.crt"),
        (stem, "pem") => match stem.strip_suffix("-key") {
            Some(stem) => format!("{stem}.pem"),
            None => format!("{stem}-key.pem"),
        },
        _ => return None,
    };
    Some(file.with_file_name(partner))
}
