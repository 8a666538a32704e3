//! kube-apiserver: the certificate that it serves, the one that it keeps in memory, and what cannot be seen of it.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::served::{Server, Shown, is_pending, judge, look as ask};
use super::started::{Start, there_for};
use super::version::{self, RELOAD};
use super::{Component, Input, ProcessFacts, Verdict, broken, not_there, unknown};
use crate::host::Deadline;
use crate::inventory::{Certificate, Leaf};
use crate::node::Manifest;

const NAME: &str = "kube-apiserver";
/// The name under which kube-apiserver talks to itself; a handshake with it shows the certificate that it keeps in memory.
const LOOPBACK: &str = "apiserver-loopback-client";
/// Between the start of the process and the making of that certificate, at most.
const STARTING: TimeDelta = TimeDelta::minutes(2);

/// The certificate that kube-apiserver made at its start to talk to itself. It is in no file, only a restart renews it, and when
/// it ends kube-apiserver ceases to work: after a year with 1.20.2, after three with 1.36.2 (measured).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loopback {
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// First moment of its validity (UTC): an hour before the start.
    pub not_before: DateTime<Utc>,
    /// Last moment of its validity (UTC).
    pub not_after: DateTime<Utc>,
}

/// Judges it. None where this node is to have none.
pub(super) fn look(input: &Input<'_>) -> (Option<Component>, Option<Loopback>) {
    let Some(manifest) = input.node.manifest(NAME) else {
        let broken = input.node.is_control_plane().then(|| unknown(NAME, "its manifest cannot be read"));
        return (broken, None);
    };
    let processes = input.find(NAME);
    let facts: Vec<ProcessFacts> = processes.iter().map(|process| input.facts(process)).collect();
    // while an old one is ending beside a new one, the old one counts
    let process = facts.first().copied();
    if !input.may_ask(&processes) {
        return (Some(unknown(NAME, not_there(input, NAME))), None);
    }
    let path = manifest.flag_path("--tls-cert-file").unwrap_or_else(|| input.node.cert_dir.join("apiserver.crt"));
    let file = input.at_path(&path);
    let leaf = file.and_then(|certificate| certificate.leaf.as_ref());
    let (addrs, deadline) = (manifest.serving(), input.deadline());
    let (shown, inner) = handshakes(&addrs, leaf, deadline);
    let inner = inner.filter(|inner| inner.leaf.common_name.starts_with(LOOPBACK));
    let mut component = unknown(NAME, "");
    component.process = process;
    component.served = shown.as_ref().ok().map(Shown::served);
    let (serving, ours) = match (&shown, file.zip(leaf)) {
        (Err(why), _) if process.is_none() && input.processes.is_some() => {
            ((Verdict::Unknown, format!("{}, and nobody serves for it: {why}", not_there(input, NAME))), false)
        }
        (Err(why), _) => ((Verdict::Unknown, format!("shows no certificate: {why}")), false),
        (Ok(_), None) => (
            (Verdict::Unknown, format!("the certificate that it is to serve cannot be read ('{}')", path.display())),
            false,
        ),
        (Ok(shown), Some((certificate, leaf))) => {
            let server = if shown.is(leaf) { Server::Ours } else { server(input, &facts, shown, leaf, inner.as_ref()) };
            let (age, reload) = reloading(input, manifest, certificate);
            component.expected = broken(certificate).is_none() && is_pending(shown, leaf, server, age, reload);
            (judge_served(certificate, leaf, shown, server, (age, reload)), server == Server::Ours)
        }
    };
    let loopback = inner.filter(|_| ours).map(|Shown { leaf, .. }| Loopback {
        serial: leaf.serial,
        not_before: leaf.not_before,
        not_after: leaf.not_after,
    });
    component.covers.extend(file.map(|file| file.name.clone()));
    with_clients(input, manifest, serving, &mut component);
    (Some(component), loopback)
}

/// How long the certificate has been there at least, and within which time kube-apiserver reads a new one by itself.
fn reloading(
    input: &Input<'_>,
    manifest: &Manifest,
    certificate: &Certificate,
) -> (Option<Duration>, Option<Duration>) {
    let reload = version::reloads_serving(version::of(manifest)).then_some(RELOAD);
    (there_for(input.appeared(certificate), input.boot_id, &input.at), reload)
}

/// The certificate that it serves, and the one for its own client: both at the same address, so that they come from the same
/// server. Asked for at once, since a skip run waits for little else; nearly always the first address is the one.
fn handshakes(addrs: &[SocketAddr], leaf: Option<&Leaf>, deadline: Deadline) -> (Result<Shown, String>, Option<Shown>) {
    let inner_at = |addr: SocketAddr| ask(&[addr], Some(LOOPBACK), None, None, deadline).ok();
    let (shown, early) = std::thread::scope(|scope| {
        let early = addrs.first().map(|&addr| scope.spawn(move || inner_at(addr)));
        let shown = ask(addrs, None, None, leaf, deadline);
        (shown, early.and_then(|thread| thread.join().ok().flatten()))
    });
    let inner = match &shown {
        Ok(shown) if Some(&shown.addr) == addrs.first() => early,
        Ok(shown) => inner_at(shown.addr),
        Err(_) => None,
    };
    (shown, inner)
}

