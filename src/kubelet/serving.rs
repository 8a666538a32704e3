//! Findings about the certificate that kubelet serves at 10250.

use std::path::Path;

use chrono::TimeDelta;

use crate::decision::moment;
use crate::evidence::Verdict;
use crate::inventory::{Certificate, Leaf, Problem};
use crate::report::check_report::Status;

use super::client::shown;
use super::finding::KubeletFinding;
use super::rotated::{Age, Link, age, link, newest, window};
use super::say::{bad, day, ok};
use super::view::View;

/// The link to the current one.
pub const CURRENT: &str = "kubelet-server-current.pem";
const ID: &str = "serving-certificate";
const WHY: &str = "kube-apiserver connects there for kubectl logs and exec, metrics-server for its figures";

/// All of them.
pub fn findings(view: &View<'_>) -> Vec<KubeletFinding> {
    let mut found = Vec::new();
    let given = view.settings.serving_pair();
    let rotates = view.settings.server(view.version).on;
    let about_of = |path: &Path| view.name_of(path);
    if let Some((path, key)) = &given {
        let certificate = view.certificate(path, key);
        if rotates {
            found.push(bad(
                Status::Warning,
                "serving-twice",
                about_of(path),
                "kubelet is given a serving certificate, and told to ask for one too",
                "which of them a client sees depends on whether it names the server: nobody can rely on either",
                "take tlsCertFile and tlsPrivateKeyFile (--tls-cert-file, --tls-private-key-file) out, or serverTLSBootstrap",
            ));
        }
        found.extend(of_given(view, &about_of(path), &certificate));
    } else if rotates {
        found.extend(rotated(view));
    } else {
        found.push(self_signed(view));
    }
    found.extend(in_use(view));
    found
}

/// Whether kube-apiserver checks what kubelet serves. Without it nobody does, but for clients that are told to.
fn is_checked(view: &View<'_>) -> bool {
    view.apiserver()
        .and_then(|apiserver| apiserver.flag("--kubelet-certificate-authority"))
        .is_some_and(|path| !path.is_empty())
}

fn of_given(view: &View<'_>, about: &str, certificate: &Certificate) -> Vec<KubeletFinding> {
    let renew =
        "whoever issued it renews it, then: systemctl restart kubelet (before 1.31 it is read at the start only)";
    let broken = certificate.problems.iter().find(|problem| problem.is_damage() || problem.is_unreadable());
    let Some(leaf) = certificate.leaf.as_ref().filter(|_| broken.is_none()) else {
        let seen = match broken {
            _ if certificate.missing => format!("'{}' is missing", certificate.path.display()),
            Some(problem) => problem.to_string(),
            None => "cannot be read".to_owned(),
        };
        let status = if seen.contains("ermission denied") { Status::Unknown } else { Status::Critical };
        return vec![bad(status, ID, about, seen, "kubelet does not start with it", renew)];
    };
    let left = leaf.not_after - view.looked.now;
    let ends = format!("is given to kubelet, and ends on {}", moment(leaf.not_after));
    let why = "nothing in Kubernetes renews a certificate that kubelet is given";
    let status = match () {
        () if left < TimeDelta::zero() && is_checked(view) => Status::Critical,
        () if left < TimeDelta::days(30) => Status::Warning,
        () => Status::Ok,
    };
    let mut found = vec![match status {
        Status::Ok => ok(ID, about, ends, why),
        _ => bad(status, ID, about, ends, why, renew),
    }];
    found.extend(names(view, about, leaf));
    found
}

/// How the request is approved by hand: what to type.
fn approve(view: &View<'_>) -> String {
    let approve = "k8s-certs-renew kubelet approve";
    match view.apiserver {
        Ok(None) => format!("on a control plane: {approve} --all-nodes --dry-run, then without --dry-run"),
        _ => format!("{approve} --dry-run, then without --dry-run"),
    }
}

