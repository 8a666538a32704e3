//! Components that show nothing to the outside and read their credential at their start: kube-controller-manager,
//! kube-scheduler, and other static pods that use kubeadm's credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use chrono::{DateTime, Utc};

use super::served::look as ask;
use super::started::Start;
use super::{Component, Input, ProcessFacts, Verdict, not_there, unknown, version};
use crate::inventory::{Certificate, Kind};
use crate::node::Manifest;

/// Components that have a look of their own.
const NAMED: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// Programs that run another one.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "busybox", "env"];

/// Static pods beside kubeadm's four that read what kubeadm renews, by name.
pub(super) fn others<'a>(input: &Input<'a>) -> Vec<&'a Manifest> {
    let mut others: Vec<&Manifest> = input
        .node
        .static_pods()
        .iter()
        .filter(|manifest| !NAMED.contains(&manifest.component.as_str()))
        .filter(|manifest| !input.read_by(manifest).is_empty())
        .collect();
    others.sort_by(|one, other| one.component.cmp(&other.component));
    others.dedup_by(|one, other| one.component == other.component);
    others
}

/// Judges a component by the start of its processes; of several the worst counts, for instance a standby that was never
/// restarted beside one that was: it stays alive and healthy with an expired credential (measured on 1.20.2).
pub(super) fn look(input: &Input<'_>, manifest: &Manifest) -> Component {
    let name = manifest.component.as_str();
    let program = program(manifest);
    let processes = input.find(program);
    let reads = credentials(input, manifest);
    if reads.is_empty() {
        return unknown(name, format!("'{}' names no credential that is on disk", manifest.path.display()));
    }
    let starts: Vec<(Option<ProcessFacts>, Start)> = if processes.is_empty() {
        match start_without_process(input, manifest) {
            Ok(start) => vec![(None, start)],
            Err(why) => return unknown(name, why),
        }
    } else {
        let start = |facts: ProcessFacts| (Some(facts), Start::of_process(facts.started));
        processes.iter().map(|process| start(input.facts(process))).collect()
    };
    let reloads = version::reloads_client_files(version::of(manifest));
    let (by_itself, at_start): (Vec<&Certificate>, Vec<&Certificate>) =
        reads.into_iter().partition(|certificate| reloads && NAMED.contains(&name) && is_in_files(certificate));
    let rereads = by_itself.iter().map(|certificate| certificate.name.clone()).collect();
    let names = by_itself.iter().chain(&at_start).map(|certificate| certificate.name.clone()).collect();
    let mut worst: Option<Component> = None;
    for (process, start) in starts {
        let judged = input.judge_start(start, at_start.iter().copied());
        let expected = judged.is_none();
        let (verdict, reason) = judged.unwrap_or_else(|| {
            let all = by_itself.iter().copied();
            match input.judge_start(start, all) {
                Some((Verdict::InUse, reason)) => (Verdict::InUse, reason),
                // never stale for its age
                _ => (
                    Verdict::Unknown,
                    "re-reads its credential by design, which cannot be seen from outside".to_owned(),
                ),
            }
        });
        let reason = match process {
            Some(process) if worst.is_some() || processes.len() > 1 => format!("process {}: {reason}", process.pid),
            _ => reason,
        };
        if worst.as_ref().is_none_or(|so_far| verdict > so_far.verdict) {
            worst = Some(Component { verdict, process, expected, ..unknown(name, reason) });
        }
    }
    let component = worst.unwrap_or_else(|| unknown(name, not_there(input, program)));
    Component { covers: names, rereads, ..component }
}

/// What a component logs in with: the kubeconfigs that the flags of kubeadm's own name, else everything of kubeadm's that it reads.
fn credentials<'a>(input: &Input<'a>, manifest: &Manifest) -> Vec<&'a Certificate> {
    let flags = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"];
    let mut named: Vec<&Certificate> = Vec::new();
    if NAMED.contains(&manifest.component.as_str()) {
        for path in flags.into_iter().filter_map(|flag| manifest.flag_path(flag)) {
            named.extend(input.at_path(&path).filter(|one| named.iter().all(|other| other.name != one.name)));
        }
    }
    if named.is_empty() { input.read_by(manifest) } else { named }
}

/// The name of the program: kubeadm's four have the component's. Of another pod it is the command's, unless that is a shell, else
/// the container's (the image's own entry point then).
fn program(manifest: &Manifest) -> &str {
    let Some(container) = manifest.containers.first() else { return &manifest.component };
    if NAMED.contains(&manifest.component.as_str()) {
        return &manifest.component;
    }
    match container.argv.first().filter(|first| first.starts_with('/')).and_then(|first| first.rsplit('/').next()) {
        Some(command) if !SHELLS.contains(&command) => command,
        _ => &container.name,
    }
}

