//! The servers of a node: kube-apiserver, kube-controller-manager, kube-scheduler, etcd where it is a static pod, and the kubelet's
//! health port.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use chrono::Duration;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::net::{Server, listen};
use super::tls_server::{Role, Shows, TlsServer};
use super::world::World;

/// Ports taken for a node's servers before its manifests, which name them, are written.
#[derive(Debug)]
pub struct Listeners {
    apiserver: TcpListener,
    controller_manager: TcpListener,
    scheduler: TcpListener,
    kubelet: TcpListener,
    etcd: TcpListener,
    etcd_metrics: TcpListener,
}

/// The numbers of those ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// kube-apiserver's `--secure-port`.
    pub apiserver: u16,
    /// kube-controller-manager's `--secure-port`.
    pub controller_manager: u16,
    /// kube-scheduler's `--secure-port`.
    pub scheduler: u16,
    /// The kubelet's `healthzPort`.
    pub kubelet: u16,
    /// etcd's client port.
    pub etcd: u16,
    /// etcd's port for its health and metrics.
    pub etcd_metrics: u16,
}

impl Listeners {
    /// Takes free ports of 127.0.0.1.
    pub fn bind() -> Self {
        Self {
            apiserver: listen(),
            controller_manager: listen(),
            scheduler: listen(),
            kubelet: listen(),
            etcd: listen(),
            etcd_metrics: listen(),
        }
    }

    /// Their numbers.
    pub fn ports(&self) -> Ports {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        Ports {
            apiserver: port(&self.apiserver),
            controller_manager: port(&self.controller_manager),
            scheduler: port(&self.scheduler),
            kubelet: port(&self.kubelet),
            etcd: port(&self.etcd),
            etcd_metrics: port(&self.etcd_metrics),
        }
    }
}

/// The running servers of a node; they end with this value.
#[derive(Debug)]
pub struct Servers {
    /// What kube-apiserver keeps: of one control-plane node at first.
    pub cluster: Cluster,
    /// kube-apiserver: its files are read anew for each connection.
    pub apiserver: TlsServer,
    /// kube-controller-manager.
    pub controller_manager: TlsServer,
    /// kube-scheduler.
    pub scheduler: TlsServer,
    /// The kubelet's health port, plain HTTP.
    pub kubelet: Server,
    /// etcd's client port, where it is a static pod.
    pub etcd: Option<TlsServer>,
    /// etcd's health port, plain HTTP.
    pub etcd_metrics: Option<Server>,
}

impl Servers {
    /// Starts them; `cert_dir` is the node path of kubeadm's PKI, `stacked` whether etcd is one of the static pods.
    pub fn start(world: &World, listeners: Listeners, cert_dir: &str, stacked: bool) -> Self {
        let file = |name: &str| Path::new(cert_dir).join(name);
        let apiserver = apiserver(world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
        let cluster = Cluster::default();
        cluster.add_node("node1", listeners.ports().apiserver);
        let other = |component| Role { component, shows: Shows::InMemory, client_ca: None, loopback_ends: None };
        Self {
            apiserver: TlsServer::of_cluster(world, Some(listeners.apiserver), apiserver, Some(cluster.clone())),
            cluster,
            controller_manager: TlsServer::start(
                world,
                Some(listeners.controller_manager),
                other("kube-controller-manager"),
            ),
            scheduler: TlsServer::start(world, Some(listeners.scheduler), other("kube-scheduler")),
            kubelet: Server::plain(listeners.kubelet, "/healthz", 200),
            etcd_metrics: stacked.then(|| Server::plain(listeners.etcd_metrics, "/health", 200)),
            etcd: stacked.then(|| etcd(world, listeners.etcd, cert_dir, "etcd", true)),
        }
    }
}

/// An etcd, which lets in nobody without a certificate of its CA, its process that of `component`; it `reloads` as real ones do. It is alone
/// in its cluster; see [`Servers::members`].
pub fn etcd(world: &World, listener: TcpListener, cert_dir: &str, component: &'static str, reloads: bool) -> TlsServer {
    let file = |name: &str| Path::new(cert_dir).join("etcd").join(name);
    let role = Role {
        component,
        shows: Shows::Files { certificate: file("server.crt"), key: file("server.key"), reloads },
        client_ca: Some(file("ca.crt")),
        loopback_ends: None,
    };
    let server = TlsServer::start(world, Some(listener), role);
    server.script(|script| script.without_client = Some(401));
    server.page(MEMBERS, 200, member_list(&[member("node1", server.port())]));
    server
}

/// The request for the members of an etcd cluster.
pub const MEMBERS: &str = "POST /v3/cluster/member/list";

/// A member as etcd tells it: its name, and where its clients are served on loopback.
pub fn member(name: &str, port: u16) -> Value {
    json!({ "ID": format!("10221683743416{port}"), "name": name, "peerURLs": [format!("https://{name}.example.com:2380")],
        "clientURLs": [format!("https://127.0.0.1:{port}")] })
}

/// The answer to [`MEMBERS`], as etcd 3.4.23 gives it.
pub fn member_list(members: &[Value]) -> String {
    json!({ "header": { "cluster_id": "13915871414703020429", "member_id": "10221683743416816908", "raft_term": "2" },
        "members": members })
    .to_string()
}

impl Servers {
    /// Gives etcd other members on loopback, `node2` and so on, each healthy or not; they end with the value.
    pub fn members(&self, world: &World, cert_dir: &str, healthy: &[bool]) -> Vec<TlsServer> {
        let others: Vec<TlsServer> = healthy.iter().map(|_| etcd(world, listen(), cert_dir, "etcd", true)).collect();
        let own = self.etcd.as_ref().unwrap();
        let mut list = vec![member("node1", own.port())];
        for (index, (other, healthy)) in others.iter().zip(healthy).enumerate() {
            list.push(member(&format!("node{}", index + 2), other.port()));
            set_health(other, *healthy);
        }
        own.page(MEMBERS, 200, member_list(&list));
        others
    }
}

/// Makes a member healthy or not, as etcd 3.4.23 says it.
pub fn set_health(member: &TlsServer, healthy: bool) {
    let (status, body) = if healthy { (200, r#"{"health":"true"}"#) } else { (503, r#"{"health":"false"}"#) };
    member.page("GET /health", status, body);
}

impl Servers {
    /// From now on nobody listens on kube-apiserver's port: connections are refused.
    pub fn refuse_apiserver(&mut self, world: &World) {
        let role = Role { component: "kube-apiserver", shows: Shows::InMemory, client_ca: None, loopback_ends: None };
        self.apiserver = TlsServer::start(world, None, role);
    }
}

/// A kube-apiserver with these files of the node.
pub fn apiserver(world: &World, certificate: PathBuf, key: PathBuf, client_ca: PathBuf) -> Role {
    Role {
        component: "kube-apiserver",
        shows: Shows::Files { certificate, key, reloads: true },
        client_ca: Some(client_ca),
        loopback_ends: Some(world.setup().now + Duration::days(300)),
    }
}
