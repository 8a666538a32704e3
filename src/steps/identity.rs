//! Who a kubeconfig's user is: an admin of this cluster, someone else, or not to be told.

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::inventory::keys::belongs;
use crate::inventory::signature::{Signature, verify};
use crate::node::kubeconfig::{Source, User};
use crate::node::pem::{self, Key};

/// Groups and names that kubeadm gives its admins: `system:masters` up to 1.28 and in super-admin.conf,
/// `kubeadm:cluster-admins` in admin.conf from 1.29 (kubeadm `constants.go`).
const ADMIN_GROUPS: [&str; 2] = ["system:masters", "kubeadm:cluster-admins"];
const ADMIN_NAMES: [&str; 2] = ["kubernetes-admin", "kubernetes-super-admin"];
/// The group and the name's beginning of a node (Kubernetes' node authorizer).
const NODE_GROUP: &str = "system:nodes";
const NODE_NAME: &str = "system:node:";

/// A credential embedded in a kubeconfig. Not `Debug`: it holds the key.
pub(super) struct Credential {
    /// The certificate's PEM, as embedded.
    pub certificate: Vec<u8>,
    /// The key's PEM, as embedded.
    pub key: Vec<u8>,
    /// The leaf, DER.
    pub leaf: Vec<u8>,
    /// The key, DER, and its format; `None` where the PEM holds none or is damaged.
    pub private: Option<Key>,
    /// The subject.
    pub subject: Subject,
}

/// Common name and organizations of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub name: String,
    pub groups: Vec<String>,
}

impl Subject {
    /// Whether kubeadm makes admins of this name or group.
    pub fn is_admin(&self) -> bool {
        !self.is_node()
            && (self.groups.iter().any(|group| ADMIN_GROUPS.contains(&group.as_str()))
                || ADMIN_NAMES.contains(&self.name.as_str()))
    }

    /// Whether it is a kubelet's.
    pub fn is_node(&self) -> bool {
        self.groups.iter().any(|group| group == NODE_GROUP) || self.name.starts_with(NODE_NAME)
    }
}

/// Why a user's credential cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is another kind of login, or in files: not this program's to change.
    NotEmbedded(String),
    /// It is damaged.
    Damaged(String),
}

/// The credential that a user has embedded.
pub(super) fn credential(user: &User) -> Result<Credential, Unfit> {
    let name = &user.name;
    let in_file = |what, path: &std::path::Path| {
        Unfit::NotEmbedded(format!("user '{name}' takes its {what} from the file '{}'", path.display()))
    };
    let certificate = match &user.certificate {
        Some(Source::Data(pem)) => pem.clone(),
        Some(Source::File(path)) => return Err(in_file("certificate", path)),
        None => return Err(Unfit::NotEmbedded(format!("user '{name}' has no client certificate"))),
    };
    let key = match &user.key {
        Some(Source::Data(pem)) => pem.clone(),
        Some(Source::File(path)) => return Err(in_file("key", path)),
        None => return Err(Unfit::Damaged(format!("user '{name}' has a client certificate and no key"))),
    };
    let damaged = |why: String| Unfit::Damaged(format!("client certificate of user '{name}': {why}"));
    let leaf = pem::read(&certificate)
        .map_err(|error| damaged(error.to_string()))?
        .certificates
        .into_iter()
        .next()
        .ok_or_else(|| damaged("no certificate in it".to_owned()))?;
    let subject = subject(&leaf).ok_or_else(|| damaged("not an X.509 certificate".to_owned()))?;
    let private = pem::read(&key).ok().and_then(|pem| pem.keys.into_iter().next());
    Ok(Credential { certificate, key, leaf, private, subject })
}

/// Whether one of the CA certificates (DER) signed the leaf (DER). `None`: the algorithm cannot be judged here.
///
/// kubeadm's CA signs its leaves itself, so intermediates are not looked for.
pub(super) fn signed_by_any(leaf: &[u8], cas: &[Vec<u8>]) -> Option<bool> {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Some(false) };
    let mut unjudged = false;
    for ca in cas {
        let Ok((_, ca)) = X509Certificate::from_der(ca) else { continue };
        if ca.subject().as_raw() != leaf.issuer().as_raw() {
            continue;
        }
        match verify(&leaf, &ca) {
            Signature::Good => return Some(true),
            Signature::Bad => {}
            Signature::Unsupported(_) => unjudged = true,
        }
    }
    if unjudged { None } else { Some(false) }
}

/// Whether the key belongs to the certificate. `None`: the algorithm cannot be judged here.
pub(super) fn key_fits(credential: &Credential) -> Option<bool> {
    let Some(key) = &credential.private else { return Some(false) };
    let (_, leaf) = X509Certificate::from_der(&credential.leaf).ok()?;
    belongs(key, leaf.public_key()).ok()
}

fn subject(der: &[u8]) -> Option<Subject> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().ok().map(str::to_owned);
    Some(Subject {
        name: subject.iter_common_name().next().and_then(text).unwrap_or_default(),
        groups: subject.iter_organization().filter_map(text).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::Subject;

    fn subject(name: &str, groups: &[&str]) -> Subject {
        Subject { name: name.to_owned(), groups: groups.iter().map(|&group| group.to_owned()).collect() }
    }

    #[test]
    fn admins_of_every_kubeadm_are_known_and_a_node_is_never_one() {
        assert!(subject("kubernetes-admin", &["system:masters"]).is_admin());
        assert!(subject("kubernetes-admin", &["kubeadm:cluster-admins"]).is_admin());
        assert!(subject("kubernetes-super-admin", &[]).is_admin());
        assert!(subject("me", &["x", "system:masters"]).is_admin());
        assert!(!subject("me", &["system:master"]).is_admin());
        assert!(!subject("system:node:n1", &["system:nodes", "system:masters"]).is_admin());
        assert!(!subject("system:kube-scheduler", &[]).is_admin());
    }
}
