//! Static pod manifests of the shape that kubeadm 1.20 writes.

/// Addresses, ports and directories that the manifests name.
#[derive(Debug, Clone)]
pub struct Shape {
    /// kube-apiserver's `--advertise-address`.
    pub address: String,
    /// kube-apiserver's `--bind-address`; kubeadm gives none.
    pub bind_address: Option<String>,
    /// kube-apiserver's `--secure-port`.
    pub apiserver: u16,
    /// kube-controller-manager's.
    pub controller_manager: u16,
    /// kube-scheduler's.
    pub scheduler: u16,
    /// etcd's client port.
    pub etcd: u16,
    /// etcd's port for its health and metrics.
    pub etcd_metrics: u16,
    /// kubeadm's PKI.
    pub cert_dir: String,
    /// CA, certificate and key for etcd, where it is not kubeadm's.
    pub host_etcd: Option<(String, String, String)>,
}

impl Shape {
    /// `kube-apiserver.yaml`.
    pub fn kube_apiserver(&self) -> String {
        let (dir, address, port) = (&self.cert_dir, &self.address, self.apiserver);
        let stacked = (
            format!("{dir}/etcd/ca.crt"),
            format!("{dir}/apiserver-etcd-client.crt"),
            format!("{dir}/apiserver-etcd-client.key"),
        );
        let (etcd_ca, etcd_cert, etcd_key) = self.host_etcd.as_ref().unwrap_or(&stacked);
        let mut argv = vec![
            "kube-apiserver".to_owned(),
            format!("--advertise-address={address}"),
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            format!("--client-ca-file={dir}/ca.crt"),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            format!("--etcd-cafile={etcd_ca}"),
            format!("--etcd-certfile={etcd_cert}"),
            format!("--etcd-keyfile={etcd_key}"),
            format!("--etcd-servers=https://127.0.0.1:{}", self.etcd),
            "--insecure-port=0".to_owned(),
            format!("--kubelet-client-certificate={dir}/apiserver-kubelet-client.crt"),
            format!("--kubelet-client-key={dir}/apiserver-kubelet-client.key"),
            format!("--proxy-client-cert-file={dir}/front-proxy-client.crt"),
            format!("--proxy-client-key-file={dir}/front-proxy-client.key"),
            format!("--requestheader-client-ca-file={dir}/front-proxy-ca.crt"),
            format!("--secure-port={port}"),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={dir}/sa.pub"),
            format!("--service-account-signing-key-file={dir}/sa.key"),
            "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
            format!("--tls-cert-file={dir}/apiserver.crt"),
            format!("--tls-private-key-file={dir}/apiserver.key"),
        ];
        argv.extend(self.bind_address.iter().map(|bind| format!("--bind-address={bind}")));
        let mut mounts =
            vec![("ca-certs", "/etc/ssl/certs", "DirectoryOrCreate"), ("k8s-certs", dir, "DirectoryOrCreate")];
        let etcd_dir =
            self.host_etcd.as_ref().and_then(|(ca, _, _)| ca.rsplit_once('/')).map(|(dir, _)| dir.to_owned());
        if let Some(dir) = &etcd_dir {
            mounts.push(("etcd-certs-0", dir, "DirectoryOrCreate"));
        }
        let probe = |path, failures| http_get(address, path, port, "HTTPS", failures);
        let probes = format!(
            "    livenessProbe:\n{}    readinessProbe:\n{}    startupProbe:\n{}",
            probe("/livez", 8),
            probe("/readyz", 3),
            probe("/livez", 24)
        );
        let annotations = format!("kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: {address}:{port}");
        pod("kube-apiserver", Some(&annotations), &argv, &probes, &mounts)
    }

    /// `kube-controller-manager.yaml`.
    pub fn kube_controller_manager(&self) -> String {
        let (dir, port) = (&self.cert_dir, self.controller_manager);
        let conf = "/etc/kubernetes/controller-manager.conf";
        let argv = [
            "kube-controller-manager".to_owned(),
            format!("--authentication-kubeconfig={conf}"),
            format!("--authorization-kubeconfig={conf}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--client-ca-file={dir}/ca.crt"),
            format!("--cluster-signing-cert-file={dir}/ca.crt"),
            format!("--cluster-signing-key-file={dir}/ca.key"),
            format!("--kubeconfig={conf}"),
            "--leader-elect=true".to_owned(),
            "--port=0".to_owned(),
            format!("--requestheader-client-ca-file={dir}/front-proxy-ca.crt"),
            format!("--root-ca-file={dir}/ca.crt"),
            format!("--secure-port={port}"),
            format!("--service-account-private-key-file={dir}/sa.key"),
            "--use-service-account-credentials=true".to_owned(),
        ];
        let mounts = [
            ("ca-certs", "/etc/ssl/certs", "DirectoryOrCreate"),
            ("k8s-certs", dir.as_str(), "DirectoryOrCreate"),
            ("kubeconfig", conf, "FileOrCreate"),
        ];
        pod("kube-controller-manager", None, &argv, &two_probes(port), &mounts)
    }

