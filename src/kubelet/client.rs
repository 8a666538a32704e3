//! Findings about the client certificate that kubelet rotates.

use std::path::Path;

use crate::decision::moment;
use crate::inventory::{Certificate, Kind, Leaf, Problem};
use crate::report::check_report::Status;

use super::finding::KubeletFinding;
use super::rotated::{Age, Link, age, link, newest, window};
use super::say::{bad, day, ok};
use super::versions::before;
use super::view::View;

/// The link to the current one, in the directory that `--cert-dir` names.
pub const CURRENT: &str = "kubelet-client-current.pem";
const ID: &str = "client-certificate";
const WHY_LINK: &str = "kubelet rotates by moving this link, and starts with what it leads to";

/// All of them.
pub fn findings(view: &View<'_>) -> Vec<KubeletFinding> {
    let path = view.settings.cert_dir().join(CURRENT);
    let about = view.name_of(&path);
    let about = if about.starts_with('/') { path.display().to_string() } else { about };
    match link(view, &path) {
        Link::Missing => vec![missing(view, &path, about)],
        Link::Unseen(why) => vec![bad(
            Status::Unknown,
            ID,
            about,
            format!("'{}' cannot be looked at: {why}", path.display()),
            WHY_LINK,
            "look as root",
        )],
        Link::Dangling(target) => {
            let mend = match newest(view, &path, "kubelet-client-").filter(|newest| is_good(view, newest)) {
                Some(newest) => {
                    format!("ln -sfn '{}' '{}' && systemctl restart kubelet", newest.display(), path.display())
                }
                None => view.new_client(),
            };
            let seen = format!("a link to '{}', where nothing is", target.display());
            vec![bad(Status::Critical, ID, about, seen, WHY_LINK, mend)]
        }
        Link::File(certificate) => {
            let aside = path.with_file_name("kubelet-client-2000-01-01-00-00-00.pem");
            let mut found = vec![bad(
                Status::Warning,
                "client-link",
                about.clone(),
                "a file where kubelet's rotation needs a link",
                "the next rotation fails for good: kubelet expects a symlink",
                format!(
                    "systemctl stop kubelet && mv '{0}' '{1}' && ln -s '{1}' '{0}' && systemctl start kubelet",
                    path.display(),
                    aside.display()
                ),
            )];
            found.extend(of_certificate(view, &about, &certificate));
            found
        }
        Link::Leads(certificate) => {
            let mut found = of_certificate(view, &about, &certificate);
            found.extend(newer(view, &path, &about, &certificate));
            found
        }
    }
}

/// Without the file kubelet logs in by what its kubeconfig holds, and makes the file with its first rotation.
fn missing(view: &View<'_>, path: &Path, about: String) -> KubeletFinding {
    let inventory = &view.looked.inventory.certificates;
    let conf = inventory.iter().find(|one| one.path == view.kubeconfig());
    let embedded = |conf: &&Certificate| matches!(conf.kind, Kind::Kubeconfig { certificate: None, .. });
    match conf.filter(embedded).and_then(|conf| conf.leaf.as_ref()) {
        Some(_) => ok(
            ID,
            about,
            format!("not there yet: kubelet logs in by what '{}' holds", view.kubeconfig().display()),
            WHY_LINK,
        ),
        None if view.live.is_none() && view.looked.node.root.exists(&bootstrap_file(view)) => ok(
            ID,
            about,
            format!("not there yet: kubelet gets its first one by '{}'", bootstrap_file(view).display()),
            WHY_LINK,
        ),
        None => {
            bad(Status::Critical, ID, about, format!("'{}' is missing", path.display()), WHY_LINK, view.new_client())
        }
    }
}

fn bootstrap_file(view: &View<'_>) -> std::path::PathBuf {
    view.settings
        .bootstrap_kubeconfig()
        .unwrap_or_else(|| view.looked.node.kubernetes_dir.join("bootstrap-kubelet.conf"))
}

fn is_good(view: &View<'_>, path: &Path) -> bool {
    let certificate = view.certificate(path, path);
    let dated =
        certificate.leaf.as_ref().is_some_and(|leaf| !matches!(age(leaf, view.looked.now), Age::Expired | Age::NotYet));
    dated && !certificate.is_damaged() && !certificate.is_unreadable()
}

