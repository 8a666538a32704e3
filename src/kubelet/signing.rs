//! Findings about kube-controller-manager, which approves and signs what kubelets ask for.

use std::path::PathBuf;

use chrono::TimeDelta;

use crate::decision::moment;
use crate::inventory::{Certificate, Leaf, x509};
use crate::node::pem;
use crate::report::check_report::Status;
use crate::report::words;

use super::finding::KubeletFinding;
use super::go_duration;
use super::program::Program;
use super::say::{bad, ok};
use super::versions::{before, from};
use super::view::View;

const NAME: &str = "kube-controller-manager";
const FILES: &str = "signing-files";
const DURATION: &str = "signing-duration";

/// How long a node may be off and come back is a tenth to a third of this; below two days a night may be too long.
const SHORT: TimeDelta = TimeDelta::hours(48);
/// What it issues where nothing else is said (every version so far).
const USUAL: TimeDelta = TimeDelta::hours(8760);

/// Which files sign requests of a kubelet for its client certificate; each later one counts where the one before is not given
/// (1.19 and later have one pair a signer).
const PAIRS: [(&str, &str); 2] = [
    ("--cluster-signing-kubelet-client-cert-file", "--cluster-signing-kubelet-client-key-file"),
    ("--cluster-signing-cert-file", "--cluster-signing-key-file"),
];

/// About the pair that it signs with.
pub fn files(view: &View<'_>, manager: &Program<'_>) -> Vec<KubeletFinding> {
    let why = "with it kube-controller-manager signs what kubelets ask for; a request that is approved and not signed stays without a certificate";
    let given = |(cert, key): &(&'static str, &'static str)| {
        Some((manager.path(cert)?, manager.path(key).unwrap_or_default(), *cert))
    };
    let Some((path, key, flag)) = PAIRS.iter().find_map(given) else {
        let external = view.looked.inventory.authority("ca").is_some_and(|ca| ca.externally_managed);
        let mend = format!(
            "set --cluster-signing-cert-file and --cluster-signing-key-file in {} to the cluster's CA and its key; {}",
            manager.place,
            manager.restart()
        );
        let seen = "is given no CA to sign with (--cluster-signing-cert-file)";
        let mend = if external {
            "with an external CA, somebody else has to sign kubelets' requests".to_owned()
        } else {
            mend
        };
        let status = if external { Status::Warning } else { Status::Critical };
        return vec![bad(status, FILES, NAME, seen, why, mend)];
    };
    let pair = view.certificate(&path, &key);
    let broken = pair.problems.iter().find(|problem| problem.is_damage() || problem.is_unreadable());
    let mend = format!(
        "put the cluster's CA and its key where {flag} in {} says, or correct the flags; {}",
        manager.place,
        manager.restart()
    );
    let seen = match (&pair.leaf, broken) {
        _ if pair.missing => Some(format!("'{}' is missing ({flag})", path.display())),
        _ if key.as_os_str().is_empty() => Some(format!("is given no key for '{}' ({flag})", path.display())),
        // an authority without its key is an external one to the inventory, and no fault
        _ if !view.looked.node.root.exists(&key) => Some(format!("its private key '{}' is missing", key.display())),
        (_, Some(problem)) => Some(format!("'{}' ({flag}): {problem}", path.display())),
        (None, None) => Some(format!("'{}' ({flag}) cannot be read", path.display())),
        (Some(leaf), None) if !leaf.is_ca => Some(format!("'{}' ({flag}) is no CA", path.display())),
        _ => None,
    };
    if let Some(seen) = seen {
        let denied = seen.contains("ermission denied");
        return vec![bad(if denied { Status::Unknown } else { Status::Critical }, FILES, NAME, seen, why, mend)];
    }
    let Some(leaf) = &pair.leaf else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(file) = untrusted(view, leaf) {
        found.push(bad(
            Status::Critical,
            FILES,
            NAME,
            format!(
                "signs with '{}', which kube-apiserver does not trust for clients ('{}')",
                path.display(),
                file.display()
            ),
            "kubelet gets a certificate, and kube-apiserver refuses its login with it",
            mend,
        ));
    }
    let count = view
        .looked
        .node
        .root
        .read(&path)
        .ok()
        .and_then(|text| pem::read(&text).ok())
        .map_or(1, |pem| pem.certificates.len());
    if count > 1 && !from(manager.version, (1, 21)) {
        found.push(bad(
            Status::Warning,
            FILES,
            NAME,
            format!("'{}' holds {count} certificates", path.display()),
            "version 1.20 signs with a file of exactly one only; later ones take the first",
            format!("let {flag} name a file with the signing CA alone; {}", manager.restart()),
        ));
    }
    if found.is_empty() {
        found.push(ok(FILES, NAME, format!("signs with '{}'", path.display()), why));
    }
    found.push(duration(view, manager, &pair, leaf));
    found
}

