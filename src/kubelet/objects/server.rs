//! This cluster's API server, asked as an admin or as kubelet: every failure is a value, since each makes an `unknown`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::api::{ApiError, Identity, Method, Request, Scheme, Target, handshake, send};
use crate::evidence::version::{Version, of, parse};
use crate::inventory::x509;
use crate::node::Node;
use crate::node::kubeconfig::Kubeconfig;
use crate::steps::ready::{login, serving_leaf};

use super::paths::{encoded, requests};
use super::whose::{authorities, ours, place};

/// What is taken of one answer. The longest single object that etcd takes has 1.5 MiB, twice that as JSON.
const LARGEST: u64 = 4 << 20;
/// Objects in one page; fewer, where they are so large that the page is longer than [`LARGEST`].
const PAGE: usize = 200;
/// Objects of one kind that are looked at. A cluster has 5,000 nodes at most (Kubernetes' own limit).
const MOST: usize = 20_000;
/// How long connection and handshake, and the first answer, may take at most: one that is up answers in milliseconds, and what does
/// not is not waited for a second time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why something of the cluster was not seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// The API server does not answer, or what answers is not this cluster's; or there is no login to ask with.
    #[error("kube-apiserver cannot be asked: {0}")]
    Down(String),
    /// 401: it does not accept the login.
    #[error("kube-apiserver answers 401 to {0}: it does not accept this login")]
    Unauthorised(String),
    /// 403: the login may not do this.
    #[error("kube-apiserver answers 403: {0}")]
    Forbidden(String),
    /// 404: there is no such object, or the server does not know its kind.
    #[error("there is no '{0}'")]
    NotFound(String),
    /// 409: somebody else has changed the object meanwhile.
    #[error("'{0}' was changed meanwhile (409)")]
    Conflict(String),
    /// An answer that is no answer to this.
    #[error("kube-apiserver's answer cannot be used: {0}")]
    Unreadable(String),
}

/// An API server that is known to be this cluster's, and a login.
#[derive(Debug, Clone)]
pub struct Server {
    target: Target,
    identity: Identity,
    leaf: Vec<u8>,
    /// The kubeconfig whose login it is.
    pub kubeconfig: PathBuf,
    /// kube-apiserver's version; none where it does not tell one.
    pub version: Option<Version>,
    deadline: Duration,
}

impl Server {
    /// The API server, and the first login that may ask for certificate signing requests: from 1.29 on admin.conf's rights hang on a
    /// binding that can be missing, super-admin.conf's do not (kubeadm 1.29, `kubeadm:cluster-admins`).
    ///
    /// It is this node's own by its manifest, else the kubeconfig's; its certificate must be the one on disk, or be signed by the
    /// kubeconfig's CA, valid at `now` and for that address or name. `deadline` is each request's; for the first ones it is 5 seconds at
    /// most, and what did not answer is not asked again with the next login.
    ///
    /// # Errors
    /// Nobody answers, or no login is accepted.
    pub fn open(node: &Node, kubeconfigs: &[PathBuf], now: DateTime<Utc>, deadline: Duration) -> Result<Self, Unseen> {
        let mut without_rights = None;
        let mut failed = None;
        let mut silent = Vec::new();
        for path in kubeconfigs {
            let login = login(node, path).map_err(Unseen::Down);
            let server = login.and_then(|login| Self::connect(node, path, login, now, deadline, &mut silent));
            match server.map(|server| (server.may_ask(), server)) {
                Ok((Ok(()), server)) => return Ok(server),
                Ok((Err(Unseen::Unauthorised(who)), _)) => failed = failed.or(Some(Unseen::Unauthorised(who))),
                Ok((Err(_), server)) => without_rights = without_rights.or(Some(server)),
                Err(unseen) => failed = failed.or(Some(unseen)),
            }
        }
        let nothing = || Unseen::Down("there is no kubeconfig to ask with".to_owned());
        without_rights.ok_or_else(|| failed.unwrap_or_else(nothing))
    }

