//! The program on a whole site: that stand-ins and program understand one another, under either runtime.

use std::process::{Command, Output, Stdio};

use super::{due, now, site, stderr, stdout};
use crate::support::faults::{Renewal, Return};
use crate::support::site::Site;
use crate::support::tls_server::Answer;
use crate::support::tree::Layout;
use crate::support::world::demo;

const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn run(site: &Site, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew"))
        .arg("run")
        .args(site.options())
        .arg(format!("--at={}", now().to_rfc3339()))
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn under_a_cri_runtime_it_renews_once_and_removes_one_sandbox_after_another() {
    let site = site(Layout::Kubespray);
    site.servers.apiserver.script(|script| {
        script.without_client = Some(401);
        script.restarted = vec![Answer::Closes, Answer::Status(500), Answer::Ready];
    });
    let before = site.serials();
    let output = run(&site, &["--detailed-exitcode"]);
    assert_eq!(output.status.code(), Some(10), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(site.renewed_since(&before).len(), before.len());
    let mut acts = vec!["kubeadm certs renew all --config /etc/kubernetes/kubeadm-config.yaml".to_owned()];
    acts.extend(COMPONENTS.map(|component| format!("crictl -t 60s rmp -f {component}@1")));
    assert_eq!(site.world.acts(), acts);
    assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
}

#[test]
fn under_docker_each_sandbox_goes_before_its_containers() {
    let site = site(Layout::Kubespray);
    let docker = format!("--docker={}", site.world.tool("docker").display());
    let output = run(&site, &["--runtime=docker", &docker, "--detailed-exitcode"]);
    assert_eq!(output.status.code(), Some(10), "{}{}", stdout(&output), stderr(&output));
    let mut acts = vec!["kubeadm certs renew all --config /etc/kubernetes/kubeadm-config.yaml".to_owned()];
    for component in COMPONENTS {
        acts.push(format!("docker rm -f {component}@1"));
        acts.push(format!("docker rm -f {component}@1/{component}.0"));
    }
    assert_eq!(site.world.acts(), acts);
}

#[test]
fn a_fault_of_the_tools_reaches_the_exit_code() {
    // what runs has started after its files were written, so that nothing is stale
    let site = Site::with(&demo(), due(Layout::Kubespray, now()), |setup| setup.real_uptime = true);
    site.world.fault(|faults| faults.renewals = vec![Renewal::DoesNothing]);
    let before = site.serials();
    assert_eq!(run(&site, &[]).status.code(), Some(20));
    assert_eq!(site.renewed_since(&before), [""; 0]);
    assert!(site.world.acts().iter().all(|act| act.starts_with("kubeadm ")));
}

#[test]
fn a_pod_that_takes_its_time_is_waited_for() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| _ = faults.returns.insert("kube-scheduler".to_owned(), Return::After(1)));
    let output = run(&site, &["--detailed-exitcode"]);
    assert_eq!(output.status.code(), Some(10), "{}{}", stdout(&output), stderr(&output));
}