/// The file of kube-apiserver's client CAs, if it does not hold the key that this CA signs with.
fn untrusted(view: &View<'_>, ca: &Leaf) -> Option<PathBuf> {
    let file = view.apiserver()?.path("--client-ca-file")?;
    let text = view.looked.node.root.read(&file).ok()?;
    let trusted = pem::read(&text).ok()?.certificates;
    let same = |der: &Vec<u8>| {
        x509::certificate(der)
            .ok()
            .and_then(|one| x509::leaf(&one).ok())
            .is_some_and(|one| one.key_sha256 == ca.key_sha256)
    };
    (!trusted.is_empty() && !trusted.iter().any(same)).then_some(file)
}

/// How long what it signs is valid: as told, and no longer than the CA (kube-controller-manager 1.20 `signer.go`).
fn duration(view: &View<'_>, manager: &Program<'_>, pair: &Certificate, ca: &Leaf) -> KubeletFinding {
    let why =
        "kubelet renews at 70 to 90 % of it: a node that is off for longer than the rest cannot come back by itself";
    let names = ["--cluster-signing-duration", "--experimental-cluster-signing-duration"];
    let told = names.iter().find_map(|name| Some((*name, manager.flag(name)?)));
    let (length, from) = match told {
        None => (USUAL, "the default".to_owned()),
        Some((name, text)) => match go_duration::parse(text).filter(|length| *length > TimeDelta::zero()) {
            Some(length) => (length, format!("{name}={text}")),
            None => {
                return bad(
                    Status::Critical,
                    DURATION,
                    NAME,
                    format!("{name} is '{text}' in {}", manager.place),
                    "it is no length of time to Go, which knows no days: kube-controller-manager does not start with it",
                    format!("write it in hours, such as {name}=8760h; {}", manager.restart()),
                );
            }
        },
    };
    let left = ca.not_after - view.looked.now;
    let ends = format!("its CA '{}' ends on {}", pair.path.display(), moment(ca.not_after));
    if left <= TimeDelta::zero() {
        let mend = "replace the CA: nothing that it signed works any more";
        return bad(
            Status::Critical,
            DURATION,
            NAME,
            ends,
            "kube-controller-manager signs nothing with an expired CA",
            mend,
        );
    }
    let lifetime = length.min(left);
    let seen = match left < length {
        true => format!("what it signs is valid for {}: {from}, but {ends}", words::span(lifetime)),
        false => format!("what it signs is valid for {} ({from})", words::span(lifetime)),
    };
    match () {
        () if left < length && left < TimeDelta::days(90) => bad(
            Status::Warning,
            DURATION,
            NAME,
            seen,
            "no certificate outlives its CA, and each new one is shorter than the one before",
            "replace the CA before that",
        ),
        () if lifetime < SHORT => {
            let mend = format!("set a longer --cluster-signing-duration in {}; {}", manager.place, manager.restart());
            bad(Status::Warning, DURATION, NAME, seen, why, mend)
        }
        () => ok(DURATION, NAME, seen, why),
    }
}

/// Flags by the first version that does not know them any more, as far as this program or its seeds speak of them.
const GONE: [(&str, (u32, u32), &str); 5] = [
    ("--experimental-cluster-signing-duration", (1, 25), "--cluster-signing-duration"),
    ("--address", (1, 24), "--bind-address"),
    ("--port", (1, 24), "--secure-port"),
    ("--pod-eviction-timeout", (1, 27), "kube-apiserver's --default-unreachable-toleration-seconds"),
    ("--enable-taint-manager", (1, 27), "nothing"),
];
/// Flags by the first version that knows them.
const NEW: [(&str, (u32, u32), &str); 2] = [
    ("--cluster-signing-duration", (1, 19), "--experimental-cluster-signing-duration"),
    ("--cluster-signing-kubelet-client-cert-file", (1, 19), "--cluster-signing-cert-file"),
];