fn judge_served(
    certificate: &Certificate,
    leaf: &Leaf,
    shown: &Shown,
    server: Server,
    (age, reload): (Option<Duration>, Option<Duration>),
) -> (Verdict, String) {
    if let Some(problem) = broken(certificate).filter(|_| !shown.is(leaf)) {
        // it keeps the old pair as long as the new one does not match, and would not start with that
        return (
            Verdict::Unknown,
            format!("serves an older certificate, and the one on disk cannot be used: {problem}"),
        );
    }
    judge(shown, leaf, server, age, reload)
}

/// Whether the server that answers is this node's, though it shows another certificate than the file's: the certificate in its
/// memory, which bears the second of its start, was made when our process started. Where that cannot be compared, the names
/// decide: each control-plane node's certificate has its own address in it. (kubespray writes all nodes' names into all of
/// them, so the names come second.)
fn server(input: &Input<'_>, processes: &[ProcessFacts], shown: &Shown, file: &Leaf, inner: Option<&Shown>) -> Server {
    let started: Vec<DateTime<Utc>> = processes
        .iter()
        .filter_map(|process| {
            let up = TimeDelta::from_std(input.at.since_boot.saturating_sub(process.started)).ok()?;
            input.at.now.checked_sub_signed(up)
        })
        .collect();
    let made = inner.and_then(|inner| inner.leaf.common_name.rsplit_once('@')?.1.parse().ok());
    let made = made.and_then(|second| DateTime::from_timestamp(second, 0));
    let same_names = shown.leaf.issuer == file.issuer && shown.leaf.identity() == file.identity();
    whose(input.processes.map(|_| started.as_slice()), made, same_names)
}

/// `started`: when our processes started, where processes can be seen; `made`: the second in the certificate in memory.
fn whose(started: Option<&[DateTime<Utc>]>, made: Option<DateTime<Utc>>, same_names: bool) -> Server {
    let ours = match (started, made) {
        (Some([]), _) => false,
        (Some(started), Some(made)) => started.iter().any(|started| (made - started).abs() <= STARTING),
        _ => same_names,
    };
    if ours { Server::Ours } else { Server::Another }
}

/// Adds what is known of its client certificates, for kubelets, etcd and other API servers: no handshake of ours shows them.
/// Where it re-reads them they make it no worse.
fn with_clients(input: &Input<'_>, manifest: &Manifest, serving: (Verdict, String), component: &mut Component) {
    let (verdict, reason) = serving;
    let flags = ["--kubelet-client-certificate", "--proxy-client-cert-file", "--etcd-certfile"];
    let clients: Vec<&Certificate> =
        flags.into_iter().filter_map(|flag| input.at_path(&manifest.flag_path(flag)?)).collect();
    let start = match component.process {
        Some(process) => Some(Start::of_process(process.started)),
        None => input.created.get(NAME).map(|created| Start::by_wall_clock(*created, &input.at)),
    };
    let judged = start.and_then(|start| input.judge_start(start, clients.iter().copied()));
    let by_design = version::reloads_client_files(version::of(manifest));
    let (verdict, reason, seen) = match judged {
        Some((Verdict::InUse, _)) => {
            (verdict, format!("{reason}, and started after its client certificates were there"), true)
        }
        _ if by_design => {
            component.rereads = clients.iter().map(|client| client.name.clone()).collect();
            (verdict, format!("{reason}; its client certificates: unknown (re-read by design)"), false)
        }
        Some((other, why)) if other > verdict => (other, why, true),
        _ => (verdict, format!("{reason}; its client certificates: unknown"), false),
    };
    if seen {
        component.covers.extend(clients.into_iter().map(|client| client.name.clone()));
    }
    (component.verdict, component.reason) = (verdict, reason);
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};

    use super::{Server, whose};

    #[test]
    fn a_server_is_ours_by_the_moment_of_its_start_else_by_its_names() {
        use Server::{Another, Ours};
        let start: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
        let second = |seconds| Some(start + TimeDelta::seconds(seconds));
        let earlier = start - TimeDelta::days(3);
        let table: [(Option<&[_]>, _, bool, Server); 9] = [
            // no process of ours: whoever answers is another
            (Some(&[]), second(3), true, Another),
            (Some(&[]), None, true, Another),
            // kubespray gives all nodes the same names
            (Some(&[start]), second(3), true, Ours),
            (Some(&[start]), second(86_400), true, Another),
            (Some(&[earlier, start]), second(3), true, Ours),
            // names that were changed with the renewal
            (Some(&[start]), second(3), false, Ours),
            (Some(&[start]), None, true, Ours),
            (Some(&[start]), None, false, Another),
            (None, second(3), true, Ours),
        ];
        for (started, made, same_names, expected) in table {
            assert_eq!(whose(started, made, same_names), expected, "{started:?} {made:?} {same_names}");
        }
    }
}
