//! Which runtime this node's static pods run under, and where it listens.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::{Cri, Docker, Limits, Runtime, RuntimeError};
use crate::files::Root;
use crate::host::ToolError;
use crate::node::flags::flag;

/// Where the runtimes that crictl itself knows listen, in its order (cri-tools 1.30).
const SOCKETS: [&str; 3] = ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"];
/// The kubelet's own socket for docker, until Kubernetes 1.23.
const DOCKERSHIM: &str = "dockershim.sock";

/// Which runtime is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// The one that the static pods are found in.
    #[default]
    Auto,
    /// A CRI runtime, through crictl.
    Cri,
    /// Docker.
    Docker,
}

/// What the choice rests on.
#[derive(Debug, Clone)]
pub struct Around<'a> {
    /// The node's root.
    pub root: &'a Root,
    /// The command line of the kubelet that runs, if one does.
    pub kubelet: Option<&'a [String]>,
    /// `containerRuntimeEndpoint` of the kubelet's configuration file (Kubernetes 1.27 and later), if it is set.
    pub kubelet_endpoint: Option<&'a str>,
    /// crictl, or where it was looked for.
    pub crictl: Result<&'a Path, &'a ToolError>,
    /// docker, or where it was looked for.
    pub docker: Result<&'a Path, &'a ToolError>,
}

/// Chooses the runtime. [`Wanted::Auto`] asks them: the first one that lists a static pod is the one. docker comes first where
/// the kubelet speaks to it without CRI, else last. A runtime that answers but has no static pod is taken only if no other has one.
///
/// # Errors
/// The program is missing, or, for [`Wanted::Auto`], no runtime answers.
pub fn choose(wanted: Wanted, around: &Around<'_>, limits: Limits) -> Result<Runtime, RuntimeError> {
    let cri = |crictl: &Path| -> Vec<Runtime> {
        endpoints(around.root, around.root.is_host(), kubelets(around))
            .into_iter()
            .map(|endpoint| Runtime::Cri(Cri::new(crictl, endpoint, limits)))
            .collect()
    };
    let docker = |docker: &Path| Runtime::Docker(Docker::new(docker, limits));
    match wanted {
        Wanted::Docker => around.docker.map(docker).map_err(|error| error.clone().into()),
        Wanted::Cri => around.crictl.map_err(|error| RuntimeError::from(error.clone())).map(cri).and_then(best),
        Wanted::Auto => {
            let mut candidates = around.crictl.map(cri).unwrap_or_default();
            if let Ok(path) = around.docker {
                let place = if runs_dockershim(around) { 0 } else { candidates.len() };
                candidates.insert(place, docker(path));
            }
            match (candidates.is_empty(), around.crictl) {
                (true, Err(error)) => Err(error.clone().into()),
                _ => best(candidates),
            }
        }
    }
}

