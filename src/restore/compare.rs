//! A backup against what is on disk: what would change, and what makes it unfit to be put back.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use chrono::{DateTime, Utc};

use crate::decision::Item;
use crate::exit::{Exit, Failure, OrExit};
use crate::files::{Root, is_absent};
use crate::inventory::{Inventory, Manager, Problem, kubeadm_files};
use crate::node::{EtcdKind, Node, Overrides};
use crate::report::{Change, Difference, Standing};
use crate::run::ca_key_hashes;
use crate::run::look::inventory;
use crate::steps::backup::{Backup, Saved};

/// What putting a backup back would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    pub backup: Backup,
    /// What differs: kubeadm's own, then the copies.
    pub changes: Vec<Change>,
    /// Names of what does not.
    pub unchanged: Vec<String>,
    /// Copies that are not put back.
    pub left_alone: Vec<Item>,
}

/// Whether a backup is of the cluster whose CAs have these key hashes, by name.
pub(super) fn cluster(backup: &Backup, here: &BTreeMap<String, String>) -> Standing {
    let of = &backup.about().ca_key_hashes;
    let known: Vec<_> = of.iter().filter_map(|(name, hash)| Some((name, hash, here.get(name)?))).collect();
    let others: Vec<String> =
        known.iter().filter(|(_, hash, here)| hash != here).map(|(name, ..)| format!("'{name}'")).collect();
    let id = backup.id();
    if !others.is_empty() {
        let (are, keys) = if others.len() == 1 { ("has", "another key") } else { ("have", "other keys") };
        Standing::OtherCluster(format!(
            "backup '{id}' is of another cluster: {} {are} {keys} there than on this node",
            others.join(", ")
        ))
    } else if known.is_empty() {
        let names: Vec<&str> = of.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "it names none".to_owned() } else { names.join(", ") };
        Standing::NotTold(format!(
            "cannot tell whether backup '{id}' is of this cluster: none of its CAs ({names}) can be read on this node; put the CA's certificate back first"
        ))
    } else {
        Standing::Good
    }
}

/// Compares a backup, whose hashes are sound, with the node. Changes nothing.
///
/// # Errors
/// 78: it is of another cluster, holds a file that no run backs up on this node, twice the same, or a certificate that would
/// not work; or a path has become a link or something else that is not to be replaced. 74: a file cannot be looked at.
pub(super) fn compare(
    node: &Node,
    copies: &[PathBuf],
    backup: Backup,
    now: DateTime<Utc>,
) -> Result<Comparison, Failure> {
    let on_disk = inventory(node, copies, now);
    if let Some(why) = cluster(&backup, &ca_key_hashes(&on_disk)).why() {
        return Err(refused(&format!("{why}; nothing was changed")));
    }
    let groups = group(node, &on_disk, copies, &backup)?;
    let in_backup = inventory_of(node, copies, &backup, now)?;
    let mut comparison = Comparison { backup, changes: Vec::new(), unchanged: Vec::new(), left_alone: Vec::new() };
    let id = comparison.backup.id().to_owned();
    for Group { name, is_copy, files } in groups {
        if let Some(why) = files.iter().find_map(|saved| turned_into_link(&node.root, saved)) {
            if !is_copy {
                return Err(refused(&format!("'{name}' cannot be put back from backup '{id}': {why}")));
            }
            comparison.left_alone.push(Item { name, reason: why });
            continue;
        }
        let mut difference = None;
        for saved in &files {
            difference = worst(difference, differs(&node.root, &comparison.backup, saved)?);
        }
        let Some(difference) = difference else {
            comparison.unchanged.push(name);
            continue;
        };
        if !is_copy && let Some(why) = halved(node, &name, &files).or_else(|| broken(&in_backup, &name)) {
            return Err(refused(&format!("backup '{id}' would break '{name}': {why}; use another one")));
        }
        let leaf = |of: &Inventory| of.get(&name)?.leaf.clone();
        let (on_disk, in_backup) = (leaf(&on_disk), leaf(&in_backup));
        let files = files.into_iter().map(|saved| saved.path).collect();
        comparison.changes.push(Change { name, files, is_copy, difference, on_disk, in_backup });
    }
    comparison.changes.sort_by_key(|change| change.is_copy);
    Ok(comparison)
}

fn refused(why: &str) -> Failure {
    Failure::new(Exit::Config, anyhow!("{why}"))
}

/// The saved files of one certificate.
struct Group {
    name: String,
    is_copy: bool,
    files: Vec<Saved>,
}

