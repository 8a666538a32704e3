//! The servers of a node: kube-apiserver, kube-controller-manager, kube-scheduler, and the kubelet's health port.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use chrono::Duration;

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
}

impl Listeners {
    /// Takes four free ports of 127.0.0.1.
    pub fn bind() -> Self {
        Self { apiserver: listen(), controller_manager: listen(), scheduler: listen(), kubelet: listen() }
    }

    /// Their numbers.
    pub fn ports(&self) -> Ports {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        Ports {
            apiserver: port(&self.apiserver),
            controller_manager: port(&self.controller_manager),
            scheduler: port(&self.scheduler),
            kubelet: port(&self.kubelet),
        }
    }
}

/// The running servers of a node; they end with this value.
#[derive(Debug)]
pub struct Servers {
    /// kube-apiserver: its files are read anew for each connection.
    pub apiserver: TlsServer,
    /// kube-controller-manager.
    pub controller_manager: TlsServer,
    /// kube-scheduler.
    pub scheduler: TlsServer,
    /// The kubelet's health port, plain HTTP.
    pub kubelet: Server,
}

impl Servers {
    /// Starts them; `cert_dir` is the node path of kubeadm's PKI.
    pub fn start(world: &World, listeners: Listeners, cert_dir: &str) -> Self {
        let file = |name: &str| Path::new(cert_dir).join(name);
        let apiserver = apiserver(world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
        let other = |component| Role { component, shows: Shows::InMemory, client_ca: None, loopback_ends: None };
        Self {
            apiserver: TlsServer::start(world, Some(listeners.apiserver), apiserver),
            controller_manager: TlsServer::start(
                world,
                Some(listeners.controller_manager),
                other("kube-controller-manager"),
            ),
            scheduler: TlsServer::start(world, Some(listeners.scheduler), other("kube-scheduler")),
            kubelet: Server::plain(listeners.kubelet, "/healthz", 200),
        }
    }
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
