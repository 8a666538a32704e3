//! etcd on the host, as a static pod, and on other machines.

use k8s_certs_renew::inventory::{Manager, Problem};
use k8s_certs_renew::node::EtcdKind;

use super::{now, problems, problems_of};
use crate::support::pki::days;
use crate::support::tree::Tree;

#[test]
fn host_etcds_certificates_are_judged_and_never_kubeadms() {
    let tree = Tree::kubespray(now());
    tree.issue("member-node1.pem", now() - days(1));
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), [("member-node1.pem".to_owned(), vec![Problem::Expired { at: now() - days(1) }])]);
    for name in ["member-node1.pem", "admin-node1.pem", "node-node1.pem"] {
        let certificate = inventory.get(name).unwrap();
        assert_eq!(certificate.manager, Manager::Etcd);
        assert_eq!(
            certificate.path_of_key().unwrap().to_str(),
            Some(&*format!("/etc/ssl/etcd/ssl/{}-key.pem", &name[..name.len() - 4]))
        );
        assert!(certificate.renewable().is_err());
    }
    assert!(inventory.get("node-node1.pem").unwrap().required, "kube-apiserver names it");
}

#[test]
fn old_copies_and_keys_in_etcds_directory_are_passed_over() {
    let tree = Tree::kubespray(now());
    for name in ["member-node1.pem.old", "member-node1.pem.old-key.pem", "notes", "member-node1.csr"] {
        tree.write(&format!("/etc/ssl/etcd/ssl/{name}"), "");
    }
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn without_any_etcd_here_only_what_kube_apiserver_names_is_missed() {
    let tree = Tree::kubespray(now());
    std::fs::remove_dir_all(tree.on_host("/etc/ssl/etcd")).unwrap();
    let inventory = tree.inventory();
    let missing = |name: &str| (name.to_owned(), vec![Problem::Missing]);
    assert_eq!(problems(&inventory), [missing("ca.pem"), missing("node-node1.pem")]);
}

#[test]
fn the_client_certificate_for_etcd_is_found_wherever_it_is() {
    let tree = Tree::kubespray(now());
    let (ca, spec) = tree.spec("node-node1.pem", now() + days(3));
    let pair = ca.issue(&spec);
    tree.write("/opt/etcd/client.crt", &pair.cert);
    tree.write("/opt/etcd/client.key", &pair.key);
    tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace("--etcd-certfile=/etc/ssl/etcd/ssl/node-node1.pem", "--etcd-certfile=/opt/etcd/client.crt")
            .replace("--etcd-keyfile=/etc/ssl/etcd/ssl/node-node1-key.pem", "--etcd-keyfile=/opt/etcd/client.key")
    });
    let node = tree.node();
    assert_eq!((node.etcd, node.etcd_cert_dir.to_str()), (EtcdKind::External, Some("/opt/etcd")));
    let inventory = tree.inventory();
    let client = inventory.get("client.crt").unwrap();
    assert_eq!((client.manager, client.ca_name.as_deref()), (Manager::Etcd, Some("ca.pem")));
    assert_eq!(client.not_after(), Some(now() + days(3)));
    assert_eq!(problems_of(&inventory, "client.crt"), []);
}
