//! A stand-in for crictl: its flags, JSON and exit codes over the world's sandboxes and containers.

use std::io::Write;

use chrono::DateTime;
use serde_json::{Value, json};

use super::fake::{Call, End, Flags, hang_where_told, matches, say, tell};
use super::faults::{Images, Removal, Runtime};
use super::kubelet::{Container, PAUSE, Sandbox, State};
use super::world;

const USAGE: &str =
    "NAME:\n   crictl - client for CRI\n\nUSAGE:\n   crictl [global options] command [command options] [arguments...]";
const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

/// Acts as crictl.
///
/// # Errors
/// How it ends when it does not end with 0.
pub fn run(call: &Call) -> Result<(), End> {
    let valued: &[&[&str]] =
        &[&["-t", "--timeout"], &["-r", "--runtime-endpoint"], &["-i", "--image-endpoint"], &["-c", "--config"]];
    let plain: &[&[&str]] = &[&["-D", "--debug"], &["-v", "--version"], &["-h", "--help"]];
    let global = Flags::read(&call.args, valued, plain, true).map_err(fatal)?;
    if global.has("-v") {
        say("crictl version v1.31.1");
        return Ok(());
    }
    let Some((command, args)) = global.words.split_first() else {
        say(USAGE);
        return Ok(());
    };
    let endpoint = global.value("-r").unwrap_or(ENDPOINT);
    match call.faults.runtime {
        Runtime::Down => {
            return Err(fatal(format!(
                "connect: connect endpoint '{endpoint}', make sure you are running as root and the endpoint has been started: context deadline exceeded"
            )));
        }
        Runtime::Warns => {
            let _ = writeln!(
                std::io::stderr(),
                "WARN[0000] runtime connect using default endpoints: [unix:///run/containerd/containerd.sock]. As the default settings are now deprecated, you should set the endpoint instead."
            );
        }
        Runtime::Up | Runtime::Empty => {}
    }
    let flags = command_flags(command, args)?;
    match command.as_str() {
        "pods" => pods(call, &flags),
        "ps" => ps(call, &flags),
        "images" => {
            let images: Vec<Value> = images(call)?.iter().map(|image| image_json(image)).collect();
            print(&flags, "images", &images)
        }
        "inspecti" => each(&flags, |image| match images(call)?.iter().find(|one| *one == image) {
            Some(one) => tell(pretty(&json!({ "status": image_json(one), "info": {} }))),
            None => Err(fatal(format!("no such image \"{image}\" present"))),
        }),
        "inspectp" => each(&flags, |id| inspect_sandbox(call, id)),
        "inspect" => each(&flags, |id| inspect_container(&world::read(&call.dir, "state.json"), id)),
        "stop" => each(&flags, |id| stop(call, id)),
        "stopp" => each(&flags, |id| stop_sandbox(call, id)),
        "rmp" => each(&flags, |id| remove(call, id, flags.has("-f"))),
        "version" => {
            tell("Version:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  v1.7.27\nRuntimeApiVersion:  v1")
        }
        "info" => {
            let conditions = ["RuntimeReady", "NetworkReady"]
                .map(|kind| json!({ "type": kind, "status": true, "reason": "", "message": "" }));
            let mut info = json!({ "status": { "conditions": conditions } });
            if !call.faults.info_is_silent {
                info["config"] = json!({ "containerd": { "snapshotter": "overlayfs" }, "sandboxImage": PAUSE });
            }
            tell(pretty(&info))
        }
        other => Err(fatal(format!("No help topic for '{other}'"))),
    }
}

fn command_flags(command: &str, args: &[String]) -> Result<Flags, End> {
    let grace: &[&str] = if command == "stop" { &["-t", "--timeout"] } else { &["--timeout"] };
    let valued: &[&[&str]] = &[
        &["--name"],
        &["--namespace"],
        &["--label"],
        &["-s", "--state"],
        &["-o", "--output"],
        &["--id"],
        &["-p", "--pod"],
        &["--image"],
        grace,
    ];
    let force: &[&str] = if command == "rmp" { &["-f", "--force"] } else { &["--force"] };
    let plain: &[&[&str]] = &[&["-q", "--quiet"], &["-a", "--all"], &["--no-trunc"], &["-v", "--verbose"], force];
    Flags::read(args, valued, plain, false).map_err(fatal)
}

