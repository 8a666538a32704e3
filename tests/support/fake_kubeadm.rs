//! A stand-in for kubeadm: `version` and `certs renew`, as 1.20 to 1.36 behave, with faults.
//!
//! Real in it: the order of the certificates, what is copied from the old one, signing with the CA on disk, key written before
//! certificate, the lines printed, the end at the first error, exit codes. Keys are ECDSA P-256 whatever the old ones are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_certs_renew::files::Root;
use k8s_certs_renew::node::yaml;

use super::events::{self, Point};
use super::fake::{Call, End, Flags, say};
use super::fake_pki::{Credential, Signer};
use super::faults::{self, Renewal};
use super::world;

/// What kubeadm renews, in its order: name, file below the certificate or kubeconfig directory, CA, what the lines call it.
const ITEMS: [(&str, &str, &str, &str); 11] = [
    (
        "admin.conf",
        "admin.conf",
        "ca",
        "certificate embedded in the kubeconfig file for the admin to use and for kubeadm itself",
    ),
    ("apiserver", "apiserver", "ca", "certificate for serving the Kubernetes API"),
    ("apiserver-etcd-client", "apiserver-etcd-client", "etcd/ca", "certificate the apiserver uses to access etcd"),
    (
        "apiserver-kubelet-client",
        "apiserver-kubelet-client",
        "ca",
        "certificate for the API server to connect to kubelet",
    ),
    (
        "controller-manager.conf",
        "controller-manager.conf",
        "ca",
        "certificate embedded in the kubeconfig file for the controller manager to use",
    ),
    (
        "etcd-healthcheck-client",
        "etcd/healthcheck-client",
        "etcd/ca",
        "certificate for liveness probes to healthcheck etcd",
    ),
    ("etcd-peer", "etcd/peer", "etcd/ca", "certificate for etcd nodes to communicate with each other"),
    ("etcd-server", "etcd/server", "etcd/ca", "certificate for serving etcd"),
    ("front-proxy-client", "front-proxy-client", "front-proxy-ca", "certificate for the front proxy client"),
    (
        "scheduler.conf",
        "scheduler.conf",
        "ca",
        "certificate embedded in the kubeconfig file for the scheduler manager to use",
    ),
    ("super-admin.conf", "super-admin.conf", "ca", "certificate embedded in the kubeconfig file for the super-admin"),
];
const KUBERNETES: &str = "/etc/kubernetes";
const DONE: &str = "\nDone renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and etcd, so that they can use the new certificates.";
const HELP: &str = "This command is not meant to be run on its own. See list of available subcommands.\n\nUsage:\n  kubeadm certs renew [flags]\n  kubeadm certs renew [command]";

/// Acts as kubeadm.
///
/// # Errors
/// How it ends when it does not end with 0.
pub fn run(call: &Call) -> Result<(), End> {
    let valued: &[&[&str]] = &[&["--cert-dir"], &["--config"], &["--kubeconfig"], &["-o", "--output"], &["-v", "--v"]];
    let flags = Flags::read(&call.args, valued, &[&["--help", "-h"]], false).map_err(End::failed)?;
    let words: Vec<&str> = flags.words.iter().map(String::as_str).collect();
    match words[..] {
        ["version"] if flags.value("-o") == Some("short") => say(&call.setup.kubeadm),
        ["version"] => say(format!("kubeadm version: &version.Info{{GitVersion:\"{}\"}}", call.setup.kubeadm)),
        ["certs", "renew", name] if !flags.has("--help") => return renew(call, &flags, name),
        ["certs", "renew"] | ["certs"] | [] => say(HELP),
        _ if flags.has("--help") => say(HELP),
        _ => return Err(failed(format!("unknown command {:?} for \"kubeadm\"", words.join(" ")))),
    }
    Ok(())
}

fn renew(call: &Call, flags: &Flags, name: &str) -> Result<(), End> {
    let number = world::edit(&call.dir, |state| {
        state.renewals += 1;
        state.renewals - 1
    });
    let fault = faults::at(&call.faults.renewals, number);
    if name != "all" && !ITEMS.iter().any(|item| item.0 == name) {
        return Err(failed(format!("unknown command {name:?} for \"kubeadm certs renew\"")));
    }
    match &fault {
        Renewal::Refuses => return Err(failed("failed to load the configuration: open: permission denied")),
        Renewal::PrintsHelp => {
            say(HELP);
            return Ok(());
        }
        Renewal::Hangs => hang(),
        _ => {}
    }
    let root = Root::new(&call.setup.root).map_err(|error| failed(error.to_string()))?;
    let mut place = place(call, &root, flags)?;
    if let Renewal::RenewsDirectory(dir) = &fault {
        place.cert_dir = PathBuf::from(dir);
    }
    for item in ITEMS.iter().filter(|item| name == "all" || item.0 == name) {
        if place.external_etcd && item.2 == "etcd/ca" {
            continue;
        }
        one(call, &root, &place.cert_dir, item, &fault)?;
    }
    if fault == Renewal::LeavesChild {
        Command::new("sleep").arg("20").spawn().map_err(|error| failed(error.to_string()))?;
    }
    if name == "all" {
        say(DONE);
    }
    Ok(())
}

struct Place {
    cert_dir: PathBuf,
    external_etcd: bool,
}

