//! What only a check asks: nothing is decided by it, so that no run waits for it.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::served::look as ask;
use super::{kubelet, starters};
use crate::api::Identity;
use crate::api::client::{ApiError, Scheme, Target, get};
use crate::host::Deadline;
use crate::node::Node;
use crate::node::proc::{Process, Processes};

/// Who makes itself a certificate to serve, and the port of Kubernetes 1.20 to 1.36.
const SELF_MADE: [(&str, u16); 2] = [("kube-controller-manager", 10257), ("kube-scheduler", 10259)];

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beyond {
    /// The certificates that kube-controller-manager and kube-scheduler made themselves at their start. Only a restart renews them.
    pub in_memory: Vec<InMemory>,
    /// What kubelet answered to kube-apiserver's login; none where it was not asked, or did not answer.
    pub kubelet: Option<Answer>,
}

/// A certificate that a process made itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InMemory {
    /// The component.
    pub component: String,
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// First moment of its validity (UTC): an hour before the start.
    pub not_before: DateTime<Utc>,
    /// Last moment of its validity (UTC): a year later.
    pub not_after: DateTime<Utc>,
}

/// What kubelet answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where, as `127.0.0.1:10250`.
    pub addr: String,
    /// The HTTP status: 401 where it does not know the login; 403 where it knows it and the rights are missing.
    pub status: u16,
}

/// Asks, one thread a server, each within `deadline`. On another root than `/` only a server whose process is there is asked.
pub fn look(node: &Node, processes: Option<&Processes>, deadline: Duration) -> Beyond {
    std::thread::scope(|scope| {
        let threads: Vec<_> = SELF_MADE
            .into_iter()
            .map(|(component, port)| scope.spawn(move || in_memory(node, processes, component, port, deadline)))
            .collect();
        let kubelet = processes.and_then(Processes::find_kubelet).and_then(|process| login(node, &process, deadline));
        Beyond { in_memory: threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect(), kubelet }
    })
}

fn in_memory(
    node: &Node,
    processes: Option<&Processes>,
    component: &str,
    port: u16,
    deadline: Duration,
) -> Option<InMemory> {
    let manifest = node.manifest(component)?;
    let runs = processes.is_some_and(|processes| !processes.find_named(component).is_empty());
    if !node.root.is_host() && !runs {
        return None;
    }
    let addrs = starters::addresses(manifest, port);
    let shown = ask(&addrs, None, None, None, Deadline::after(deadline)).ok()?;
    // one that it was given stands in a file
    shown.leaf.common_name.starts_with("localhost@").then(|| InMemory {
        component: component.to_owned(),
        serial: shown.leaf.serial,
        not_before: shown.leaf.not_before,
        not_after: shown.leaf.not_after,
    })
}

/// Asks kubelet for its health with the certificate that kube-apiserver logs in with there. On its own port (10250) kubelet
/// answers nobody whom it does not know, `/healthz` included (kubelet `server.InstallAuthFilter`).
fn login(node: &Node, process: &Process, deadline: Duration) -> Option<Answer> {
    let manifest = node.manifest("kube-apiserver")?;
    let read = |flag| node.root.read(&manifest.flag_path(flag)?).ok();
    let identity = Identity::from_pem(&read("--kubelet-client-certificate")?, &read("--kubelet-client-key")?).ok()?;
    let config = kubelet::config(&node.root, process);
    let deadline = Deadline::after(deadline);
    kubelet::addresses(process, &config).into_iter().find_map(|addr| {
        let target = Target { scheme: Scheme::Https, addr, server_name: None };
        let reply: Result<_, ApiError> = get(&target, "/healthz", Some(&identity), None, deadline.left()?);
        Some(Answer { addr: addr.to_string(), status: reply.ok()?.status })
    })
}
