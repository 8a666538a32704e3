//! Findings about kubelet itself: whether it runs, and whether it is told to rotate.

use crate::report::check_report::Status;

use super::finding::KubeletFinding;
use super::say::{bad, ok};
use super::settings::{CLIENT_GATE, Rotation, SERVER_GATE};
use super::versions::{before, from};
use super::view::View;

const RESTART: &str = "systemctl restart kubelet";

/// All of them.
pub fn findings(view: &View<'_>) -> Vec<KubeletFinding> {
    let mut found = vec![process(view)];
    found.extend(version(view));
    found.extend(config(view));
    if view.live.is_none() && !matches!(view.next, Ok(Some(_))) {
        let why = match &view.next {
            Err(why) => why.clone(),
            Ok(_) => "there is no process, no kubelet.service and no file of its settings".to_owned(),
        };
        found.push(bad(
            Status::Unknown,
            "rotate-certificates",
            "kubelet",
            format!("its settings cannot be told: {why}"),
            "without them nobody knows whether its certificates rotate",
            "name the node's root with --root, or look while kubelet runs",
        ));
        return found;
    }
    found.push(client(view));
    found.push(server(view));
    found.extend(gates(view));
    found.extend(next_start(view));
    found
}

fn process(view: &View<'_>) -> KubeletFinding {
    let id = "kubelet-process";
    let why = "certificates rotate inside the process, and only while it runs";
    match (&view.live, view.looked.processes) {
        (Some(process), _) => ok(id, "kubelet", format!("runs (pid {})", process.pid), why),
        (None, Some(_)) => bad(
            Status::Critical,
            id,
            "kubelet",
            "no process of it runs; what is said here of its settings is about its next start",
            why,
            "systemctl status kubelet; journalctl -u kubelet -e",
        ),
        (None, None) => bad(
            Status::Unknown,
            id,
            "kubelet",
            "no processes show below this root; what is said of its settings is about its next start",
            why,
            "look on the node itself",
        ),
    }
}

fn version(view: &View<'_>) -> Option<KubeletFinding> {
    let id = "kubelet-version";
    let why = "it decides which settings turn rotation on";
    match view.told.as_ref()? {
        Ok(told) if before(view.version, (1, 8)) => Some(bad(
            Status::Warning,
            id,
            "kubelet",
            format!("is {told}"),
            "before 1.8 kubelet takes up a rotated certificate at its next start only, and goes on with the old one until that expires",
            format!("after each rotation: {RESTART}; or go to 1.8 or later"),
        )),
        Ok(told) => Some(ok(id, "kubelet", format!("is {told}"), why)),
        Err(_) if !view.looked.node.root.is_host() => None,
        Err(error) => Some(bad(
            Status::Unknown,
            id,
            "kubelet",
            format!("does not tell its version: {error}"),
            why,
            "kubelet --version",
        )),
    }
}

fn config(view: &View<'_>) -> Vec<KubeletFinding> {
    let id = "kubelet-config";
    let config = &view.settings.config;
    let about = config.path.as_ref().map_or_else(|| "kubelet".to_owned(), |path| path.display().to_string());
    if let Some((why, absent)) = &config.unreadable {
        let status = if *absent { Status::Critical } else { Status::Unknown };
        return vec![bad(
            status,
            id,
            about,
            format!("kubelet's configuration cannot be read: {why}"),
            "kubelet does not start without the file that --config names",
            "put the file back (kubeadm: kubeadm upgrade node phase kubelet-config), or look as root",
        )];
    }
    let mut found: Vec<KubeletFinding> = config
        .faults
        .iter()
        .map(|fault| {
            bad(
                Status::Warning,
                id,
                about.clone(),
                fault.clone(),
                "a setting that kubelet passes over looks as if it were set",
                format!("correct the file, then: {RESTART}"),
            )
        })
        .collect();
    if let Some(path) = config.path.as_ref().filter(|path| view.live.is_some() && view.is_newer_than_process(path)) {
        found.push(bad(
            Status::Warning,
            id,
            about.clone(),
            format!("'{}' was written after kubelet's start", path.display()),
            "kubelet reads its configuration at its start only: it may run with other settings than those in the file",
            RESTART,
        ));
    }
    if found.is_empty() && config.path.is_some() {
        found.push(ok(
            id,
            about,
            "is read, and holds nothing that kubelet would pass over",
            "kubelet reads it at its start",
        ));
    }
    found
}

fn client(view: &View<'_>) -> KubeletFinding {
    let id = "rotate-certificates";
    let Rotation { on, from } = view.settings.client(view.version);
    if on {
        let why = "kubelet asks for a new client certificate at 70 to 90 % of the old one's life";
        return ok(id, "kubelet", format!("its client certificate rotates: {from}"), why);
    }
    bad(
        Status::Warning,
        id,
        "kubelet",
        format!("its client certificate does not rotate: {from}"),
        "it ends some day, nothing replaces it, and the node is NotReady from then on",
        match before(view.version, (1, 8)) {
            true => format!("start kubelet with --feature-gates={CLIENT_GATE}=true: {RESTART}"),
            false => turn_on(view, "rotateCertificates", "--rotate-certificates"),
        },
    )
}

