//! The node's layout and its static pods.

use std::path::Path;

use k8s_certs_renew::node::{Probe, halves};

use crate::support::manifests::pod;
use crate::support::pki::at;
use crate::support::tree::{Layout, Plan, Tree};

fn tree() -> Tree {
    Tree::kubespray(at("2026-03-02T03:00:00Z"))
}

/// The components that read a file, by name.
fn readers(tree: &Tree, file: &str) -> Vec<String> {
    let node = tree.node();
    let files = halves(&node, &[Path::new(file)]);
    node.static_pods().iter().filter(|pod| pod.reading(&node).reads(&files)).map(|pod| pod.component.clone()).collect()
}

#[test]
fn each_credential_is_read_by_who_names_it() {
    let tree = Tree::kubeadm(at("2026-03-02T03:00:00Z"));
    let cases = [
        ("/etc/kubernetes/pki/apiserver.crt", vec!["kube-apiserver"]),
        ("/etc/kubernetes/pki/apiserver.key", vec!["kube-apiserver"]),
        ("/etc/kubernetes/pki/apiserver-etcd-client.crt", vec!["kube-apiserver"]),
        ("/etc/kubernetes/pki/apiserver-kubelet-client.crt", vec!["kube-apiserver"]),
        ("/etc/kubernetes/pki/front-proxy-client.crt", vec!["kube-apiserver"]),
        ("/etc/kubernetes/pki/etcd/server.crt", vec!["etcd"]),
        ("/etc/kubernetes/pki/etcd/peer.key", vec!["etcd"]),
        ("/etc/kubernetes/pki/etcd/healthcheck-client.crt", vec![]),
        ("/etc/kubernetes/controller-manager.conf", vec!["kube-controller-manager"]),
        ("/etc/kubernetes/scheduler.conf", vec!["kube-scheduler"]),
        ("/etc/kubernetes/admin.conf", vec![]),
    ];
    for (file, expected) in cases {
        assert_eq!(readers(&tree, file), expected, "{file}");
    }
}

#[test]
fn files_are_the_same_by_whatever_link_they_are_named() {
    let tree = tree();
    for dir in ["ssl", "pki"] {
        assert_eq!(readers(&tree, &format!("/etc/kubernetes/{dir}/apiserver.crt")), ["kube-apiserver"]);
    }
    assert_eq!(readers(&tree, "/etc/ssl/etcd/ssl/node-node1-key.pem"), ["kube-apiserver"]);
    assert_eq!(readers(&tree, "/etc/ssl/etcd/ssl/member-node1.pem"), [""; 0]);
}

#[test]
fn another_pod_reads_what_it_mounts_and_what_its_variables_name() {
    let tree = tree();
    let manifest = "/etc/kubernetes/manifests/kube-vip.yaml";
    let vip = |path: &str| {
        pod("kube-vip", None, &["/kube-vip".into(), "manager".into()], "", &[("kubeconfig", path, "FileOrCreate")])
    };
    tree.write(manifest, vip("/etc/kubernetes/admin.conf"));
    assert_eq!(readers(&tree, "/etc/kubernetes/admin.conf"), ["kube-vip"]);
    assert_eq!(readers(&tree, "/etc/kubernetes/scheduler.conf"), ["kube-scheduler"]);
    tree.write(manifest, vip("/etc/kubernetes/pki"));
    assert_eq!(readers(&tree, "/etc/kubernetes/ssl/front-proxy-client.crt"), ["kube-apiserver", "kube-vip"]);
    tree.write(
        manifest,
        vip("/srv").replace(
            "    image:",
            "    env:\n    - name: KUBECONFIG\n      value: /etc/kubernetes/admin.conf\n    image:",
        ),
    );
    assert_eq!(readers(&tree, "/etc/kubernetes/admin.conf"), ["kube-vip"]);
    tree.write(manifest, vip("/etc/nginx"));
    assert_eq!(readers(&tree, "/etc/kubernetes/admin.conf"), [""; 0]);
}

