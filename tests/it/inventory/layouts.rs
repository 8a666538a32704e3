//! Which certificates belong to a node, and who cares for them.

use k8s_certs_renew::inventory::{Inventory, Manager, Problem};
use k8s_certs_renew::node::{EtcdKind, Node, Overrides};

use super::{now, problems, problems_of};
use crate::support::pki::days;
use crate::support::tree::Tree;

fn names(inventory: &Inventory) -> Vec<&str> {
    inventory.certificates.iter().map(|certificate| certificate.name.as_str()).collect()
}

#[test]
fn a_healthy_node_of_either_layout_has_no_problem() {
    for tree in [Tree::kubespray(now()), Tree::kubeadm(now())] {
        let inventory = tree.inventory();
        assert_eq!(problems(&inventory), []);
        assert_eq!(tree.node().findings, []);
        for name in tree.renewed_by_kubeadm() {
            let certificate = inventory.get(name).unwrap();
            assert_eq!(certificate.renewable(), Ok(()), "{name}");
            assert_eq!(certificate.not_after(), Some(now() + days(300)), "{name}");
        }
    }
}

#[test]
fn kubesprays_node_has_kubeadms_set_without_etcd_and_host_etcds_own() {
    let tree = Tree::kubespray(now());
    let inventory = tree.inventory();
    assert_eq!(
        names(&inventory),
        [
            "/root/.kube/config",
            "admin-node1.pem",
            "admin.conf",
            "apiserver",
            "apiserver-kubelet-client",
            "controller-manager.conf",
            "front-proxy-client",
            "kubelet-client-current.pem",
            "kubelet.conf",
            "kubelet.crt",
            "member-node1.pem",
            "node-node1.pem",
            "scheduler.conf",
            "super-admin.conf",
        ]
    );
    let authorities: Vec<_> = inventory.authorities.iter().map(|ca| (ca.name.as_str(), ca.manager)).collect();
    let kubeadm = Manager::Kubeadm;
    assert_eq!(authorities, [("ca", kubeadm), ("ca.pem", Manager::Etcd), ("front-proxy-ca", kubeadm)]);
    assert_eq!(inventory.get("node-node1.pem").unwrap().ca_name.as_deref(), Some("ca.pem"));
    assert_eq!(tree.node().etcd, EtcdKind::External);
}

#[test]
fn kubeadms_node_has_all_eleven_names_and_three_authorities() {
    let tree = Tree::kubeadm(now());
    let inventory = tree.inventory();
    let kubeadm: Vec<_> =
        inventory.certificates.iter().filter(|c| c.manager == Manager::Kubeadm).map(|c| c.name.as_str()).collect();
    assert_eq!(kubeadm, tree.renewed_by_kubeadm());
    assert_eq!(kubeadm.len(), 11);
    let authorities: Vec<_> = inventory.authorities.iter().map(|ca| ca.name.as_str()).collect();
    assert_eq!(authorities, ["ca", "etcd-ca", "front-proxy-ca"]);
    assert_eq!(inventory.get("etcd-peer").unwrap().leaf.as_ref().unwrap().usages, ["clientAuth", "serverAuth"]);
}

#[test]
fn a_missing_super_admin_conf_is_normal_and_another_missing_file_is_not() {
    let tree = Tree::kubeadm(now());
    tree.remove("/etc/kubernetes/super-admin.conf");
    tree.remove(&tree.pki("apiserver.crt"));
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), [("apiserver".to_owned(), vec![Problem::Missing])]);
    assert!(inventory.get("super-admin.conf").unwrap().missing);
    assert!(inventory.get("apiserver").unwrap().is_unreadable());
}

#[test]
fn the_directory_that_kube_apiserver_uses_is_judged_and_not_a_stale_copy() {
    let tree = Tree::kubespray(now());
    tree.remove("/etc/kubernetes/pki");
    for file in ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key"] {
        tree.write(&format!("/etc/kubernetes/pki/{file}"), tree.read(&format!("/etc/kubernetes/ssl/{file}")));
    }
    tree.issue("apiserver", now() + days(3));
    let inventory = tree.inventory();
    let apiserver = inventory.get("apiserver").unwrap();
    assert_eq!(apiserver.not_after(), Some(now() + days(3)));
    assert_eq!(apiserver.path.to_str(), Some("/etc/kubernetes/ssl/apiserver.crt"));
}