fn pods(call: &Call, flags: &Flags) -> Result<(), End> {
    let listed = world::edit(&call.dir, State::listed);
    let keep = listed.iter().filter(|one| {
        let labels = sandbox_labels(one);
        call.faults.runtime != Runtime::Empty
            && matches(flags.value("--name"), &one.pod)
            && matches(flags.value("--namespace"), &one.namespace)
            && flags.value("--id").is_none_or(|id| one.id.starts_with(id))
            && flags.all("--label").iter().all(|label| has_label(&labels, label))
            && flags
                .value("-s")
                .is_none_or(|state| sandbox_state(one).eq_ignore_ascii_case(&format!("SANDBOX_{state}")))
    });
    print(flags, "items", &keep.map(sandbox_json).collect::<Vec<_>>())
}

fn ps(call: &Call, flags: &Flags) -> Result<(), End> {
    let state: State = world::read(&call.dir, "state.json");
    let keep = state.containers.iter().rev().filter(|one| {
        let sandbox = state.sandbox_at(&one.sandbox);
        let labels = container_labels(one);
        call.faults.runtime != Runtime::Empty
            && sandbox.as_ref().is_none_or(|sandbox| sandbox.hidden_for == 0)
            && (flags.has("-a") || one.running || flags.value("-s").is_some())
            && matches(flags.value("--name"), &one.name)
            && flags.value("--id").is_none_or(|id| one.id.starts_with(id))
            && flags.value("-p").is_none_or(|id| one.sandbox.starts_with(id))
            && flags.all("--label").iter().all(|label| has_label(&labels, label))
            && flags
                .value("-s")
                .is_none_or(|state| container_state(one).eq_ignore_ascii_case(&format!("CONTAINER_{state}")))
    });
    print(flags, "containers", &keep.map(container_json).collect::<Vec<_>>())
}

fn inspect_sandbox(call: &Call, id: &str) -> Result<(), End> {
    let state: State = world::read(&call.dir, "state.json");
    let one = state.sandbox_at(id).ok_or_else(|| not_found("getting the status of the pod sandbox", id))?;
    let mut status = sandbox_json(&one);
    status["createdAt"] = json!(moment(one.created_ns));
    status["network"] = json!({ "additionalIps": [], "ip": "" });
    let info = if call.faults.sandboxes_are_silent { json!({}) } else { json!({ "pid": 0, "image": PAUSE }) };
    say(pretty(&json!({ "status": status, "info": info })));
    Ok(())
}

fn inspect_container(state: &State, id: &str) -> Result<(), End> {
    let one = state.container_at(id).ok_or_else(|| not_found("getting the status of the container", id))?;
    let mut status = container_json(&one);
    status["createdAt"] = json!(moment(one.created_ns));
    status["startedAt"] = json!(moment(one.created_ns));
    status["finishedAt"] = json!(if one.running { "0001-01-01T00:00:00Z".to_owned() } else { moment(one.created_ns) });
    status["exitCode"] = json!(if one.running { 0 } else { 137 });
    say(pretty(&json!({ "status": status, "info": { "pid": if one.running { one.pid } else { 0 } } })));
    Ok(())
}

