//! A kube-apiserver as far as it is asked, on a node of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::check::{Checked, run};
use crate::support::client_auth::Clients;
use crate::support::clock::StillClock;
use crate::support::net::{Server, listen};
use crate::support::pki::at;
use crate::support::tree::{Layout, Plan, Tree};

pub const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub const NODES: &str = "/api/v1/nodes";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
pub const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/rolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

pub fn now() -> DateTime<Utc> {
    at("2026-03-10T12:00:00Z")
}

/// What the server has, and what it was asked.
#[derive(Debug, Default)]
pub struct State {
    /// Lists by path.
    pub lists: BTreeMap<String, Vec<Value>>,
    /// Single objects by path.
    pub objects: BTreeMap<String, Value>,
    /// `v1.20.2`.
    pub version: String,
    /// Statuses in place of an answer, by the beginning of the path.
    pub refuses: BTreeMap<String, u16>,
    /// Kubeconfigs' subjects (common names) that may do nothing: 403.
    pub forbidden: BTreeSet<String>,
    /// Tokens that log in, and whether their user may create requests.
    pub tokens: BTreeMap<String, bool>,
    /// So many approvals are answered 409; each time the request has changed by then.
    pub conflicts: u32,
    /// What a conflict changes in the request.
    pub by_conflict: Option<Value>,
    /// So many second pages are gone when they are asked for (410).
    pub expired: u32,
    /// Each request: method and path.
    pub asked: Vec<String>,
}

/// A node with its API server.
pub struct Api {
    pub tree: Tree,
    state: Arc<Mutex<State>>,
    _server: Server,
}

impl Api {
    /// A healthy cluster of this version: node1 is a control plane, node2 a worker.
    pub fn of(version: &str) -> Self {
        Self::showing(version, |tree| {
            let (certificate, key) = (tree.pki("apiserver.crt"), tree.pki("apiserver.key"));
            (tree.read(&certificate), tree.read(&key))
        })
    }

    /// Likewise, with a server that shows this certificate, and has this key.
    pub fn showing(version: &str, pair: impl FnOnce(&Tree) -> (String, String)) -> Self {
        let listener = listen();
        let mut plan = Plan::new(Layout::Kubeadm, now());
        plan.shape.address = "127.0.0.1".to_owned();
        plan.shape.apiserver = listener.local_addr().unwrap().port();
        let tree = plan.build();
        let mut state = State { version: version.to_owned(), ..State::default() };
        for list in [REQUESTS, NODES, DEPLOYMENTS, ROLES, BINDINGS, ROLE_BINDINGS] {
            state.lists.insert(list.to_owned(), Vec::new());
        }
        state.lists.insert(
            NODES.to_owned(),
            vec![node("node1", &["node1", "192.0.2.10"], true), node("node2", &["node2", "192.0.2.11"], false)],
        );
        let state = Arc::new(Mutex::new(state));
        let clients = Clients::of(&tree.root(), std::path::Path::new(&tree.pki("ca.crt")));
        let (certificate, key) = pair(&tree);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.ask())
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let (config, shared) = (Arc::new(config), Arc::clone(&state));
        let server = Server::start(listener, move |stream| serve(&config, &clients, &shared, stream));
        Self { tree, state, _server: server }
    }

    /// A cluster of 1.20.
    pub fn new() -> Self {
        Self::of("v1.20.2")
    }

    /// Changes what the server has.
    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// Adds an object to a list.
    pub fn add(&self, list: &str, object: Value) {
        self.with(|state| state.lists.entry(list.to_owned()).or_default().push(object));
    }

    /// Conditions of a request, by name.
    pub fn conditions(&self, name: &str) -> Vec<String> {
        self.with(|state| {
            let request = state.lists[REQUESTS].iter().find(|one| one["metadata"]["name"] == name).unwrap();
            let conditions = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect()
        })
    }

    /// The requests that changed, or were to change, something.
    pub fn writes(&self) -> Vec<String> {
        self.with(|state| state.asked.iter().filter(|asked| asked.starts_with("PUT")).cloned().collect())
    }

    /// `k8s-certs-renew kubelet ARGS` on the node, as root.
    pub fn kubelet(&self, args: &[&str]) -> Checked {
        self.kubelet_as(args, true)
    }

    /// Likewise, as root or not.
    pub fn kubelet_as(&self, args: &[&str], is_root: bool) -> Checked {
        let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "kubelet".into()];
        argv.extend(args.iter().map(OsString::from));
        argv.extend(["--root".into(), self.tree.dir().into()]);
        run(&StillClock::at(now()), argv, &[], None, is_root)
    }

    /// The JSON of such a command.
    pub fn json(&self, args: &[&str]) -> (u8, Value) {
        let mut args = args.to_vec();
        args.extend(["-o", "json"]);
        let checked = self.kubelet(&args);
        let value =
            serde_json::from_str(&checked.out).unwrap_or_else(|_| panic!("no JSON: {}{}", checked.out, checked.err));
        (checked.code, value)
    }
}

/// A Node.
pub fn node(name: &str, addresses: &[&str], control_plane: bool) -> Value {
    let kind = |address: &str| if address.parse::<std::net::IpAddr>().is_ok() { "InternalIP" } else { "Hostname" };
    let addresses: Vec<Value> =
        addresses.iter().map(|address| json!({ "type": kind(address), "address": address })).collect();
    let labels = if control_plane { json!({ "node-role.kubernetes.io/control-plane": "" }) } else { json!({}) };
    json!({ "metadata": { "name": name, "labels": labels }, "status": { "addresses": addresses } })
}

