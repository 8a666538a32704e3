//! Findings about the kubeconfig that kubelet starts with.

use std::path::Path;

use crate::inventory::{Certificate, Inventory, Kind, Problem};
use crate::report::check_report::Status;

use super::client::CURRENT;
use super::finding::KubeletFinding;
use super::rotated::{Age, age};
use super::say::{bad, ok};
use super::view::View;

const ID: &str = "kubelet-conf";
const WHY: &str = "kubelet reads it at its start only: what is wrong with it shows at the next one";

/// All of them.
pub fn findings(view: &View<'_>) -> Vec<KubeletFinding> {
    let path = view.kubeconfig();
    let inventory = view.looked.inventory;
    let known = inventory.certificates.iter().find(|one| one.path == path).cloned();
    let conf = known.or_else(|| {
        Inventory::read_also(view.looked.node, std::slice::from_ref(&path), view.looked.now)
            .into_iter()
            .flatten()
            .next()
    });
    let about = view.name_of(&path);
    match conf {
        Some(conf) if !conf.missing => vec![judge(view, &conf, about)],
        _ => vec![missing(view, &path, about)],
    }
}

fn missing(view: &View<'_>, path: &Path, about: String) -> KubeletFinding {
    let bootstrap = view.settings.bootstrap_kubeconfig().filter(|file| view.looked.node.root.exists(file));
    if let Some(bootstrap) = bootstrap {
        let seen = format!("'{}' is not there yet: kubelet makes it by '{}'", path.display(), bootstrap.display());
        return ok(ID, about, seen, WHY);
    }
    let seen = format!("'{}' is missing, and there is no bootstrap kubeconfig either", path.display());
    bad(Status::Critical, ID, about, seen, "kubelet does not start without one of them", view.new_client())
}

fn judge(view: &View<'_>, conf: &Certificate, about: String) -> KubeletFinding {
    let current = view.settings.cert_dir().join(CURRENT);
    let point = view.point_at_rotated();
    let rotated = view.looked.node.root.exists(&current);
    let lost = conf.problems.iter().find(|problem| problem.is_unreadable());
    if let Kind::Kubeconfig { certificate: Some(file), .. } = &conf.kind {
        let names = format!("names '{}'", file.display());
        let gone = !view.looked.node.root.exists(file);
        let volatile = file.starts_with("/var/run") || file.starts_with("/run");
        return match () {
            () if gone => {
                let why = if volatile {
                    "what is below /run is gone with each boot: kubelet does not start"
                } else {
                    "kubelet does not start"
                };
                let mend = if rotated { point } else { view.new_client() };
                bad(Status::Critical, ID, about, format!("{names}, where nothing is"), why, mend)
            }
            () if volatile => bad(
                Status::Warning,
                ID,
                about,
                names,
                "what is below /run is gone with the next boot, and kubelet does not start then",
                point,
            ),
            () if lost.is_some() => {
                let seen = lost.map(ToString::to_string).unwrap_or_default();
                bad(Status::Unknown, ID, about, seen, WHY, "look as root")
            }
            () if *file != current && view.looked.node.real(file) != view.looked.node.real(&current) => bad(
                Status::Warning,
                ID,
                about,
                format!("{names}, which is not the certificate that kubelet rotates"),
                "that one ends some day, and kubelet begins with it at each start",
                if rotated { point } else { "see rotate-certificates".to_owned() },
            ),
            () => ok(ID, about, format!("{names}, the certificate that kubelet rotates"), WHY),
        };
    }
    let Some(leaf) = &conf.leaf else {
        let seen = lost.map_or_else(|| "has no client certificate".to_owned(), ToString::to_string);
        return match lost {
            Some(Problem::BadKubeconfig(why)) if why.contains("logs in by token") => bad(
                Status::Unknown,
                ID,
                about,
                seen,
                "without a client certificate there is nothing to rotate, and nothing to judge",
                "see kubelet-conf in docs/kubelet.md",
            ),
            Some(Problem::Unreadable(why)) if why.contains("ermission denied") => {
                bad(Status::Unknown, ID, about, seen, WHY, "look as root")
            }
            _ => bad(Status::Critical, ID, about, seen, "kubelet does not start with it", view.new_client()),
        };
    };
    let ends = format!("holds a certificate of its own, which ends on {}", crate::decision::moment(leaf.not_after));
    let late = matches!(age(leaf, view.looked.now), Age::Expired);
    match (late, rotated) {
        (true, true) => bad(
            Status::Critical,
            ID,
            about,
            ends,
            "kubelet goes on with the one that it rotates, and asks for a bootstrap kubeconfig at its next start, where there is none any more",
            point,
        ),
        (true, false) => bad(Status::Critical, ID, about, ends, "kubelet cannot log in with it", view.new_client()),
        (false, true) => bad(
            Status::Warning,
            ID,
            about,
            ends,
            "rotation never writes it: once it has expired, kubelet fails at its next start, however good the rotated one is",
            point,
        ),
        (false, false) => ok(
            ID,
            about,
            format!("{ends}; let it name '{}' once kubelet has made that", current.display()),
            "kubeadm init leaves it so until kubelet has rotated for the first time",
        ),
    }
}
