//! Whole nodes below a temporary root: certificates, kubeconfigs, manifests, kubelet's files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use base64::Engine;
use chrono::{DateTime, Utc};
use k8s_certs_renew::files::Root;
use k8s_certs_renew::inventory::{Extra, Inventory};
use k8s_certs_renew::node::{Node, Overrides};
use tempfile::TempDir;

use super::manifests::Shape;
use super::pki::{Algorithm, Ca, Pair, days};
use super::specs::KUBEADM_CONFIG;
pub use super::specs::kubeconfig;

/// Who set the node up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// kubespray: PKI in `ssl`, `pki` a link to it, etcd on the host.
    Kubespray,
    /// kubeadm alone: PKI in `pki`, etcd as a static pod, `super-admin.conf`.
    Kubeadm,
}

/// How to build a [`Tree`]. [`Plan::new`] gives the usual node; change what a test is about.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who set the node up.
    pub layout: Layout,
    /// The present of the test.
    pub now: DateTime<Utc>,
    /// NotAfter of every leaf that [`Plan::ends`] does not name: a year from the issue, 300 days left.
    pub leaves_end: DateTime<Utc>,
    /// NotAfter by name (kubeadm's names; `member-node1.pem`; `kubelet-client-current.pem`; `kubelet.crt`).
    pub ends: BTreeMap<String, DateTime<Utc>>,
    /// NotAfter of the CAs: nine years left.
    pub authorities_end: DateTime<Utc>,
    /// Keys of CAs and leaves.
    pub algorithm: Algorithm,
    /// Ports, addresses and directories of the manifests.
    pub shape: Shape,
}

impl Plan {
    /// A healthy node of this layout: leaves have 300 days left, CAs nine years.
    pub fn new(layout: Layout, now: DateTime<Utc>) -> Self {
        let kubespray = layout == Layout::Kubespray;
        let etcd = |name: &str| format!("{HOST_ETCD}/{name}");
        Self {
            layout,
            now,
            leaves_end: now + days(300),
            ends: BTreeMap::new(),
            authorities_end: now + days(9 * 365),
            algorithm: Algorithm::P256,
            shape: Shape {
                address: "192.0.2.10".to_owned(),
                bind_address: None,
                apiserver: 6443,
                controller_manager: 10257,
                scheduler: 10259,
                etcd: 2379,
                etcd_metrics: 2381,
                cert_dir: if kubespray { "/etc/kubernetes/ssl" } else { "/etc/kubernetes/pki" }.to_owned(),
                host_etcd: kubespray.then(|| (etcd("ca.pem"), etcd("node-node1.pem"), etcd("node-node1-key.pem"))),
            },
        }
    }

    /// With all leaves ending then.
    pub fn all_end(mut self, at: DateTime<Utc>) -> Self {
        self.leaves_end = at;
        self
    }

    /// With this one ending then.
    pub fn ends(mut self, name: &str, at: DateTime<Utc>) -> Self {
        self.ends.insert(name.to_owned(), at);
        self
    }

    /// The node, on disk.
    pub fn build(self) -> Tree {
        let from = self.now - days(65);
        let authority = |cn| Ca::new(cn, self.algorithm, from, self.authorities_end);
        let tree = Tree {
            // in memory where the machine lets us: a disk takes a third of the time of all tests
            dir: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
            ca: authority("kubernetes"),
            front_proxy_ca: authority("front-proxy-ca"),
            etcd_ca: authority("etcd-ca"),
            plan: self,
        };
        tree.fill();
        tree
    }
}

/// A node below a temporary root.
pub struct Tree {
    dir: TempDir,
    /// How it was built.
    pub plan: Plan,
    /// The cluster's CA.
    pub ca: Ca,
    /// The front proxy's CA.
    pub front_proxy_ca: Ca,
    /// etcd's CA.
    pub etcd_ca: Ca,
}

/// Where kubespray keeps host etcd's certificates.
pub const HOST_ETCD: &str = "/etc/ssl/etcd/ssl";
const KUBELET: &str = "/var/lib/kubelet/pki";
const ROTATED: &str = "kubelet-client-2026-01-01-00-00-00.pem";

impl Tree {
    /// A healthy node as kubespray sets it up.
    pub fn kubespray(now: DateTime<Utc>) -> Self {
        Plan::new(Layout::Kubespray, now).build()
    }