fn stop(call: &Call, id: &str) -> Result<(), End> {
    hang_where_told(call);
    world::edit(&call.dir, |state| {
        let one = state.container_at(id).ok_or_else(|| not_found("stopping the container", id))?;
        match state.stop_if_told(&one.id, &call.setup, &call.faults) {
            Removal::DeadlineExceeded | Removal::DeadlineExceededYetDone => Err(fatal(format!(
                "stopping the container {id:?}: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            ))),
            Removal::Fails | Removal::Hangs => Err(fatal(format!(
                "stopping the container {id:?}: rpc error: code = Unknown desc = failed to kill container: unknown error"
            ))),
            Removal::Ordinary | Removal::DoesNothing => {
                say(id);
                Ok(())
            }
        }
    })
}

fn stop_sandbox(call: &Call, id: &str) -> Result<(), End> {
    world::edit(&call.dir, |state| {
        let one = state.sandbox_at(id).ok_or_else(|| not_found("stopping the pod sandbox", id))?;
        state.stop_sandbox(&one.id, &call.setup, &call.faults);
        say(format!("Stopped sandbox {id}"));
        Ok(())
    })
}

fn remove(call: &Call, id: &str, force: bool) -> Result<(), End> {
    hang_where_told(call);
    world::edit(&call.dir, |state| {
        let one = state.sandbox_at(id).ok_or_else(|| not_found("getting sandbox status of pod", id))?;
        if one.ready && !force {
            return Err(fatal(format!("pod sandbox {id:?} is running, please stop it first")));
        }
        let error = |code: &str, words: &str| {
            Err(fatal(format!("removing the pod sandbox {id:?}: rpc error: code = {code} desc = {words}")))
        };
        match state.remove(&one.id, true, &call.setup, &call.faults) {
            Removal::DeadlineExceeded | Removal::DeadlineExceededYetDone => {
                error("DeadlineExceeded", "context deadline exceeded")
            }
            Removal::Fails | Removal::Hangs => error("Unknown", "failed to forcibly stop sandbox: unknown error"),
            Removal::Ordinary | Removal::DoesNothing => {
                say(format!("Stopped sandbox {id}\nRemoved sandbox {id}"));
                Ok(())
            }
        }
    })
}

fn each(flags: &Flags, act: impl Fn(&str) -> Result<(), End>) -> Result<(), End> {
    if flags.words.is_empty() {
        say(USAGE);
    }
    let mut ended = Ok(());
    for word in &flags.words {
        ended = ended.and(act(word));
    }
    ended
}

fn print(flags: &Flags, head: &str, all: &[Value]) -> Result<(), End> {
    if flags.value("-o") == Some("json") {
        return tell(pretty(&json!({ head: all })));
    }
    if !flags.has("-q") {
        say("ID                  STATE");
    }
    for one in all {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        say(if flags.has("-q") {
            text("id").to_owned()
        } else {
            format!("{:.13}       {}", text("id"), text("state"))
        });
    }
    Ok(())
}

/// The images that the runtime has, as far as it tells them.
///
/// # Errors
/// It does not.
pub fn images(call: &Call) -> Result<Vec<String>, End> {
    match call.faults.images {
        Images::Listed => {}
        Images::Empty => return Ok(Vec::new()),
        Images::Garbled => return Err(End { code: 0, message: String::new() }),
        Images::Refused => return Err(fatal("listing images: rpc error: code = Unimplemented desc = unknown service")),
    }
    let state: State = world::read(&call.dir, "state.json");
    Ok(state.images.into_iter().filter(|image| !call.faults.missing_images.contains(image)).collect())
}

fn image_json(image: &str) -> Value {
    json!({ "id": format!("sha256:{image}"), "repoTags": [image], "repoDigests": [], "size": "28046696", "uid": null, "username": "", "spec": null, "pinned": false })
}

fn sandbox_json(one: &Sandbox) -> Value {
    let mut annotations = json!({});
    if one.from_file {
        annotations = json!({ "kubernetes.io/config.hash": one.uid, "kubernetes.io/config.source": "file", "kubernetes.io/config.seen": moment(one.created_ns) });
    }
    json!({
        "id": one.id,
        "metadata": { "name": one.pod, "uid": one.uid, "namespace": one.namespace, "attempt": one.attempt },
        "state": sandbox_state(one),
        "createdAt": one.created_ns.to_string(),
        "labels": sandbox_labels(one),
        "annotations": annotations,
        "runtimeHandler": ""
    })
}

fn container_json(one: &Container) -> Value {
    json!({
        "id": one.id,
        "podSandboxId": one.sandbox,
        "metadata": { "name": one.name, "attempt": one.attempt },
        "image": { "image": one.image, "annotations": {} },
        "imageRef": one.image,
        "state": container_state(one),
        "createdAt": one.created_ns.to_string(),
        "labels": container_labels(one),
        "annotations": { "io.kubernetes.container.hash": "5b9a2f1c", "io.kubernetes.container.restartCount": one.attempt.to_string() }
    })
}

fn sandbox_labels(one: &Sandbox) -> Value {
    let mut labels = json!({
        "io.kubernetes.pod.name": one.pod,
        "io.kubernetes.pod.namespace": one.namespace,
        "io.kubernetes.pod.uid": one.uid,
    });
    if let Some(component) = &one.component {
        labels["component"] = json!(component);
        labels["tier"] = json!("control-plane");
    }
    labels
}

fn container_labels(one: &Container) -> Value {
    let [pod, namespace, uid] = &one.owner;
    json!({
        "io.kubernetes.container.name": one.name,
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.uid": uid,
    })
}

fn has_label(labels: &Value, label: &str) -> bool {
    label.split_once('=').map_or(!labels[label].is_null(), |(key, value)| labels[key] == value)
}

fn sandbox_state(one: &Sandbox) -> &'static str {
    if one.ready { "SANDBOX_READY" } else { "SANDBOX_NOTREADY" }
}

fn container_state(one: &Container) -> &'static str {
    if one.running { "CONTAINER_RUNNING" } else { "CONTAINER_EXITED" }
}

/// RFC 3339 with nanoseconds, as `inspect` prints a moment.
pub fn moment(ns: i64) -> String {
    DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

fn not_found(act: &str, id: &str) -> End {
    fatal(format!(
        "{act} {id:?}: rpc error: code = NotFound desc = an error occurred when try to find {id:?}: not found"
    ))
}

fn fatal(message: impl Into<String>) -> End {
    End::failed(format!("FATA[0000] {}", message.into()))
}
