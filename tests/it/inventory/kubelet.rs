//! kubelet's certificates, which kubeadm does not renew.

use k8s_certs_renew::inventory::{Manager, Problem};

use super::{now, problems, problems_of};
use crate::support::pki::days;
use crate::support::tree::{Layout, Plan, Tree};

const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
const CONF: &str = "/etc/kubernetes/kubelet.conf";

#[test]
fn an_expired_kubelet_client_is_seen_though_all_of_kubeadms_are_fine() {
    let tree = Plan::new(Layout::Kubespray, now()).ends("kubelet-client-current.pem", now() - days(1)).build();
    let inventory = tree.inventory();
    let expired = |name: &str| (name.to_owned(), vec![Problem::Expired { at: now() - days(1) }]);
    assert_eq!(problems(&inventory), [expired("kubelet-client-current.pem"), expired("kubelet.conf")]);
    let client = inventory.get("kubelet-client-current.pem").unwrap();
    assert_eq!(client.manager, Manager::Kubelet);
    assert!(client.renewable().is_err());
}

#[test]
fn kubelet_conf_with_a_certificate_of_its_own_is_noted_once_the_rotated_one_differs() {
    let tree = Tree::kubeadm(now());
    let own = tree.issue("kubelet.conf", now() + days(10));
    let note = Problem::NotTheRotated { rotated: CURRENT.into() };
    assert_eq!(problems(&tree.inventory()), [("kubelet.conf".to_owned(), vec![note])]);
    tree.put("kubelet-client-current.pem", &own);
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn a_path_in_kubelet_conf_that_is_gone_is_named() {
    let tree = Tree::kubeadm(now());
    tree.write(CONF, tree.kubelet_conf("/var/run/kubernetes/kubelet-client.pem"));
    let found = problems_of(&tree.inventory(), "kubelet.conf");
    assert!(found[0].to_string().contains("'/var/run/kubernetes/kubelet-client.pem'"), "{found:?}");
}

#[test]
fn the_rotated_certificate_as_file_dangling_or_missing_has_a_message_each() {
    let tree = Tree::kubeadm(now());
    let pem = tree.read(CURRENT);
    let of = |tree: &Tree| problems_of(&tree.inventory(), "kubelet-client-current.pem");
    tree.link("/var/lib/kubelet/pki/gone.pem", CURRENT);
    assert_eq!(of(&tree), [Problem::DanglingLink { target: "/var/lib/kubelet/pki/gone.pem".into() }]);
    tree.remove(CURRENT);
    assert_eq!(of(&tree), [Problem::Missing]);
    tree.write(CURRENT, pem);
    assert_eq!(of(&tree), [Problem::NotALink]);
}

#[test]
fn the_serving_certificate_is_the_rotated_one_or_kubelets_own() {
    let tree = Tree::kubeadm(now());
    assert!(tree.inventory().get("kubelet.crt").is_some());
    let (ca, spec) = tree.spec("kubelet.crt", now() + days(300));
    let pair = ca.issue(&spec);
    tree.write("/var/lib/kubelet/pki/kubelet-server-2026.pem", format!("{}{}", pair.cert, pair.key));
    tree.link("/var/lib/kubelet/pki/kubelet-server-2026.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem");
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), []);
    assert!(inventory.get("kubelet.crt").is_none());
    assert_eq!(inventory.get("kubelet-server-current.pem").unwrap().ca_name.as_deref(), Some("ca"));
}
