//! Keeps copies of admin.conf at its credential. A copy that is not ours is never touched.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::identity::{self, Credential, Unfit};
use crate::files::{Replace, Root, is_absent};
use crate::node::kubeconfig::{Kubeconfig, Source};
use crate::node::kubeconfig_edit;
use crate::node::pem;

/// How a copy of admin.conf stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyState {
    /// Nothing is there; [`write()`] makes it.
    Missing {
        /// Whether its directory is missing too.
        directory: bool,
    },
    /// It is admin.conf itself, by a symbolic or a hard link: nothing to do.
    SameFile,
    /// It holds admin.conf's credential.
    Current,
    /// It holds another credential of an admin of this cluster; [`write()`] brings it up to date.
    Outdated {
        /// Its user whose credential is outdated.
        user: String,
    },
    /// It is another cluster's, another identity's, or takes its credential from files: left alone. The reason.
    Foreign(String),
    /// It cannot be read, understood or edited safely: left alone, and somebody has to look. The reason.
    Broken(String),
    /// admin.conf itself must not be handed on: damaged, a node's credential, or with the wrong CA. The reason.
    SourceRefused(String),
}

/// What [`write()`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The copy was missing and is now admin.conf, byte for byte, 0600.
    Created,
    /// Certificate and key of this user were changed in it, and nothing else.
    Updated {
        /// The user's name in the copy.
        user: String,
    },
    /// It was admin.conf itself, or up to date.
    Unchanged,
    /// It is not ours. The reason.
    LeftAlone(String),
}

/// Why a copy was not written; it is as it was before. Ends a run with exit code 24.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot update the kubeconfig copy '{}': {reason}", copy.display())]
pub struct CopyError {
    /// The copy.
    pub copy: PathBuf,
    /// Why, and what to do.
    pub reason: String,
}

/// How the copy at `copy` stands against the admin.conf at `source`, in the cluster whose CA certificates (DER) are
/// `cluster_cas`. Changes nothing.
///
/// A copy is ours if the client certificate of one of its users is signed by one of `cluster_cas` for an admin:
/// O `system:masters` or `kubeadm:cluster-admins`, CN `kubernetes-admin` or `kubernetes-super-admin`, or the very subject
/// of admin.conf.
pub fn judge(root: &Root, source: &Path, copy: &Path, cluster_cas: &[Vec<u8>]) -> CopyState {
    match plan(root, source, copy, cluster_cas) {
        Plan::Nothing(state) => state,
        Plan::Create { directory, .. } => CopyState::Missing { directory },
        Plan::Edit { user, .. } => CopyState::Outdated { user },
    }
}

/// Brings the copy up to date: judged anew, admin.conf read afresh.
///
/// A missing copy becomes the bytes of admin.conf with mode 0600, its directory is made with 0700. In one that is there
/// only the two values of one user change; mode, owner and security label stay. A symbolic link is written through to
/// its file and stays. The old bytes are kept nowhere: that is the backup's part.
///
/// # Errors
/// [`CopyError`]: the copy is [`CopyState::Broken`], admin.conf is refused, or the file system refuses the write.
pub fn write(root: &Root, source: &Path, copy: &Path, cluster_cas: &[Vec<u8>]) -> Result<Written, CopyError> {
    let failed = |reason: String| CopyError { copy: copy.to_path_buf(), reason };
    match plan(root, source, copy, cluster_cas) {
        Plan::Create { bytes, .. } => {
            let directory = copy.parent().unwrap_or(Path::new("/"));
            root.create_dir(directory, 0o700)
                .and_then(|()| root.replace(copy, &bytes, &Replace::with_mode(0o600)))
                .map_err(|error| failed(told(&error)))?;
            Ok(Written::Created)
        }
        Plan::Edit { target, bytes, user } => {
            root.as_it_is(&target)
                .and_then(|how| root.replace(&target, &bytes, &how))
                .map_err(|error| failed(told(&error)))?;
            Ok(Written::Updated { user })
        }
        Plan::Nothing(CopyState::Foreign(reason)) => Ok(Written::LeftAlone(reason)),
        Plan::Nothing(CopyState::Broken(reason) | CopyState::SourceRefused(reason)) => Err(failed(reason)),
        Plan::Nothing(_) => Ok(Written::Unchanged),
    }
}

