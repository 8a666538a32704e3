//! Reads certificates out of files: pairs and kubeconfigs. What is wrong with a file is noted, never an error.

use std::path::{Path, PathBuf};

use crate::files::{Root, is_absent};
use crate::node::kubeconfig::{Kubeconfig, Source, User};
use crate::node::pem::{self, Key, Pem, PemError};

use super::{Kind, Problem};

/// What the files of one certificate hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Whether nothing is there.
    pub missing: bool,
    /// The certificates, DER, in the file's order.
    pub ders: Vec<Vec<u8>>,
    /// The private keys.
    pub keys: Vec<Key>,
    /// Whether the key's file is not there.
    pub key_missing: bool,
    /// The CA that a kubeconfig holds.
    pub ca: Option<Result<Vec<Vec<u8>>, String>>,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
}

/// A certificate file and its key's; the same one where both are in it.
pub(super) fn pair(root: &Root, path: &Path, key: Option<&Path>) -> Found {
    let mut found = bundle(root, path);
    if found.missing {
        found.key_missing = key.is_none_or(|key| !root.exists(key));
        return found;
    }
    match key {
        Some(key) if key != path => {
            found.keys.clear();
            match root.read(key) {
                Ok(bytes) => match private_keys(&bytes) {
                    Ok(keys) => found.keys = keys,
                    Err(why) => found.problems.push(Problem::KeyUnreadable(why)),
                },
                Err(error) if is_absent(&error) => found.key_missing = true,
                Err(error) => found.problems.push(Problem::KeyUnreadable(error.to_string())),
            }
        }
        Some(_) => found.key_missing = found.keys.is_empty(),
        None => {}
    }
    found
}

/// A file of certificates.
fn bundle(root: &Root, path: &Path) -> Found {
    let mut found = Found::default();
    match root.read(path) {
        Ok(bytes) => match certificates(&bytes) {
            Ok(pem) => (found.ders, found.keys) = (pem.certificates, pem.keys),
            Err(why) => found.problems.push(Problem::NotACertificate(why)),
        },
        Err(error) if is_absent(&error) => match root.read_link(path) {
            Ok(target) => found.problems.push(Problem::DanglingLink { target }),
            Err(_) => found.missing = true,
        },
        Err(error) => found.problems.push(Problem::Unreadable(error.to_string())),
    }
    found
}

/// A kubeconfig, read.
#[derive(Debug)]
pub(super) struct Login {
    /// How its credential is kept.
    pub kind: Kind,
    /// What it holds.
    pub found: Found,
    /// The user's name; empty where the kubeconfig has none.
    pub user: String,
}

/// The logins of a kubeconfig: the current context's first, then the other users that have a certificate.
pub(super) fn kubeconfig(root: &Root, path: &Path) -> Vec<Login> {
    let nobody = |problem: Option<Problem>| {
        let found = Found { missing: problem.is_none(), problems: problem.into_iter().collect(), ..Found::default() };
        let kind = Kind::Kubeconfig { server: None, certificate: None, key: None };
        vec![Login { kind, found, user: String::new() }]
    };
    let bytes = match root.read(path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => {
            return nobody(root.read_link(path).ok().map(|target| Problem::DanglingLink { target }));
        }
        Err(error) => return nobody(Some(Problem::Unreadable(error.to_string()))),
    };
    let dir = path.parent().unwrap_or(Path::new("/"));
    let config = match Kubeconfig::parse(&bytes, dir) {
        Ok(config) => config,
        Err(error) => return nobody(Some(Problem::BadKubeconfig(error.to_string()))),
    };
    let current = match config.current_user() {
        Ok(user) => Some(user),
        Err(_) if config.users.iter().any(|user| user.certificate.is_some()) => None,
        Err(error) => return nobody(Some(Problem::BadKubeconfig(error.to_string()))),
    };
    let mut logins = match (current, config.current_user()) {
        (Some(user), _) => vec![login(root, &config, user)],
        (None, Err(error)) => nobody(Some(Problem::BadKubeconfig(error.to_string()))),
        (None, Ok(_)) => Vec::new(),
    };
    let others = config.users.iter().filter(|user| user.certificate.is_some() && current != Some(*user));
    logins.extend(others.map(|user| login(root, &config, user)));
    logins
}

