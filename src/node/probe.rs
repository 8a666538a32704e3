//! Where a static pod says that it is healthy.

use serde_json::Value;

use super::manifest::{Container, Manifest};
use super::yaml;

/// An HTTP health endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether it is HTTPS.
    pub https: bool,
    /// The host that the manifest names; None where kubelet would ask the pod's own address.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
    /// The path, with its query.
    pub path: String,
}

impl Probe {
    /// Reads an `httpGet`; a port may be a name of `ports`. None where it has no usable port.
    pub(super) fn read(get: &Value, ports: &[(String, u16)]) -> Option<Self> {
        let port = yaml::text_at(get, &["port"])?;
        let port = port.parse().ok().or_else(|| Some(ports.iter().find(|(name, _)| *name == port)?.1))?;
        Some(Self {
            https: yaml::text_at(get, &["scheme"]).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: yaml::text_at(get, &["host"]).filter(|host| !host.is_empty()),
            port,
            path: yaml::text_at(get, &["path"]).unwrap_or_else(|| "/".to_owned()),
        })
    }
}

impl Manifest {
    /// Where this component answers for its health: the startup probe, else the liveness probe, else the readiness probe of
    /// its first container that has one; for kube-apiserver, kube-controller-manager and kube-scheduler without any, what
    /// their flags say (defaults of Kubernetes 1.20 to 1.36).
    pub fn health(&self) -> Option<Probe> {
        let probes: [fn(&Container) -> Option<&Probe>; 3] =
            [|c| c.startup.as_ref(), |c| c.liveness.as_ref(), |c| c.readiness.as_ref()];
        probes
            .iter()
            .find_map(|probe| self.containers.iter().find_map(probe))
            .cloned()
            .or_else(|| self.health_by_flags())
    }

    fn health_by_flags(&self) -> Option<Probe> {
        let (default, path) = match self.component.as_str() {
            "kube-apiserver" => (6443, "/livez"),
            "kube-controller-manager" => (10257, "/healthz"),
            "kube-scheduler" => (10259, "/healthz"),
            _ => return None,
        };
        let host = self.flag("--bind-address").filter(|host| !matches!(*host, "" | "0.0.0.0" | "::"));
        let port = self.flag("--secure-port").and_then(|port| port.parse().ok()).unwrap_or(default);
        // port 0 switches the secure port off
        (port != 0).then(|| Probe { https: true, host: host.map(str::to_owned), port, path: path.to_owned() })
    }
}
