//! `k8s-certs-renew kubelet rbac`: the roles and bindings that kubelets need, as YAML.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;

use crate::evidence::version::{self, Version};
use crate::exit::{Exit, Failure, OrExit};
use crate::kubelet::login::Login;
use crate::kubelet::objects::{Server, Unseen, kubeconfigs};
use crate::kubelet::rbac::manifests::{missing, needs, yaml};
use crate::kubelet::rbac::{KUBEADM_TOKENS, Rbac, Subject};
use crate::node::Node;
use crate::report::Console;

use super::args::{PlaceArgs, VoiceArgs};
use super::{Process, absolute, overrides, root_at, voice};

/// One request to the API.
pub(super) const REQUEST: Duration = Duration::from_secs(10);

/// Options of rbac.
#[derive(Debug, Clone, Args)]
pub struct KubeletRbacArgs {
    /// Where the node's files are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Print only what the cluster does not grant yet, under whatever name; ends with 1 if that is something, with 3 if it cannot be told
    #[arg(long)]
    pub diff: bool,
    /// The cluster's version, such as 1.20 [default: what its API says, else the image of kube-apiserver's manifest]
    #[arg(long, value_name = "X.Y", value_parser = parse_version)]
    pub kubernetes_version: Option<Version>,
    /// Who asks for a node's first certificate: `group:NAME`, `user:NAME`, `serviceaccount:NAMESPACE:NAME`
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject, default_value = KUBEADM_GROUP)]
    pub bootstrap: Subject,
    /// Also let somebody who is no admin approve serving requests with `kubelet approve --kubeconfig`; as for --bootstrap
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject)]
    pub approver: Option<Subject>,
    /// The kubeconfig to log in by [default: admin.conf, then super-admin.conf, in the kubernetes dir]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How much is said.
    #[command(flatten)]
    pub voice: VoiceArgs,
}

const KUBEADM_GROUP: &str = "group:system:bootstrappers:kubeadm:default-node-token";

/// Prints what was asked for. Without an API it is all of it, which stderr says.
///
/// # Errors
/// What was asked for cannot be done: [`Exit::Usage`].
pub fn run(
    args: &KubeletRbacArgs,
    process: &Process<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    absolute(&args.place, args.kubeconfig.iter()).or_exit(Exit::Usage)?;
    let node = Node::look(root_at(&args.place)?, &overrides(&args.place));
    let mut console = Console::new(out, err, voice(&args.voice, true, process));
    let candidates = args.kubeconfig.clone().map_or_else(|| kubeconfigs(&node), |path| vec![path]);
    let server = Server::open(&node, &candidates, process.clock.now(), REQUEST);
    let there = server.as_ref().map_err(Unseen::clone).and_then(Rbac::look);
    let told = server.as_ref().ok().and_then(|server| server.version);
    let on_disk = || node.manifest("kube-apiserver").and_then(version::of);
    let version = args.kubernetes_version.or(told).or_else(on_disk).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            anyhow!("neither the API nor a manifest tells the cluster's version; --kubernetes-version X.Y does"),
        )
    })?;
    let all = needs(version, &args.bootstrap, args.approver.as_ref());
    let wanted = match (&there, args.diff) {
        (Ok(there), true) => missing(all, there),
        (Ok(_), false) => all,
        (Err(unseen), _) => {
            let what =
                if args.diff { "everything is printed, what is there already too" } else { "nothing was compared" };
            console.warn(&format!("{unseen}; {what}"));
            all
        }
    };
    hint_login(&node, &args.bootstrap, &mut console);
    let text = yaml(&wanted, version, there.as_ref().ok().filter(|_| args.diff));
    if wanted.is_empty() {
        console.note("nothing is missing");
    } else {
        console.out(text.trim_end());
    }
    Ok(match there {
        _ if !args.diff => Exit::Ok,
        Err(_) => Exit::Unknown,
        Ok(_) if wanted.is_empty() => Exit::Ok,
        Ok(_) => Exit::Warning,
    })
}

/// Bindings for a group that the node's own bootstrap login is not in would help nobody.
fn hint_login(node: &Node, bootstrap: &Subject, console: &mut Console<'_>) {
    if *bootstrap != Subject::Group(KUBEADM_TOKENS.to_owned()) {
        return;
    }
    for name in ["bootstrap-kubelet.conf", "bootstrap.kubeconfig"] {
        let path = node.kubernetes_dir.join(name);
        let Ok(login) = Login::read(&node.root, &path) else { continue };
        if login.bootstrap_id().is_none() {
            console.note(&format!(
                "'{}' holds no token of kubeadm's: name its user or group with --bootstrap, such as user:kubelet-bootstrap",
                path.display()
            ));
        }
    }
}

fn parse_version(text: &str) -> Result<Version, String> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    match (number(parts.next()), number(parts.next())) {
        (Some(major), Some(minor)) if (major, minor) >= (1, 6) => Ok((major, minor)),
        (Some(_), Some(_)) => Err("RBAC is there from 1.6 on".to_owned()),
        _ => Err("expected major and minor, such as 1.20".to_owned()),
    }
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    let parsed = match text.split_once(':') {
        Some(("group", name)) => named(name).map(Subject::Group),
        Some(("user", name)) => named(name).map(Subject::User),
        Some(("serviceaccount", rest)) => rest
            .split_once(':')
            .and_then(|(namespace, name)| Some(Subject::ServiceAccount(named(namespace)?, named(name)?))),
        _ => None,
    };
    parsed.ok_or_else(|| "expected group:NAME, user:NAME or serviceaccount:NAMESPACE:NAME".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{KUBEADM_GROUP, parse_subject, parse_version};
    use crate::kubelet::rbac::{KUBEADM_TOKENS, Subject};

    #[test]
    fn a_version_is_major_and_minor() {
        for (text, expected) in
            [("1.20", Some((1, 20))), ("v1.20.2", Some((1, 20))), ("1.5", None), ("1", None), ("x.y", None)]
        {
            assert_eq!(parse_version(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_subject_says_its_kind() {
        assert_eq!(parse_subject(KUBEADM_GROUP), Ok(Subject::Group(KUBEADM_TOKENS.to_owned())));
        assert_eq!(parse_subject("user:kubelet-bootstrap"), Ok(Subject::User("kubelet-bootstrap".to_owned())));
        assert_eq!(parse_subject("serviceaccount:a:b"), Ok(Subject::ServiceAccount("a".to_owned(), "b".to_owned())));
        for wrong in ["kubelet-bootstrap", "group:", "serviceaccount:a", "system:nodes"] {
            assert!(parse_subject(wrong).is_err(), "{wrong}");
        }
    }
}
