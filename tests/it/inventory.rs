//! The inventory of whole nodes.

mod authorities;
mod damage;
mod etcd;
mod files;
mod kubeconfigs;
mod kubelet;
mod layouts;
mod purpose;

use chrono::{DateTime, Utc};
use k8s_certs_renew::inventory::{Inventory, Problem};

use crate::support::pki::at;

/// The present of these tests.
fn now() -> DateTime<Utc> {
    at("2026-03-02T03:00:00Z")
}

/// Names and problems of everything that has one.
fn problems(inventory: &Inventory) -> Vec<(String, Vec<Problem>)> {
    inventory
        .authorities
        .iter()
        .chain(&inventory.certificates)
        .filter(|certificate| !certificate.problems.is_empty())
        .map(|certificate| (certificate.name.clone(), certificate.problems.clone()))
        .collect()
}

/// The problems of one certificate.
fn problems_of(inventory: &Inventory, name: &str) -> Vec<Problem> {
    inventory.get(name).or(inventory.authority(name)).unwrap_or_else(|| panic!("no {name}")).problems.clone()
}
