//! Whether a renewal could be done now: the preflight of a run that renews everything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::decision::kubeadm_leaves;
use crate::node::Node;
use crate::report::check_report::CouldRenew;
use crate::run::restarting::in_the_way;
use crate::run::survey::Survey;
use crate::run::{Job, tools_are_of_the_node};
use crate::runtime::Limits;
use crate::steps::preflight::{Needs, preflight};
use crate::steps::{Context, Deadlines};

/// A runtime that hangs must not hold up a look.
const LIMITS: Limits = Limits { rpc: Duration::from_secs(3), margin: Duration::from_secs(1), tries: 1 };

/// Looks. None on another root whose tools are not named: this machine's would tell of this machine.
pub fn could_renew(job: &Job<'_>, node: &Node, survey: &Survey) -> Option<CouldRenew> {
    if !tools_are_of_the_node(job) {
        return None;
    }
    let mut of_certificates = Vec::new();
    let mut of_the_ground: Vec<String> = Vec::new();
    if job.root.is_host() && !job.is_root {
        let obstacles = vec!["only root can renew, and this check is not run by root".to_owned()];
        return Some(CouldRenew { obstacles, of_the_ground });
    }
    let found = &survey.found;
    for certificate in kubeadm_leaves(&found.inventory) {
        if let Err(why) = certificate.renewable() {
            of_certificates.push(format!("{}: {why}", certificate.name));
        }
    }
    let of_kubeadm = kubeadm_leaves(&found.inventory).flat_map(|certificate| certificate.files());
    let mut files: Vec<PathBuf> = of_kubeadm.map(Path::to_path_buf).collect();
    files.sort_unstable();
    files.dedup();
    let needs = Needs {
        files: &files,
        copies: Vec::new(),
        backup_dir: job.backup_dir,
        components: found
            .readers
            .iter()
            .filter(|reader| !reader.rereads)
            .map(|reader| reader.component.as_str())
            .collect(),
        dry_run: true,
    };
    let deadlines = Deadlines { runtime: Duration::ZERO, limits: LIMITS, ..job.deadlines };
    let context =
        Context { node, node_name: &found.node_name, clock: job.clock, signals: job.signals, deadlines: &deadlines };
    match preflight(&context, &needs, &job.tools) {
        Ok(ground) => {
            let members = ground.etcd.and_then(|etcd| etcd.ok()?.down());
            of_the_ground.extend(ground.deferral.into_iter().chain(ground.images.missing.into_values()).chain(members));
        }
        Err(failure) => of_the_ground.push(failure.to_string()),
    }
    let renewed = |name: &str| found.inventory.get(name).is_some_and(|one| one.renewable().is_ok());
    let lasting = |name: &str| !renewed(name);
    for component in &needs.components {
        of_the_ground.extend(in_the_way(node, component, &found.inventory, &lasting));
    }
    let obstacles = of_the_ground.iter().cloned().chain(of_certificates).collect();
    Some(CouldRenew { obstacles, of_the_ground })
}