    /// The API server that kubelet's kubeconfig names, asked by kubelet's own login: the certificate that it rotates (`rotated`), as kubelet
    /// itself takes that before what the kubeconfig holds (client-go `certificate_store.go`), else the kubeconfig's.
    ///
    /// # Errors
    /// Nobody answers, or the login is not accepted.
    pub fn as_kubelet(
        node: &Node,
        kubeconfig: &Path,
        rotated: &Path,
        now: DateTime<Utc>,
        deadline: Duration,
    ) -> Result<Self, Unseen> {
        let (own, config) = login(node, kubeconfig).map_err(Unseen::Down)?;
        let pair = node.root.read(rotated).ok().and_then(|text| Identity::from_pem(&text, &text).ok());
        Self::connect(node, kubeconfig, (pair.unwrap_or(own), config), now, deadline, &mut Vec::new())
    }

    fn connect(
        node: &Node,
        path: &Path,
        (identity, config): (Identity, Kubeconfig),
        now: DateTime<Utc>,
        deadline: Duration,
        silent: &mut Vec<SocketAddr>,
    ) -> Result<Self, Unseen> {
        let patience = deadline.min(PATIENCE);
        let authorities = authorities(node, &config);
        let manifest = node.manifest("kube-apiserver");
        let on_disk = manifest.and_then(|manifest| serving_leaf(node, manifest).ok());
        let place = place(node, &config, patience).map_err(Unseen::Down)?;
        let name = place.name.as_deref();
        let mut state = String::new();
        for addr in place.addresses {
            if silent.contains(&addr) {
                state = format!("{addr}: {}", ApiError::TimedOut);
                continue;
            }
            let leaf = match handshake(addr, name, None, patience) {
                Ok(seen) => seen,
                Err(error) => {
                    let error = ApiError::from(error);
                    if error == ApiError::TimedOut {
                        silent.push(addr);
                    }
                    state = format!("{addr}: {error}");
                    continue;
                }
            };
            if let Err(why) = ours(&leaf, on_disk.as_deref(), &authorities, (addr.ip(), name), now) {
                state = format!("{addr} shows a certificate that {why}; nothing was sent to it");
                continue;
            }
            let mut server = Self {
                target: Target { scheme: Scheme::Https, addr, server_name: place.name.clone() },
                identity,
                leaf: leaf.leaf_der,
                kubeconfig: path.to_path_buf(),
                version: None,
                deadline: patience,
            };
            let told = match server.get("/version") {
                // only the login's own fault is looked at by who comes next
                Err(unseen @ (Unseen::Down(_) | Unseen::Unauthorised(_))) => {
                    if matches!(unseen, Unseen::Down(_)) {
                        silent.push(addr);
                    }
                    return Err(unseen);
                }
                told => told.unwrap_or(Value::Null),
            };
            // a build without a version of its own says v0.0.0-master
            let told = told["gitVersion"].as_str().and_then(parse).filter(|version| *version >= (1, 0));
            server.version = told.or_else(|| manifest.and_then(of));
            server.deadline = deadline;
            return Ok(server);
        }
        Err(Unseen::Down(state))
    }

    fn may_ask(&self) -> Result<(), Unseen> {
        self.get(&format!("{}?limit=1", requests(self.version))).map(|_| ())
    }

    /// Where it is.
    pub fn addr(&self) -> SocketAddr {
        self.target.addr
    }

    /// The names of its own certificate.
    pub fn names(&self) -> Vec<String> {
        X509Certificate::from_der(&self.leaf)
            .ok()
            .and_then(|(_, leaf)| x509::leaf(&leaf).ok())
            .map_or_else(Vec::new, |leaf| leaf.sans)
    }

    /// An object.
    ///
    /// # Errors
    /// See [`Unseen`].
    pub fn get(&self, path: &str) -> Result<Value, Unseen> {
        self.exchange(Method::Get, path, "", None)
    }

    /// Puts an object in place of the one that is there; its `metadata.resourceVersion` must still be the one's.
    ///
    /// # Errors
    /// See [`Unseen`].
    pub fn put(&self, path: &str, object: &Value) -> Result<Value, Unseen> {
        self.exchange(Method::Put, path, &object.to_string(), None)
    }