fn login(root: &Root, config: &Kubeconfig, user: &User) -> Login {
    let mut found = Found::default();
    let file = |source: &Option<Source>| match source {
        Some(Source::File(path)) => Some(path.clone()),
        _ => None,
    };
    match &user.certificate {
        None => {
            let how =
                if user.other_login { "logs in by token, password or program" } else { "has no client certificate" };
            found.problems.push(Problem::BadKubeconfig(format!("user '{}' {how}", user.name)));
        }
        Some(source) => match load(root, source, "client-certificate").and_then(|bytes| certificates(&bytes)) {
            Ok(pem) => (found.ders, found.keys) = (pem.certificates, pem.keys),
            Err(why) => found.problems.push(match source {
                Source::Data(_) => {
                    Problem::NotACertificate(format!("client-certificate-data of '{}': {why}", user.name))
                }
                Source::File(_) => Problem::Unreadable(why),
            }),
        },
    }
    let same_file = user.key.is_some() && user.key == user.certificate;
    match &user.key {
        Some(_) if same_file => found.key_missing = found.keys.is_empty() && !found.ders.is_empty(),
        Some(source) => {
            found.keys.clear();
            match load(root, source, "client-key").and_then(|bytes| private_keys(&bytes)) {
                Ok(keys) => found.keys = keys,
                Err(why) => found.problems.push(Problem::KeyUnreadable(why)),
            }
        }
        None => found.key_missing = user.certificate.is_some(),
    }
    // a cluster of a context of this user; the current one where it is the current user
    let current = config.current_user().is_ok_and(|current| current == user);
    let cluster = match config.current_cluster() {
        Ok(cluster) if current => Some(cluster),
        _ => config
            .contexts
            .iter()
            .find(|context| context.user == user.name)
            .and_then(|context| config.clusters.iter().find(|cluster| cluster.name == context.cluster)),
    };
    found.ca = cluster.and_then(|cluster| cluster.ca.as_ref()).map(|source| {
        load(root, source, "certificate-authority").and_then(|bytes| certificates(&bytes)).map(|pem| pem.certificates)
    });
    let kind = Kind::Kubeconfig {
        server: cluster.and_then(|cluster| cluster.server.clone()),
        certificate: file(&user.certificate),
        key: file(&user.key),
    };
    Login { kind, found, user: user.name.clone() }
}

fn load(root: &Root, source: &Source, field: &str) -> Result<Vec<u8>, String> {
    match source {
        Source::Data(bytes) => Ok(bytes.clone()),
        Source::File(path) => root.read(path).map_err(|error| format!("{field} '{}': {error}", path.display())),
    }
}

fn certificates(bytes: &[u8]) -> Result<Pem, String> {
    let pem = pem::read(bytes).map_err(|error: PemError| error.to_string())?;
    if !pem.certificates.is_empty() {
        return Ok(pem);
    }
    let trusted = b"BEGIN TRUSTED CERTIFICATE";
    Err(if bytes.windows(trusted.len()).any(|window| window == trusted) {
        "a 'TRUSTED CERTIFICATE' block, which Kubernetes does not read (openssl x509 -in FILE -out FILE converts)"
    } else {
        "no 'CERTIFICATE' block in it"
    }
    .to_owned())
}

fn private_keys(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let pem = pem::read(bytes).map_err(|error| error.to_string())?;
    if pem.keys.is_empty() {
        return Err("no private key in it, or an encrypted one, which Kubernetes does not read".to_owned());
    }
    Ok(pem.keys)
}

/// Where a key is kept beside its certificate: `x.crt` and `x.key`, `x.pem` and `x-key.pem`.
pub(super) fn key_beside(path: &Path) -> PathBuf {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("pem") => path.with_file_name(format!("{stem}-key.pem")),
        _ => path.with_extension("key"),
    }
}