#[test]
fn mounts_lead_from_the_containers_path_to_the_nodes() {
    let tree = Tree::kubespray(now());
    tree.remove("/etc/kubernetes/pki");
    tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace("=/etc/kubernetes/ssl/", "=/etc/kubernetes/pki/")
            .replace("mountPath: /etc/kubernetes/ssl", "mountPath: /etc/kubernetes/pki")
    });
    let node = tree.node();
    assert_eq!(node.cert_dir.to_str(), Some("/etc/kubernetes/ssl"));
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn a_serving_certificate_of_the_operators_is_judged_beside_kubeadms() {
    let tree = Tree::kubeadm(now());
    let (_, spec) = tree.spec("apiserver", now() - days(1));
    let own = tree.front_proxy_ca.issue(&spec);
    tree.write("/etc/ssl/own/tls.crt", &own.cert);
    tree.write("/etc/ssl/own/tls.key", &own.key);
    tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace("--tls-cert-file=/etc/kubernetes/pki/apiserver.crt", "--tls-cert-file=/etc/ssl/own/tls.crt")
            .replace(
                "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key",
                "--tls-private-key-file=/etc/ssl/own/tls.key",
            )
    });
    assert_eq!(tree.node().cert_dir.to_str(), Some("/etc/kubernetes/pki"));
    let inventory = tree.inventory();
    let external = inventory.get("/etc/ssl/own/tls.crt").unwrap();
    assert_eq!(external.manager, Manager::External);
    assert_eq!(external.problems, [Problem::Expired { at: now() - days(1) }]);
    assert!(external.renewable().is_err() && inventory.get("apiserver").unwrap().renewable().is_ok());
}

#[test]
fn a_worker_tells_what_it_has_and_lacks_nothing() {
    let tree = Tree::kubeadm(now());
    for file in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"] {
        tree.remove(&format!("/etc/kubernetes/manifests/{file}.yaml"));
    }
    for file in ["ca.key", "apiserver.crt", "front-proxy-client.crt", "front-proxy-ca.crt", "etcd/server.crt"] {
        tree.remove(&tree.pki(file));
    }
    tree.remove("/etc/kubernetes/admin.conf");
    tree.issue("apiserver-etcd-client", now() - days(2));
    assert!(!tree.node().is_control_plane());
    let inventory = tree.inventory();
    assert!(inventory.get("apiserver").is_none() && inventory.get("admin.conf").is_none());
    assert_eq!(problems_of(&inventory, "apiserver-etcd-client"), [Problem::Expired { at: now() - days(2) }]);
}

#[test]
fn a_broken_manifest_is_a_finding_and_hides_no_certificate() {
    let tree = Tree::kubespray(now());
    tree.write("/etc/kubernetes/manifests/kube-apiserver.yaml", "spec: {containers: [\n");
    let node = tree.node();
    assert!(node.is_control_plane());
    assert_eq!(node.findings.len(), 1);
    assert!(
        node.findings[0].to_string().contains("kube-apiserver.yaml': not valid YAML at line"),
        "{:?}",
        node.findings
    );
    assert_eq!(node.cert_dir.to_str(), Some("/etc/kubernetes/ssl"));
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn overrides_win_and_links_lead_to_the_same_certificates() {
    let tree = Tree::kubespray(now());
    let overrides = Overrides { cert_dir: Some("/etc/kubernetes/pki".into()), ..Overrides::default() };
    let node = Node::look(tree.root(), &overrides);
    let inventory = Inventory::read(&node, &Default::default(), now());
    assert_eq!(problems(&inventory), []);
    assert_eq!(inventory.get("apiserver").unwrap().path.to_str(), Some("/etc/kubernetes/pki/apiserver.crt"));
    // one entry, though kube-apiserver names the file by its other path
    assert!(inventory.get("/etc/kubernetes/ssl/apiserver.crt").is_none());
}
