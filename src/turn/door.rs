//! Which API server is asked: the node's own while it answers, else admin.conf's server, else another one that was seen before.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::lease::{LIST, PATH};
use super::server::{Judge, addresses};
use super::taking::{Reply, Store};
use crate::api::{Identity, Method, Request, Scheme, Target, handshake, send};
use crate::host::Deadline;
use crate::node::proc::Processes;
use crate::node::{Manifest, Node};
use crate::steps::deadlines::SERVERS;
use crate::steps::ready::{login, serving_leaf};

/// What is taken of one answer. The largest object that etcd takes has 1.5 MiB, twice that as JSON; of kube-apiserver's pods a
/// cluster has one a control-plane node.
const LARGEST: u64 = 4 << 20;
/// Characters of a server's own words that are told.
const WORDS: usize = 200;

/// The way to the cluster's API. Logins and certificates are read afresh for each question: this very run renews them.
#[derive(Debug)]
pub struct Door<'a> {
    node: &'a Node,
    now: DateTime<Utc>,
    deadline: Duration,
    /// By when everything has to be answered, if that is to be.
    ends: Option<Deadline>,
    /// Where the other API servers were when they were last seen.
    pub peers: Vec<SocketAddr>,
    /// Whether the node's own API server gave any answer to the last question; none where it was not asked.
    pub own_answers: Option<bool>,
    last: Option<Way>,
}

/// Who answered, and how it was asked.
#[derive(Debug, Clone)]
struct Way {
    target: Target,
    leaf: Vec<u8>,
    identity: Option<Identity>,
}

/// What there is to ask with.
#[derive(Debug)]
pub struct Key {
    /// What a server's certificate is judged by.
    pub judge: Judge,
    /// The logins that can be read; from 1.29 on admin.conf's rights hang on a binding that can be missing, super-admin.conf's do not
    /// (kubeadm 1.29, `kubeadm:cluster-admins`).
    pub logins: Vec<Identity>,
    servers: Vec<SocketAddr>,
}

impl<'a> Door<'a> {
    /// The door of this node. `now` is what dates are judged by, `deadline` that of each connection, `peers` what the journal knows.
    pub fn new(node: &'a Node, now: DateTime<Utc>, deadline: Duration, peers: Vec<SocketAddr>) -> Self {
        Self { node, now, deadline, ends: None, peers, own_answers: None, last: None }
    }

    /// From now on everything is over by then, whoever does not answer.
    pub fn until(&mut self, ends: Deadline) {
        self.ends = Some(ends);
    }

    /// Whether there may be an API server to ask. On another root than `/` only a node that shows its processes is alive.
    pub fn may_ask(&self) -> bool {
        self.node.root.is_host() || self.runs(None)
    }

    fn runs(&self, name: Option<&str>) -> bool {
        Processes::read(&self.node.root).is_some_and(|all| match name {
            Some(name) => !all.find_named(name).is_empty(),
            None => all.find_kubelet().is_some() || !all.find_named("kube-apiserver").is_empty(),
        })
    }

    /// What is read afresh for a question.
    pub fn key(&self) -> Key {
        let manifest = self.node.manifest("kube-apiserver");
        let own = manifest.and_then(|manifest| serving_leaf(self.node, manifest).ok());
        let paths: Vec<PathBuf> =
            ["admin.conf", "super-admin.conf"].iter().map(|name| self.node.kubernetes_dir.join(name)).collect();
        let (logins, configs): (Vec<_>, Vec<_>) = paths.iter().filter_map(|path| login(self.node, path).ok()).unzip();
        let config = configs.first();
        let may_resolve = self.node.root.is_host();
        let servers = config.map(|config| addresses(config, may_resolve, self.deadline)).unwrap_or_default();
        Key { judge: Judge::new(self.node, config, own), logins, servers }
    }

    /// What dates are judged by (UTC).
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// The deadline of each connection. Of what is left no more than half: to look at a server takes two.
    pub fn deadline(&self) -> Duration {
        self.ends.map_or(self.deadline, |ends| self.deadline.min(left(ends) / 2))
    }

    /// Asks for an object, one API server after another until one gives an answer that can be used.
    pub fn get(&mut self, path: &str) -> Reply {
        self.asked(Method::Get, path, "")
    }

