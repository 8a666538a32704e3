//! Restarting one static pod, and seeing it back.
//!
//! The sandbox is removed at once, by force: that was measured to be the shortest outage (kube-apiserver 1.20.2 on
//! containerd: 3.4 to 3.6 s of refused connections; stopped gently first, 2 to 12 s more). The kubelet makes a new one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::api::{Scheme, Target, get};
use crate::node::Manifest;
use crate::node::proc::{Process, Processes};
use crate::runtime::{Container, Runtime, RuntimeError, Sandbox};

use super::Context;
use super::ready::{self, Waited, until};

/// How a restart ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restarted {
    /// A new sandbox, or a new container, runs and answers for its health.
    Back {
        /// How long it took.
        took: Duration,
        /// When its container was made, by the runtime's word (UTC), where that tells.
        created: Option<DateTime<Utc>>,
        /// What is left of the old one and cannot be removed: why.
        left: Option<String>,
    },
    /// Nothing was removed: why.
    Deferred(String),
    /// Removed or stopped, or to be so, and not seen back: why.
    NotBack(String),
    /// This signal came while waiting.
    Signal(i32),
}

/// Restarts a component's static pod. `kubelet` is the one that was seen before; it has to be there still.
pub fn restart(context: &Context<'_>, runtime: &Runtime, manifest: &Manifest, kubelet: Option<&Process>) -> Restarted {
    let component = manifest.component.as_str();
    let pod = manifest.pod_name(context.node_name);
    let begin = context.clock.since_boot();
    if let Err(why) = same_kubelet(context, kubelet) {
        return Restarted::Deferred(why);
    }
    let old = match runtime.sandboxes(component, &pod) {
        Ok(old) if old.is_empty() => {
            return Restarted::Deferred(format!("the container runtime knows no sandbox of static pod '{pod}'"));
        }
        Ok(old) => old,
        Err(error) => return Restarted::Deferred(format!("the container runtime does not answer: {error}")),
    };
    // what is left of an earlier attempt goes too: its dead containers would make kubelet wait before it starts new ones
    for sandbox in &old {
        // for a moment it may be impossible: containerd refuses while kubelet is just starting a container in it
        let remove = || runtime.remove(&sandbox.id).map_err(|error| error.to_string());
        let wait =
            until(context.clock, context.signals, context.deadlines.removing, context.deadlines.removing_pause, remove);
        match wait {
            Waited::Done(_) => {}
            Waited::TooLong(why) => {
                return Restarted::NotBack(format!("cannot remove sandbox {} of '{pod}': {why}", sandbox.id));
            }
            Waited::Signal(number) => return Restarted::Signal(number),
        }
    }
    let mut created = 0;
    let wait = until(context.clock, context.signals, context.deadlines.back, context.deadlines.runtime_pause, || {
        created = new_container(runtime, component, &pod, &old)?.created_at_ns;
        Ok(())
    });
    if let Some(ended) = ended(wait, || last_state(runtime, component, &pod)) {
        return ended;
    }
    let spent = context.clock.since_boot().saturating_sub(begin);
    let left = context.deadlines.back.saturating_sub(spent);
    let wait = until(context.clock, context.signals, left, context.deadlines.pause, || healthy(context, manifest));
    match ended(wait, || last_state(runtime, component, &pod)) {
        Some(ended) => ended,
        None => Restarted::Back {
            left: clear(context, runtime, &old),
            took: context.clock.since_boot().saturating_sub(begin),
            created: (created > 0).then(|| DateTime::from_timestamp_nanos(created)),
        },
    }
}

/// Clears away containers that kubelet was just making in the old sandboxes.
fn clear(context: &Context<'_>, runtime: &Runtime, old: &[Sandbox]) -> Option<String> {
    let gone: Vec<String> = old.iter().map(|sandbox| sandbox.id.clone()).collect();
    let clear = || runtime.remove_leftovers(&gone).map_err(|error| error.to_string());
    match until(context.clock, context.signals, context.deadlines.removing, context.deadlines.removing_pause, clear) {
        Waited::TooLong(why) => Some(why),
        Waited::Done(_) | Waited::Signal(_) => None,
    }
}