/// The first that lists a static pod, else the first that answers, else the error of the first. One alone is not asked.
fn best(mut candidates: Vec<Runtime>) -> Result<Runtime, RuntimeError> {
    if candidates.len() == 1 {
        return Ok(candidates.remove(0));
    }
    let mut answers = None;
    let mut failed = None;
    for candidate in candidates {
        match candidate.all() {
            Ok(sandboxes) if !sandboxes.is_empty() => return Ok(candidate),
            Ok(_) => answers = answers.or(Some(candidate)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match (answers, failed) {
        (Some(runtime), _) => Ok(runtime),
        (None, Some(error)) => Err(error),
        (None, None) => Err(RuntimeError::NoEndpoint),
    }
}

/// The endpoints that crictl may be told, the likeliest first.
///
/// What the kubelet says is where its pods are, so that is the only one then. Else `/etc/crictl.yaml`, which may name a socket that
/// died with an older runtime (cri-tools #845), and the sockets that are there: docker has a containerd of its own beside cri-dockerd's.
/// Below another root only its `/etc/crictl.yaml` counts, as the sockets of this machine are not its; and that only where the
/// socket is there.
fn endpoints(root: &Root, is_this_machine: bool, kubelets: Option<String>) -> Vec<Option<String>> {
    let configured = configured(root).filter(|endpoint| is_there(root, endpoint));
    if !is_this_machine {
        return vec![configured];
    }
    if kubelets.is_some() {
        return vec![kubelets];
    }
    let mut found: Vec<String> = configured.into_iter().collect();
    for endpoint in SOCKETS.map(with_scheme) {
        if is_there(root, &endpoint) && !found.iter().any(|other| same_socket(other, &endpoint)) {
            found.push(endpoint);
        }
    }
    if found.is_empty() {
        // crictl's own words about what it tried are the best message there is
        return vec![None];
    }
    found.into_iter().map(Some).collect()
}

fn kubelets(around: &Around<'_>) -> Option<String> {
    let by_flag = around.kubelet.and_then(|argv| flag(argv, "--container-runtime-endpoint"));
    by_flag.or(around.kubelet_endpoint).filter(|endpoint| !endpoint.is_empty()).map(with_scheme)
}

/// Until Kubernetes 1.23 a kubelet that is told no endpoint, or dockershim's, runs its pods under docker by itself.
fn runs_dockershim(around: &Around<'_>) -> bool {
    let Some(argv) = around.kubelet else { return false };
    let remote = flag(argv, "--container-runtime") == Some("remote");
    match kubelets(around) {
        None => !remote,
        Some(endpoint) => endpoint.ends_with(DOCKERSHIM),
    }
}

/// `runtime-endpoint` of `/etc/crictl.yaml`: a flat file of `key: value` lines.
fn configured(root: &Root) -> Option<String> {
    let text = root.read_to_string(Path::new("/etc/crictl.yaml")).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim().trim_matches(['"', '\'']) == "runtime-endpoint")
        .map(|(_, value)| value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']))
        .filter(|value| !value.is_empty())
        .map(with_scheme)
}

/// A bare path is deprecated but still understood by the kubelet and by crictl.
fn with_scheme(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("unix://{endpoint}") }
}

fn is_there(root: &Root, endpoint: &str) -> bool {
    match endpoint.strip_prefix("unix://") {
        Some(path) => root.metadata(Path::new(path)).is_ok_and(|metadata| metadata.file_type().is_socket()),
        // TCP: there is nothing to look at
        None => true,
    }
}

/// `/var/run` is a link to `/run` everywhere.
fn same_socket(a: &str, b: &str) -> bool {
    a.replace("/var/run/", "/run/") == b.replace("/var/run/", "/run/")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::{Around, endpoints, kubelets, runs_dockershim};
    use crate::files::{Replace, Root};
    use crate::host::ToolError;

    const CONTAINERD: &str = "unix:///run/containerd/containerd.sock";
    const CRI_DOCKERD: &str = "unix:///run/cri-dockerd.sock";

    fn tree(crictl_yaml: Option<&str>, sockets: &[&str]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        root.create_dir(Path::new("/etc"), 0o755).unwrap();
        if let Some(text) = crictl_yaml {
            root.replace(Path::new("/etc/crictl.yaml"), text.as_bytes(), &Replace::with_mode(0o644)).unwrap();
        }
        for socket in sockets {
            root.create_dir(Path::new(socket).parent().unwrap(), 0o755).unwrap();
            UnixListener::bind(root.on_host(Path::new(socket))).unwrap();
        }
        (dir, root)
    }

    fn found(root: &Root, kubelet: Option<&str>) -> Vec<String> {
        let all = endpoints(root, true, kubelet.map(str::to_owned));
        all.into_iter().map(|endpoint| endpoint.unwrap_or_else(|| "none".to_owned())).collect()
    }

    #[test]
    fn the_kubelets_endpoint_outranks_a_configuration_that_points_to_a_dead_socket() {
        let yaml = "runtime-endpoint: unix:///var/run/dockershim.sock\nimage-endpoint: unix:///x\ntimeout: 30\n";
        let (_dir, root) = tree(Some(yaml), &["/run/containerd/containerd.sock", "/run/cri-dockerd.sock"]);
        assert_eq!(found(&root, Some(CRI_DOCKERD)), [CRI_DOCKERD]);
        assert_eq!(found(&root, None), [CONTAINERD, CRI_DOCKERD]);
    }

    #[test]
    fn without_a_kubelet_the_configuration_comes_first_then_the_sockets_that_are_there() {
        let yaml = "# crictl\n\"runtime-endpoint\": 'unix:///run/cri-dockerd.sock' # here\n";
        let (_dir, root) = tree(Some(yaml), &["/run/containerd/containerd.sock", "/run/cri-dockerd.sock"]);
        assert_eq!(found(&root, None), [CRI_DOCKERD, CONTAINERD]);
        let (_dir, root) = tree(None, &["/run/crio/crio.sock"]);
        assert_eq!(found(&root, None), ["unix:///run/crio/crio.sock"]);
        let (_dir, root) = tree(Some("runtime-endpoint: \"\"\n"), &[]);
        assert_eq!(found(&root, None), ["none"]);
    }

    #[test]
    fn below_another_root_this_machines_sockets_do_not_count() {
        let (_dir, root) = tree(None, &["/run/containerd/containerd.sock"]);
        assert_eq!(endpoints(&root, false, Some(CONTAINERD.to_owned())), [None]);
        let (_dir, root) = tree(Some("runtime-endpoint: /run/x.sock\n"), &["/run/x.sock"]);
        assert_eq!(endpoints(&root, false, None), [Some("unix:///run/x.sock".to_owned())]);
        let (_dir, root) = tree(Some("runtime-endpoint: /var/run/dockershim.sock\n"), &[]);
        assert_eq!(endpoints(&root, false, None), [None]);
    }

    #[test]
    fn what_the_kubelet_says_tells_dockershim_from_cri() {
        let none = ToolError { name: "none".to_owned(), tried: Vec::new() };
        let (_dir, root) = tree(None, &[]);
        let socket = "--container-runtime-endpoint=/run/containerd/containerd.sock";
        let shim = "unix:///var/run/dockershim.sock";
        let table = [
            ("kubelet --network-plugin=cni", None, None, true),
            ("kubelet --container-runtime=docker", None, None, true),
            ("kubelet --container-runtime=remote", None, None, false),
            (
                "kubelet --container-runtime-endpoint unix:///run/containerd/containerd.sock",
                None,
                Some(CONTAINERD),
                false,
            ),
            (socket, None, Some(CONTAINERD), false),
            ("kubelet", Some(CRI_DOCKERD), Some(CRI_DOCKERD), false),
            ("kubelet --container-runtime-endpoint=unix:///var/run/dockershim.sock", None, Some(shim), true),
        ];
        for (argv, config, endpoint, dockershim) in table {
            let argv: Vec<String> = argv.split(' ').map(str::to_owned).collect();
            let around = Around {
                root: &root,
                kubelet: Some(&argv),
                kubelet_endpoint: config,
                crictl: Err(&none),
                docker: Err(&none),
            };
            assert_eq!((kubelets(&around).as_deref(), runs_dockershim(&around)), (endpoint, dockershim), "{argv:?}");
        }
    }
}
