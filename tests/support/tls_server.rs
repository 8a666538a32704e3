//! TLS servers of a control plane: they show a certificate from the node's files or one made at their start, ask for a
//! client's, and answer health endpoints by a script.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Duration, Utc};
use k8s_certs_renew::files::Root;
use rustls::crypto::ring;
use rustls::server::Acceptor;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::client_auth::{At, Clients};
use super::cluster::Cluster;
use super::net::{Server, asked, listen, respond};
use super::shown::{in_memory, pair};
use super::world::{Setup, World};
use super::{events, faults, kubelet};

/// What a server is.
#[derive(Debug, Clone)]
pub struct Role {
    /// The component whose container is its process: a new container is a new start.
    pub component: &'static str,
    /// Where its certificate comes from.
    pub shows: Shows,
    /// Node path of the CA that clients' certificates must chain to, where it asks for any.
    pub client_ca: Option<PathBuf>,
    /// NotAfter of the loopback certificate that kube-apiserver makes at its first start here; a year after later starts.
    pub loopback_ends: Option<DateTime<Utc>>,
}

/// Where a server's certificate comes from.
#[derive(Debug, Clone)]
pub enum Shows {
    /// Files of the node, read anew for each connection, as kube-apiserver and etcd do. A pair that does not match is passed
    /// over, and the one before it stays.
    Files {
        /// Node path of the certificate.
        certificate: PathBuf,
        /// Node path of the key.
        key: PathBuf,
        /// False: read at each start only.
        reloads: bool,
    },
    /// `localhost@<second of its start>`, made at each start and valid for a year, as kube-controller-manager and
    /// kube-scheduler do where they are given no files (measured on 1.20.2).
    InMemory,
}

/// How a server answers `/readyz`, `/livez` and `/healthz`. Lists go on by each request for the path; the last entry stays.
#[derive(Debug, Clone)]
pub struct Script {
    /// As it runs at first.
    pub first: Vec<Answer>,
    /// After each new start, from the beginning.
    pub restarted: Vec<Answer>,
    /// The status for a client without a certificate of the CA: 401 where anonymous requests are off, 403 where they may
    /// not read this. None: answered like anybody.
    pub without_client: Option<u16>,
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// `ok`, 200.
    #[default]
    Ready,
    /// This status; with 500 comes a list of checks with one failed.
    Status(u16),
    /// The connection ends before the handshake.
    Closes,
    /// The run that asks is killed (SIGKILL), and gets no answer; as the first of a list, when it connects.
    KillsRun,
}

impl Default for Script {
    fn default() -> Self {
        Self { first: vec![Answer::Ready], restarted: vec![Answer::Ready], without_client: None }
    }
}

/// One request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path.
    pub path: String,
    /// Status of the answer.
    pub status: u16,
    /// DER of the client's certificate, if it showed one.
    pub client: Option<Vec<u8>>,
}

/// A running TLS server.
#[derive(Debug)]
pub struct TlsServer {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    setup: Setup,
    root: Root,
    role: Role,
    script: Mutex<Script>,
    /// Other answers than the script's: method and path, and what is told.
    pages: Mutex<BTreeMap<String, (u16, String)>>,
    /// The objects that a kube-apiserver serves; several may have the same.
    cluster: Option<Cluster>,
    run: Mutex<Run>,
    requests: Mutex<Vec<Request>>,
}

/// What lasts from one start to the next.
#[derive(Debug, Default)]
struct Run {
    container: String,
    starts: u32,
    asked: BTreeMap<String, usize>,
    shown: Option<Arc<CertifiedKey>>,
    loopback: Option<Arc<CertifiedKey>>,
}

impl TlsServer {
    /// Starts it on `listener`, or on a port of its own.
    pub fn start(world: &World, listener: Option<TcpListener>, role: Role) -> Self {
        Self::of_cluster(world, listener, role, None)
    }

