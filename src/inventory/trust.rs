//! Which authorities are trusted, and where: all that stand in an authority's file, and those inside kubeconfigs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::{Node, pem};

use super::{Certificate, Inventory, Kind, Leaf, x509};

/// The authorities that one file makes its reader trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Name of the certificate or kubeconfig whose file it is.
    pub holder: String,
    /// The file.
    pub path: PathBuf,
    /// What the authority certificates in it say, in the file's order.
    pub authorities: Vec<Leaf>,
}

/// What the authorities' files of a node hold, and then its kubeconfigs and further ones. A file that cannot be read is left out:
/// that stands at its certificate.
pub fn trust<'a>(
    node: &Node,
    inventory: &'a Inventory,
    also: impl IntoIterator<Item = &'a Certificate>,
) -> (Vec<Trust>, Vec<Trust>) {
    let of = |certificate: &Certificate, authorities| Trust {
        holder: certificate.name.clone(),
        path: certificate.path.clone(),
        authorities,
    };
    let files = inventory.authorities.iter().filter(|authority| authority.leaf.is_some());
    let files = files.map(|authority| of(authority, leaves(&node.root.read(&authority.path).unwrap_or_default())));
    let mut seen = BTreeSet::new();
    let kubeconfigs = inventory.certificates.iter().chain(also).filter(|certificate| {
        matches!(certificate.kind, Kind::Kubeconfig { .. }) && !certificate.missing && seen.insert(&certificate.path)
    });
    let kubeconfigs = kubeconfigs.map(|certificate| of(certificate, inside(node, &certificate.path)));
    (files.collect(), kubeconfigs.collect())
}

/// The authorities of every cluster in a kubeconfig, each once.
fn inside(node: &Node, path: &Path) -> Vec<Leaf> {
    let text = node.root.read(path).unwrap_or_default();
    let Ok(config) = Kubeconfig::parse(&text, path.parent().unwrap_or(Path::new("/"))) else { return Vec::new() };
    let mut all: Vec<Leaf> = Vec::new();
    for source in config.clusters.iter().filter_map(|cluster| cluster.ca.as_ref()) {
        let found = match source {
            Source::Data(bytes) => leaves(bytes),
            Source::File(path) => leaves(&node.root.read(path).unwrap_or_default()),
        };
        all.extend(
            found
                .into_iter()
                .filter(|leaf| all.iter().all(|known| known.der_sha256 != leaf.der_sha256))
                .collect::<Vec<_>>(),
        );
    }
    all
}

fn leaves(bytes: &[u8]) -> Vec<Leaf> {
    let Ok(pem) = pem::read(bytes) else { return Vec::new() };
    pem.certificates.iter().filter_map(|der| x509::leaf(&x509::certificate(der).ok()?).ok()).collect()
}