fn of_certificate(view: &View<'_>, about: &str, certificate: &Certificate) -> Vec<KubeletFinding> {
    let broken = |problem: &&Problem| problem.is_damage() || problem.is_unreadable();
    let problem = certificate.problems.iter().find(broken);
    let Some(leaf) = &certificate.leaf else {
        let why = problem.map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
        let seen = format!("'{}': {why}", certificate.path.display());
        let denied = why.contains("ermission denied");
        let (status, mend) =
            if denied { (Status::Unknown, "look as root".to_owned()) } else { (Status::Critical, view.new_client()) };
        return vec![bad(status, ID, about, seen, WHY_LINK, mend)];
    };
    if let Some(problem) = problem {
        let status = if problem.is_damage() { Status::Critical } else { Status::Unknown };
        let why = "kube-apiserver refuses kubelet's login with it";
        return vec![bad(status, ID, about, problem.to_string(), why, view.new_client())];
    }
    let mut found = vec![dates(view, about, leaf)];
    found.extend(identity(view, about, leaf));
    if before(view.version, (1, 8)) && view.is_newer_than_process(&certificate.path) {
        found.push(bad(
            Status::Critical,
            "client-in-use",
            about,
            "was rotated after kubelet's start, and this version reads it at its start only",
            "kubelet goes on with the old one until that expires",
            "systemctl restart kubelet",
        ));
    }
    found
}

fn dates(view: &View<'_>, about: &str, leaf: &Leaf) -> KubeletFinding {
    let (from, to) = window(leaf);
    let ends = format!("ends on {}", moment(leaf.not_after));
    let why = "a rotating kubelet asks for the next one between 70 and 90 % of its life, at a moment that it draws at its start";
    if !view.settings.client(view.version).on && !matches!(age(leaf, view.looked.now), Age::Expired | Age::NotYet) {
        return ok(ID, about, ends, "rotation is off, so nothing replaces it: see rotate-certificates");
    }
    match age(leaf, view.looked.now) {
        Age::Young => {
            ok(ID, about, format!("{ends}; the next one is asked for between {} and {}", day(from), day(to)), why)
        }
        Age::Window => ok(ID, about, format!("{ends}; the next one is asked for by {}", day(to)), why),
        Age::Overdue => bad(
            Status::Warning,
            ID,
            about,
            format!("{ends}; the next one was to be asked for by {}", moment(to)),
            "rotation does not work, or the clock was set forward and kubelet has not noticed: it waits by the time that passes, not by the clock",
            "kubectl get csr; systemctl restart kubelet; journalctl -u kubelet -e",
        ),
        Age::NotYet => bad(
            Status::Critical,
            ID,
            about,
            format!("is not valid before {}", moment(leaf.not_before)),
            "kube-apiserver refuses it until then; the clock here, or of the control plane that signed it, may be wrong",
            "date; timedatectl",
        ),
        Age::Expired => bad(
            Status::Critical,
            ID,
            about,
            format!("expired on {}", moment(leaf.not_after)),
            "kubelet cannot ask for a new one with it, and kubeadm certs renew does not renew it",
            view.new_client(),
        ),
    }
}

/// What it must say: CN `system:node:<node>`, organisation `system:nodes` (node authorizer).
fn identity(view: &View<'_>, about: &str, leaf: &Leaf) -> Option<KubeletFinding> {
    let id = "client-identity";
    if view.node_name.is_empty() {
        return None;
    }
    let expected = format!("system:node:{}", view.node_name);
    if leaf.common_name == expected && leaf.organizations.iter().any(|one| one == "system:nodes") {
        let why = "kube-apiserver takes kubelet's name and group from it";
        return Some(ok(id, about, format!("is of {expected}, in group system:nodes"), why));
    }
    Some(bad(
        Status::Critical,
        id,
        about,
        format!("is of '{}' (O {})", leaf.common_name, shown(&leaf.organizations)),
        format!(
            "this node is {expected}, in group system:nodes: under another name it may not write its Node, nor renew its certificate"
        ),
        format!("if the machine was renamed, set --hostname-override or its old name; else {}", view.new_client()),
    ))
}

/// Names in quotes, or that there are none.
pub fn shown(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "),
    }
}

/// A newer file than the one that the link leads to: written, and the link not moved.
fn newer(view: &View<'_>, path: &Path, about: &str, current: &Certificate) -> Option<KubeletFinding> {
    let newest = newest(view, path, "kubelet-client-")?;
    let target = view.looked.node.real(path);
    if view.looked.node.real(&newest) == target {
        return None;
    }
    let other = view.certificate(&newest, &newest);
    let (one, other_leaf) = (current.leaf.as_ref()?, other.leaf.as_ref()?);
    if other_leaf.not_before <= one.not_before || !is_good(view, &newest) {
        return None;
    }
    Some(bad(
        Status::Warning,
        "client-newest",
        about,
        format!("leads to '{}', and '{}' beside it is newer", target.display(), newest.display()),
        "the link was not moved: kubelet starts with the older one",
        format!("ln -sfn '{}' '{}' && systemctl restart kubelet", newest.display(), path.display()),
    ))
}