    /// Starts a kube-apiserver that serves the objects of this cluster.
    pub fn of_cluster(world: &World, listener: Option<TcpListener>, role: Role, cluster: Option<Cluster>) -> Self {
        let setup = world.setup();
        let shared = Arc::new(Shared {
            dir: world.dir().to_path_buf(),
            root: Root::new(&setup.root).unwrap(),
            setup,
            role,
            script: Mutex::default(),
            pages: Mutex::default(),
            cluster,
            run: Mutex::default(),
            requests: Mutex::default(),
        });
        // it runs already when the first client comes: what is made at a start is made now
        shared.process();
        let serving = shared.clone();
        let server = Server::start(listener.unwrap_or_else(listen), move |stream| serving.serve(stream));
        Self { server, shared }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Sets how it answers from now on; counting of requests begins anew.
    pub fn script(&self, set: impl FnOnce(&mut Script)) {
        set(&mut self.shared.script.lock().unwrap());
        self.shared.run.lock().unwrap().asked.clear();
    }

    /// Answers `GET /path` or `POST /path` so from now on.
    pub fn page(&self, request: &str, status: u16, body: impl Into<String>) {
        self.shared.pages.lock().unwrap().insert(request.to_owned(), (status, body.into()));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let Some((pair, loopback)) = self.process() else { return Ok(()) };
        match self.peek() {
            Answer::Closes => {
                self.answer("");
                return Ok(());
            }
            Answer::KillsRun => {
                events::kill_run(&self.setup.root);
                return Ok(());
            }
            Answer::Ready | Answer::Status(_) => {}
        }
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if acceptor.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => {
                    alert.write_all(&mut stream)?;
                    return Err(io::Error::other(error));
                }
            }
        };
        let for_loopback = accepted.client_hello().server_name() == Some("apiserver-loopback-client");
        let shown = loopback.filter(|_| for_loopback).unwrap_or(pair);
        let clients = self.role.client_ca.as_ref().map(|ca| Clients::of(&self.root, ca));
        let connection =
            accepted.into_connection(self.config(shown, clients.as_ref())).map_err(|(error, mut alert)| {
                let _ = alert.write_all(&mut stream);
                io::Error::other(error)
            })?;
        self.reply(StreamOwned::new(connection, stream), clients.as_ref())
    }

    fn reply(&self, mut stream: StreamOwned<ServerConnection, TcpStream>, clients: Option<&Clients>) -> io::Result<()> {
        let (method, path, asked) = asked(&mut stream)?;
        let page = self.pages.lock().unwrap().get(&format!("{method} {path}")).cloned();
        let client = stream.conn.peer_certificates().and_then(<[_]>::first).map(|leaf| leaf.as_ref().to_vec());
        let known =
            clients.is_some_and(|clients| client.as_deref().is_some_and(|leaf| clients.knows(leaf, self.setup.now)));
        let is_health = ["/readyz", "/livez", "/healthz"].contains(&path.split('?').next().unwrap_or_default());
        let refusal = self.script.lock().unwrap().without_client.filter(|_| !known);
        // real kube-apiservers take a certificate that they cannot verify for no login at all, not for an anonymous one
        let refusal = refusal.or((client.is_some() && clients.is_some() && !known).then_some(401));
        let (status, body) = match (refusal, is_health) {
            (Some(401), _) => (
                401,
                r#"{"kind":"Status","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
            ),
            (Some(status), _) => (
                status,
                r#"{"kind":"Status","status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path","reason":"Forbidden","code":403}"#,
            ),
            (None, false) => match &page {
                Some((status, body)) => (*status, body.as_str()),
                None => match self.cluster.as_ref().and_then(|cluster| cluster.answer(&method, &path, &asked)) {
                    // these are told by the cluster itself
                    Some((_, None)) => return Ok(()),
                    Some((status, Some(body))) => {
                        respond(&mut stream, status, &body)?;
                        stream.conn.send_close_notify();
                        return stream.conn.complete_io(&mut stream.sock).map(|_| ());
                    }
                    None => (404, "404 page not found"),
                },
            },
            (None, true) => match self.answer(&path) {
                Answer::KillsRun => {
                    events::kill_run(&self.setup.root);
                    return Ok(());
                }
                Answer::Status(500) => (
                    500,
                    "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/start-apiextensions-informers ok\nreadyz check failed\n",
                ),
                Answer::Status(status) => (status, "try again later"),
                Answer::Ready | Answer::Closes => (200, "ok"),
            },
        };
        self.requests.lock().unwrap().push(Request { path, status, client });
        respond(&mut stream, status, body)?;
        stream.conn.send_close_notify();
        stream.conn.complete_io(&mut stream.sock).map(|_| ())
    }

    /// The next answer to `path`, counted.
    fn answer(&self, path: &str) -> Answer {
        let mut run = self.run.lock().unwrap();
        let count = run.asked.entry(path.split('?').next().unwrap_or_default().to_owned()).or_default();
        *count += 1;
        let call = *count - 1;
        self.at(call, &run)
    }

    /// Whether the connection is to be closed before the path is known: such answers are counted by connection, before all others.
    fn peek(&self) -> Answer {
        let run = self.run.lock().unwrap();
        let script = self.script.lock().unwrap();
        let list = if run.starts > 1 { &script.restarted } else { &script.first };
        if list.first() == Some(&Answer::KillsRun) {
            return Answer::KillsRun;
        }
        let closes = list.iter().take_while(|answer| **answer == Answer::Closes).count();
        let closed = run.asked.get("").copied().unwrap_or(0);
        if closed < closes || (closes > 0 && closes == list.len()) { Answer::Closes } else { Answer::Ready }
    }

    fn at(&self, call: usize, run: &Run) -> Answer {
        let script = self.script.lock().unwrap();
        let list = if run.starts > 1 { &script.restarted } else { &script.first };
        let after: Vec<Answer> = list.iter().copied().skip_while(|answer| *answer == Answer::Closes).collect();
        faults::at(&after, call)
    }

    /// What the process of this moment shows; none while no sandbox of the component runs.
    fn process(&self) -> Option<(Arc<CertifiedKey>, Option<Arc<CertifiedKey>>)> {
        let state: kubelet::State = super::world::read(&self.dir, "state.json");
        let sandbox = state.newest(self.role.component).filter(|one| one.ready)?;
        let container = state.containers.iter().find(|one| one.sandbox == sandbox.id && one.running)?;
        let mut run = self.run.lock().unwrap();
        let is_new = run.container != container.id;
        if is_new {
            *run = Run { container: container.id.clone(), starts: run.starts + 1, ..Run::default() };
            let start = DateTime::from_timestamp_nanos(sandbox.created_ns);
            run.loopback = self.role.loopback_ends.map(|ends| {
                let name = format!("apiserver-loopback-client@{}", start.timestamp());
                let ends = if run.starts > 1 { start + Duration::days(365) } else { ends };
                in_memory(&name, "apiserver-loopback-client", start, ends)
            });
            if matches!(self.role.shows, Shows::InMemory) {
                let name = format!("localhost@{}", start.timestamp());
                run.shown = Some(in_memory(&name, "localhost", start, start + Duration::days(365)));
            }
        }
        if let Shows::Files { certificate, key, reloads } = &self.role.shows
            && (is_new || *reloads)
        {
            run.shown = self.files(certificate, key).or(run.shown.take());
        }
        Some((run.shown.clone()?, run.loopback.clone()))
    }

    fn files(&self, certificate: &Path, key: &Path) -> Option<Arc<CertifiedKey>> {
        pair(&self.root.read(certificate).ok()?, &self.root.read(key).ok()?)
    }

    fn config(&self, shown: Arc<CertifiedKey>, clients: Option<&Clients>) -> Arc<ServerConfig> {
        let builder =
            ServerConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(At(self.setup.now)))
                .with_safe_default_protocol_versions()
                .unwrap();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients.ask()),
            None => builder.with_no_client_auth(),
        };
        Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown))))
    }
}
