//! A stand-in for docker where dockershim or cri-dockerd runs the pods: `ps`, `inspect`, `rm`, `kill`, `stop`, images.

use std::fmt::Write;

use serde_json::{Value, json};

use super::fake::{Call, End, Flags, hang_where_told, matches, say, tell};
use super::fake_crictl::{images, moment};
use super::faults::{Removal, Runtime};
use super::kubelet::{PAUSE, State};
use super::world;

/// What docker calls a container: a pause container (its pod's sandbox) or one of the pod's own.
struct Entry {
    id: String,
    name: String,
    image: String,
    running: bool,
    created_ns: i64,
    pid: u32,
    labels: Vec<(String, String)>,
    is_pause: bool,
}

/// Acts as docker.
///
/// # Errors
/// How it ends when it does not end with 0.
pub fn run(call: &Call) -> Result<(), End> {
    let valued: &[&[&str]] = &[&["-H", "--host"], &["--config"]];
    let global = Flags::read(&call.args, valued, &[&["-v", "--version"]], true).map_err(End::failed)?;
    if call.faults.runtime == Runtime::Down {
        return Err(End::failed(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        ));
    }
    let (command, args) = match global.words.split_first() {
        Some((group, args)) if ["container", "image"].contains(&group.as_str()) => match args.split_first() {
            Some((verb, rest)) if group == "image" && verb == "inspect" => ("image-inspect", rest),
            Some((verb, rest)) if verb == "ls" => (if group == "image" { "images" } else { "ps" }, rest),
            Some((verb, rest)) => (verb.as_str(), rest),
            None => ("", args),
        },
        Some((command, args)) => (command.as_str(), args),
        None => ("version", &[][..]),
    };
    let grace: &[&str] = &["-t", "--time", "--timeout"];
    let signal: &[&str] = &["-s", "--signal"];
    let name: &[&str] = if command == "ps" || command == "inspect" { &["-f", "--filter"] } else { &["--filter"] };
    let force: &[&str] = if command == "rm" { &["-f", "--force"] } else { &["--force"] };
    let valued: &[&[&str]] = &[&["--format"], name, grace, signal, &["--type"], &["-n", "--last"]];
    let plain: &[&[&str]] =
        &[&["-a", "--all"], &["-q", "--quiet"], &["--no-trunc"], &["--digests"], &["-v", "--volumes"], force];
    let args: Vec<String> = args.iter().flat_map(|arg| split_short(arg, command)).collect();
    let flags = Flags::read(&args, valued, plain, false).map_err(End::failed)?;
    match command {
        "ps" => ps(call, &flags),
        "inspect" => inspect(call, &flags),
        "rm" | "kill" | "stop" => change(call, &flags, command),
        "images" => {
            for image in images(call)? {
                let (repository, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
                say(json!({ "ID": format!("sha256:{image}"), "Repository": repository, "Tag": tag, "Digest": "<none>" })
                    .to_string());
            }
            Ok(())
        }
        "image-inspect" => match flags.words.iter().find(|image| !images(call).is_ok_and(|all| all.contains(image))) {
            Some(image) => Err(End::failed(format!("[]\nError: No such image: {image}"))),
            None => tell(json!([{ "RepoTags": flags.words }]).to_string()),
        },
        "info" | "version" => match flags.value("--format") {
            Some(format) if format.contains("json") => tell(r#"{"ServerVersion":"24.0.9","Driver":"overlay2"}"#),
            Some(_) => tell("24.0.9"),
            None => tell("Server:\n Server Version: 24.0.9"),
        },
        other => Err(End::failed(format!("docker: '{other}' is not a docker command.\nSee 'docker --help'"))),
    }
}

/// `-aq` and `-af X` are two flags.
fn split_short(arg: &str, command: &str) -> Vec<String> {
    let letters = arg.strip_prefix('-').unwrap_or_default();
    if command == "ps" && letters.len() > 1 && letters.bytes().all(|letter| b"aqf".contains(&letter)) {
        return letters.chars().map(|letter| format!("-{letter}")).collect();
    }
    vec![arg.to_owned()]
}

fn ps(call: &Call, flags: &Flags) -> Result<(), End> {
    if call.faults.runtime == Runtime::Empty {
        return Ok(());
    }
    let mut seen = entries(&call_state(call, true));
    seen.retain(|one| flags.has("-a") || one.running);
    for filter in flags.all("-f") {
        let (kind, value) = filter.split_once('=').ok_or_else(|| End::failed("invalid filter"))?;
        seen.retain(|one| match kind {
            "name" => matches(Some(value), &one.name) || matches(Some(value), &format!("/{}", one.name)),
            "id" => one.id.starts_with(value),
            "status" => (value == "running") == one.running,
            "label" => value.split_once('=').map_or(one.labels.iter().any(|label| label.0 == value), |(key, value)| {
                one.labels.iter().any(|label| label.0 == key && label.1 == value)
            }),
            _ => false,
        });
    }
    for one in &seen {
        let id = if flags.has("--no-trunc") { &one.id[..] } else { &one.id[..12] };
        match flags.value("--format") {
            _ if flags.has("-q") => say(id),
            Some(format) => say(fill(format, &ps_json(one, id))),
            None => say(format!("{id}   {}   {}", one.image, one.name)),
        }
    }
    Ok(())
}

/// Fills `{{.Field}}` and `{{json .}}`, with `\t` and `\n` as docker takes them.
fn fill(format: &str, value: &Value) -> String {
    let mut line = format.replace("\\t", "\t").replace("\\n", "\n");
    for json in ["{{json .}}", "{{ json . }}", "json"] {
        if line == json {
            return value.to_string();
        }
    }
    for (field, text) in value.as_object().into_iter().flatten() {
        line = line.replace(&format!("{{{{.{field}}}}}"), text.as_str().unwrap_or_default());
    }
    line
}

fn ps_json(one: &Entry, id: &str) -> Value {
    let labels: Vec<String> = one.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    json!({
        "ID": id, "Names": one.name, "Image": one.image, "Labels": labels.join(","),
        "State": if one.running { "running" } else { "exited" },
        "Status": if one.running { "Up 2 hours" } else { "Exited (137) 2 hours ago" },
        "CreatedAt": moment(one.created_ns).replace('T', " ").get(..19).map(|text| format!("{text} +0000 UTC")),
        "Command": "\"/pause\"", "LocalVolumes": "0", "Mounts": "", "Networks": "host", "Ports": "", "RunningFor": "2 hours ago", "Size": "0B"
    })
}

fn inspect(call: &Call, flags: &Flags) -> Result<(), End> {
    let all = entries(&call_state(call, false));
    let mut found = Vec::new();
    let mut missing = String::new();
    for word in &flags.words {
        match all.iter().find(|one| one.id.starts_with(word) || one.name == *word) {
            Some(one) => found.push(json!({
                "Id": one.id, "Name": format!("/{}", one.name), "Created": moment(one.created_ns),
                "State": {
                    "Status": if one.running { "running" } else { "exited" }, "Running": one.running,
                    "Pid": if one.running { one.pid } else { 0 }, "ExitCode": if one.running { 0 } else { 137 },
                    "StartedAt": moment(one.created_ns), "FinishedAt": "0001-01-01T00:00:00Z"
                },
                "Config": { "Image": one.image, "Labels": one.labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>() }
            })),
            None => writeln!(missing, "Error: No such object: {word}").unwrap(),
        }
    }
    say(serde_json::to_string_pretty(&found).unwrap());
    if missing.is_empty() { Ok(()) } else { Err(End::failed(missing.trim_end())) }
}

fn change(call: &Call, flags: &Flags, verb: &str) -> Result<(), End> {
    if flags.words.is_empty() {
        return Err(End::failed(format!("\"docker {verb}\" requires at least 1 argument.")));
    }
    if verb == "rm" {
        hang_where_told(call);
    }
    let mut ended = Ok(());
    for word in &flags.words {
        ended = ended.and(world::edit(&call.dir, |state| change_one(call, state, word, verb, flags.has("-f"))));
    }
    ended
}

fn change_one(call: &Call, state: &mut State, word: &str, verb: &str, force: bool) -> Result<(), End> {
    let all = entries(state);
    let Some(one) = all.iter().find(|one| one.id.starts_with(word) || one.name == word) else {
        return Err(End::failed(format!("Error: No such container: {word}")));
    };
    match verb {
        "rm" if one.running && !force => {
            return Err(End::failed(format!(
                "Error response from daemon: You cannot remove a running container {}. Stop the container before attempting removal or force remove",
                one.id
            )));
        }
        "kill" if !one.running => {
            return Err(End::failed(format!(
                "Error response from daemon: Cannot kill container: {word}: Container {} is not running",
                one.id
            )));
        }
        "rm" if one.is_pause => match state.remove(&one.id, false, &call.setup, &call.faults) {
            Removal::Ordinary | Removal::DoesNothing | Removal::DeadlineExceededYetDone => {}
            Removal::DeadlineExceeded | Removal::Fails | Removal::Hangs => {
                return Err(End::failed(format!(
                    "Error response from daemon: removal of container {} failed: context deadline exceeded",
                    one.id
                )));
            }
        },
        "rm" => {
            state.stop(&one.id, &call.setup, &call.faults);
            state.containers.retain(|container| container.id != one.id);
        }
        _ if one.is_pause => state.stop_sandbox(&one.id, &call.setup, &call.faults),
        _ => state.stop(&one.id, &call.setup, &call.faults),
    }
    say(word);
    Ok(())
}

fn call_state(call: &Call, lists: bool) -> State {
    world::edit(&call.dir, |state| {
        let seen = state.clone();
        if lists {
            state.listed();
        }
        seen
    })
}

/// Sandboxes and containers as docker shows them, newest first; `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
fn entries(state: &State) -> Vec<Entry> {
    let shown = |id: &str| state.sandboxes.iter().all(|one| one.id != id || one.hidden_for == 0);
    let pauses = state.sandboxes.iter().filter(|one| shown(&one.id)).map(|one| {
        let owner = [&one.pod, &one.namespace, &one.uid].map(Clone::clone);
        let mut labels = labels("podsandbox", "POD", &owner);
        if one.from_file {
            labels.push(("annotation.kubernetes.io/config.source".to_owned(), "file".to_owned()));
        }
        if let Some(component) = &one.component {
            labels.push(("component".to_owned(), component.clone()));
            labels.push(("tier".to_owned(), "control-plane".to_owned()));
        }
        Entry {
            id: one.id.clone(),
            name: format!("k8s_POD_{}_{}", owner.join("_"), one.attempt),
            image: PAUSE.to_owned(),
            running: one.ready,
            created_ns: one.created_ns,
            pid: 0,
            labels,
            is_pause: true,
        }
    });
    let containers = state.containers.iter().filter(|one| shown(&one.sandbox)).map(|one| {
        let mut labels = labels("container", &one.name, &one.owner);
        labels.push(("io.kubernetes.sandbox.id".to_owned(), one.sandbox.clone()));
        Entry {
            id: one.id.clone(),
            name: format!("k8s_{}_{}_{}", one.name, one.owner.join("_"), one.attempt),
            image: one.image.clone(),
            running: one.running,
            created_ns: one.created_ns,
            pid: one.pid,
            labels,
            is_pause: false,
        }
    });
    let mut all: Vec<_> = pauses.chain(containers).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.created_ns));
    all
}

fn labels(kind: &str, container: &str, [pod, namespace, uid]: &[String; 3]) -> Vec<(String, String)> {
    let pairs = [
        ("io.kubernetes.container.name", container),
        ("io.kubernetes.docker.type", kind),
        ("io.kubernetes.pod.name", pod),
        ("io.kubernetes.pod.namespace", namespace),
        ("io.kubernetes.pod.uid", uid),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
}
