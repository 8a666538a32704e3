//! One certificate of the node: what it says, who cares for it, and what is wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::Problem;

/// A certificate of the node, present or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// kubeadm's own name (`apiserver`, `admin.conf`), else the file's name, else its path.
    pub name: String,
    /// The file, as the node names it, links unresolved.
    pub path: PathBuf,
    /// How certificate and key are kept.
    pub kind: Kind,
    /// Who renews it.
    pub manager: Manager,
    /// The authority that is to have signed it; for a certificate that is not kubeadm's, the one that did. None for an authority.
    pub ca_name: Option<String>,
    /// Whether the node cannot work without it.
    pub required: bool,
    /// Whether nothing is there. A file that exists and cannot be read is not missing.
    pub missing: bool,
    /// kubeadm's word: its CA's certificate is here and the CA's key is not (kubeadm `certs.UsingExternalCA`).
    pub externally_managed: bool,
    /// Why kubeadm cannot renew it on this node; None where it can.
    pub not_renewable: Option<NotRenewable>,
    /// What the certificate says; None where it could not be read.
    pub leaf: Option<Leaf>,
    /// What is wrong with it, the gravest first.
    pub problems: Vec<Problem>,
}

impl Certificate {
    /// The file that holds the private key; the certificate's own for kubeconfigs with embedded data and combined files.
    pub fn path_of_key(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Pair { key } | Kind::Authority { key } => Some(key),
            Kind::Kubeconfig { key, .. } => Some(key.as_deref().unwrap_or(&self.path)),
            Kind::Bundle => None,
        }
    }

    /// Every file that this certificate is made of: a kubeconfig and what it points to, a certificate and its key.
    pub fn files(&self) -> Vec<&Path> {
        let mut files = vec![self.path.as_path()];
        if let Kind::Kubeconfig { certificate: Some(certificate), .. } = &self.kind {
            files.push(certificate);
        }
        files.extend(self.path_of_key());
        files.dedup();
        files
    }

    /// The last moment of its validity; None where it could not be read.
    pub fn not_after(&self) -> Option<DateTime<Utc>> {
        self.leaf.as_ref().map(|leaf| leaf.not_after)
    }

    /// Whether kubeadm can renew it on this node.
    ///
    /// # Errors
    /// Why not.
    pub fn renewable(&self) -> Result<(), NotRenewable> {
        self.not_renewable.clone().map_or(Ok(()), Err)
    }

    /// Whether it must be judged and cannot be: one of its problems says that it, or its key, could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.problems.iter().any(Problem::is_unreadable)
    }

    /// Whether it is there, was read, and would not work: torn pair, wrong CA, and the like.
    pub fn is_damaged(&self) -> bool {
        self.problems.iter().any(Problem::is_damage)
    }
}

/// How a certificate and its key are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A certificate file and a key file, which may be the same one.
    Pair {
        /// The key's file.
        key: PathBuf,
    },
    /// A kubeconfig.
    Kubeconfig {
        /// The server of the judged user's cluster, such as `https://192.0.2.10:6443`.
        server: Option<String>,
        /// The client certificate's file, where it is not embedded.
        certificate: Option<PathBuf>,
        /// The key's file, where it is not embedded.
        key: Option<PathBuf>,
    },
    /// A certificate authority with its key, which may be kept elsewhere.
    Authority {
        /// Where the key is, or would be.
        key: PathBuf,
    },
    /// A certificate alone.
    Bundle,
}

/// Who renews a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manager {
    /// kubeadm: `kubeadm certs renew`.
    Kubeadm,
    /// kubelet, by rotation.
    Kubelet,
    /// Whoever set up the host's etcd: kubespray, or an operator.
    Etcd,
    /// An operator.
    External,
}

impl Manager {
    /// The word for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm",
            Self::Kubelet => "kubelet",
            Self::Etcd => "etcd",
            Self::External => "external",
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Subject, as `O=system:masters, CN=kubernetes-admin`.
    pub subject: String,
    /// Common name; empty where there is none.
    pub common_name: String,
    /// Organizations, in the certificate's order.
    pub organizations: Vec<String>,
    /// Issuer, in the subject's form.
    pub issuer: String,
    /// Subject alternative names, in the certificate's order: host names and addresses bare, others with their kind before.
    pub sans: Vec<String>,
    /// Extended key usages: `clientAuth`, `serverAuth`, else the OID.
    pub usages: Vec<String>,
    /// Serial number: lower-case hexadecimal without leading zeros.
    pub serial: String,
    /// First moment of its validity.
    pub not_before: DateTime<Utc>,
    /// Last moment of its validity.
    pub not_after: DateTime<Utc>,
    /// `RSA 2048`, `ECDSA P-256`, `Ed25519`, else the OID.
    pub key_algorithm: String,
    /// Whether it may sign others.
    pub is_ca: bool,
    /// SHA-256 of the DER bytes, lower-case hexadecimal.
    pub der_sha256: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), lower-case hexadecimal: what stays when a CA keeps its key.
    pub key_sha256: String,
}

/// What a renewal must keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Common name.
    pub common_name: String,
    /// Organizations, sorted.
    pub organizations: Vec<String>,
    /// Subject alternative names, sorted.
    pub sans: Vec<String>,
    /// Extended key usages, sorted.
    pub usages: Vec<String>,
}

impl Leaf {
    /// What kubeadm copies from the old certificate when it renews: names and usages, whatever their order (kubeadm
    /// `renewal.certToConfig`; other parts of the subject are dropped by it, so they are not compared).
    pub fn identity(&self) -> Identity {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        Identity {
            common_name: self.common_name.clone(),
            organizations: sorted(&self.organizations),
            sans: sorted(&self.sans),
            usages: sorted(&self.usages),
        }
    }
}

/// Why kubeadm cannot renew a certificate on this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRenewable {
    /// Another program or a person renews it.
    #[error("it is not kubeadm's: its manager is {0}")]
    NotKubeadm(Manager),
    /// An authority: kubeadm renews none.
    #[error("kubeadm renews no certificate authority")]
    Authority,
    /// Nothing is there; kubeadm copies the names from the old certificate.
    #[error("it is missing, and kubeadm takes the names from the old one")]
    Missing,
    /// The old certificate cannot be read; kubeadm stops there.
    #[error("the old one cannot be read, and kubeadm takes the names from it")]
    Unreadable,
    /// The CA's key is not on this node.
    #[error("the key of its CA '{ca}' is not on this node (external CA)")]
    ExternalCa {
        /// The CA's name.
        ca: String,
    },
    /// The CA cannot sign: missing, unreadable, or its key is another's.
    #[error("its CA '{ca}' cannot sign: {why}")]
    CaUnusable {
        /// The CA's name.
        ca: String,
        /// What is wrong with the CA.
        why: String,
    },
    /// A kubeconfig that names files; kubeadm renews embedded credentials only (kubeadm `renewal.readwriter`).
    #[error("the kubeconfig names files, and kubeadm renews embedded credentials only")]
    NotEmbedded,
}
