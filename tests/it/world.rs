//! The stand-ins themselves: they behave as the tools that they stand for, and go wrong as they are told.

mod containers;
mod kubeadm;
mod program;
mod servers;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use chrono::{DateTime, Utc};

use crate::support::pki::at;
use crate::support::site::{Site, due};
use crate::support::tree::Layout;
use crate::support::world::demo;

fn now() -> DateTime<Utc> {
    at("2026-03-02T03:10:00Z")
}

fn site(layout: Layout) -> Site {
    Site::new(&demo(), due(layout, now()))
}

fn call(site: &Site, tool: &str, args: &str) -> Output {
    Command::new(site.world.tool(tool)).args(args.split(' ')).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_log_names_paths_of_the_node_and_things_not_ids() {
    let site = site(Layout::Kubespray);
    let ssl = site.tree.on_host("/etc/kubernetes/ssl");
    call(&site, "kubeadm", &format!("certs renew all --cert-dir {}", ssl.display()));
    let id = site.world.sandbox("kube-scheduler").unwrap().id;
    let manifest = site.world.tool("x");
    call(&site, "crictl", &format!("-t 60s rmp -f {id}"));
    let new = site.world.sandbox("kube-scheduler").unwrap().id;
    call(&site, "crictl", &format!("inspectp {new}"));
    call(&site, "docker", &format!("inspect {}", manifest.display()));
    assert_eq!(
        site.world.calls(),
        [
            "kubeadm certs renew all --cert-dir /etc/kubernetes/ssl",
            "crictl -t 60s rmp -f kube-scheduler@1",
            "crictl inspectp kube-scheduler@2",
            "docker inspect WORLD/bin/x",
        ]
    );
    assert_eq!(site.world.acts().len(), 2);
    site.world.forget_calls();
    assert!(site.world.calls().is_empty());
}

#[test]
fn calls_at_the_same_time_each_leave_a_whole_line_and_a_sandbox_each() {
    let site = site(Layout::Kubeadm);
    let components = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let removals: Vec<_> = components
        .map(|component| site.world.sandbox(component).unwrap().id)
        .iter()
        .map(|id| {
            Command::new(site.world.tool("crictl")).args(["rmp", "-f", id]).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut removal in removals {
        assert!(removal.wait().unwrap().success());
    }
    let mut calls = site.world.calls();
    calls.sort();
    assert_eq!(calls, components.map(|component| format!("crictl rmp -f {component}@1")));
    assert_eq!(site.world.state().sandboxes.len(), 4);
}

#[test]
fn a_name_that_is_no_tool_is_left_to_the_demo() {
    assert!(crate::support::fake::act(Path::new("/usr/bin/demo"), Vec::new()).is_none());
}
