//! What can be wrong with a certificate, in words for the person who reads them.

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, Utc};

/// What is wrong with a certificate. Declared in order of gravity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Nothing is there, and it is needed.
    Missing,
    /// A link that leads nowhere.
    DanglingLink {
        /// Where it leads.
        target: PathBuf,
    },
    /// The file exists and cannot be read: why.
    Unreadable(String),
    /// The file was read and holds no certificate: why.
    NotACertificate(String),
    /// The kubeconfig does not say which certificate it logs in with: why.
    BadKubeconfig(String),
    /// There is no private key.
    KeyMissing,
    /// The private key cannot be read: why.
    KeyUnreadable(String),
    /// The private key is another certificate's.
    KeyMismatch,
    /// Its extended key usages leave out what it is for: Go's TLS refuses it (crypto/x509 `Verify` with `KeyUsages`). One without
    /// any, or with `anyExtendedKeyUsage`, is for everything.
    WrongUsage {
        /// What it is to be for: `serverAuth` or `clientAuth`.
        lacks: &'static str,
    },
    /// A server's certificate without a single name: Go's clients take none from the common name (since Go 1.15).
    NoNames,
    /// Its CA did not sign it.
    NotSignedByCa {
        /// The CA's name.
        ca: String,
    },
    /// The CA that the kubeconfig holds is not the CA on disk.
    CaMismatch {
        /// The CA's name.
        ca: String,
    },
    /// The CA that the kubeconfig holds has expired, or cannot be read: why.
    CaInKubeconfig(String),
    /// Key or signature cannot be checked here: why.
    CannotBeJudged(String),
    /// Its validity ended.
    Expired {
        /// When.
        at: DateTime<Utc>,
    },
    /// Its validity has not begun.
    NotYetValid {
        /// When it begins.
        from: DateTime<Utc>,
    },
    /// It is valid longer than its CA, so it works no longer than that.
    OutlivesCa {
        /// The CA's name.
        ca: String,
        /// When the CA's validity ends.
        ca_not_after: DateTime<Utc>,
    },
    /// The certificate that counts is not the first one in the file, which is the one that Go programs read.
    NotFirst,
    /// kubelet's current certificate is a file of its own: rotation fails, since it replaces a link (client-go `certificate_store.go`).
    NotALink,
    /// kubelet.conf holds another certificate than the one that kubelet rotates: the next start of kubelet uses the old one.
    NotTheRotated {
        /// The rotated one.
        rotated: PathBuf,
    },
    /// The kubeconfig logs in as somebody else than kubeadm makes it for (kubeadm `kubeconfig.go`, `getKubeConfigSpecsBase`), and not as an
    /// administrator: works only where roles were bound to that one.
    LogsInAs {
        /// Who it logs in as.
        user: String,
        /// Who it is for.
        usual: &'static str,
    },
    /// The kubeconfig's server is not among the names of kube-apiserver's certificate.
    ServerNotNamed {
        /// Host name or address.
        host: String,
    },
}

impl Problem {
    /// Whether the certificate could not be read or judged, and has to be (exit code 26).
    pub fn is_unreadable(&self) -> bool {
        matches!(
            self,
            Self::Missing
                | Self::DanglingLink { .. }
                | Self::Unreadable(_)
                | Self::NotACertificate(_)
                | Self::BadKubeconfig(_)
                | Self::KeyUnreadable(_)
                | Self::CannotBeJudged(_)
        )
    }

    /// Whether it was read, and does not work: torn pair, wrong CA.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::KeyMissing
                | Self::KeyMismatch
                | Self::WrongUsage { .. }
                | Self::NoNames
                | Self::NotSignedByCa { .. }
                | Self::CaMismatch { .. }
                | Self::CaInKubeconfig(_)
        )
    }

    /// Whether a renewal changes nothing about it: kubeadm copies names and usages from the old certificate.
    pub fn is_kept_by_renewal(&self) -> bool {
        matches!(self, Self::WrongUsage { .. } | Self::NoNames | Self::LogsInAs { .. })
    }

    /// Whether it follows from the date alone.
    pub fn is_date(&self) -> bool {
        matches!(self, Self::Expired { .. } | Self::NotYetValid { .. })
    }

    /// Whether the certificate works as it is, and somebody should still look at it.
    pub fn is_note(&self) -> bool {
        !self.is_unreadable() && !self.is_damage() && !self.is_date()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |at: &DateTime<Utc>| at.format("%Y-%m-%d %H:%M:%S UTC");
        match self {
            Self::Missing => f.write_str("missing"),
            Self::DanglingLink { target } => write!(f, "a link to '{}', where nothing is", target.display()),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::NotACertificate(why) => write!(f, "not a certificate: {why}"),
            Self::BadKubeconfig(why) => write!(f, "unusable kubeconfig: {why}"),
            Self::KeyMissing => f.write_str("its private key is missing"),
            Self::KeyUnreadable(why) => write!(f, "its private key cannot be read: {why}"),
            Self::KeyMismatch => f.write_str("the private key is another certificate's"),
            Self::WrongUsage { lacks } => {
                write!(f, "not made for its use: its extended key usages lack {lacks}, so the other side refuses it")
            }
            Self::NoNames => f.write_str("a server's certificate without any names (SANs), so clients refuse it"),
            Self::NotSignedByCa { ca } => write!(f, "not signed by its CA '{ca}'"),
            Self::CaMismatch { ca } => write!(f, "the CA inside is not the CA on disk, '{ca}'"),
            Self::CaInKubeconfig(why) => write!(f, "the CA inside: {why}"),
            Self::CannotBeJudged(why) => write!(f, "cannot be judged: {why}"),
            Self::Expired { at } => write!(f, "expired on {}", day(at)),
            Self::NotYetValid { from } => write!(f, "not valid before {}", day(from)),
            Self::OutlivesCa { ca, ca_not_after } => {
                write!(f, "outlives its CA '{ca}', which ends on {}", day(ca_not_after))
            }
            Self::NotFirst => {
                f.write_str("not the first certificate in its file, and the first one is what Kubernetes reads")
            }
            Self::NotALink => f.write_str("a file where kubelet's rotation needs a link; the next rotation fails"),
            Self::NotTheRotated { rotated } => write!(
                f,
                "another certificate than '{}', which kubelet rotates; kubelet starts with this one",
                rotated.display()
            ),
            Self::LogsInAs { user, usual } => {
                write!(f, "logs in as '{user}', not as '{usual}'; that works only if roles are bound to it")
            }
            Self::ServerNotNamed { host } => {
                write!(f, "its server '{host}' is not among the names in kube-apiserver's certificate")
            }
        }
    }
}