    /// Asks with a body.
    ///
    /// # Errors
    /// See [`Unseen`].
    pub fn post(&self, path: &str, object: &Value) -> Result<Value, Unseen> {
        self.exchange(Method::Post, path, &object.to_string(), None)
    }

    /// Asks with a body, logged in by this token and not as the admin.
    ///
    /// # Errors
    /// See [`Unseen`].
    pub fn post_by_token(&self, token: &str, path: &str, object: &Value) -> Result<Value, Unseen> {
        self.exchange(Method::Post, path, &object.to_string(), Some(token))
    }

    /// All objects of a list, page by page. `query` is added to each request's, such as `fieldSelector=...`.
    ///
    /// # Errors
    /// See [`Unseen`]; a list without an end, and one whose pages expire (410) twice, are unreadable.
    pub fn list(&self, path: &str, query: &str) -> Result<Vec<Value>, Unseen> {
        let and = if query.is_empty() { "" } else { "&" };
        let (mut all, mut next, mut limit, mut again) = (Vec::new(), String::new(), PAGE, true);
        loop {
            let page = match self.get(&format!("{path}?limit={limit}{and}{query}{next}")) {
                Err(Unseen::Unreadable(why)) if why == TOO_LONG && limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                // what was listed so far has been compacted away
                Err(Unseen::Unreadable(why)) if why == "410" && again => {
                    (all, next, again) = (Vec::new(), String::new(), false);
                    continue;
                }
                page => page?,
            };
            let Some(items) = page["items"].as_array() else {
                // a list of nothing is `null` from some servers
                let empty = page["items"].is_null() && page["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
                return if empty { Ok(all) } else { Err(Unseen::Unreadable(format!("'{path}' is no list"))) };
            };
            all.extend(items.iter().cloned());
            match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                None => return Ok(all),
                Some(_) if all.len() > MOST => {
                    return Err(Unseen::Unreadable(format!("'{path}' has more than {MOST} objects")));
                }
                Some(token) => next = format!("&continue={}", encoded(token)),
            }
        }
    }

    fn exchange(&self, method: Method, path: &str, json: &str, bearer: Option<&str>) -> Result<Value, Unseen> {
        let request = Request { method, path, json, bearer, largest: LARGEST };
        let identity = Some(&self.identity).filter(|_| bearer.is_none());
        let reply = send(&self.target, &request, identity, Some(&self.leaf), self.deadline);
        let reply = reply.map_err(|error| match error {
            ApiError::Other(_) => Unseen::Unreadable(format!("{}: {error}", self.target.addr)),
            error => Unseen::Down(format!("{}: {error}", self.target.addr)),
        })?;
        let what = path.split('?').next().unwrap_or(path).to_owned();
        match reply.status {
            200..=299 if reply.body.len() as u64 >= LARGEST => Err(Unseen::Unreadable(TOO_LONG.to_owned())),
            200..=299 => serde_json::from_str(&reply.body)
                .map_err(|_| Unseen::Unreadable(format!("what it answers for '{what}' is not JSON"))),
            401 => Err(Unseen::Unauthorised(match bearer {
                Some(_) => "the token".to_owned(),
                None => format!("the login of '{}'", self.kubeconfig.display()),
            })),
            403 => Err(Unseen::Forbidden(match bearer {
                Some(_) => format!("the token's user may not ask for '{what}'"),
                None => format!("the user of '{}' may not do this with '{what}'", self.kubeconfig.display()),
            })),
            404 => Err(Unseen::NotFound(what)),
            409 => Err(Unseen::Conflict(what)),
            410 => Err(Unseen::Unreadable("410".to_owned())),
            429 | 500.. => Err(Unseen::Down(format!("{} answers {}", self.target.addr, reply.status))),
            status => Err(Unseen::Unreadable(format!("{status} for '{what}'"))),
        }
    }
}

const TOO_LONG: &str = "longer than 4 MiB";
