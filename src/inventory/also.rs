//! Files of which nothing is known but that somebody named them.

use std::path::Path;

use chrono::{DateTime, Utc};

use crate::node::{Node, pem};

use super::judge::{Issuers, judge};
use super::read::{self, Found};
use super::scan::{blank, of_login, other};
use super::{Certificate, Kind, Manager, x509};

/// Every certificate of a file, judged: the one that counts first. None where it is a directory, or holds no certificate.
pub(super) fn read(node: &Node, path: &Path, issuers: &Issuers<'_>, now: DateTime<Utc>) -> Vec<Certificate> {
    let (mut first, found) = other(node, path);
    if found.ders.is_empty() && !found.missing {
        match what(node, path) {
            What::Kubeconfig => return kubeconfig(node, path, issuers, now),
            What::NoCertificate => return Vec::new(),
            What::Certificate => {}
        }
    }
    first.required = true;
    judge(&mut first, &found, Some(issuers), now);
    let rest = beside(&first, &found, issuers, now);
    [vec![first], rest].concat()
}

enum What {
    Certificate,
    Kubeconfig,
    NoCertificate,
}

/// What a file is in which no certificate was found. One that is damaged, empty or cannot be read may well be meant for one.
fn what(node: &Node, path: &Path) -> What {
    let Ok(bytes) = node.root.read(path) else {
        let is_dir = node.root.metadata(path).is_ok_and(|metadata| metadata.is_dir());
        return if is_dir { What::NoCertificate } else { What::Certificate };
    };
    let names_users = String::from_utf8_lossy(&bytes).lines().any(|line| line.trim_start().starts_with("users:"));
    match pem::read(&bytes) {
        Ok(_) if names_users => What::Kubeconfig,
        Ok(_) => What::NoCertificate,
        Err(_) => What::Certificate,
    }
}

fn kubeconfig(node: &Node, path: &Path, issuers: &Issuers<'_>, now: DateTime<Utc>) -> Vec<Certificate> {
    let name = path.to_string_lossy();
    let logins = read::kubeconfig(&node.root, path).into_iter().enumerate();
    logins
        .map(|(index, login)| {
            let (mut certificate, found) = of_login(&name, path, login, index, Manager::External);
            certificate.required = true;
            judge(&mut certificate, &found, Some(issuers), now);
            certificate
        })
        .collect()
}

/// The other certificates of a file: the rest of a chain, or of a bundle.
fn beside(first: &Certificate, found: &Found, issuers: &Issuers<'_>, now: DateTime<Utc>) -> Vec<Certificate> {
    let Some(leaf) = first.leaf.as_ref().filter(|_| found.ders.len() > 1) else { return Vec::new() };
    let others = found.ders.iter().filter(|der| x509::sha256(der) != leaf.der_sha256);
    others
        .enumerate()
        .map(|(index, der)| {
            let name = format!("{} ({})", first.name, index + 2);
            let mut certificate = blank(&name, &first.path, Kind::Bundle, first.manager);
            let found = Found { ders: vec![der.clone()], ..Found::default() };
            judge(&mut certificate, &found, Some(issuers), now);
            certificate
        })
        .collect()
}
