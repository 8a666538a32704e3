//! `kubelet check`: looks at everything that kubelet's certificates depend on, and judges it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::report::check_report::{KubeletState, Status};

use super::finding::KubeletFinding;
use super::say::bad;
use super::view::View;
use super::{bootstrap, client, conf, rotation, serving, signing};

/// A finished check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletReport {
    /// The instant that it judged by (UTC).
    pub at: DateTime<Utc>,
    /// The node's name; empty where it cannot be told.
    pub node: String,
    /// kubelet's version, where it tells it.
    pub version: Option<String>,
    /// What was found, the worst first.
    pub findings: Vec<KubeletFinding>,
    /// What cannot be seen from here, by the ids of its findings: of a worker what only a control plane tells. It weighs nothing.
    pub not_visible: Vec<&'static str>,
    /// The worst of all that was found.
    pub status: Status,
}

/// What is known from elsewhere than the node's own files and processes, such as the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// What was found.
    pub findings: Vec<KubeletFinding>,
    /// What cannot be seen from here, by the ids of its findings.
    pub not_visible: Vec<&'static str>,
}

/// Puts a report together from what the node shows, and what is known from elsewhere.
pub fn report(view: &View<'_>, elsewhere: Elsewhere) -> KubeletReport {
    let mut findings = local(view);
    findings.extend(elsewhere.findings);
    // of one weight in the order in which things depend on one another
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    KubeletReport {
        at: view.looked.now,
        node: view.node_name.clone(),
        version: view.told.clone().and_then(Result::ok),
        status: findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Unknown),
        findings,
        not_visible: elsewhere.not_visible,
    }
}

/// What this node's files and processes show. Asks nobody.
pub fn local(view: &View<'_>) -> Vec<KubeletFinding> {
    let mut found = Vec::new();
    if view.has_kubelet() {
        found.extend(rotation::findings(view));
        found.extend(client::findings(view));
        found.extend(conf::findings(view));
        found.extend(serving::findings(view));
        found.extend(bootstrap::findings(view));
    } else {
        found.push(bad(
            Status::Unknown,
            "kubelet-process",
            "kubelet",
            format!("there is no sign of a kubelet below '{}'", view.looked.node.root),
            "without its process, its settings and its files nothing can be said of it",
            "name the node's root with --root, or look as root",
        ));
    }
    found.extend(controller_manager(view));
    found
}

/// Those of them that another report tells, beside its own: something is to be mended, and what shows of the process is told there.
/// Nobody is to be woken for what could not be seen in passing.
pub fn in_passing(view: &View<'_>) -> (Vec<KubeletState>, Vec<KubeletFinding>) {
    if !view.has_kubelet() {
        return (Vec::new(), Vec::new());
    }
    let mut found = local(view);
    let states = states(&found);
    found.retain(|one| matches!(one.status, Status::Warning | Status::Critical));
    found.retain(|one| !matches!(one.id, "kubelet-process" | "kubelet-version" | "serving-in-use"));
    // with an external CA that is as somebody has set it up
    let external = view.looked.inventory.authority("ca").is_some_and(|ca| ca.externally_managed);
    found.retain(|one| !(external && one.id == "signing-files"));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    (states, found)
}

/// How each thing stands: of several findings about one, the worst.
fn states(findings: &[KubeletFinding]) -> Vec<KubeletState> {
    let mut states: BTreeMap<&'static str, Status> = BTreeMap::new();
    for finding in findings {
        let status = states.entry(finding.id).or_insert(finding.status);
        *status = finding.status.max(*status);
    }
    states.into_iter().map(|(id, status)| KubeletState { id, status }).collect()
}

fn controller_manager(view: &View<'_>) -> Vec<KubeletFinding> {
    let manager = match &view.controller_manager {
        Ok(Some(manager)) => manager,
        // another node's matter
        Ok(None) => return Vec::new(),
        Err(why) => {
            let name = "kube-controller-manager";
            let matter = "it approves and signs what kubelets ask for";
            return vec![bad(
                Status::Unknown,
                "csr-controllers",
                name,
                why.clone(),
                matter,
                "look as root, and mend the file",
            )];
        }
    };
    let mut found = signing::files(view, manager);
    found.extend(signing::controllers(view, manager));
    found.extend(signing::flags(manager));
    found
}