/// The files of the backup by the certificate that they belong to. Each has to be one that a run backs up on this node:
/// what an edited index says is written by root.
fn group(node: &Node, on_disk: &Inventory, copies: &[PathBuf], backup: &Backup) -> Result<Vec<Group>, Failure> {
    let mut places: BTreeMap<PathBuf, (String, bool)> = BTreeMap::new();
    for (name, files) in kubeadm_files(node) {
        places.extend(files.into_iter().map(|file| (file, (name.to_owned(), false))));
    }
    // a kubeconfig can keep certificate and key in files of their own
    for certificate in on_disk.certificates.iter().filter(|certificate| certificate.manager == Manager::Kubeadm) {
        for file in certificate.files() {
            places.entry(file.to_path_buf()).or_insert_with(|| (certificate.name.clone(), false));
        }
    }
    for copy in copies {
        places.entry(copy.clone()).or_insert_with(|| (copy.display().to_string(), true));
    }
    let mut groups: BTreeMap<(bool, String), Vec<Saved>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for saved in backup.files() {
        let shown = saved.path.display();
        let id = backup.id();
        let Some((name, is_copy)) = places.get(&saved.path) else {
            return Err(refused(&format!(
                "backup '{id}' holds '{shown}', which no run backs up on this node; nothing was changed (--kubernetes-dir, --cert-dir and --kubeconfig-copy have to be those of the run that made it)"
            )));
        };
        if !seen.insert(&saved.path) {
            return Err(refused(&format!("backup '{id}' is damaged: it holds '{shown}' twice; use an older one")));
        }
        groups.entry((*is_copy, name.clone())).or_default().push(saved.clone());
    }
    Ok(groups.into_iter().map(|((is_copy, name), files)| Group { name, is_copy, files }).collect())
}

/// The certificates in a backup, read as those of a node are: it has the same directories.
fn inventory_of(node: &Node, copies: &[PathBuf], backup: &Backup, now: DateTime<Utc>) -> Result<Inventory, Failure> {
    let cannot = |error: std::io::Error| anyhow!("cannot read backup '{}': {error}", backup.id());
    let dir = node.root.canonicalize(backup.dir()).map_err(cannot).or_exit(Exit::State)?;
    let root = Root::new(&node.root.on_host(&dir)).map_err(cannot).or_exit(Exit::State)?;
    let overrides = Overrides {
        kubernetes_dir: node.kubernetes_dir.clone(),
        cert_dir: Some(node.cert_dir.clone()),
        etcd_cert_dir: Some(node.etcd_cert_dir.clone()),
    };
    let holds = |path: &&PathBuf| backup.files().iter().any(|saved| saved.path == **path);
    let copies: Vec<PathBuf> = copies.iter().filter(holds).cloned().collect();
    let mut held = Node::look(root, &overrides);
    if node.etcd == EtcdKind::Stacked {
        // a backup has no manifests that would say so
        held.etcd = EtcdKind::Stacked;
    }
    Ok(inventory(&held, &copies, now))
}

/// Why this path would be written through a link that was not there when the backup was made, or led elsewhere.
fn turned_into_link(root: &Root, saved: &Saved) -> Option<String> {
    let now = root.read_link(&saved.path).ok()?;
    (saved.link.as_ref() != Some(&now)).then(|| {
        format!(
            "'{}' is a link to '{}' now, and was none when the backup was made, or led elsewhere",
            saved.path.display(),
            now.display()
        )
    })
}

/// What differs between disk and backup, if anything.
fn differs(root: &Root, backup: &Backup, saved: &Saved) -> Result<Option<Difference>, Failure> {
    let shown = saved.path.display();
    let metadata = match root.metadata(&saved.path) {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => {
            return Err(refused(&format!("'{shown}' is no regular file; move it away first, nothing was changed")));
        }
        Err(error) if is_absent(&error) => return Ok(Some(Difference::Content)),
        Err(error) => return Err(Failure::new(Exit::State, anyhow!("cannot look at '{shown}': {error}"))),
    };
    let saved_bytes = backup.bytes_of(root, saved).or_exit(Exit::Config)?;
    // what cannot be read, being huge, is not what was saved
    if root.read(&saved.path).ok().as_ref() != Some(&saved_bytes) {
        return Ok(Some(Difference::Content));
    }
    let how = (metadata.mode() & 0o777, metadata.uid(), metadata.gid());
    Ok((how != (saved.mode, saved.uid, saved.gid)).then_some(Difference::Mode))
}

fn worst(one: Option<Difference>, other: Option<Difference>) -> Option<Difference> {
    if one == Some(Difference::Content) { one } else { other.or(one) }
}

/// Which half of a pair is not in the backup, if one is not: the other would come to stand beside a stranger.
fn halved(node: &Node, name: &str, files: &[Saved]) -> Option<String> {
    let (_, all) = kubeadm_files(node).into_iter().find(|(of, _)| *of == name)?;
    let half = all.iter().find(|file| files.iter().all(|saved| saved.path != **file))?;
    Some(format!("'{}' is not in it", half.display()))
}

/// Why a certificate of the backup would not work, whatever its dates: a run that was called to mend it has saved it so.
fn broken(in_backup: &Inventory, name: &str) -> Option<String> {
    let Some(certificate) = in_backup.get(name) else { return Some("it cannot be read there".to_owned()) };
    let torn = |problem: &&Problem| {
        matches!(problem, Problem::KeyMissing | Problem::KeyUnreadable(_) | Problem::KeyMismatch)
            || (certificate.leaf.is_none() && problem.is_unreadable())
    };
    certificate.problems.iter().find(torn).map(|problem| format!("there, {problem}"))
}

/// The directories that the files lie in, links resolved.
pub(super) fn directories(root: &Root, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let real = |file: &PathBuf| root.canonicalize(file).unwrap_or_else(|_| file.clone());
    files.iter().map(real).filter_map(|file| file.parent().map(Path::to_path_buf)).collect()
}