fn server(view: &View<'_>) -> KubeletFinding {
    let id = "server-tls-bootstrap";
    let Rotation { on, from } = view.settings.server(view.version);
    if on {
        let why = "each request for a serving certificate waits until somebody approves it: Kubernetes does not (from 1.11 on)";
        return ok(id, "kubelet", format!("its serving certificate is asked for and rotates: {from}"), why);
    }
    let why = "without it kubelet serves the file that it is given, else a certificate that it made itself once";
    ok(id, "kubelet", format!("asks for no serving certificate: {from}"), why)
}

fn turn_on(view: &View<'_>, field: &str, flag: &str) -> String {
    let file = view.settings.config.path.as_ref();
    let file = file.map_or_else(|| "kubelet's configuration".to_owned(), |path| format!("'{}'", path.display()));
    format!("set {field}: true in {file}, give no {flag}=false and no feature gate that turns it off, then: {RESTART}")
}

/// Gates that this version has locked or does not know any more.
fn gates(view: &View<'_>) -> Vec<KubeletFinding> {
    let id = "feature-gates";
    let mut found = Vec::new();
    if let Some((value, place)) = view.settings.gate(CLIENT_GATE) {
        let refuse = match () {
            () if from(view.version, (1, 22)) => Some("its version knows no such gate (it was the last time in 1.21)"),
            () if from(view.version, (1, 19)) && !value => Some("the gate is locked to true from 1.19 on"),
            () => None,
        };
        found.extend(refuse.map(|refuse| {
            bad(
                Status::Critical,
                id,
                "kubelet",
                format!("{place}: {refuse}"),
                "kubelet refuses to start with it",
                format!("take {CLIENT_GATE} out, then: {RESTART}"),
            )
        }));
    }
    let wants = view.settings.config.switch("serverTLSBootstrap") == Some(true);
    if let Some((false, place)) = view.settings.gate(SERVER_GATE).filter(|_| wants) {
        found.push(bad(
            Status::Warning,
            id,
            "kubelet",
            format!("serverTLSBootstrap is true, and {place}"),
            "the gate wins: no serving certificate is asked for, and none is made either",
            format!("take {SERVER_GATE}=false out, then: {RESTART}"),
        ));
    }
    found
}

/// Whether the next start of kubelet is with other settings than those that it runs with.
fn next_start(view: &View<'_>) -> Option<KubeletFinding> {
    let id = "next-start";
    view.live.as_ref()?;
    let next = match &view.next {
        Ok(next) => next.as_ref().filter(|next| next.of_unit)?,
        Err(why) => {
            return Some(bad(
                Status::Unknown,
                id,
                "kubelet.service",
                format!("what its next start is told cannot be read: {why}"),
                "a setting may be lost at the next start",
                "systemctl cat kubelet",
            ));
        }
    };
    let now = &view.settings;
    let mut differs = Vec::new();
    let (one, other) = (now.client(view.version), next.client(view.version));
    if one.on != other.on {
        differs.push(format!("rotation of the client certificate: {} ({}), now {}", on(&other), other.from, on(&one)));
    }
    let (one, other) = (now.server(view.version), next.server(view.version));
    if one.on != other.on {
        differs.push(format!("rotation of the serving certificate: {} ({}), now {}", on(&other), other.from, on(&one)));
    }
    let paths = [
        ("--kubeconfig", now.kubeconfig(), next.kubeconfig()),
        ("--config", now.config.path.clone(), next.config.path.clone()),
        ("--cert-dir", Some(now.cert_dir()), Some(next.cert_dir())),
    ];
    for (flag, one, other) in paths {
        if one != other {
            let shown = |path: Option<std::path::PathBuf>| {
                path.map_or_else(|| "none".to_owned(), |path| format!("'{}'", path.display()))
            };
            differs.push(format!("{flag}: {}, now {}", shown(other), shown(one)));
        }
    }
    if differs.is_empty() {
        let why = "its unit and the files that it names say the same as its command line";
        return Some(ok(id, "kubelet.service", "the next start is with the settings that kubelet runs with", why));
    }
    Some(bad(
        Status::Warning,
        id,
        "kubelet.service",
        format!("the next start is with other settings: {}", differs.join("; ")),
        "what works now may not after the next start",
        format!("compare 'systemctl cat kubelet' with 'tr \"\\0\" \" \" < /proc/{}/cmdline'", view.live.as_ref()?.pid),
    ))
}

fn on(rotation: &Rotation) -> &'static str {
    if rotation.on { "on" } else { "off" }
}