pub(super) fn ended(wait: Waited, state: impl FnOnce() -> String) -> Option<Restarted> {
    match wait {
        Waited::Done(_) => None,
        Waited::TooLong(why) => Some(Restarted::NotBack(format!("{why}; {}", state()))),
        Waited::Signal(number) => Some(Restarted::Signal(number)),
    }
}

/// Whether the kubelet that was seen before still runs: one that died, or was started anew and has not found its pods yet,
/// may leave a removed pod away for good.
pub(super) fn same_kubelet(context: &Context<'_>, before: Option<&Process>) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    match Processes::read(&context.node.root).and_then(|processes| processes.find_kubelet()) {
        Some(now) if (now.pid, now.start_ticks) == (before.pid, before.start_ticks) => Ok(()),
        Some(_) => Err("kubelet was restarted meanwhile".to_owned()),
        None => Err("kubelet has ended meanwhile, so nothing would bring a removed pod back (systemctl start kubelet)"
            .to_owned()),
    }
}

/// The container that runs in the sandbox that the kubelet made in place of the old ones.
fn new_container(runtime: &Runtime, component: &str, pod: &str, old: &[Sandbox]) -> Result<Container, String> {
    let text = |error: RuntimeError| error.to_string();
    let is_new = |sandbox: &Sandbox| sandbox.ready && !old.iter().any(|old| old.id == sandbox.id);
    let sandbox = runtime
        .sandboxes(component, pod)
        .map_err(text)?
        .into_iter()
        .find(is_new)
        .ok_or_else(|| format!("kubelet has made no new sandbox of '{pod}' (journalctl -u kubelet)"))?;
    let containers = runtime.containers_of(&sandbox.id).map_err(text)?;
    let running = containers.into_iter().find(|container| container.running);
    running.ok_or_else(|| format!("no container runs in the new sandbox of '{pod}'"))
}

/// Whether the component answers for its health; kube-apiserver by `/readyz`, since the next component needs it, and only with the
/// certificate that is on disk.
///
/// # Errors
/// It does not: what it does instead.
pub fn healthy(context: &Context<'_>, manifest: &Manifest) -> Result<(), String> {
    if manifest.component == "kube-apiserver" {
        return ready::probe(context.node, context.deadlines.probe);
    }
    let Some(probe) = manifest.health() else { return Ok(()) };
    let ip = match probe.host.as_deref() {
        // in a network of its own it answers at an address that only kubelet knows; the sandbox that runs has to do
        None if !manifest.host_network => return Ok(()),
        None | Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Some(host) => match host.parse() {
            Ok(ip) => ip,
            // a host name is kubelet's to resolve; the sandbox that runs has to do
            Err(_) => return Ok(()),
        },
    };
    let addr = SocketAddr::new(ip, probe.port);
    let scheme = if probe.https { Scheme::Https } else { Scheme::Http };
    let target = Target { scheme, addr, server_name: None };
    match get(&target, &probe.path, None, None, context.deadlines.probe) {
        // a component that asks for a login is up
        Ok(reply) if matches!(reply.status, 200..=399 | 401 | 403) => Ok(()),
        Ok(reply) => Err(format!("{addr}{} answers {}", probe.path, reply.status)),
        Err(error) => Err(format!("{addr}{}: {error}", probe.path)),
    }
}

/// How the pod's containers stand, for the message of a failure.
pub(super) fn last_state(runtime: &Runtime, component: &str, pod: &str) -> String {
    let sandboxes = match runtime.sandboxes(component, pod) {
        Ok(sandboxes) if sandboxes.is_empty() => return "there is no sandbox of it".to_owned(),
        Ok(sandboxes) => sandboxes,
        Err(error) => return format!("the container runtime does not answer: {error}"),
    };
    let mut states = Vec::new();
    for sandbox in sandboxes {
        let containers = runtime.containers_of(&sandbox.id).unwrap_or_default();
        let newest = containers.first().map_or_else(
            || "no container".to_owned(),
            |container| {
                let state = if container.running { "running" } else { "not running" };
                format!("container {} (attempt {}) {state}", container.name, container.attempt)
            },
        );
        states.push(format!("sandbox {} {}: {newest}", sandbox.id, if sandbox.ready { "ready" } else { "not ready" }));
    }
    format!("{} (crictl logs shows why)", states.join("; "))
}