    /// Creates an object that does no harm if it is created twice, by one API server after another until one gives an answer that can be
    /// used; [`Reply::Conflict`] where it is there already.
    pub fn create_anywhere(&mut self, path: &str, object: &Value) -> Reply {
        self.asked(Method::Post, path, &object.to_string())
    }

    fn asked(&mut self, method: Method, path: &str, json: &str) -> Reply {
        let ends = self.ends.unwrap_or_else(|| Deadline::after(self.deadline * SERVERS));
        let key = self.key();
        let own = self.own();
        let asked_own = !own.is_empty();
        let (mut states, mut there, mut refused) = (Vec::new(), false, None);
        self.own_answers = asked_own.then_some(false);
        let mut all: Vec<SocketAddr> = Vec::new();
        for addr in own.iter().chain(&key.servers).chain(&self.peers) {
            if !all.contains(addr) {
                all.push(*addr);
            }
        }
        for addr in all {
            if ends.left().is_none() {
                states.push("the others were not asked, as the time was over".to_owned());
                break;
            }
            match self.ask(addr, &key, (method, path, json), ends) {
                Ok(reply) => {
                    self.own_answers = self.own_answers.map(|before| before || own.contains(&addr));
                    return reply;
                }
                Err(state) => {
                    there |= state.there;
                    self.own_answers = self.own_answers.map(|before| before || (state.there && own.contains(&addr)));
                    refused = refused.or(state.refused);
                    states.push(format!("{addr}{}", state.why));
                }
            }
        }
        if let Some(why) = refused {
            return Reply::Refused(why);
        }
        let why = if states.is_empty() { "there is no address to ask at".to_owned() } else { states.join(", ") };
        if there { Reply::Lost(why) } else { Reply::Nobody(why) }
    }

    /// The addresses of the node's own API server. Below another root they are this machine's, where another may answer.
    fn own(&self) -> Vec<SocketAddr> {
        let may_ask = self.node.root.is_host() || self.runs(Some("kube-apiserver"));
        self.node.manifest("kube-apiserver").filter(|_| may_ask).map(Manifest::serving).unwrap_or_default()
    }

    /// # Errors
    /// What it does instead of giving an answer that can be used.
    fn ask(
        &mut self,
        addr: SocketAddr,
        key: &Key,
        (method, path, json): (Method, &str, &str),
        ends: Deadline,
    ) -> Result<Reply, State> {
        let deadline = || self.deadline.min(left(ends));
        let leaf = shown(addr, &key.judge, deadline())?;
        let mut state = State { there: true, why: String::new(), refused: None };
        let anonymous = key.logins.is_empty().then_some(None);
        for identity in key.logins.iter().map(Some).chain(anonymous) {
            let way = Way {
                target: Target { scheme: Scheme::Https, addr, server_name: None },
                leaf: leaf.clone(),
                identity: identity.cloned(),
            };
            let (status, body) = match way.send(method, path, json, deadline()) {
                Ok(answer) => answer,
                Err(why) => return Err(State { why: format!(": {why}"), ..state }),
            };
            match status {
                200..=299 if body.len() as u64 >= LARGEST => {
                    state.why = " gives an answer that is longer than 4 MiB".to_owned();
                }
                200..=299 => match serde_json::from_str(&body) {
                    Ok(object) => {
                        self.last = Some(way);
                        return Ok(Reply::Object(object));
                    }
                    Err(_) => state.why = " gives an answer that is no JSON".to_owned(),
                },
                404 => {
                    self.last = Some(way);
                    return Ok(Reply::Absent);
                }
                409 => return Ok(Reply::Conflict),
                401 => {
                    let who = if way.identity.is_some() { "the login of admin.conf" } else { "a stranger" };
                    state.why = format!(" answers 401 to {who}");
                    continue;
                }
                403 => {
                    let why = format!("{addr} answers 403{}", words(&body));
                    state.refused = way.identity.is_some().then_some(why);
                    state.why = " answers 403".to_owned();
                    continue;
                }
                _ => state.why = format!(" answers {status}"),
            }
            break;
        }
        Err(state)
    }

