//! What to do about each thing that can be wrong with a certificate.

use crate::inventory::{Manager, Problem};

/// What to do, where more is to be done than to renew it.
pub fn advice(problem: &Problem, manager: Manager) -> Option<&'static str> {
    of_others(problem, manager).or_else(|| of_any(problem))
}

/// What is not kubeadm's. The backups of a run hold what kubeadm may write, and nothing else.
fn of_others(problem: &Problem, manager: Manager) -> Option<&'static str> {
    Some(match (problem, manager) {
        (_, Manager::Kubeadm) => return None,
        (
            Problem::Missing
            | Problem::NotACertificate(_)
            | Problem::BadKubeconfig(_)
            | Problem::KeyMissing
            | Problem::KeyUnreadable(_)
            | Problem::KeyMismatch
            | Problem::NotSignedByCa { .. },
            Manager::Kubelet,
        ) => "k8s-certs-renew kubelet check says what to type",
        (Problem::Missing, _) => "whoever put it there has to put it back: it is in no backup of the job's",
        (Problem::NotACertificate(_) | Problem::BadKubeconfig(_), _) => {
            "whoever wrote it has to write it anew: it is in no backup of the job's"
        }
        (Problem::KeyMissing | Problem::KeyUnreadable(_) | Problem::KeyMismatch, _) => {
            "whoever issued them has to put certificate and key there together: they are in no backup of the job's"
        }
        (Problem::NotSignedByCa { .. }, _) => "have it issued anew, or put the CA back that signed it",
        _ => return None,
    })
}

fn of_any(problem: &Problem) -> Option<&'static str> {
    Some(match problem {
        Problem::Missing => {
            "restore it from a backup (/var/lib/k8s-certs-renew/backups), or have it made anew (kubeadm init phase certs, kubeadm init phase kubeconfig)"
        }
        Problem::DanglingLink { .. } => "put back what the link leads to",
        Problem::Unreadable(why) if why.contains("ermission denied") => "look as root",
        Problem::Unreadable(_) => "put the file back in its place",
        Problem::NotACertificate(_) | Problem::BadKubeconfig(_) => {
            "restore it from a backup (/var/lib/k8s-certs-renew/backups)"
        }
        Problem::KeyMissing | Problem::KeyUnreadable(_) | Problem::KeyMismatch => {
            "restore certificate and key together from a backup, or renew both"
        }
        Problem::WrongUsage { .. } | Problem::NoNames => {
            "for that move it and its key away (kubeadm init phase certs makes it)"
        }
        Problem::LogsInAs { .. } => {
            "if a kubeconfig of another component stands here, put the right one back from a backup, or move it away and have it made anew (kubeadm init phase kubeconfig)"
        }
        Problem::NotSignedByCa { .. } => "renew it, or put the CA back that signed it",
        Problem::CaMismatch { .. } | Problem::CaInKubeconfig(_) => {
            "whoever uses it refuses kube-apiserver's certificate: put ca.crt into its certificate-authority-data"
        }
        Problem::NotFirst => "put it first in the file",
        Problem::NotALink => {
            "stop kubelet, move the file to kubelet-client-2000-01-01-00-00-00.pem beside it, put a link to that in its place, start kubelet"
        }
        Problem::NotTheRotated { .. } => {
            "let client-certificate and client-key in kubelet.conf name that file, then: systemctl restart kubelet"
        }
        Problem::ServerNotNamed { .. } => {
            "if that is an old address, set the right one in it; else add it to kube-apiserver's certificate (certSANs in kubeadm's configuration)"
        }
        Problem::CannotBeJudged(_)
        | Problem::Expired { .. }
        | Problem::NotYetValid { .. }
        | Problem::OutlivesCa { .. } => return None,
    })
}