    /// `kube-scheduler.yaml`.
    pub fn kube_scheduler(&self) -> String {
        let port = self.scheduler;
        let conf = "/etc/kubernetes/scheduler.conf";
        let argv = [
            "kube-scheduler".to_owned(),
            format!("--authentication-kubeconfig={conf}"),
            format!("--authorization-kubeconfig={conf}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--kubeconfig={conf}"),
            "--leader-elect=true".to_owned(),
            "--port=0".to_owned(),
            format!("--secure-port={port}"),
        ];
        pod("kube-scheduler", None, &argv, &two_probes(port), &[("kubeconfig", conf, "FileOrCreate")])
    }

    /// `etcd.yaml`.
    pub fn etcd(&self) -> String {
        let (dir, address, port) = (format!("{}/etcd", self.cert_dir), &self.address, self.etcd);
        let metrics = self.etcd_metrics;
        let argv = [
            "etcd".to_owned(),
            format!("--advertise-client-urls=https://{address}:{port}"),
            format!("--cert-file={dir}/server.crt"),
            "--client-cert-auth=true".to_owned(),
            "--data-dir=/var/lib/etcd".to_owned(),
            format!("--initial-cluster=node1=https://{address}:2380"),
            format!("--key-file={dir}/server.key"),
            format!("--listen-client-urls=https://127.0.0.1:{port},https://{address}:{port}"),
            format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
            "--name=node1".to_owned(),
            format!("--peer-cert-file={dir}/peer.crt"),
            "--peer-client-cert-auth=true".to_owned(),
            format!("--peer-key-file={dir}/peer.key"),
            format!("--peer-trusted-ca-file={dir}/ca.crt"),
            format!("--trusted-ca-file={dir}/ca.crt"),
        ];
        let probe = |failures| http_get("127.0.0.1", "/health", metrics, "HTTP", failures);
        let probes = format!("    livenessProbe:\n{}    startupProbe:\n{}", probe(8), probe(24));
        let mounts =
            [("etcd-data", "/var/lib/etcd", "DirectoryOrCreate"), ("etcd-certs", dir.as_str(), "DirectoryOrCreate")];
        pod("etcd", None, &argv, &probes, &mounts)
    }
}

/// A pod on the node's network that kubelet starts from a file; each mount is the same path inside and outside.
pub fn pod(
    name: &str,
    annotation: Option<&str>,
    argv: &[String],
    probes: &str,
    mounts: &[(&str, &str, &str)],
) -> String {
    let annotations = annotation.map(|line| format!("  annotations:\n    {line}\n")).unwrap_or_default();
    let argv: String = argv
        .iter()
        // a colon at the end would make a mapping of it, so `--bind-address=::` is quoted, as kubeadm's writer does
        .map(|word| if word.ends_with(':') { format!("    - '{word}'\n") } else { format!("    - {word}\n") })
        .collect();
    let volume_mounts: String = mounts
        .iter()
        .map(|(volume, path, kind)| {
            let read_only =
                if *kind == "DirectoryOrCreate" && *volume == "etcd-data" { "" } else { "      readOnly: true\n" };
            format!("    - mountPath: {path}\n      name: {volume}\n{read_only}")
        })
        .collect();
    let volumes: String = mounts
        .iter()
        .map(|(volume, path, kind)| {
            format!("  - hostPath:\n      path: {path}\n      type: {kind}\n    name: {volume}\n")
        })
        .collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n{annotations}  creationTimestamp: null\n  labels:\n    component: {name}\n    \
         tier: control-plane\n  name: {name}\n  namespace: kube-system\nspec:\n  containers:\n  - command:\n{argv}    \
         image: k8s.gcr.io/{name}:v1.20.2\n    imagePullPolicy: IfNotPresent\n{probes}    name: {name}\n    resources:\n      \
         requests:\n        cpu: 100m\n    volumeMounts:\n{volume_mounts}  hostNetwork: true\n  \
         priorityClassName: system-node-critical\n  volumes:\n{volumes}status: {{}}\n"
    )
}

fn two_probes(port: u16) -> String {
    let probe = |failures| http_get("127.0.0.1", "/healthz", port, "HTTPS", failures);
    format!("    livenessProbe:\n{}    startupProbe:\n{}", probe(8), probe(24))
}

fn http_get(host: &str, path: &str, port: u16, scheme: &str, failures: u16) -> String {
    format!(
        "      failureThreshold: {failures}\n      httpGet:\n        host: {host}\n        path: {path}\n        port: {port}\n        \
         scheme: {scheme}\n      initialDelaySeconds: 10\n      periodSeconds: 10\n      timeoutSeconds: 15\n"
    )
}