/// Where kubeadm takes the set to be: `--config` decides alone, `--cert-dir` beside it is passed over without a word; else the
/// ConfigMap says what etcd is, or, where it cannot be read, etcd is taken to be stacked.
fn place(call: &Call, root: &Root, flags: &Flags) -> Result<Place, End> {
    if let Some(config) = flags.value("--config") {
        let text = root.read(&of_node(call, config)).map_err(|error| {
            failed(format!("unable to read config from {config:?} : open {config}: {}", error.kind()))
        })?;
        let documents = yaml::parse_all(&text).map_err(|error| failed(format!("{config}: {error}")))?;
        let cluster = documents
            .iter()
            .find(|one| yaml::text_at(one, &["kind"]).as_deref() == Some("ClusterConfiguration"))
            .ok_or_else(|| failed("no InitConfiguration or ClusterConfiguration kind was found in the YAML file"))?;
        if call.faults.config_refused {
            return Err(failed(
                "your configuration file uses an old API spec: \"kubeadm.k8s.io/v1beta2\" (kind: \"ClusterConfiguration\")",
            ));
        }
        let cert_dir = yaml::text_at(cluster, &["certificatesDir"]).unwrap_or_else(|| format!("{KUBERNETES}/pki"));
        return Ok(Place {
            cert_dir: cert_dir.into(),
            external_etcd: yaml::at(cluster, &["etcd", "external"]).is_some(),
        });
    }
    let cert_dir = of_node(call, flags.value("--cert-dir").unwrap_or("/etc/kubernetes/pki"));
    say("[renew] Reading configuration from the cluster...");
    if call.faults.cluster_config_unreachable {
        say("[renew] Error reading configuration from the Cluster. Falling back to default configuration\n");
        return Ok(Place { cert_dir, external_etcd: false });
    }
    say("[renew] FYI: You can look at this config file with 'kubectl -n kube-system get cm kubeadm-config -o yaml'\n");
    Ok(Place { cert_dir, external_etcd: !root.exists(Path::new("/etc/kubernetes/manifests/etcd.yaml")) })
}

fn one(
    call: &Call,
    root: &Root,
    cert_dir: &Path,
    &(name, file, ca, words): &(&str, &str, &str, &str),
    fault: &Renewal,
) -> Result<(), End> {
    match fault {
        Renewal::StopsAt(at) if at == name => {
            return Err(failed(format!("failed to renew certificate {name}: unable to sign certificate")));
        }
        Renewal::HangsAt(at) if at == name => hang(),
        Renewal::Slow(milliseconds) => std::thread::sleep(Duration::from_millis(*milliseconds)),
        _ => {}
    }
    let dir = if file.ends_with(".conf") { Path::new(KUBERNETES) } else { cert_dir };
    let reach = |point: &Point| events::reach(call, point);
    let credential = Credential::at(root, &dir.join(file), &reach);
    if !credential.exists() {
        say(format!("MISSING! {words}"));
        return Ok(());
    }
    let old =
        credential.read().map_err(|error| failed(format!("failed to load existing certificate {name}: {error}")))?;
    let Some(signer) =
        Signer::read(root, &cert_dir.join(ca)).map_err(|error| failed(format!("failed to load CA {ca}: {error}")))?
    else {
        say(format!("Detected external {ca}, {words} can't be renewed"));
        return Ok(());
    };
    if *fault == Renewal::DoesNothing {
        say(format!("{words} renewed"));
        return Ok(());
    }
    let signer = if is(fault, name, Renewal::AnotherCa) { signer.impostor() } else { signer };
    let (from, to) = validity(call, &signer);
    let mut spec = old.spec(from, to);
    if is(fault, name, Renewal::OtherNames) {
        spec.cn.push_str("-other");
        spec.sans.clear();
    }
    let new = signer.issue(&spec);
    let written = match fault {
        Renewal::Tears(at) if at == name => credential.write_key(&new),
        Renewal::KilledAt(at, signal) if at == name => {
            credential.write_key(&new).map_err(|error| failed(error.to_string()))?;
            end_by(*signal)
        }
        _ => credential.write(&new),
    };
    written.map_err(|error| failed(format!("failed to write new certificate {name}: {error}")))?;
    say(format!("{words} renewed"));
    Ok(())
}

fn is(fault: &Renewal, name: &str, kind: fn(String) -> Renewal) -> bool {
    *fault == kind(name.to_owned())
}

/// Up to 1.30 a leaf begins with its CA, from 1.31 five minutes ago; it ends in 8760 hours.
fn validity(call: &Call, signer: &Signer) -> (DateTime<Utc>, DateTime<Utc>) {
    let minor = call.setup.kubeadm.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    let now = call.setup.now;
    let from = if minor >= 31 { now - chrono::Duration::minutes(5) } else { signer.not_before };
    (from, now + chrono::Duration::hours(8760))
}

/// A path as the node sees it; the program hands in paths below its root.
fn of_node(call: &Call, path: &str) -> PathBuf {
    Path::new("/").join(Path::new(path).strip_prefix(&call.setup.root).unwrap_or(Path::new(path)))
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn end_by(signal: i32) -> std::io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(signal).unwrap_or(rustix::process::Signal::KILL);
    rustix::process::kill_process(rustix::process::getpid(), signal)?;
    hang()
}

fn failed(message: impl Into<String>) -> End {
    End::failed(format!("{}\nTo see the stack trace of this error execute with --v=5 or higher", message.into()))
}
