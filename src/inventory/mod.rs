//! What certificates the node has on disk, and what is wrong with them. Facts only: what is due is decided elsewhere.

mod also;
pub mod certificate;
mod judge;
pub mod keys;
pub mod problem;
mod purpose;
mod read;
mod relations;
mod scan;
pub mod signature;
mod trust;
pub mod x509;

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::node::Node;
use judge::Issuers;
use read::Found;

pub use certificate::{Certificate, Identity, Kind, Leaf, Manager, NotRenewable};
pub use problem::Problem;
pub use scan::kubeadm_files;
pub use trust::{Trust, trust};

/// What to look at beside what the node's own layout names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// Copies of admin.conf, such as `/root/.kube/config`.
    pub kubeconfig_copies: Vec<PathBuf>,
}

/// Every certificate of the node, each list sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Leaves and kubeconfigs.
    pub certificates: Vec<Certificate>,
    /// Certificate authorities ([`Kind::Authority`]).
    pub authorities: Vec<Certificate>,
}

/// Fewer files than this are not worth a thread of their own.
const SHARE: usize = 64;

impl Inventory {
    /// Reads every certificate of the node and judges it as of `now`. Never fails: what is wrong with a file stands at its
    /// certificate, and the others are read all the same.
    pub fn read(node: &Node, extra: &Extra, now: DateTime<Utc>) -> Self {
        let (mut authorities, files) = read_authorities(node, now);
        let issuers = issuers(&authorities, &files);
        let mut leaves = scan::leaves(node);
        let ours = |found: &Found| judge::is_signed_by(found, &issuers, "ca");
        leaves.extend(extra.kubeconfig_copies.iter().map(|path| scan::copy(node, path, ours)));
        let mut certificates = judge_all(leaves, &issuers, now);
        drop(issuers);
        relations::note(&mut certificates, &authorities, node);
        by_name(&mut certificates);
        by_name(&mut authorities);
        Self { certificates, authorities }
    }

    /// Reads further certificate files of the node, in the order given, and judges them as of `now` by its authorities; the
    /// name is the path. The cost grows linearly with their number.
    pub fn read_files(node: &Node, paths: &[PathBuf], now: DateTime<Utc>) -> Vec<Certificate> {
        let (authorities, files) = read_authorities(node, now);
        let issuers = issuers(&authorities, &files);
        in_threads(paths, |path| judge_all([scan::other(node, path)], &issuers, now)).concat()
    }

    /// Likewise for one certificate whose key's file is known; it may be the same file.
    pub fn read_pair(node: &Node, path: &Path, key: &Path, now: DateTime<Utc>) -> Certificate {
        let (authorities, files) = read_authorities(node, now);
        let issuers = issuers(&authorities, &files);
        let (mut certificate, found) = scan::named(node, path, key);
        judge::judge(&mut certificate, &found, Some(&issuers), now);
        certificate
    }

    /// Likewise for files of which nothing is known but that somebody named them: certificates, bundles, kubeconfigs. Each in
    /// the order given, with every certificate that it holds; none where it is a directory, or holds no certificate.
    pub fn read_also(node: &Node, paths: &[PathBuf], now: DateTime<Utc>) -> Vec<Vec<Certificate>> {
        let (authorities, files) = read_authorities(node, now);
        let issuers = issuers(&authorities, &files);
        in_threads(paths, |path| also::read(node, path, &issuers, now))
    }

    /// The certificate of this name.
    pub fn get(&self, name: &str) -> Option<&Certificate> {
        find(&self.certificates, name)
    }

    /// The authority of this name.
    pub fn authority(&self, name: &str) -> Option<&Certificate> {
        find(&self.authorities, name)
    }

    /// The authority that signed, or is to sign, this certificate.
    pub fn authority_of(&self, certificate: &Certificate) -> Option<&Certificate> {
        self.authority(certificate.ca_name.as_deref()?)
    }
}

/// Reads each path, on as many threads as there are processors: checking signatures is what takes the time.
fn in_threads<T: Send>(paths: &[PathBuf], read: impl Fn(&PathBuf) -> T + Sync) -> Vec<T> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = paths.len().div_ceil(workers).max(SHARE);
    let read = &read;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            paths.chunks(share).map(|paths| scope.spawn(move || paths.iter().map(read).collect::<Vec<T>>())).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<T>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    })
}

fn read_authorities(node: &Node, now: DateTime<Utc>) -> (Vec<Certificate>, Vec<Vec<Vec<u8>>>) {
    scan::authorities(node)
        .into_iter()
        .map(|(mut certificate, found)| {
            judge::judge(&mut certificate, &found, None, now);
            certificate.not_renewable = Some(NotRenewable::Authority);
            (certificate, found.ders)
        })
        .unzip()
}

fn issuers<'a>(authorities: &'a [Certificate], files: &'a [Vec<Vec<u8>>]) -> Issuers<'a> {
    let mut issuers = Issuers::default();
    for (authority, ders) in authorities.iter().zip(files) {
        issuers.add(&authority.name, ders);
    }
    issuers
}

fn judge_all(
    entries: impl IntoIterator<Item = scan::Entry>,
    issuers: &Issuers<'_>,
    now: DateTime<Utc>,
) -> Vec<Certificate> {
    entries
        .into_iter()
        .map(|(mut certificate, found)| {
            judge::judge(&mut certificate, &found, Some(issuers), now);
            certificate
        })
        .collect()
}

fn by_name(certificates: &mut [Certificate]) {
    certificates.sort_by(|a, b| a.name.cmp(&b.name));
}

fn find<'a>(sorted: &'a [Certificate], name: &str) -> Option<&'a Certificate> {
    sorted.iter().find(|certificate| certificate.name == name)
}