fn rotated(view: &View<'_>) -> Vec<KubeletFinding> {
    let by_hand = approve(view);
    let path = view.settings.cert_dir().join(CURRENT);
    let about = if view.looked.inventory.certificates.iter().any(|one| one.path == path) {
        view.name_of(&path)
    } else {
        CURRENT.to_owned()
    };
    let none = "without it nobody gets a certificate from kubelet: kubectl logs and exec fail for this node";
    let certificate = match link(view, &path) {
        Link::Missing => {
            let seen = "kubelet has asked for a serving certificate, and has none: its request waits for somebody to approve it";
            return vec![bad(Status::Warning, ID, about, seen, none, approve(view))];
        }
        Link::Unseen(why) => {
            let seen = format!("'{}' cannot be looked at: {why}", path.display());
            return vec![bad(Status::Unknown, ID, about, seen, WHY, "look as root")];
        }
        Link::Dangling(target) => {
            let seen = format!("a link to '{}', where nothing is", target.display());
            let mend =
                format!("rm '{}' && systemctl restart kubelet: it asks for a new one; then {by_hand}", path.display());
            return vec![bad(Status::Warning, ID, about, seen, none, mend)];
        }
        Link::File(_) => {
            let mend = format!(
                "systemctl stop kubelet; mv '{0}' '{0}.old'; systemctl start kubelet: it asks for a new one; then {by_hand}",
                path.display()
            );
            let seen = "a file where kubelet's rotation needs a link";
            return vec![bad(
                Status::Warning,
                "serving-link",
                about,
                seen,
                "the next rotation fails for good: kubelet expects a symlink",
                mend,
            )];
        }
        Link::Leads(certificate) => certificate,
    };
    let broken = certificate.problems.iter().find(|problem| problem.is_damage() || problem.is_unreadable());
    let Some(leaf) = certificate.leaf.as_ref().filter(|_| broken.is_none()) else {
        let seen = broken.map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
        let status = if seen.contains("ermission denied") { Status::Unknown } else { Status::Critical };
        let mend = format!(
            "mv '{0}' '{0}.old' && systemctl restart kubelet: it asks for a new one; then {by_hand}",
            path.display()
        );
        return vec![bad(status, ID, about, seen, WHY, mend)];
    };
    let mut found = vec![of_rotated(view, &about, leaf)];
    if certificate.ca_name.is_none() && is_checked(view) {
        found.push(bad(
            Status::Critical,
            "serving-authority",
            about.clone(),
            format!("no CA of this node has signed it (its issuer is '{}')", leaf.issuer),
            "kube-apiserver has --kubelet-certificate-authority, and refuses it: kubectl logs and exec fail for this node",
            format!("see signing-files; then systemctl restart kubelet, and {by_hand}"),
        ));
    }
    if leaf.common_name != format!("system:node:{}", view.node_name) && !view.node_name.is_empty() {
        found.push(bad(
            Status::Warning,
            "serving-identity",
            about.clone(),
            format!("is of '{}'", leaf.common_name),
            format!("this node is 'system:node:{}': the next request does not fit what stands here", view.node_name),
            "if the machine was renamed: systemctl restart kubelet, and approve its new request",
        ));
    }
    found.extend(names(view, &about, leaf));
    found.extend(newer(view, &path, &about, leaf));
    found
}

fn of_rotated(view: &View<'_>, about: &str, leaf: &Leaf) -> KubeletFinding {
    let (from, to) = window(leaf);
    let ends = format!("ends on {}", moment(leaf.not_after));
    let why = "kubelet asks for the next one between 70 and 90 % of its life, and each request waits until somebody approves it";
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
            "its request waits for somebody to approve it, or was denied",
            approve(view),
        ),
        Age::NotYet => bad(
            Status::Warning,
            ID,
            about,
            format!("is not valid before {}", moment(leaf.not_before)),
            "the clock here, or of the control plane that signed it, may be wrong",
            "date; timedatectl",
        ),
        Age::Expired => bad(
            if is_checked(view) { Status::Critical } else { Status::Warning },
            ID,
            about,
            format!("expired on {}", moment(leaf.not_after)),
            WHY,
            approve(view),
        ),
    }
}

