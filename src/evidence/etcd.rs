//! etcd, as a static pod or as a service of the host. It re-reads certificate and key at each handshake (etcd 3.2 and later;
//! measured with 3.4.23), so what it shows is the proof.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::served::{Server, judge, look as ask};
use super::{Component, Input, broken, not_there, unknown};
use crate::api::Identity;
use crate::inventory::{Certificate, Manager};
use crate::node::endpoints::reachable;
use crate::node::flags::flag;
use crate::node::proc::Process;
use crate::node::{Manifest, Node};

const NAME: &str = "etcd";
const WITHOUT_TLS: &str = "serves its clients without TLS";

/// Judges it. None where no etcd is to run here.
pub(super) fn look(input: &Input<'_>) -> Option<Component> {
    let manifest = input.node.manifest(NAME);
    let processes = input.find(NAME);
    let members = members(input);
    if manifest.is_none() && processes.is_empty() && members.is_empty() {
        return None;
    }
    if !input.may_ask(&processes) || (manifest.is_none() && processes.is_empty()) {
        return Some(unknown(NAME, not_there(input, NAME)));
    }
    let process = processes.first();
    let files: Vec<&Certificate> = match file_named(input, manifest, process) {
        Some(path) => input.at_path(&path).into_iter().collect(),
        None => members,
    };
    let mut component = unknown(NAME, "");
    component.process = process.map(|process| input.facts(process));
    let addrs = match addresses(input, manifest, process) {
        Ok(addrs) => addrs,
        Err(why) => {
            component.expected = why == WITHOUT_TLS;
            why.clone_into(&mut component.reason);
            return Some(component);
        }
    };
    let first = files.first().and_then(|file| file.leaf.as_ref());
    let shown = match ask(&addrs, None, client(input.node).as_ref(), first, input.deadline()) {
        Ok(shown) => shown,
        Err(why) => {
            component.reason = format!("shows no certificate: {why}");
            return Some(component);
        }
    };
    component.served = Some(shown.served());
    // host etcd whose command line names no file: any of its certificates on disk will do
    let same = files.iter().find(|file| file.leaf.as_ref().is_some_and(|leaf| shown.is(leaf)));
    let Some((file, leaf)) = same.or(files.first()).and_then(|file| Some((*file, file.leaf.as_ref()?))) else {
        component.reason = "the certificate that it is to serve cannot be read".to_owned();
        return Some(component);
    };
    if let Some(problem) = broken(file).filter(|_| !shown.is(leaf)) {
        component.reason = format!("serves an older certificate, and the one on disk cannot be used: {problem}");
        return Some(component);
    }
    let same_names = shown.leaf.issuer == leaf.issuer && shown.leaf.identity() == leaf.identity();
    let server = if same_names && process.is_some() { Server::Ours } else { Server::Another };
    component.covers = vec![file.name.clone()];
    component.rereads = manifest
        .map(|manifest| input.read_by(manifest))
        .unwrap_or_default()
        .into_iter()
        .map(|one| one.name.clone())
        .collect();
    (component.verdict, component.reason) = judge(&shown, leaf, server, Some(Duration::MAX), Some(Duration::ZERO));
    Some(component)
}

/// kubespray's certificates of this member, which etcd serves.
fn members<'a>(input: &Input<'a>) -> Vec<&'a Certificate> {
    let is_members =
        |one: &&Certificate| one.manager == Manager::Etcd && one.name.starts_with("member-") && !one.missing;
    input.inventory.certificates.iter().filter(is_members).collect()
}

/// The certificate that etcd is told to serve: `--cert-file`, else `ETCD_CERT_FILE`, which kubespray's service sets.
fn file_named(input: &Input<'_>, manifest: Option<&Manifest>, process: Option<&Process>) -> Option<PathBuf> {
    if let Some(manifest) = manifest {
        return manifest.flag_path("--cert-file");
    }
    let process = process?;
    flag(&process.argv, "--cert-file")
        .map(PathBuf::from)
        .or_else(|| variable(input, process, "ETCD_CERT_FILE").map(Into::into))
}

/// Where it listens for clients.
///
/// # Errors
/// That is not known, or it is without TLS.
fn addresses(
    input: &Input<'_>,
    manifest: Option<&Manifest>,
    process: Option<&Process>,
) -> Result<Vec<SocketAddr>, &'static str> {
    let listens = match (manifest, process) {
        (Some(manifest), _) => manifest.flag("--listen-client-urls").map(str::to_owned),
        (None, Some(process)) => flag(&process.argv, "--listen-client-urls")
            .map(str::to_owned)
            .or_else(|| variable(input, process, "ETCD_LISTEN_CLIENT_URLS")),
        (None, None) => None,
    };
    if let Some(urls) = listens {
        let secure: Vec<&str> = urls.split(',').filter_map(|url| url.trim().strip_prefix("https://")).collect();
        if secure.is_empty() {
            return Err(WITHOUT_TLS);
        }
        let mut addrs: Vec<SocketAddr> = secure.into_iter().flat_map(reachable).collect();
        addrs.sort_by_key(|addr| !addr.ip().is_loopback());
        return Ok(addrs);
    }
    let servers = input.node.manifest("kube-apiserver").and_then(|manifest| manifest.flag("--etcd-servers"));
    let own = own_addresses(input);
    let addrs: Vec<SocketAddr> = servers
        .unwrap_or_default()
        .split(',')
        .filter_map(|url| url.trim().strip_prefix("https://"))
        .flat_map(reachable)
        .filter(|addr| addr.ip().is_loopback() || own.contains(&addr.ip()))
        .collect();
    if addrs.is_empty() { Err("where it listens on this node is not known") } else { Ok(addrs) }
}

/// This node's own addresses, as far as kube-apiserver's flags tell. The names in its certificate do not: kubespray writes
/// those of all nodes into each.
fn own_addresses(input: &Input<'_>) -> Vec<IpAddr> {
    let Some(manifest) = input.node.manifest("kube-apiserver") else { return Vec::new() };
    ["--advertise-address", "--bind-address"]
        .into_iter()
        .filter_map(|name| manifest.flag(name)?.parse().ok())
        .filter(|address: &IpAddr| !address.is_unspecified())
        .collect()
}

/// kube-apiserver's login at etcd, read afresh; `None` where it cannot be read. Without one etcd logs each handshake as an error.
pub fn client(node: &Node) -> Option<Identity> {
    let manifest = node.manifest("kube-apiserver")?;
    let read = |name| node.root.read(&manifest.flag_path(name)?).ok();
    Identity::from_pem(&read("--etcd-certfile")?, &read("--etcd-keyfile")?).ok()
}

/// A variable of the process's environment.
fn variable(input: &Input<'_>, process: &Process, name: &str) -> Option<String> {
    let path = PathBuf::from(format!("/proc/{}/environ", process.pid));
    let environment = input.node.root.read(&path).ok()?;
    let entry = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(entry.to_vec()).ok()
}