/// Flags and gates that its version does not know: it does not start with them.
pub fn flags(manager: &Program<'_>) -> Vec<KubeletFinding> {
    let id = "controller-manager-flags";
    let mut unknown: Vec<(String, String)> = Vec::new();
    for (name, gone, instead) in GONE {
        if manager.flag(name).is_some() && from(manager.version, gone) {
            unknown.push((name.to_owned(), format!("gone with {}.{}; in its place: {instead}", gone.0, gone.1)));
        }
    }
    for (name, first, instead) in NEW {
        if manager.flag(name).is_some() && before(manager.version, first) {
            unknown.push((name.to_owned(), format!("known from {}.{} on; before: {instead}", first.0, first.1)));
        }
    }
    let gates = crate::node::flags::all(&manager.argv, "--feature-gates").join(",");
    if gates.contains(super::settings::CLIENT_GATE) && from(manager.version, (1, 22)) {
        unknown.push((format!("feature gate {}", super::settings::CLIENT_GATE), "gone after 1.21".to_owned()));
    }
    let Some((major, minor)) = manager.version else { return Vec::new() };
    let of = |(name, why): (String, String)| {
        bad(
            Status::Critical,
            id,
            NAME,
            format!("{name} in {} is not known to version {major}.{minor} ({why})", manager.place),
            "it does not start with a flag that it does not know, and nothing is approved or signed then",
            format!("take {name} out of {}; {}", manager.place, manager.restart()),
        )
    };
    unknown.into_iter().map(of).collect()
}

/// Which of its controllers have to run: their names, and those of 1.28 and later.
const CONTROLLERS: [(&str, &str, &str); 2] = [
    (
        "csrapproving",
        "certificatesigningrequest-approving-controller",
        "it approves kubelets' requests for client certificates",
    ),
    ("csrsigning", "certificatesigningrequest-signing-controller", "it signs what is approved"),
];

/// Whether the controllers run that kubelets depend on (`--controllers`: `*` is all, `-x` all but x).
pub fn controllers(view: &View<'_>, manager: &Program<'_>) -> Vec<KubeletFinding> {
    let id = "csr-controllers";
    let mut found = Vec::new();
    let list = manager.flag("--controllers").unwrap_or("*").to_owned();
    let given: Vec<&str> = list.split(',').map(str::trim).collect();
    for (name, long, why) in CONTROLLERS {
        let off = [name, long].iter().any(|name| given.contains(&format!("-{name}").as_str()));
        let on = given.contains(&"*") || given.contains(&name) || given.contains(&long);
        if off || !on {
            found.push(bad(
                Status::Critical,
                id,
                NAME,
                format!("--controllers={list} in {} leaves {name} out", manager.place),
                why,
                format!("let --controllers hold it, or '*'; {}", manager.restart()),
            ));
        }
    }
    // from 1.11 on nothing approves them, gate or not (k/k 62471)
    let passes_over = before(manager.version, (1, 11)) && view.settings.server(view.version).on;
    let gates = crate::node::flags::all(&manager.argv, "--feature-gates").join(",");
    if passes_over && !gates.contains(&format!("{}=true", super::settings::SERVER_GATE)) {
        found.push(bad(
            Status::Warning,
            id,
            NAME,
            format!("runs without --feature-gates={}=true", super::settings::SERVER_GATE),
            "without the gate it passes over kubelets' requests for serving certificates, whatever RBAC says",
            format!("set it in {}; {}", manager.place, manager.restart()),
        ));
    }
    let runs = view.looked.processes.map(|processes| !processes.find_named(NAME).is_empty());
    match runs {
        Some(false) => found.push(bad(
            Status::Critical,
            id,
            NAME,
            "does not run on this node",
            "where no other control plane runs it, nothing is approved or signed",
            "crictl ps -a --name kube-controller-manager; journalctl -u kubelet -e",
        )),
        _ if found.is_empty() => {
            found.push(ok(
                id,
                NAME,
                "approves and signs what kubelets ask for (csrapproving, csrsigning)",
                "rotation depends on both",
            ));
        }
        _ => {}
    }
    found
}
