//! Reading certificates: a whole node, and many files.

use std::path::PathBuf;

use divan::Bencher;
use divan::counter::ItemsCount;
use k8s_certs_renew::inventory::{Extra, Inventory};
use k8s_certs_renew::node::{Node, Overrides};

use crate::support::pki::{Algorithm, at, days};
use crate::support::tree::{Layout, Plan, Tree};

pub fn plan(algorithm: Algorithm) -> Plan {
    let mut plan = Plan::new(Layout::Kubeadm, at("2026-03-02T03:00:00Z"));
    plan.algorithm = algorithm;
    plan
}

/// Layout, manifests and the certificates of a kubeadm node: 11 of kubeadm's, 3 of kubelet's, 3 CAs.
#[divan::bench(args = [Algorithm::Rsa(1), Algorithm::P256])]
fn whole_node(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    let tree = plan(algorithm).build();
    let root = tree.root();
    bencher.bench(|| {
        let node = Node::look(root.clone(), &Overrides::default());
        Inventory::read(&node, &Extra::default(), tree.plan.now)
    });
}

/// So many certificates with their keys, all of one CA: the time grows linearly.
#[divan::bench(args = [1_000, 10_000], sample_count = 5, sample_size = 1)]
fn many_rsa(bencher: Bencher<'_, '_>, number: usize) {
    many(bencher, Algorithm::Rsa(1), number);
}

/// As above, with ECDSA P-256.
#[divan::bench(args = [1_000, 10_000], sample_count = 5, sample_size = 1)]
fn many_p256(bencher: Bencher<'_, '_>, number: usize) {
    many(bencher, Algorithm::P256, number);
}

fn many(bencher: Bencher<'_, '_>, algorithm: Algorithm, number: usize) {
    let tree = plan(algorithm).build();
    let paths = files(&tree, number);
    let node = tree.node();
    bencher
        .counter(ItemsCount::new(number))
        .bench(|| Inventory::read_files(&node, divan::black_box(&paths), tree.plan.now));
}

/// Files of their own, since a node's certificates are; the contents are a hundred pairs over and over.
pub fn files(tree: &Tree, number: usize) -> Vec<PathBuf> {
    let (ca, spec) = tree.spec("apiserver", tree.plan.now + days(300));
    let pairs: Vec<_> = (0..100).map(|_| ca.issue(&spec)).collect();
    (0..number)
        .map(|index| {
            let pair = &pairs[index % pairs.len()];
            let path = format!("/srv/certs/{}/{index}", index / 1_000);
            tree.write(&format!("{path}.crt"), &pair.cert);
            tree.write(&format!("{path}.key"), &pair.key);
            PathBuf::from(format!("{path}.crt"))
        })
        .collect()
}
