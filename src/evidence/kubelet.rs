//! kubelet: reported only. Its client certificate rotates inside the process and is not seen; its serving certificate shows
//! whether the process works with what is on disk.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::served::{Server, is_pending, judge, look as ask};
use super::started::there_for;
use super::version::RELOAD;
use super::{Component, Input, broken, not_there, unknown};
use crate::files::Root;
use crate::inventory::{Certificate, Inventory, Manager};
use crate::node::flags::flag;
use crate::node::proc::Process;
use crate::node::yaml;

const NAME: &str = "kubelet";
/// kubelet's own `--cert-dir`.
const CERT_DIR: &str = "/var/lib/kubelet/pki";

/// Judges it. None on a node without any sign of a kubelet.
pub(super) fn look(input: &Input<'_>) -> Option<Component> {
    let Some(process) = input.processes.and_then(|processes| processes.find_kubelet()) else {
        let known = input.inventory.certificates.iter().any(|one| one.manager == Manager::Kubelet && !one.missing);
        return known.then(|| unknown(NAME, not_there(input, NAME)));
    };
    let mut component = unknown(NAME, "");
    component.process = Some(input.facts(&process));
    let config = config(&input.node.root, &process);
    let shown = match ask(&addresses(&process, &config), None, None, None, input.deadline()) {
        Ok(shown) => shown,
        Err(why) => {
            component.reason = format!("shows no certificate: {why}");
            if yaml::text_at(&config, &["serverTLSBootstrap"]).as_deref() == Some("true") {
                component.expected = true;
                // nobody approves these requests by default (kube-controller-manager from 1.11 on)
                component.reason +=
                    "; with serverTLSBootstrap it has none until its request is approved (kubectl get csr)";
            }
            return Some(component);
        }
    };
    component.served = Some(shown.served());
    let Some(file) = serving(input, &process, &config) else {
        component.reason = format!("serves a certificate at {} of which there is no file", shown.addr);
        return Some(component);
    };
    let Some(leaf) = file.leaf.as_ref().filter(|leaf| shown.is(leaf) || broken(&file).is_none()) else {
        component.reason = format!("the certificate that it is to serve cannot be used ('{}')", file.path.display());
        return Some(component);
    };
    let age = there_for(input.appeared(&file), input.boot_id, &input.at);
    component.covers = vec![file.name.clone()];
    // 1.31 and later re-read files; rotation keeps process and file alike at any time
    let (verdict, reason) = judge(&shown, leaf, Server::Ours, age, Some(RELOAD));
    component.expected = is_pending(&shown, leaf, Server::Ours, age, Some(RELOAD));
    (component.verdict, component.reason) =
        (verdict, format!("{reason}; its client certificate: unknown (rotates inside the process)"));
    Some(component)
}

/// The certificate that kubelet is to serve: a file that its flag or configuration names, else the rotated one, else the
/// self-signed one (kubelet `server.go`, `InitializeTLS`).
fn serving(input: &Input<'_>, process: &Process, config: &Value) -> Option<Certificate> {
    let named = flag(&process.argv, "--tls-cert-file").map(PathBuf::from);
    let named = named.or_else(|| yaml::text_at(config, &["tlsCertFile"]).map(PathBuf::from));
    if let Some(path) = named.filter(|path| path.is_absolute()) {
        return match input.at_path(&path) {
            Some(known) => Some(known.clone()),
            None => Inventory::read_files(input.node, &[path], input.at.now).into_iter().next(),
        };
    }
    let names = [("kubelet-server-current.pem", "kubelet-server-current.pem"), ("kubelet.crt", "kubelet.key")];
    match flag(&process.argv, "--cert-dir")
        .map(Path::new)
        .filter(|dir| dir.is_absolute() && *dir != Path::new(CERT_DIR))
    {
        Some(dir) => {
            let (file, key) = names.iter().find(|(file, _)| input.node.root.exists(&dir.join(file)))?;
            Some(Inventory::read_pair(input.node, &dir.join(file), &dir.join(key), input.at.now))
        }
        None => names.iter().find_map(|(name, _)| input.inventory.get(name)).cloned(),
    }
}

pub(super) fn config(root: &Root, process: &Process) -> Value {
    let text = flag(&process.argv, "--config").and_then(|path| root.read(Path::new(path)).ok());
    text.and_then(|text| yaml::parse_all(&text).ok()?.into_iter().next()).unwrap_or(Value::Null)
}

/// Where it serves: flags before configuration; 10250 on all addresses by default.
pub(super) fn addresses(process: &Process, config: &Value) -> Vec<SocketAddr> {
    let setting = |name: &str, field: &str| {
        flag(&process.argv, name).map(str::to_owned).or_else(|| yaml::text_at(config, &[field]))
    };
    let port = setting("--port", "port").and_then(|port| port.parse().ok()).unwrap_or(10250);
    match setting("--address", "address").and_then(|address| address.parse::<IpAddr>().ok()) {
        Some(address) if !address.is_unspecified() => vec![SocketAddr::new(address, port)],
        _ => vec![
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
        ],
    }
}