/// What is to be written. Not `Debug`: it holds keys.
enum Plan {
    Nothing(CopyState),
    Create { bytes: Vec<u8>, directory: bool },
    Edit { target: PathBuf, bytes: Vec<u8>, user: String },
}

fn plan(root: &Root, source: &Path, copy: &Path, cas: &[Vec<u8>]) -> Plan {
    let place = match locate(root, source, copy) {
        Ok(place) => place,
        Err(state) => return Plan::Nothing(state),
    };
    let (bytes, admin) = match read_source(root, source, cas) {
        Ok(read) => read,
        Err(reason) => {
            return Plan::Nothing(CopyState::SourceRefused(format!(
                "'{}' is not handed on: {reason}",
                source.display()
            )));
        }
    };
    match place {
        Place::Missing { directory } => Plan::Create { bytes, directory },
        Place::File(target) => plan_edit(root, target, &admin, cas).unwrap_or_else(Plan::Nothing),
    }
}

enum Place {
    Missing { directory: bool },
    File(PathBuf),
}

/// Where the copy's bytes are, links resolved.
fn locate(root: &Root, source: &Path, copy: &Path) -> Result<Place, CopyState> {
    let broken = |reason: String| Err(CopyState::Broken(reason));
    let link = match root.symlink_metadata(copy) {
        Ok(metadata) => metadata.is_symlink(),
        Err(error) if is_absent(&error) => return locate_directory(root, copy),
        Err(error) => return broken(error.to_string()),
    };
    let metadata = match root.metadata(copy) {
        Ok(metadata) => metadata,
        Err(error) if link && is_absent(&error) => {
            let to = root.read_link(copy).unwrap_or_default();
            return broken(format!("it is a link to '{}', which does not exist (remove the link)", to.display()));
        }
        Err(error) => return broken(error.to_string()),
    };
    if let Ok(source) = root.metadata(source)
        && (source.dev(), source.ino()) == (metadata.dev(), metadata.ino())
    {
        return Err(CopyState::SameFile);
    }
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "not a regular file" };
        return broken(format!("it is {what}"));
    }
    root.canonicalize(copy).map(Place::File).map_err(|error| CopyState::Broken(error.to_string()))
}

fn locate_directory(root: &Root, copy: &Path) -> Result<Place, CopyState> {
    let directory = copy.parent().unwrap_or(Path::new("/"));
    match (root.metadata(directory), root.symlink_metadata(directory)) {
        (Ok(metadata), _) if metadata.is_dir() => Ok(Place::Missing { directory: false }),
        (Err(error), Err(_)) if error.kind() == io::ErrorKind::NotFound => Ok(Place::Missing { directory: true }),
        _ => Err(CopyState::Broken(format!("'{}' is not a directory", directory.display()))),
    }
}

/// The bytes of admin.conf and its credential, or why it must not be handed on.
fn read_source(root: &Root, source: &Path, cas: &[Vec<u8>]) -> Result<(Vec<u8>, Credential), String> {
    let bytes = root.read(source).map_err(|error| error.to_string())?;
    let config = Kubeconfig::parse(&bytes, source.parent().unwrap_or(source)).map_err(|error| error.to_string())?;
    let user = config.current_user().map_err(|error| error.to_string())?;
    let admin = identity::credential(user).map_err(|unfit| match unfit {
        Unfit::NotEmbedded(reason) | Unfit::Damaged(reason) => reason,
    })?;
    if admin.subject.is_node() {
        return Err(format!("its client certificate is a node's, '{}'", admin.subject.name));
    }
    if identity::key_fits(&admin) == Some(false) {
        return Err("its client key does not match its client certificate".to_owned());
    }
    if identity::signed_by_any(&admin.leaf, cas) == Some(false) {
        return Err("its client certificate is signed by no CA of this cluster".to_owned());
    }
    let pem = match config.current_cluster().map_err(|error| error.to_string())?.ca.clone() {
        Some(Source::Data(pem)) => pem,
        Some(Source::File(path)) => root.read(&path).map_err(|error| format!("'{}': {error}", path.display()))?,
        None => return Err("it holds no 'certificate-authority-data'".to_owned()),
    };
    let held = pem::read(&pem).map_err(|error| format!("'certificate-authority-data': {error}"))?.certificates;
    if identity::signed_by_any(&admin.leaf, &held) == Some(false) {
        return Err("its 'certificate-authority-data' is not the CA that signed its client certificate \
                    (left from before a change of the CA?)"
            .to_owned());
    }
    Ok((bytes, admin))
}

