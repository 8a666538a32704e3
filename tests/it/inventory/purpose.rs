//! Certificates that cannot do what they stand there for.

use k8s_certs_renew::inventory::Problem;

use super::now;
use crate::support::pki::{Spec, days};
use crate::support::tree::Tree;

fn problems_of(tree: &Tree, name: &str) -> Vec<String> {
    tree.inventory().get(name).unwrap().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn what_kubeadm_and_kubespray_make_is_made_for_its_use() {
    for tree in [Tree::kubespray(now()), Tree::kubeadm(now())] {
        assert_eq!(super::problems(&tree.inventory()), []);
    }
}

#[test]
fn a_clients_certificate_in_the_place_of_a_servers_is_told_and_the_other_way_round() {
    for (name, of) in [
        ("apiserver", "apiserver-kubelet-client"),
        ("apiserver-kubelet-client", "apiserver"),
        ("admin.conf", "apiserver"),
    ] {
        let tree = Tree::kubeadm(now());
        let (ca, spec) = tree.spec(of, now() + days(300));
        tree.put(name, &ca.issue(&spec));
        let lacks = if of == "apiserver" { "clientAuth" } else { "serverAuth" };
        let inventory = tree.inventory();
        let found = inventory.get(name).unwrap();
        assert!(found.problems.contains(&Problem::WrongUsage { lacks }), "{name}: {:?}", found.problems);
        assert!(found.is_damaged());
    }
}

#[test]
fn a_certificate_of_an_operator_for_every_use_is_well() {
    let tree = Tree::kubeadm(now());
    let (ca, mut spec) = tree.spec("apiserver", now() + days(300));
    // no extended key usages at all
    spec.server = false;
    tree.put("apiserver", &ca.issue(&spec));
    assert_eq!(problems_of(&tree, "apiserver"), [""; 0]);
    (spec.server, spec.client) = (true, true);
    tree.put("apiserver", &tree.ca.issue(&spec));
    assert_eq!(problems_of(&tree, "apiserver"), [""; 0]);
}

#[test]
fn a_server_without_names_is_told() {
    let tree = Tree::kubeadm(now());
    let spec = Spec::server("kube-apiserver", &[], now() - days(1), now() + days(300));
    tree.put("apiserver", &tree.ca.issue(&spec));
    assert!(tree.inventory().get("apiserver").unwrap().problems.contains(&Problem::NoNames));
}

#[test]
fn a_kubeconfig_of_another_component_is_worth_a_word_and_an_administrators_is_none() {
    let tree = Tree::kubeadm(now());
    for (of, told) in [("controller-manager.conf", true), ("admin.conf", false)] {
        let (ca, spec) = tree.spec(of, now() + days(300));
        tree.put("scheduler.conf", &ca.issue(&spec));
        let inventory = tree.inventory();
        let found = inventory.get("scheduler.conf").unwrap();
        let is_it = |problem: &Problem| matches!(problem, Problem::LogsInAs { user, .. } if user == "system:kube-controller-manager");
        assert_eq!(found.problems.iter().any(is_it), told, "{:?}", found.problems);
        assert!(!found.is_damaged() && !found.is_unreadable());
    }
}