    /// Writes, to the API server that answered last, and to no other: an answer that is lost is to be looked for, not sent again.
    fn write(&mut self, method: Method, path: &str, object: &Value) -> Reply {
        let Some(way) = &self.last else { return Reply::Lost("no API server has answered yet".to_owned()) };
        let addr = way.target.addr;
        match way.send(method, path, &object.to_string(), self.deadline) {
            Err(why) => Reply::Lost(format!("{addr}: {why}")),
            Ok((200..=299, body)) => match serde_json::from_str(&body) {
                Ok(object) => Reply::Object(object),
                Err(_) => Reply::Lost(format!("{addr} gives an answer that is no JSON")),
            },
            Ok((404, _)) => Reply::Absent,
            Ok((409, _)) => Reply::Conflict,
            Ok((status @ (400 | 403 | 405 | 415 | 422), body)) => {
                Reply::Refused(format!("{addr} answers {status}{}", words(&body)))
            }
            Ok((status, _)) => Reply::Lost(format!("{addr} answers {status}")),
        }
    }
}

fn left(ends: Deadline) -> Duration {
    ends.left().unwrap_or_default()
}

/// What an API server does instead of giving an answer that can be used.
#[derive(Debug)]
struct State {
    /// Whether it is one of this cluster's at all.
    there: bool,
    /// What it does, behind its address.
    why: String,
    /// Why the login may not do this, if it says so.
    refused: Option<String>,
}

/// The certificate of the API server at this address, which is this cluster's.
fn shown(addr: SocketAddr, judge: &Judge, deadline: Duration) -> Result<Vec<u8>, State> {
    let nobody = |why: String| State { there: false, why, refused: None };
    let seen = handshake(addr, None, None, deadline).map_err(|error| nobody(format!(": {error}")))?;
    match judge.is_ours(&seen.leaf_der, addr.ip()) {
        Ok(()) => Ok(seen.leaf_der),
        Err(why) => Err(nobody(format!(" shows a certificate that {why}; nothing was sent to it"))),
    }
}

impl Way {
    /// Status and body.
    fn send(&self, method: Method, path: &str, json: &str, deadline: Duration) -> Result<(u16, String), String> {
        let request = Request { method, path, json, bearer: None, largest: LARGEST };
        send(&self.target, &request, self.identity.as_ref(), Some(&self.leaf), deadline)
            .map(|reply| (reply.status, reply.body))
            .map_err(|error| error.to_string())
    }
}

/// Whether the API server at this address is ready, as its clients see it: with a certificate of this cluster's that is valid now.
///
/// # Errors
/// It is not: why, behind its address.
pub fn is_ready(addr: SocketAddr, key: &Key, now: DateTime<Utc>, deadline: Duration) -> Result<(), String> {
    let leaf = shown(addr, &key.judge, deadline).map_err(|state| state.why)?;
    Judge::is_valid(&leaf, now).map_err(|why| format!(" shows a certificate that {why}"))?;
    let way = Way {
        target: Target { scheme: Scheme::Https, addr, server_name: None },
        leaf,
        identity: key.logins.first().cloned(),
    };
    match way.send(Method::Get, "/readyz", "", deadline) {
        Ok((200, _)) => Ok(()),
        Ok((status, _)) => Err(format!(" answers {status} to /readyz")),
        Err(why) => Err(format!(": {why}")),
    }
}

/// The addresses under which this node's own API server is known to the cluster, as far as its flags tell.
pub fn advertised(manifest: &Manifest) -> Vec<SocketAddr> {
    let port = manifest.flag("--secure-port").and_then(|port| port.parse().ok()).unwrap_or(6443);
    ["--advertise-address", "--bind-address"]
        .into_iter()
        .filter_map(|name| manifest.flag(name)?.parse().ok())
        .filter(|ip: &IpAddr| !ip.is_unspecified())
        .map(|ip| SocketAddr::new(ip, port))
        .collect()
}

/// The message of a `Status`, for a person.
fn words(body: &str) -> String {
    let message =
        serde_json::from_str(body).ok().and_then(|status: Value| Some(status["message"].as_str()?.to_owned()));
    message.map(|message| format!(": {}", message.chars().take(WORDS).collect::<String>())).unwrap_or_default()
}

impl Store for Door<'_> {
    fn read(&mut self) -> Reply {
        self.get(PATH)
    }

    fn create(&mut self, object: &Value) -> Reply {
        self.write(Method::Post, LIST, object)
    }

    fn replace(&mut self, object: &Value) -> Reply {
        self.write(Method::Put, PATH, object)
    }
}
