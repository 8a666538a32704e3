//! Whether this very kube-apiserver is ready, and waiting until it is.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::api::{ApiError, Identity, Reply, Scheme, Target, get};
use crate::host::{Clock, Signals};
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{Manifest, Node, pem};

use super::Deadlines;

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// As wished, after this long.
    Done(Duration),
    /// Not in time: the last state that was seen.
    TooLong(String),
    /// By this signal.
    Signal(i32),
}

/// Calls `look` until it finds what it looks for, the time is up, or a signal comes. An error of `look` is a state.
pub fn until(
    clock: &dyn Clock,
    signals: &Signals,
    limit: Duration,
    pause: Duration,
    mut look: impl FnMut() -> Result<(), String>,
) -> Waited {
    let begin = clock.since_boot();
    loop {
        let state = match look() {
            Ok(()) => return Waited::Done(clock.since_boot().saturating_sub(begin)),
            Err(state) => state,
        };
        if let Some(signal) = signals.received() {
            return Waited::Signal(signal);
        }
        if clock.since_boot().saturating_sub(begin) >= limit {
            return Waited::TooLong(state);
        }
        clock.sleep(pause);
    }
}

/// Waits until kube-apiserver's `/readyz` answers 200.
pub fn wait(node: &Node, clock: &dyn Clock, signals: &Signals, limit: Duration, deadlines: &Deadlines) -> Waited {
    until(clock, signals, limit, deadlines.pause, || probe(node, deadlines.probe))
}

/// Whether it can be told at all when kube-apiserver is ready: its manifest and the certificate that it is to show are
/// readable.
///
/// # Errors
/// Why not; no wait would change that.
pub fn can_be_told(node: &Node) -> Result<(), String> {
    serving(node).map(|_| ())
}

/// Looks once at `/readyz` of the kube-apiserver whose manifest is on this node.
///
/// The server is asked at the addresses that its manifest gives, and only one that shows the certificate on disk counts: a
/// load balancer in front of another node does not. The client certificate is admin.conf's, read afresh, since anonymous
/// requests may be forbidden (`--anonymous-auth=false`: 401).
///
/// # Errors
/// It is not ready: the state, in words.
pub fn probe(node: &Node, deadline: Duration) -> Result<(), String> {
    let (manifest, leaf) = serving(node)?;
    let identity = admin(node);
    let mut state =
        "no address to ask at: kube-apiserver's --secure-port is off, or --bind-address is no address".to_owned();
    for addr in manifest.serving() {
        let target = Target { scheme: Scheme::Https, addr, server_name: None };
        match get(&target, "/readyz", identity.as_ref().ok(), Some(&leaf), deadline) {
            Ok(reply) if reply.status == 200 => return Ok(()),
            Ok(reply) => state = describe(addr, &reply, identity.as_ref().err().map(String::as_str)),
            Err(ApiError::WrongServer) => {
                state = format!(
                    "{addr} shows another certificate than the one on disk: kube-apiserver has not read it yet, or another server answers there"
                );
            }
            Err(error) => state = format!("{addr}: {error}"),
        }
    }
    Err(state)
}

fn serving(node: &Node) -> Result<(&Manifest, Vec<u8>), String> {
    let manifest = node.manifest("kube-apiserver").ok_or("kube-apiserver's manifest cannot be read")?;
    Ok((manifest, serving_leaf(node, manifest)?))
}

/// The certificate that kube-apiserver is to serve: its `--tls-cert-file`, as DER.
///
/// # Errors
/// It cannot be read.
pub fn serving_leaf(node: &Node, manifest: &Manifest) -> Result<Vec<u8>, String> {
    let path = manifest.flag_path("--tls-cert-file").unwrap_or_else(|| node.cert_dir.join("apiserver.crt"));
    let text = node.root.read(&path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
    let pem = pem::read(&text).map_err(|error| format!("'{}': {error}", path.display()))?;
    pem.certificates.into_iter().next().ok_or_else(|| format!("'{}' holds no certificate", path.display()))
}

/// The login of admin.conf, as it is on disk now.
fn admin(node: &Node) -> Result<Identity, String> {
    login(node, &node.kubernetes_dir.join("admin.conf")).map(|(identity, _)| identity)
}

/// The login of a kubeconfig's current context, as it is on disk now, and the kubeconfig.
///
/// # Errors
/// It cannot be read, or its user has no client certificate that can be used.
pub fn login(node: &Node, path: &Path) -> Result<(Identity, Kubeconfig), String> {
    let name = path.file_name().unwrap_or(path.as_os_str()).display();
    let read = |path: &Path| node.root.read(path).map_err(|error| format!("cannot read '{}': {error}", path.display()));
    let dir = path.parent().unwrap_or(Path::new("/"));
    let config = Kubeconfig::parse(&read(path)?, dir).map_err(|error| format!("{name}: {error}"))?;
    let user = config.current_user().map_err(|error| format!("{name}: {error}"))?;
    let bytes = |source: &Option<Source>| match source {
        Some(Source::Data(bytes)) => Ok(bytes.clone()),
        Some(Source::File(path)) => read(path),
        None => Err(format!("{name} holds no client certificate")),
    };
    let identity = Identity::from_pem(&bytes(&user.certificate)?, &bytes(&user.key)?)
        .map_err(|error| format!("{name}: {error}"))?;
    Ok((identity, config))
}

fn describe(addr: SocketAddr, reply: &Reply, no_login: Option<&str>) -> String {
    // a failing /readyz is always verbose: `[-]etcd failed: reason withheld` (apiserver `healthz.go`)
    let failed: Vec<&str> =
        reply.body.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next()).collect();
    let status = reply.status;
    match (status, no_login) {
        (401 | 403, Some(why)) => format!(
            "{addr} answers {status}: it serves, but whether it is ready it tells no stranger, and there is no login ({why})"
        ),
        (401, None) => format!("{addr} answers 401: it does not accept admin.conf's certificate"),
        (403, None) => format!("{addr} answers 403: admin.conf's user may not ask for /readyz"),
        _ if failed.is_empty() => format!("{addr} answers {status}"),
        _ => format!("{addr} answers {status}, failing: {}", failed.join(", ")),
    }
}