#[test]
fn health_is_asked_where_the_manifest_says() {
    let tree = Tree::kubeadm(at("2026-03-02T03:00:00Z"));
    let probe = |https, host: Option<&str>, port, path: &str| {
        Some(Probe { https, host: host.map(str::to_owned), port, path: path.to_owned() })
    };
    let health = |component: &str| tree.node().manifest(component).unwrap().health();
    assert_eq!(health("kube-apiserver"), probe(true, Some("192.0.2.10"), 6443, "/livez"));
    assert_eq!(health("kube-controller-manager"), probe(true, Some("127.0.0.1"), 10257, "/healthz"));
    assert_eq!(health("kube-scheduler"), probe(true, Some("127.0.0.1"), 10259, "/healthz"));
    assert_eq!(health("etcd"), probe(false, Some("127.0.0.1"), 2381, "/health"));

    let named = "    ports:\n    - {containerPort: 2399, name: probe-port}\n    name: etcd\n";
    tree.edit("/etc/kubernetes/manifests/etcd.yaml", |text| {
        text.replace("port: 2381", "port: probe-port").replacen("    name: etcd\n", named, 1)
    });
    assert_eq!(health("etcd"), probe(false, Some("127.0.0.1"), 2399, "/health"));

    for (component, expected) in [
        ("kube-apiserver", probe(true, None, 6443, "/livez")),
        ("kube-controller-manager", probe(true, Some("127.0.0.1"), 10257, "/healthz")),
        ("kube-scheduler", probe(true, Some("127.0.0.1"), 10259, "/healthz")),
    ] {
        tree.edit(&format!("/etc/kubernetes/manifests/{component}.yaml"), |text| text.replace("httpGet", "exec"));
        assert_eq!(health(component), expected, "{component}, from its flags");
    }
}

#[test]
fn kube_apiserver_is_looked_for_where_it_is_bound() {
    for (bind, expected) in [
        (None, vec!["127.0.0.1:7443"]),
        (Some("192.0.2.10"), vec!["192.0.2.10:7443"]),
        (Some("::"), vec!["127.0.0.1:7443", "[::1]:7443", "192.0.2.10:7443"]),
    ] {
        let mut plan = Plan::new(Layout::Kubespray, at("2026-03-02T03:00:00Z"));
        plan.shape.bind_address = bind.map(str::to_owned);
        plan.shape.apiserver = 7443;
        let serving = plan.build().node().manifest("kube-apiserver").unwrap().serving();
        assert_eq!(serving.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{bind:?}");
    }
}

#[test]
fn what_kubelet_would_read_beside_the_pods_is_found() {
    let tree = tree();
    let dir = "/etc/kubernetes/manifests";
    tree.write(&format!("{dir}/.kube-apiserver.yaml.swp"), "b0VIM");
    tree.write(&format!("{dir}/sub/x.yaml"), "not looked at");
    assert_eq!(tree.node().findings, []);
    tree.write(&format!("{dir}/kube-apiserver.yaml~"), tree.read(&format!("{dir}/kube-apiserver.yaml")));
    tree.write(&format!("{dir}/a.yaml"), "kind: Service\n");
    tree.write(&format!("{dir}/b.txt"), "");
    tree.write(&format!("{dir}/c.yaml"), "kind: Pod\nmetadata: {name: c}\nspec: {}\n");
    let node = tree.node();
    let findings: Vec<_> = node.findings.iter().map(ToString::to_string).collect();
    let expected = [
        "no pod (kind 'Service')",
        "the file is empty",
        "'spec.containers' is missing",
        "a second pod named 'kube-apiserver'",
    ];
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, expected) in findings.iter().zip(expected) {
        assert!(finding.contains(expected), "{finding}");
    }
    assert_eq!(node.manifest("kube-apiserver").unwrap().path, Path::new(dir).join("kube-apiserver.yaml"));
}

#[test]
fn a_json_manifest_is_a_pod_too() {
    let tree = tree();
    tree.write(
        "/etc/kubernetes/manifests/x.json",
        r#"{"kind":"Pod","metadata":{"name":"x"},"spec":{"hostNetwork":true,"containers":[{"name":"x","image":"i","args":["--a",5]}]}}"#,
    );
    let node = tree.node();
    let pod = node.manifest("x").unwrap();
    assert_eq!((pod.namespace.as_str(), pod.host_network, pod.flag("--a")), ("default", true, Some("5")));
}

#[test]
fn a_static_pod_is_named_after_the_node() {
    let tree = tree();
    let node = tree.node();
    assert_eq!(node.node_name(None), "node1");
    tree.write("/etc/hostname", "Node1.Example.COM\n");
    assert_eq!(node.node_name(None), "node1.example.com");
    let name = node.node_name(Some("Master-A"));
    assert_eq!(node.manifest("kube-scheduler").unwrap().pod_name(&name), "kube-scheduler-master-a");
}

#[test]
fn an_unreadable_directory_of_manifests_is_a_finding() {
    let tree = tree();
    std::fs::remove_dir_all(tree.on_host("/etc/kubernetes/manifests")).unwrap();
    assert!(tree.node().findings.is_empty() && !tree.node().is_control_plane());
    tree.link("manifests", "/etc/kubernetes/manifests");
    assert_eq!(tree.node().findings.len(), 1);
    assert_eq!(tree.node().cert_dir, Path::new("/etc/kubernetes/ssl"));
}
