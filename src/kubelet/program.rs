//! A program of the control plane, however it is started: as a static pod, or as a service of the machine.

use std::path::{Path, PathBuf};

use crate::evidence::version::{self, Version};
use crate::node::flags::flag;
use crate::node::proc::Processes;
use crate::node::unit_command::unit_command;
use crate::node::{Manifest, Node};

/// What it is started with.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// Its name, such as `kube-controller-manager`.
    pub name: &'static str,
    /// Its command line.
    pub argv: Vec<String>,
    /// Where that stands, for people.
    pub place: String,
    /// Its process, where it shows and no manifest says more.
    pub pid: Option<u32>,
    /// Its version, as far as the tag of its image tells it.
    pub version: Option<Version>,
    manifest: Option<&'a Manifest>,
}

impl<'a> Program<'a> {
    /// Finds it: its manifest, else its process, else its unit. None where it does not run here.
    ///
    /// # Errors
    /// It is to run here, and its manifest or unit cannot be read.
    pub fn find(node: &'a Node, processes: Option<&Processes>, name: &'static str) -> Result<Option<Self>, String> {
        if let Some(manifest) = node.manifest(name) {
            return Ok(Some(Self {
                name,
                argv: manifest.containers.iter().flat_map(|container| container.argv.clone()).collect(),
                place: format!("'{}'", manifest.path.display()),
                pid: None,
                version: version::of(manifest),
                manifest: Some(manifest),
            }));
        }
        if node.is_hidden(name) {
            return Err(format!("its manifest in '{}' cannot be read", node.manifests_dir().display()));
        }
        let process = processes.and_then(|processes| processes.find_named(name).into_iter().next());
        let unit = format!("{name}.service");
        let of = |argv, place, pid| Self { name, argv, place, pid, version: None, manifest: None };
        if let Some(process) = process {
            let place = format!("the command line of pid {} ({unit})", process.pid);
            return Ok(Some(of(process.argv, place, Some(process.pid))));
        }
        let command = unit_command(&node.root, &unit).map_err(|error| error.to_string())?;
        Ok(command.map(|command| of(command.argv, unit, None)))
    }

    /// The value of a flag.
    pub fn flag(&self, name: &str) -> Option<&str> {
        flag(&self.argv, name)
    }

    /// The node's path of the file that a flag names.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        match self.manifest {
            Some(manifest) => manifest.flag_path(name),
            None => self.flag(name).filter(|path| path.starts_with('/')).map(PathBuf::from),
        }
    }

    /// What makes it start anew after its flags were changed.
    pub fn restart(&self) -> String {
        match self.manifest {
            Some(_) => "kubelet restarts it when the manifest has changed".to_owned(),
            None => format!("systemctl daemon-reload && systemctl restart {}", self.name),
        }
    }

    /// The file of its program.
    pub fn executable(&self) -> &Path {
        Path::new(self.argv.first().map_or("", String::as_str))
    }
}