/// The certificate that kubelet made itself: only where both of its files are absent, and kept past its end (kubelet `server.go`,
/// `InitializeTLS`).
fn self_signed(view: &View<'_>) -> KubeletFinding {
    let path = view.settings.cert_dir().join("kubelet.crt");
    let key = view.settings.cert_dir().join("kubelet.key");
    let certificate = view.certificate(&path, &key);
    let about = if certificate.missing { "kubelet.crt".to_owned() } else { view.name_of(&path) };
    let anew =
        format!("rm '{}' '{}' && systemctl restart kubelet: it makes itself another", path.display(), key.display());
    let Some(leaf) = &certificate.leaf else {
        if certificate.missing {
            return ok(ID, about, "not there: kubelet makes itself one at its start", WHY);
        }
        let seen = certificate.problems.first().map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
        let denied = seen.contains("ermission denied");
        let (status, mend) =
            if denied { (Status::Unknown, "look as root".to_owned()) } else { (Status::Warning, anew) };
        return bad(status, ID, about, seen, WHY, mend);
    };
    let checked = is_checked(view);
    let own = certificate.ca_name.is_none();
    if own && checked {
        let by_hand = approve(view);
        return bad(
            Status::Critical,
            ID,
            about,
            "kubelet serves a certificate that it made itself, and kube-apiserver has --kubelet-certificate-authority",
            "no CA has signed it: kube-apiserver refuses it, and kubectl logs and exec fail for this node",
            format!(
                "set serverTLSBootstrap: true in kubelet's configuration, systemctl restart kubelet, then {by_hand}"
            ),
        );
    }
    if certificate.problems.contains(&Problem::KeyMismatch) {
        return bad(
            Status::Critical,
            ID,
            about,
            "the private key is another certificate's",
            "kubelet does not start with it",
            anew,
        );
    }
    if leaf.not_after < view.looked.now {
        return bad(
            if checked { Status::Critical } else { Status::Warning },
            ID,
            about,
            format!("expired on {}; kubelet never replaces what it made itself", moment(leaf.not_after)),
            "nobody checks it unless kube-apiserver has --kubelet-certificate-authority; a metrics-server without --kubelet-insecure-tls does",
            anew,
        );
    }
    let whose = if own { "made by kubelet itself" } else { "signed by a CA of the cluster" };
    let why =
        "kube-apiserver takes it unseen, unless it has --kubelet-certificate-authority; kubelet does not renew it";
    ok(ID, about, format!("{whose}, ends on {}", moment(leaf.not_after)), why)
}

/// Whether the names fit the node; which addresses it has is asked of the API elsewhere.
fn names(view: &View<'_>, about: &str, leaf: &Leaf) -> Option<KubeletFinding> {
    let is_address = |name: &String| name.parse::<std::net::IpAddr>().is_ok();
    let named = leaf.sans.iter().any(|name| name.eq_ignore_ascii_case(&view.node_name));
    if view.node_name.is_empty() || named || leaf.sans.iter().any(is_address) {
        return None;
    }
    Some(bad(
        if is_checked(view) { Status::Critical } else { Status::Warning },
        "serving-names",
        about,
        format!("has the names {}", shown(&leaf.sans)),
        format!("neither '{}' nor an address is among them: a client that checks refuses it", view.node_name),
        "have it issued anew with the node's name and addresses",
    ))
}

fn newer(view: &View<'_>, path: &Path, about: &str, current: &Leaf) -> Option<KubeletFinding> {
    let newest = newest(view, path, "kubelet-server-")?;
    if view.looked.node.real(&newest) == view.looked.node.real(path) {
        return None;
    }
    let other = view.certificate(&newest, &newest);
    other.leaf.as_ref().filter(|leaf| leaf.not_before > current.not_before)?;
    Some(bad(
        Status::Warning,
        "serving-newest",
        about,
        format!("'{}' beside it is newer than the one that it leads to", newest.display()),
        "the link was not moved: kubelet starts with the older one",
        format!("ln -sfn '{}' '{}' && systemctl restart kubelet", newest.display(), path.display()),
    ))
}

/// What 10250 really shows, against the file: files alone prove nothing of the process.
fn in_use(view: &View<'_>) -> Option<KubeletFinding> {
    let id = "serving-in-use";
    view.live.as_ref()?;
    // one that has none yet cannot show any: that is the file's finding
    let component = view.looked.kubelet.filter(|seen| seen.served.is_some() || !seen.expected)?;
    let reason = component.reason.split("; its client certificate").next().unwrap_or_default().to_owned();
    let expired = component.served.as_ref().filter(|served| served.not_after < view.looked.now);
    Some(match component.verdict {
        _ if component.served.is_none() => {
            bad(Status::Unknown, id, "kubelet", reason, WHY, "systemctl status kubelet; ss -tlnp | grep 10250")
        }
        Verdict::InUse => ok(id, "kubelet", reason, WHY),
        Verdict::Stale => bad(
            if expired.is_some() && is_checked(view) { Status::Critical } else { Status::Warning },
            id,
            "kubelet",
            reason,
            "the process works with something older than what is on disk, until that expires",
            "systemctl restart kubelet",
        ),
        Verdict::Unknown if component.expected => ok(id, "kubelet", reason, WHY),
        Verdict::Unknown => bad(Status::Unknown, id, "kubelet", reason, WHY, "systemctl status kubelet"),
    })
}
