//! This cluster's API server, asked as an admin: every failure is a value, since each makes an `unknown`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::api::{ApiError, Identity, Method, Request, Scheme, Seen, Target, handshake, send};
use crate::evidence::version::{Version, of, parse};
use crate::inventory::signature::{Signature, verify};
use crate::inventory::x509;
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{Node, pem};
use crate::steps::ready::{login, serving_leaf};

use super::paths::{encoded, requests};

/// What is taken of one answer. The longest single object that etcd takes has 1.5 MiB, twice that as JSON.
const LARGEST: u64 = 4 << 20;
/// Objects in one page; fewer, where they are so large that the page is longer than [`LARGEST`].
const PAGE: usize = 200;
/// Objects of one kind that are looked at. A cluster has 5,000 nodes at most (Kubernetes' own limit).
const MOST: usize = 20_000;

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
    /// It is this node's own by its manifest, else the kubeconfig's, by its address; its certificate must be the one on disk, or be
    /// signed by the kubeconfig's CA, valid at `now` and for that address. `deadline` is each request's.
    ///
    /// # Errors
    /// Nobody answers, or no login is accepted.
    pub fn open(node: &Node, kubeconfigs: &[PathBuf], now: DateTime<Utc>, deadline: Duration) -> Result<Self, Unseen> {
        let mut without_rights = None;
        let mut failed = None;
        for path in kubeconfigs {
            match Self::connect(node, path, now, deadline).map(|server| (server.may_ask(), server)) {
                Ok((Ok(()), server)) => return Ok(server),
                Ok((Err(Unseen::Unauthorised(who)), _)) => failed = failed.or(Some(Unseen::Unauthorised(who))),
                Ok((Err(_), server)) => without_rights = without_rights.or(Some(server)),
                Err(unseen) => failed = failed.or(Some(unseen)),
            }
        }
        let nothing = || Unseen::Down("there is no kubeconfig to ask with".to_owned());
        without_rights.ok_or_else(|| failed.unwrap_or_else(nothing))
    }

    fn connect(node: &Node, path: &Path, now: DateTime<Utc>, deadline: Duration) -> Result<Self, Unseen> {
        let (identity, config) = login(node, path).map_err(Unseen::Down)?;
        let authorities = authorities(node, &config);
        let manifest = node.manifest("kube-apiserver");
        let on_disk = manifest.and_then(|manifest| serving_leaf(node, manifest).ok());
        let addresses = match manifest.map(crate::node::Manifest::serving) {
            Some(own) if !own.is_empty() => own,
            _ => vec![address(&config).map_err(Unseen::Down)?],
        };
        let mut state = String::new();
        for addr in addresses {
            let leaf = match handshake(addr, None, None, deadline) {
                Ok(seen) => seen,
                Err(error) => {
                    state = format!("{addr}: {error}");
                    continue;
                }
            };
            if let Err(why) = ours(&leaf, on_disk.as_deref(), &authorities, addr.ip(), now) {
                state = format!("{addr} shows a certificate that {why}; nothing was sent to it");
                continue;
            }
            let mut server = Self {
                target: Target { scheme: Scheme::Https, addr, server_name: None },
                identity,
                leaf: leaf.leaf_der,
                kubeconfig: path.to_path_buf(),
                version: None,
                deadline,
            };
            let told = match server.get("/version") {
                // only the login's own fault is looked at by who comes next
                Err(unseen @ (Unseen::Down(_) | Unseen::Unauthorised(_))) => return Err(unseen),
                told => told.unwrap_or(Value::Null),
            };
            // a build without a version of its own says v0.0.0-master
            let told = told["gitVersion"].as_str().and_then(parse).filter(|version| *version >= (1, 0));
            server.version = told.or_else(|| manifest.and_then(of));
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

/// Whether what answers is this cluster's API server.
fn ours(
    seen: &Seen,
    on_disk: Option<&[u8]>,
    authorities: &[Vec<u8>],
    ip: IpAddr,
    now: DateTime<Utc>,
) -> Result<(), String> {
    if on_disk == Some(seen.leaf_der.as_slice()) {
        return Ok(());
    }
    let certificate = x509::certificate(&seen.leaf_der)?;
    let leaf = x509::leaf(&certificate)?;
    let signed = authorities.iter().filter_map(|der| x509::certificate(der).ok()).any(|ca| {
        ca.subject().as_raw() == certificate.issuer().as_raw() && verify(&certificate, &ca) == Signature::Good
    });
    if !signed {
        return Err("the cluster's CA has not signed".to_owned());
    }
    if now < leaf.not_before || now > leaf.not_after {
        return Err("is not valid now".to_owned());
    }
    // any kubelet's serving certificate is signed by the same CA
    let names_it = leaf.sans.iter().any(|name| name == "kubernetes" || name.parse() == Ok(ip));
    if !names_it || !leaf.usages.iter().any(|usage| usage == "serverAuth") {
        return Err(format!("is not kube-apiserver's, nor for {ip}"));
    }
    Ok(())
}

/// The CA of the kubeconfig's cluster, and the node's own.
fn authorities(node: &Node, config: &Kubeconfig) -> Vec<Vec<u8>> {
    let inside = config.current_cluster().ok().and_then(|cluster| cluster.ca.clone());
    let text = match inside {
        Some(Source::Data(bytes)) => Some(bytes),
        Some(Source::File(path)) => node.root.read(&path).ok(),
        None => node.root.read(&node.cert_dir.join("ca.crt")).ok(),
    };
    text.and_then(|text| pem::read(&text).ok()).map_or_else(Vec::new, |pem| pem.certificates)
}

/// The address of a kubeconfig's server. Names are not resolved but for `localhost`: who answers would be the resolver's to say.
fn address(config: &Kubeconfig) -> Result<SocketAddr, String> {
    let server = config.current_cluster().ok().and_then(|cluster| cluster.server.clone()).unwrap_or_default();
    let authority = server.strip_prefix("https://").ok_or_else(|| format!("'{server}' is no https address"))?;
    let authority = authority.split('/').next().unwrap_or(authority);
    let authority = authority.replacen("localhost", &Ipv4Addr::LOCALHOST.to_string(), 1);
    let alone = || authority.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 443));
    authority.parse().ok().or_else(alone).ok_or_else(|| {
        format!(
            "'{server}' is a host name, and no names are resolved; a kubeconfig with the address will do (--kubeconfig)"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::address;
    use crate::node::kubeconfig::Kubeconfig;

    #[test]
    fn the_address_of_a_kubeconfig_is_never_looked_up() {
        let table = [
            ("https://192.0.2.10:6443", Some("192.0.2.10:6443")),
            ("https://[2001:db8::1]:6443/", Some("[2001:db8::1]:6443")),
            ("https://localhost:8443", Some("127.0.0.1:8443")),
            ("https://192.0.2.10", Some("192.0.2.10:443")),
            ("https://lb.example.com:6443", None),
            ("http://192.0.2.10:8080", None),
        ];
        for (server, expected) in table {
            let text = format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
            );
            let config = Kubeconfig::parse(text.as_bytes(), Path::new("/")).unwrap();
            assert_eq!(address(&config).ok().map(|addr| addr.to_string()).as_deref(), expected, "{server}");
        }
    }
}
