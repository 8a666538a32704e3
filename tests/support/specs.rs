//! What each certificate of a node says, and how kubeconfigs are written.

use base64::Engine;
use chrono::{DateTime, Utc};

use super::pki::{Ca, Spec, days};
use super::tree::Tree;

impl Tree {
    /// The CA and the contents of the certificate of this name, as kubeadm 1.20, kubespray and kubelet make them.
    pub fn spec(&self, name: &str, not_after: DateTime<Utc>) -> (&Ca, Spec) {
        let from = self.plan.now - days(65);
        let client = |cn: &str, orgs: &[&str]| Spec::client(cn, orgs, from, not_after);
        let address = self.plan.shape.address.as_str();
        let both = |cn: &str| {
            let mut spec = Spec::server(cn, &["localhost", "node1", address, "127.0.0.1", "::1"], from, not_after);
            spec.client = true;
            spec
        };
        let apiserver_names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
            "node1",
            "10.96.0.1",
            address,
            "127.0.0.1",
        ];
        let (ca, spec) = match name {
            "admin.conf" => (&self.ca, client("kubernetes-admin", &["system:masters"])),
            "super-admin.conf" => (&self.ca, client("kubernetes-super-admin", &["system:masters"])),
            "controller-manager.conf" => (&self.ca, client("system:kube-controller-manager", &[])),
            "scheduler.conf" => (&self.ca, client("system:kube-scheduler", &[])),
            "kubelet.conf" | "kubelet-client-current.pem" => (&self.ca, client("system:node:node1", &["system:nodes"])),
            "kubelet.crt" => (&self.ca, Spec::server("node1@1767225600", &["node1"], from, not_after)),
            "apiserver" => (&self.ca, Spec::server("kube-apiserver", &apiserver_names, from, not_after)),
            "apiserver-kubelet-client" => (&self.ca, client("kube-apiserver-kubelet-client", &["system:masters"])),
            "front-proxy-client" => (&self.front_proxy_ca, client("front-proxy-client", &[])),
            "apiserver-etcd-client" => (&self.etcd_ca, client("kube-apiserver-etcd-client", &["system:masters"])),
            "etcd-healthcheck-client" => (&self.etcd_ca, client("kube-etcd-healthcheck-client", &["system:masters"])),
            "etcd-server" | "etcd-peer" => (&self.etcd_ca, both("node1")),
            host_etcd => (&self.etcd_ca, both(&format!("etcd-{}", host_etcd.trim_end_matches(".pem")))),
        };
        (ca, spec.algorithm(self.plan.algorithm))
    }
}

/// A kubeconfig of one cluster, context and user, as client-go writes it.
pub fn kubeconfig(server: &str, user: &str, ca: &str, cert: &str, key: &str) -> String {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {server}\n  name: kubernetes\n\
         contexts:\n- context:\n    cluster: kubernetes\n    user: {user}\n  name: {user}@kubernetes\n\
         current-context: {user}@kubernetes\nkind: Config\npreferences: {{}}\nusers:\n- name: {user}\n  user:\n    \
         client-certificate-data: {}\n    client-key-data: {}\n",
        base64(ca),
        base64(cert),
        base64(key)
    )
}

/// kubespray's `/etc/kubernetes/kubeadm-config.yaml`, the parts that matter here.
pub const KUBEADM_CONFIG: &str = "\
apiVersion: kubeadm.k8s.io/v1beta2
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.10, bindPort: 6443}
nodeRegistration: {name: node1}
---
apiVersion: kubeadm.k8s.io/v1beta2
kind: ClusterConfiguration
kubernetesVersion: v1.20.2
certificatesDir: /etc/kubernetes/ssl
etcd: {external: {endpoints: ['https://192.0.2.10:2379'], caFile: /etc/ssl/etcd/ssl/ca.pem, certFile: /etc/ssl/etcd/ssl/node-node1.pem, keyFile: /etc/ssl/etcd/ssl/node-node1-key.pem}}
";
