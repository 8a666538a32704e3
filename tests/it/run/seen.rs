//! What can be seen of a node before and after a run, and how the tests here run it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_certs_renew::host::Signals;
use k8s_certs_renew::journal::Journal;

use super::{Ran, now, run_by};
use crate::support::clock::StillClock;
use crate::support::site::Site;

/// The call that renews all on kubespray's node.
pub const RENEW_ALL: &str = "kubeadm certs renew all --config /etc/kubernetes/kubeadm-config.yaml";
/// The call that restarts kube-apiserver for the first time.
pub const APISERVER: &str = "crictl -t 60s rmp -f kube-apiserver@1";
/// Likewise.
pub const CONTROLLER_MANAGER: &str = "crictl -t 60s rmp -f kube-controller-manager@1";
/// Likewise.
pub const SCHEDULER: &str = "crictl -t 60s rmp -f kube-scheduler@1";

/// Every file and link of a node by its path, but for its processes and our own state: mode, and bytes or target.
pub type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// Looks.
pub fn files(site: &Site) -> Files {
    super::files(site).into_iter().map(|(path, file)| (format!("/{path}"), file)).collect()
}

/// The paths of files that are not what they were, those that came or went among them.
pub fn changed(before: &Files, after: &Files) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// What a whole renewal writes on kubespray's node.
pub const RENEWED: [&str; 9] = [
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/controller-manager.conf",
    "/etc/kubernetes/scheduler.conf",
    "/etc/kubernetes/ssl/apiserver-kubelet-client.crt",
    "/etc/kubernetes/ssl/apiserver-kubelet-client.key",
    "/etc/kubernetes/ssl/apiserver.crt",
    "/etc/kubernetes/ssl/apiserver.key",
    "/etc/kubernetes/ssl/front-proxy-client.crt",
    "/etc/kubernetes/ssl/front-proxy-client.key",
];

/// What a whole renewal writes, the copy of admin.conf with it.
pub fn renewed_and_copied() -> Vec<&'static str> {
    RENEWED.into_iter().chain(["/root/.kube/config"]).collect()
}

/// The components that the journal has still to be restarted; `None` where it has no open run.
pub fn owed(site: &Site) -> Option<Vec<String>> {
    let (journal, warning) = Journal::read(&site.tree.root());
    assert_eq!(warning, None);
    journal.open.map(|open| open.restart)
}

/// The readable names of all sandboxes, sorted: `kube-apiserver@2`.
pub fn sandboxes(site: &Site) -> Vec<String> {
    let state = site.world.state();
    let mut names: Vec<String> = state.sandboxes.iter().map(|one| state.names[&one.id].clone()).collect();
    names.sort_unstable();
    names
}

/// An executable beside the stand-in tools that does this.
pub fn script(site: &Site, name: &str, body: &str) -> PathBuf {
    let path = site.world.dir().join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs by an [`impatient`] clock.
pub fn run_impatiently(site: &Site, args: &[&str]) -> Ran {
    run_by(&impatient(), site, args, &Signals::none())
}

/// A clock that comes to the end of every wait soon.
pub fn impatient() -> StillClock {
    StillClock::at(now()).oversleeping(Duration::from_secs(40))
}

/// The command line with these tools only.
pub fn with_tools(site: &Site, tools: &[(&str, &str)]) -> Vec<OsString> {
    let mut argv = ["k8s-certs-renew", "run", "--root", text(site.tree.dir())].map(OsString::from).to_vec();
    for (name, path) in tools {
        argv.extend([format!("--{name}").into(), OsString::from(path)]);
    }
    argv
}
