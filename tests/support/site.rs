//! A whole site: a node on disk, the stand-in tools around it, and its servers on loopback.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use chrono::{DateTime, Utc};

use super::pki::days;
use super::servers::{Listeners, Servers};
use super::tree::{Layout, Plan, Tree};
use super::world::{Setup, World};

/// A node of this layout on which what kubeadm renews ends in five days, and everything else is healthy.
pub fn due(layout: Layout, now: DateTime<Utc>) -> Plan {
    let mut plan = Plan::new(layout, now).all_end(now + days(5));
    let others = ["kubelet-client-current.pem", "kubelet.crt", "member-node1.pem", "admin-node1.pem", "node-node1.pem"];
    for name in others {
        plan = plan.ends(name, now + days(300));
    }
    plan
}

/// A node with everything that a run of the program touches; all of it is gone with this value.
pub struct Site {
    /// Its servers.
    pub servers: Servers,
    /// What its tools do.
    pub world: World,
    /// Its files.
    pub tree: Tree,
}

impl Site {
    /// The node of this plan, its ports replaced by free ones of 127.0.0.1. `demo` is the executable that acts as the tools.
    pub fn new(demo: &Path, plan: Plan) -> Self {
        Self::with(demo, plan, |_| {})
    }

    /// Likewise, with another setup of the tools.
    pub fn with(demo: &Path, mut plan: Plan, change: impl FnOnce(&mut Setup)) -> Self {
        let listeners = Listeners::bind();
        let ports = listeners.ports();
        plan.shape.address = "127.0.0.1".to_owned();
        plan.shape.apiserver = ports.apiserver;
        plan.shape.controller_manager = ports.controller_manager;
        plan.shape.scheduler = ports.scheduler;
        plan.shape.etcd = ports.etcd;
        plan.shape.etcd_metrics = ports.etcd_metrics;
        let tree = plan.build();
        let kubelet = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzBindAddress: 127.0.0.1\nhealthzPort: {}\nrotateCertificates: true\n",
            ports.kubelet
        );
        tree.write("/etc/kubernetes/kubelet-config.yaml", kubelet);
        let mut setup = Setup::new(tree.dir(), tree.plan.now, "node1");
        change(&mut setup);
        let world = World::new(demo, &setup);
        let servers = Servers::start(&world, listeners, &tree.plan.shape.cert_dir, tree.plan.layout == Layout::Kubeadm);
        Self { servers, world, tree }
    }

    /// The arguments that make the program work on this node, with the tools of this world.
    pub fn options(&self) -> Vec<OsString> {
        let mut options = vec![OsString::from("--root"), self.tree.dir().into()];
        for tool in ["kubeadm", "crictl"] {
            options.push(format!("--{tool}").into());
            options.push(self.world.tool(tool).into());
        }
        options
    }

    /// The serial of every certificate that kubeadm renews here, by name; read from disk now.
    pub fn serials(&self) -> BTreeMap<String, String> {
        let inventory = self.tree.inventory();
        let serial = |name: &str| inventory.get(name)?.leaf.as_ref().map(|leaf| leaf.serial.clone());
        self.tree
            .renewed_by_kubeadm()
            .into_iter()
            .map(|name| (name.to_owned(), serial(name).unwrap_or_else(|| "unreadable".to_owned())))
            .collect()
    }

    /// Which of them have another serial than `before`.
    pub fn renewed_since(&self, before: &BTreeMap<String, String>) -> Vec<String> {
        self.serials()
            .into_iter()
            .filter(|(name, serial)| before.get(name) != Some(serial))
            .map(|(name, _)| name)
            .collect()
    }
}