    /// A healthy node as kubeadm sets it up.
    pub fn kubeadm(now: DateTime<Utc>) -> Self {
        Plan::new(Layout::Kubeadm, now).build()
    }

    /// The root directory on this machine.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The root.
    pub fn root(&self) -> Root {
        Root::new(self.dir()).unwrap()
    }

    /// The node as the program sees it.
    pub fn node(&self) -> Node {
        Node::look(self.root(), &Overrides::default())
    }

    /// The inventory at the plan's `now`, with the copy of admin.conf.
    pub fn inventory(&self) -> Inventory {
        let extra = Extra { kubeconfig_copies: vec![PathBuf::from("/root/.kube/config")] };
        Inventory::read(&self.node(), &extra, self.plan.now)
    }

    /// The path on this machine of a node's path.
    pub fn on_host(&self, path: &str) -> PathBuf {
        self.dir().join(path.trim_start_matches('/'))
    }

    /// Writes a file, and the directories above it. Through a link it writes where the link leads.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let host = self.root().canonicalize(Path::new(path)).map_or_else(
            |_| {
                let path = Path::new(path);
                let parent = path.parent().unwrap();
                let parent = self.root().canonicalize(parent).unwrap_or_else(|_| parent.to_path_buf());
                self.root().on_host(&parent.join(path.file_name().unwrap()))
            },
            |real| self.root().on_host(&real),
        );
        fs::create_dir_all(host.parent().unwrap()).unwrap();
        fs::write(host, bytes).unwrap();
    }

    /// A file's text.
    pub fn read(&self, path: &str) -> String {
        self.root().read_to_string(Path::new(path)).unwrap()
    }

    /// Changes a text file.
    pub fn edit(&self, path: &str, change: impl FnOnce(String) -> String) {
        self.write(path, change(self.read(path)));
    }

    /// Removes a file or a link.
    pub fn remove(&self, path: &str) {
        self.root().remove_file(Path::new(path)).unwrap();
    }

    /// Makes a symbolic link, in place of what is there.
    pub fn link(&self, target: &str, path: &str) {
        self.remove(path);
        let host = self.on_host(path);
        fs::create_dir_all(host.parent().unwrap()).unwrap();
        symlink(target, host).unwrap();
    }

    /// Sets a file's permission bits.
    pub fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.on_host(path), PermissionsExt::from_mode(mode)).unwrap();
    }

    /// The path of a file of kubeadm's PKI.
    pub fn pki(&self, file: &str) -> String {
        format!("{}/{file}", self.plan.shape.cert_dir)
    }

    /// Issues one certificate anew, with a new key and serial, and writes it: a leaf by kubeadm's name, a kubeconfig
    /// (`admin.conf`), one of host etcd's (`member-node1.pem`), one of kubelet's.
    pub fn issue(&self, name: &str, not_after: DateTime<Utc>) -> Pair {
        let (ca, spec) = self.spec(name, not_after);
        let pair = ca.issue(&spec);
        self.put(name, &pair);
        pair
    }

    /// Writes a pair where the certificate of this name stands.
    pub fn put(&self, name: &str, pair: &Pair) {
        match name {
            "kubelet-client-current.pem" => {
                self.write(&format!("{KUBELET}/{ROTATED}"), format!("{}{}", pair.cert, pair.key));
                self.link(&format!("{KUBELET}/{ROTATED}"), &format!("{KUBELET}/{name}"));
            }
            "kubelet.crt" => {
                self.write(&format!("{KUBELET}/kubelet.crt"), &pair.cert);
                self.write(&format!("{KUBELET}/kubelet.key"), &pair.key);
            }
            _ if name.ends_with(".conf") => {
                self.write(&format!("/etc/kubernetes/{name}"), self.kubeconfig(name.trim_end_matches(".conf"), pair));
            }
            _ => match name.strip_suffix(".pem") {
                Some(stem) => {
                    self.write(&format!("{HOST_ETCD}/{stem}.pem"), &pair.cert);
                    self.write(&format!("{HOST_ETCD}/{stem}-key.pem"), &pair.key);
                }
                None => {
                    let file =
                        name.strip_prefix("etcd-").map_or_else(|| name.to_owned(), |name| format!("etcd/{name}"));
                    self.write(&self.pki(&format!("{file}.crt")), &pair.cert);
                    self.write(&self.pki(&format!("{file}.key")), &pair.key);
                }
            },
        }
    }

    /// A kubeconfig with embedded data, as kubeadm writes it.
    pub fn kubeconfig(&self, user: &str, pair: &Pair) -> String {
        let user = match user {
            "admin" => "kubernetes-admin".to_owned(),
            "super-admin" => "kubernetes-super-admin".to_owned(),
            "kubelet" => "system:node:node1".to_owned(),
            other => format!("system:kube-{other}"),
        };
        kubeconfig(&self.server(), &user, &self.ca.pair.cert, &pair.cert, &pair.key)
    }

    /// kube-apiserver's URL.
    pub fn server(&self) -> String {
        format!("https://{}:{}", self.plan.shape.address, self.plan.shape.apiserver)
    }

    /// The names of what kubeadm renews on this node, sorted.
    pub fn renewed_by_kubeadm(&self) -> Vec<&'static str> {
        let stacked = self.plan.layout == Layout::Kubeadm;
        let only_stacked =
            ["apiserver-etcd-client", "etcd-healthcheck-client", "etcd-peer", "etcd-server", "super-admin.conf"];
        NAMES.into_iter().filter(|name| stacked || !only_stacked.contains(name)).collect()
    }

    fn fill(&self) {
        let shape = &self.plan.shape;
        let authority = |cert: &str, key: &str, ca: &Ca| {
            self.write(cert, &ca.pair.cert);
            self.write(key, &ca.pair.key);
        };
        authority(&self.pki("ca.crt"), &self.pki("ca.key"), &self.ca);
        authority(&self.pki("front-proxy-ca.crt"), &self.pki("front-proxy-ca.key"), &self.front_proxy_ca);
        self.write(&self.pki("sa.pub"), "not read\n");
        self.write(&self.pki("sa.key"), "not read\n");
        let mut names = self.renewed_by_kubeadm();
        names.extend(["kubelet-client-current.pem", "kubelet.crt"]);
        match self.plan.layout {
            Layout::Kubespray => {
                self.link("/etc/kubernetes/ssl", "/etc/kubernetes/pki");
                authority(&format!("{HOST_ETCD}/ca.pem"), &format!("{HOST_ETCD}/ca-key.pem"), &self.etcd_ca);
                names.extend(["member-node1.pem", "admin-node1.pem", "node-node1.pem"]);
                self.write("/etc/kubernetes/kubeadm-config.yaml", KUBEADM_CONFIG);
            }
            Layout::Kubeadm => {
                authority(&self.pki("etcd/ca.crt"), &self.pki("etcd/ca.key"), &self.etcd_ca);
                self.write("/etc/kubernetes/manifests/etcd.yaml", shape.etcd());
            }
        }
        for name in names {
            self.issue(name, self.plan.ends.get(name).copied().unwrap_or(self.plan.leaves_end));
        }
        let current = format!("{KUBELET}/kubelet-client-current.pem");
        self.write("/etc/kubernetes/kubelet.conf", self.kubelet_conf(&current));
        self.write("/etc/kubernetes/manifests/kube-apiserver.yaml", shape.kube_apiserver());
        self.write("/etc/kubernetes/manifests/kube-controller-manager.yaml", shape.kube_controller_manager());
        self.write("/etc/kubernetes/manifests/kube-scheduler.yaml", shape.kube_scheduler());
        self.write("/root/.kube/config", self.read("/etc/kubernetes/admin.conf"));
        self.write("/etc/hostname", "node1\n");
        for secret in ["/root/.kube/config", "/etc/kubernetes/admin.conf"] {
            self.chmod(secret, 0o600);
        }
    }

    /// kubelet.conf as it is after the bootstrap: the credential is a file of the node.
    pub fn kubelet_conf(&self, credential: &str) -> String {
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca.pair.cert);
        format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {}\n  name: default-cluster\n\
             contexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n    user: default-auth\n  \
             name: default-context\ncurrent-context: default-context\nkind: Config\npreferences: {{}}\nusers:\n\
             - name: default-auth\n  user:\n    client-certificate: {credential}\n    client-key: {credential}\n",
            self.server()
        )
    }
}

const NAMES: [&str; 11] = [
    "admin.conf",
    "apiserver",
    "apiserver-etcd-client",
    "apiserver-kubelet-client",
    "controller-manager.conf",
    "etcd-healthcheck-client",
    "etcd-peer",
    "etcd-server",
    "front-proxy-client",
    "scheduler.conf",
    "super-admin.conf",
];