fn plan_edit(root: &Root, target: PathBuf, admin: &Credential, cas: &[Vec<u8>]) -> Result<Plan, CopyState> {
    let text = root.read(&target).map_err(|error| CopyState::Broken(error.to_string()))?;
    if text.trim_ascii().is_empty() {
        return Err(CopyState::Broken("it is empty (remove it, and the next run writes it)".to_owned()));
    }
    let config = Kubeconfig::parse(&text, target.parent().unwrap_or(&target))
        .map_err(|error| CopyState::Broken(error.to_string()))?;
    let (index, ours) = find_ours(&config, admin, cas)?;
    let same_key = || match (&ours.private, &admin.private) {
        (Some(ours), Some(admin)) => ours.der == admin.der,
        _ => false,
    };
    if ours.leaf == admin.leaf && same_key() {
        return Err(CopyState::Current);
    }
    let user = config.users[index].name.clone();
    match kubeconfig_edit::with_credential(&text, index, &admin.certificate, &admin.key) {
        Ok(bytes) => Ok(Plan::Edit { target, bytes, user }),
        Err(error) => Err(CopyState::Broken(format!("user '{user}': {error}"))),
    }
}

/// The one user of the copy that is an admin of this cluster. Of several, the one named as admin.conf's user is in its
/// certificate; of several of those, the current context's.
fn find_ours(config: &Kubeconfig, admin: &Credential, cas: &[Vec<u8>]) -> Result<(usize, Credential), CopyState> {
    let mut ours = Vec::new();
    let mut others = Vec::new();
    let mut damaged = None;
    for (index, user) in config.users.iter().enumerate() {
        let name = &user.name;
        match identity::credential(user) {
            Ok(held) => match identity::signed_by_any(&held.leaf, cas) {
                Some(true) if held.subject.is_admin() || held.subject == admin.subject => ours.push((index, held)),
                Some(true) => others.push(format!("user '{name}' is '{}', no admin", held.subject.name)),
                Some(false) => others.push(format!("user '{name}' is of another cluster")),
                None => damaged = Some(format!("the signature of user '{name}' cannot be judged (its algorithm)")),
            },
            Err(Unfit::NotEmbedded(reason)) => others.push(reason),
            Err(Unfit::Damaged(reason)) => damaged = Some(reason),
        }
    }
    if ours.len() > 1 {
        let named = |(_, held): &(usize, Credential)| held.subject.name == admin.subject.name;
        if ours.iter().any(named) {
            ours.retain(named);
        }
    }
    if ours.len() > 1
        && let Ok(current) = config.current_user()
        && ours.iter().any(|(index, _)| config.users[*index].name == current.name)
    {
        ours.retain(|(index, _)| config.users[*index].name == current.name);
    }
    if ours.len() > 1 {
        let names: Vec<_> = ours.iter().map(|(index, _)| format!("'{}'", config.users[*index].name)).collect();
        return Err(CopyState::Broken(format!(
            "users {} are all admins of this cluster, and no one of them is the current context's",
            names.join(", ")
        )));
    }
    ours.pop().ok_or_else(|| match damaged {
        Some(reason) => CopyState::Broken(reason),
        None if others.is_empty() => CopyState::Foreign("it has no users".to_owned()),
        None => CopyState::Foreign(others.join(", ")),
    })
}

/// Why a write failed, with what to do about the reasons that people meet.
fn told(error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            " (a service sees its own mounts: its ReadWritePaths= must name the directory)"
        }
        io::ErrorKind::PermissionDenied => " (immutable? lsattr shows it, chattr -i undoes it)",
        _ => "",
    };
    format!("{error}{hint}")
}