fn is_in_files(certificate: &Certificate) -> bool {
    !matches!(certificate.kind, Kind::Kubeconfig { certificate: None, .. } | Kind::Kubeconfig { key: None, .. })
}

/// The start as the runtime knows it, else as the component's certificate in memory tells it.
///
/// kube-controller-manager and kube-scheduler make that certificate at their start, and its common name is `localhost@` and
/// the second of it (measured on 1.20.2; unchanged up to 1.35).
fn start_without_process(input: &Input<'_>, manifest: &Manifest) -> Result<Start, String> {
    let name = manifest.component.as_str();
    if let Some(created) = input.created.get(name) {
        return Ok(Start::by_wall_clock(*created, &input.at));
    }
    let default = match name {
        "kube-controller-manager" => 10257,
        "kube-scheduler" => 10259,
        _ => return Err(not_there(input, program(manifest))),
    };
    if !input.may_ask(&[]) {
        return Err(not_there(input, program(manifest)));
    }
    let shown = ask(&addresses(manifest, default), None, None, None, input.deadline())
        .map_err(|why| format!("{}, and it shows no certificate: {why}", not_there(input, name)))?;
    match second_of_start(&shown.leaf.common_name) {
        Some(started) => Ok(Start::by_wall_clock(started, &input.at)),
        None => {
            Err(format!("{}, and its certificate at {} does not tell its start", not_there(input, name), shown.addr))
        }
    }
}

fn second_of_start(common_name: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(common_name.strip_prefix("localhost@")?.parse().ok()?, 0)
}

/// Where it serves: `--bind-address` (`0.0.0.0` and `::` are reached at loopback) and `--secure-port`.
pub(super) fn addresses(manifest: &Manifest, default: u16) -> Vec<SocketAddr> {
    let port = manifest.flag("--secure-port").and_then(|port| port.parse().ok()).unwrap_or(default);
    if port == 0 {
        return Vec::new();
    }
    let any = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match manifest.flag("--bind-address").and_then(|bind| bind.parse::<IpAddr>().ok()) {
        Some(bind) if !bind.is_unspecified() => vec![SocketAddr::new(bind, port)],
        Some(IpAddr::V4(_)) => vec![SocketAddr::new(any[0], port)],
        _ => any.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Manifest, addresses, program, second_of_start};

    fn manifest(name: &str, container: &str) -> Manifest {
        let text = format!(
            "kind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - {{name: main, command: [{container}]}}\n"
        );
        Manifest::parse(Path::new("/m.yaml"), text.as_bytes()).unwrap()
    }

    #[test]
    fn the_certificate_in_memory_tells_the_second_of_the_start() {
        let table = [
            ("localhost@1796033595", Some(1_796_033_595)),
            ("localhost@-5", Some(-5)),
            ("localhost@99999999999999999999", None),
            ("localhost@", None),
            ("localhost", None),
            ("kube-scheduler", None),
        ];
        for (name, second) in table {
            assert_eq!(second_of_start(name).map(|start| start.timestamp()), second, "{name}");
        }
    }

    #[test]
    fn a_program_has_the_name_of_its_command_but_for_a_shell() {
        let table = [
            ("kube-scheduler", "/bin/sh, -c, exec kube-scheduler", "kube-scheduler"),
            ("kube-vip", "/kube-vip, manager", "kube-vip"),
            ("kube-vip", "manager", "main"),
            ("proxy", "/bin/sh, -c, exec haproxy", "main"),
        ];
        for (name, command, expected) in table {
            assert_eq!(program(&manifest(name, command)), expected, "{command}");
        }
    }

    #[test]
    fn the_addresses_follow_from_the_flags() {
        let table: [(&str, &[&str]); 5] = [
            ("kube-scheduler", &["127.0.0.1:10259", "[::1]:10259"]),
            ("kube-scheduler, '--bind-address=::'", &["127.0.0.1:10259", "[::1]:10259"]),
            ("kube-scheduler, --bind-address=0.0.0.0", &["127.0.0.1:10259"]),
            ("kube-scheduler, --bind-address=192.0.2.10, --secure-port=20259", &["192.0.2.10:20259"]),
            ("kube-scheduler, --secure-port=0", &[]),
        ];
        for (command, expected) in table {
            let found: Vec<String> =
                addresses(&manifest("kube-scheduler", command), 10259).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{command}");
        }
    }
}
