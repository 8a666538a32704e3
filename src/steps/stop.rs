//! Restarting a static pod gently: its container is stopped, and the kubelet starts it again in the same sandbox.
//!
//! For etcd. A removal of the sandbox kills it at once (containerd stops with no grace there), in the middle of what it writes; asked to
//! stop, it hands its leadership over and closes its files.

use chrono::DateTime;

use crate::node::proc::Process;
use crate::node::{Manifest, flags::flag};
use crate::runtime::{Container, Runtime, RuntimeError};

use super::Context;
use super::ready::{Waited, until};
use super::restart::{Restarted, ended, healthy, last_state, same_kubelet};

/// Restarts the container of etcd's static pod. `kubelet` is the one that was seen before; it has to be there still.
pub fn stop(context: &Context<'_>, runtime: &Runtime, manifest: &Manifest, kubelet: Option<&Process>) -> Restarted {
    let component = manifest.component.as_str();
    let pod = manifest.pod_name(context.node_name);
    let begin = context.clock.since_boot();
    if let Err(why) = same_kubelet(context, kubelet) {
        return Restarted::Deferred(why);
    }
    let running = || running(runtime, manifest, &pod);
    let old = match running() {
        Ok(old) if old.is_empty() => {
            return Restarted::Deferred(format!(
                "no container of static pod '{pod}' runs that could be stopped (crictl ps -a)"
            ));
        }
        Ok(old) => old,
        Err(why) => return Restarted::Deferred(format!("the container runtime does not answer: {why}")),
    };
    for container in &old {
        // crictl's own words prove nothing: it may have given up on a stop that was done
        let stop = || match runtime.stop(&container.id, context.deadlines.grace) {
            Ok(()) => Ok(()),
            Err(_) if running().is_ok_and(|left| left.iter().all(|one| one.id != container.id)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let wait =
            until(context.clock, context.signals, context.deadlines.removing, context.deadlines.removing_pause, stop);
        match wait {
            Waited::Done(_) => {}
            Waited::TooLong(why) => {
                return Restarted::NotBack(format!("cannot stop container {} of '{pod}': {why}", container.id));
            }
            Waited::Signal(number) => return Restarted::Signal(number),
        }
    }
    let mut created = 0;
    let wait = until(context.clock, context.signals, context.deadlines.back, context.deadlines.runtime_pause, || {
        let is_new = |one: &&Container| old.iter().all(|old| old.id != one.id);
        created = running()?
            .iter()
            .find(is_new)
            .map(|one| one.created_at_ns)
            .ok_or_else(|| format!("kubelet has started no new container of '{pod}' (journalctl -u kubelet)"))?;
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
            left: None,
            took: context.clock.since_boot().saturating_sub(begin),
            created: (created > 0).then(|| DateTime::from_timestamp_nanos(created)),
        },
    }
}

/// The running containers of etcd in the ready sandboxes of its pod; a helper beside it in the pod is left alone.
fn running(runtime: &Runtime, manifest: &Manifest, pod: &str) -> Result<Vec<Container>, String> {
    let text = |error: RuntimeError| error.to_string();
    let serves = |one: &&crate::node::Container| flag(&one.argv, "--listen-client-urls").is_some();
    let containers = &manifest.containers;
    let name = containers.iter().find(serves).or(containers.first()).map_or("", |one| one.name.as_str());
    let mut found = Vec::new();
    for sandbox in runtime.sandboxes(&manifest.component, pod).map_err(text)?.iter().filter(|sandbox| sandbox.ready) {
        let all = runtime.containers_of(&sandbox.id).map_err(text)?;
        found.extend(all.into_iter().filter(|one| one.running && one.name == name));
    }
    Ok(found)
}