/// A deployment with this image and so many pods, of which so many are there.
pub fn deployment(name: &str, image: &str, wanted: i64, available: i64) -> Value {
    json!({
        "metadata": { "namespace": "kube-system", "name": name },
        "spec": { "replicas": wanted, "template": { "spec": { "containers": [{ "image": image }] } } },
        "status": { "availableReplicas": available },
    })
}

struct Asked {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    bearer: Option<String>,
    body: Value,
}

fn serve(config: &Arc<ServerConfig>, clients: &Clients, state: &Mutex<State>, stream: TcpStream) -> io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let asked = read(&mut stream)?;
    let client = stream.conn.peer_certificates().and_then(<[_]>::first).map(|leaf| leaf.as_ref().to_vec());
    let user = client.filter(|leaf| clients.knows(leaf, now())).map(|leaf| {
        let (_, leaf) =
            <x509_parser::prelude::X509Certificate<'_> as x509_parser::prelude::FromDer<'_, _>>::from_der(&leaf)
                .unwrap();
        leaf.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
    });
    let (status, body) = answer(&mut state.lock().unwrap(), &asked, user.as_deref());
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.conn.complete_io(&mut stream.sock).map(|_| ())
}

fn read(stream: &mut impl Read) -> io::Result<Asked> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let field = |name: &str| {
        head.lines().find_map(|line| {
            line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        })
    };
    let mut body = vec![0; field("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body)?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Asked {
        method,
        path: path.to_owned(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        bearer: field("authorization").and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned)),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

fn answer(state: &mut State, asked: &Asked, user: Option<&str>) -> (u16, Value) {
    state.asked.push(format!("{} {}", asked.method, asked.path));
    let status = |code: u16| (code, json!({ "kind": "Status", "code": code }));
    let allowed = match (&asked.bearer, user) {
        (Some(token), _) => match state.tokens.get(token) {
            Some(allowed) => *allowed,
            None => return status(401),
        },
        (None, None) => return status(401),
        (None, Some(user)) => !state.forbidden.contains(user),
    };
    if asked.path == REVIEWS {
        return (201, json!({ "kind": "SelfSubjectAccessReview", "status": { "allowed": allowed } }));
    }
    if asked.path == "/version" {
        return (200, json!({ "gitVersion": state.version }));
    }
    if !allowed {
        return status(403);
    }
    if let Some((_, code)) = state.refuses.iter().find(|(path, _)| asked.path.starts_with(path.as_str())) {
        return status(*code);
    }
    if let Some(object) = state.objects.get(&asked.path) {
        return (200, object.clone());
    }
    if let Some(items) = state.lists.get(&asked.path) {
        let limit: usize = asked.query["limit"].parse().unwrap();
        let from: usize = asked.query.get("continue").map_or(0, |token| token.parse().unwrap());
        if from > 0 && state.expired > 0 {
            state.expired -= 1;
            return status(410);
        }
        let page: Vec<Value> = items.iter().skip(from).take(limit).cloned().collect();
        let next = if from + limit < items.len() { (from + limit).to_string() } else { String::new() };
        return (200, json!({ "kind": "List", "metadata": { "continue": next }, "items": page }));
    }
    let Some((list, name)) = asked.path.trim_end_matches("/approval").rsplit_once('/') else { return status(404) };
    let name = name.replace("%3F", "?").replace("%20", " ").replace("%3D", "=");
    let found =
        state.lists.get_mut(list).and_then(|items| items.iter_mut().find(|one| one["metadata"]["name"] == *name));
    let Some(object) = found else { return status(404) };
    if asked.method == "GET" {
        return (200, object.clone());
    }
    assert_eq!((asked.method.as_str(), asked.path.ends_with("/approval")), ("PUT", true));
    if state.conflicts > 0 {
        state.conflicts -= 1;
        object["metadata"]["resourceVersion"] = json!(format!("before {}", state.conflicts));
        if let Some(status) = &state.by_conflict {
            object["status"] = status.clone();
        }
    }
    if asked.body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
        return status(409);
    }
    object["status"] = asked.body["status"].clone();
    (200, object.clone())
}

impl Api {
    /// With the roles that kube-apiserver makes by itself from 1.8 on.
    pub fn with_own_roles(self) -> Self {
        let role = |name: &str, resource: &str, verbs: &[&str]| {
            json!({ "metadata": { "name": name }, "rules": [
                { "apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": verbs },
            ] })
        };
        let requests = "certificatesigningrequests";
        self.add(ROLES, role("system:node-bootstrapper", requests, &["create", "get", "list", "watch"]));
        for sub in ["nodeclient", "selfnodeclient"] {
            let name = format!("system:certificates.k8s.io:{requests}:{sub}");
            self.add(ROLES, role(&name, &format!("{requests}/{sub}"), &["create"]));
        }
        self
    }

    /// Takes YAML as `kubectl apply` does.
    pub fn apply(&self, text: &str) {
        for object in k8s_certs_renew::node::yaml::parse_all(text.as_bytes()).unwrap() {
            let list = if object["kind"] == "ClusterRole" { ROLES } else { BINDINGS };
            self.add(list, object);
        }
    }

    /// The kubelet's bootstrap kubeconfig, with this token.
    pub fn bootstrap(&self, token: &str) {
        self.tree.write(
            "/etc/kubernetes/bootstrap-kubelet.conf",
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts: [{{name: b, context: {{cluster: k, user: t}}}}]\nclusters: []\nusers: [{{name: t, user: {{token: {token}}}}}]\n"
            ),
        );
    }
}
