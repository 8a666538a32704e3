//! Authorities: external, replaced, ending first, of algorithms that cannot be checked here.

use k8s_certs_renew::inventory::{NotRenewable, Problem};

use super::{now, problems, problems_of};
use crate::support::pki::{Algorithm, Ca, days};
use crate::support::tree::{Layout, Plan, Tree};

#[test]
fn without_its_key_an_authority_is_external_and_its_leaves_cannot_be_renewed() {
    for (key, ca, theirs) in [
        ("ca.key", "ca", "apiserver"),
        ("front-proxy-ca.key", "front-proxy-ca", "front-proxy-client"),
        ("etcd/ca.key", "etcd-ca", "etcd-peer"),
    ] {
        let tree = Tree::kubeadm(now());
        tree.remove(&tree.pki(key));
        let inventory = tree.inventory();
        assert_eq!(problems(&inventory), [], "an external CA is no fault");
        for certificate in inventory.certificates.iter().filter(|c| c.ca_name.as_deref() == Some(ca)) {
            let kubeadm = tree.renewed_by_kubeadm().contains(&certificate.name.as_str());
            assert_eq!(certificate.externally_managed, kubeadm, "{}", certificate.name);
        }
        assert_eq!(inventory.get(theirs).unwrap().renewable(), Err(NotRenewable::ExternalCa { ca: ca.to_owned() }));
        let others = inventory.certificates.iter().filter(|c| c.ca_name.as_deref() != Some(ca));
        assert!(others.into_iter().any(|c| c.renewable().is_ok()), "the other CAs' leaves can be renewed");
        assert!(inventory.authority(ca).unwrap().externally_managed);
    }
}

#[test]
fn a_replaced_ca_of_the_same_name_is_noticed_at_every_leaf() {
    for algorithm in [Algorithm::P256, Algorithm::P384, Algorithm::Rsa(1), Algorithm::Ed25519] {
        let tree = Tree::kubeadm(now());
        let other = Ca::new("kubernetes", algorithm, now() - days(1), now() + days(900));
        tree.write(&tree.pki("ca.crt"), &other.pair.cert);
        tree.write(&tree.pki("ca.key"), &other.pair.key);
        let inventory = tree.inventory();
        let ca = || "ca".to_owned();
        for name in ["apiserver", "apiserver-kubelet-client", "kubelet-client-current.pem"] {
            assert_eq!(problems_of(&inventory, name), [Problem::NotSignedByCa { ca: ca() }], "{algorithm:?} {name}");
        }
        let admin = problems_of(&inventory, "admin.conf");
        assert_eq!(admin, [Problem::NotSignedByCa { ca: ca() }, Problem::CaMismatch { ca: ca() }]);
        assert_eq!(problems_of(&inventory, "front-proxy-client"), []);
    }
}

#[test]
fn a_bundle_of_old_and_new_ca_is_read_in_either_order() {
    let tree = Tree::kubeadm(now());
    let old = Ca::new("kubernetes", Algorithm::P256, now() - days(900), now() + days(10));
    for bundle in [format!("{}{}", tree.ca.pair.cert, old.pair.cert), format!("{}{}", old.pair.cert, tree.ca.pair.cert)]
    {
        tree.write(&tree.pki("ca.crt"), bundle);
        let inventory = tree.inventory();
        assert_eq!(problems(&inventory), []);
        // the one that belongs to ca.key signs, wherever it stands
        assert_eq!(inventory.authority("ca").unwrap().not_after(), Some(tree.plan.authorities_end));
        // what the old one signed is still good
        let (_, spec) = tree.spec("apiserver", now() + days(5));
        tree.put("apiserver", &old.issue(&spec));
        assert_eq!(problems(&tree.inventory()), []);
    }
}

#[test]
fn a_leaf_that_ends_after_its_ca_says_when_the_ca_ends() {
    let mut plan = Plan::new(Layout::Kubeadm, now());
    plan.authorities_end = now() + days(20);
    let tree = plan.build();
    let inventory = tree.inventory();
    let expected = Problem::OutlivesCa { ca: "ca".into(), ca_not_after: now() + days(20) };
    assert_eq!(problems_of(&inventory, "apiserver"), [expected]);
    assert!(problems_of(&inventory, "apiserver")[0].is_note());
    assert_eq!(
        inventory.authority_of(inventory.get("apiserver").unwrap()).unwrap().not_after(),
        Some(now() + days(20))
    );
}

#[test]
fn an_authority_that_is_gone_or_damaged_is_told_once_and_blocks_renewal() {
    let tree = Tree::kubeadm(now());
    let usual = tree.read(&tree.pki("ca.crt"));
    for (contents, problem) in [(Some(""), "empty"), (None, "missing")] {
        match contents {
            Some(text) => tree.write(&tree.pki("ca.crt"), text),
            None => tree.remove(&tree.pki("ca.crt")),
        }
        let inventory = tree.inventory();
        let all = problems(&inventory);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].0 == "ca" && all[0].1[0].to_string().contains(problem), "{all:?}");
        assert!(matches!(inventory.get("apiserver").unwrap().renewable(), Err(NotRenewable::CaUnusable { .. })));
        assert_eq!(inventory.get("front-proxy-client").unwrap().renewable(), Ok(()));
    }
    tree.write(&tree.pki("ca.crt"), usual);
    tree.write(&tree.pki("ca.key"), &tree.etcd_ca.pair.key);
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), [("ca".to_owned(), vec![Problem::KeyMismatch])]);
    assert!(inventory.get("apiserver").unwrap().renewable().unwrap_err().to_string().contains("cannot sign"));
}

#[test]
fn what_cannot_be_checked_here_is_not_called_wrong() {
    let cases = [
        (
            include_str!("../../data/p521-ca.crt"),
            include_str!("../../data/p521.crt"),
            include_str!("../../data/p521.key"),
        ),
        (
            include_str!("../../data/pss-ca.crt"),
            include_str!("../../data/pss.crt"),
            include_str!("../../data/rsa-2048-2.key"),
        ),
        (
            include_str!("../../data/rsa-1024-ca.crt"),
            include_str!("../../data/rsa-1024.crt"),
            include_str!("../../data/rsa-2048-2.key"),
        ),
    ];
    for (ca, cert, key) in cases {
        let tree = Tree::kubeadm(now());
        tree.write(&tree.pki("ca.crt"), ca);
        tree.remove(&tree.pki("ca.key"));
        // clients' certificates
        tree.write(&tree.pki("apiserver-kubelet-client.crt"), cert);
        tree.write(&tree.pki("apiserver-kubelet-client.key"), key);
        let inventory = tree.inventory();
        let client = inventory.get("apiserver-kubelet-client").unwrap();
        // these were made later than the present of the test
        let problems: Vec<_> = client.problems.iter().filter(|problem| !problem.is_date()).collect();
        assert!(
            !problems.is_empty() && problems.iter().all(|p| matches!(p, Problem::CannotBeJudged(_))),
            "{problems:?}"
        );
        assert!(client.is_unreadable() && !client.is_damaged());
        assert_eq!(client.leaf.as_ref().unwrap().common_name, "kube-apiserver");
    }
}
