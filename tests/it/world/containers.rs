//! The stand-in crictl and docker.

use std::process::Command;

use serde_json::Value;

use super::{call, site, stderr, stdout};
use crate::support::faults::{Removal, Return, Runtime};
use crate::support::kubelet::Sandbox;
use crate::support::site::Site;
use crate::support::tree::Layout;

const SCHEDULER: &str = "kube-scheduler";

fn json(site: &Site, args: &str) -> Value {
    let output = call(site, "crictl", args);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn scheduler(site: &Site) -> Sandbox {
    site.world.sandbox(SCHEDULER).unwrap()
}

/// What `crictl pods` shows of kube-scheduler: attempt and state, newest first.
fn shown(site: &Site) -> Vec<(u64, String)> {
    let list = json(site, "-t 60s pods --label component=kube-scheduler -o json");
    let pods = list["items"].as_array().unwrap();
    pods.iter()
        .map(|pod| (pod["metadata"]["attempt"].as_u64().unwrap(), pod["state"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn a_removed_sandbox_comes_back_as_another_with_attempt_0_and_a_new_process() {
    let site = site(Layout::Kubespray);
    let old = scheduler(&site);
    let pid = site.world.state().containers.iter().find(|one| one.sandbox == old.id).unwrap().pid;
    assert!(site.tree.on_host(&format!("/proc/{pid}/stat")).is_file());
    let output = call(&site, "crictl", &format!("-t 60s --runtime-endpoint unix:///x.sock rmp -f {}", old.id));
    assert_eq!(stdout(&output), format!("Stopped sandbox {0}\nRemoved sandbox {0}\n", old.id));
    let new = scheduler(&site);
    assert_ne!(new.id, old.id);
    assert_eq!((new.attempt, &new.uid, &new.pod), (0, &old.uid, &old.pod));
    assert!(new.created_ns > old.created_ns);
    assert!(!site.tree.on_host(&format!("/proc/{pid}")).exists());
    assert_eq!(shown(&site), [(0, "SANDBOX_READY".to_owned())]);
    let gone = call(&site, "crictl", &format!("rmp -f {}", old.id));
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("NotFound"));
}

#[test]
fn lists_have_the_real_ones_shape() {
    let site = site(Layout::Kubespray);
    let list = json(&site, "-t 60s pods --namespace ^kube-system$ --name ^kube-scheduler-node1$ -o json");
    let pod = &list["items"][0];
    assert_eq!(pod["metadata"]["name"], "kube-scheduler-node1");
    assert_eq!(pod["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(pod["labels"]["component"], SCHEDULER);
    assert!(pod["createdAt"].as_str().unwrap().parse::<i64>().is_ok());
    let id = pod["id"].as_str().unwrap();
    assert_eq!(id.len(), 64);
    let containers = json(&site, "ps -a -o json");
    let container = containers["containers"].as_array().unwrap().iter().find(|one| one["podSandboxId"] == id).unwrap();
    assert_eq!(container["state"], "CONTAINER_RUNNING");
    let inspected = json(&site, &format!("inspect {}", container["id"].as_str().unwrap()));
    let pid = inspected["info"]["pid"].as_u64().unwrap();
    assert!(site.tree.read(&format!("/proc/{pid}/cmdline")).starts_with("kube-scheduler\0"));
    assert!(inspected["status"]["startedAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(json(&site, &format!("inspectp {id}"))["status"]["state"], "SANDBOX_READY");
    assert!(stdout(&call(&site, "crictl", "images -o json")).contains("pause"));
    assert_eq!(stdout(&call(&site, "crictl", "pods -q --label component=kube-scheduler")), format!("{id}\n"));
}

#[test]
fn filters_match_any_part_of_a_name_as_the_real_ones_do() {
    let site = site(Layout::Kubespray);
    site.world.add_pod("kube-scheduler-extender-66f", "kube-system", None);
    site.world.add_pod("kube-scheduler-node1", "kube-system-extra", Some(SCHEDULER));
    let count = |args: &str| json(&site, args)["items"].as_array().unwrap().len();
    assert_eq!(count("pods --name kube-scheduler --namespace kube-system -o json"), 3);
    assert_eq!(count("pods --name ^kube-scheduler-node1$ --namespace ^kube-system$ -o json"), 1);
    assert_eq!(count("pods --name kube-scheduler-* --namespace ^kube-system$ -o json"), 2);
    assert_eq!(count("pods --name ( -o json"), 0);
}

#[test]
fn without_an_id_a_removal_prints_its_usage_and_ends_well() {
    let site = site(Layout::Kubespray);
    let output = call(&site, "crictl", "rmp -f");
    assert!(output.status.success());
    assert!(stdout(&output).contains("USAGE"));
    let running = call(&site, "crictl", &format!("rmp {}", scheduler(&site).id));
    assert_eq!(running.status.code(), Some(1));
    assert_eq!(call(&site, "crictl", "pods --no-such-flag").status.code(), Some(1));
}

#[test]
fn a_static_pod_returns_as_it_is_told() {
    let ready = |attempt| (attempt, "SANDBOX_READY".to_owned());
    let not_ready = |attempt| (attempt, "SANDBOX_NOTREADY".to_owned());
    let table = [
        (Return::Never, vec![]),
        (Return::NotReady, vec![not_ready(0)]),
        (Return::Crashes, vec![ready(0)]),
        (Return::Twice, vec![ready(1), not_ready(0)]),
    ];
    for (how, expected) in table {
        let site = site(Layout::Kubespray);
        site.world.fault(|faults| _ = faults.returns.insert(SCHEDULER.to_owned(), how));
        call(&site, "crictl", &format!("rmp -f {}", scheduler(&site).id));
        assert_eq!(shown(&site), expected, "{how:?}");
        let running = json(&site, "ps -o json").to_string().contains("kube-scheduler-node1");
        assert_eq!(running, how == Return::Twice, "{how:?}");
    }
}

#[test]
fn a_pod_may_take_some_listings_to_be_seen() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| _ = faults.returns.insert(SCHEDULER.to_owned(), Return::After(2)));
    call(&site, "crictl", &format!("rmp -f {}", scheduler(&site).id));
    let seen: Vec<usize> = (0..4).map(|_| shown(&site).len()).collect();
    assert_eq!(seen, [0, 0, 1, 1]);
}

#[test]
fn a_removal_fails_as_it_is_told() {
    let table = [
        (Removal::DeadlineExceeded, 1, "DeadlineExceeded", true),
        (Removal::DeadlineExceededYetDone, 1, "DeadlineExceeded", false),
        (Removal::DoesNothing, 0, "", true),
        (Removal::Fails, 1, "failed to forcibly stop", true),
    ];
    for (how, code, words, stays) in table {
        let site = site(Layout::Kubespray);
        site.world.fault(|faults| faults.removals = vec![how, Removal::Ordinary]);
        let old = scheduler(&site);
        let output = call(&site, "crictl", &format!("rmp -f {}", old.id));
        assert_eq!(output.status.code(), Some(code), "{how:?}");
        assert!(stderr(&output).contains(words), "{how:?}");
        assert_eq!(scheduler(&site).id == old.id, stays, "{how:?}");
        let again = call(&site, "crictl", &format!("rmp -f {}", scheduler(&site).id));
        assert!(again.status.success());
    }
}

#[test]
fn the_runtime_answers_as_it_is_told() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let output = call(&site, "crictl", "pods -o json");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr(&output).contains("connect endpoint"));
    site.world.fault(|faults| faults.runtime = Runtime::Empty);
    assert_eq!(json(&site, "pods -o json")["items"].as_array().unwrap().len(), 0);
    site.world.fault(|faults| faults.runtime = Runtime::Warns);
    let output = call(&site, "crictl", "pods -q --label component=kube-scheduler");
    assert!(stderr(&output).starts_with("WARN"));
    assert_eq!(stdout(&output), format!("{}\n", scheduler(&site).id));
    site.world.fault(|faults| faults.missing_images = vec!["k8s.gcr.io/kube-scheduler:v1.20.2".to_owned()]);
    assert!(!stdout(&call(&site, "crictl", "images -o json")).contains(SCHEDULER));
    assert_eq!(call(&site, "crictl", "inspecti k8s.gcr.io/kube-scheduler:v1.20.2").status.code(), Some(1));
}

#[test]
fn a_stopped_container_starts_again_in_its_sandbox() {
    let site = site(Layout::Kubespray);
    let sandbox = scheduler(&site);
    let first = site.world.state().containers.into_iter().find(|one| one.sandbox == sandbox.id).unwrap();
    assert!(call(&site, "crictl", &format!("-t 60s stop -t 30 {}", first.id)).status.success());
    assert_eq!(site.world.acts(), ["crictl -t 60s stop -t 30 kube-scheduler@1/kube-scheduler.0"]);
    let state = site.world.state();
    let all: Vec<_> = state.containers.iter().filter(|one| one.sandbox == sandbox.id).collect();
    assert_eq!(all.iter().map(|one| (one.attempt, one.running)).collect::<Vec<_>>(), [(0, false), (1, true)]);
    assert_eq!(scheduler(&site).id, sandbox.id);
}

#[test]
fn without_a_kubelet_nothing_comes_back() {
    let site = site(Layout::Kubespray);
    assert!(site.tree.on_host("/proc/700/stat").is_file());
    site.world.fault(|faults| faults.kubelet_down = true);
    assert!(!site.tree.on_host("/proc/700").exists());
    call(&site, "crictl", &format!("rmp -f {}", scheduler(&site).id));
    assert!(site.world.sandbox(SCHEDULER).is_none());
}

#[test]
fn docker_shows_the_same_pods_by_dockershims_names() {
    let site = site(Layout::Kubespray);
    let old = scheduler(&site);
    let list = || {
        let output =
            call(&site, "docker", "ps -a --no-trunc --filter name=_kube-scheduler-node1_ --format {{.ID}}={{.Names}}");
        let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        lines
    };
    let pod = format!("kube-scheduler-node1_kube-system_{}_0", old.uid);
    let shown = list();
    assert_eq!(shown.len(), 2);
    assert!(shown.contains(&format!("{}=k8s_POD_{pod}", old.id)));
    assert!(shown.iter().any(|line| line.ends_with(&format!("=k8s_kube-scheduler_{pod}"))));
    let output = Command::new(site.world.tool("docker")).args(["ps", "-a", "--format", "{{json .}}"]).output().unwrap();
    for line in stdout(&output).lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["Status"].as_str().unwrap().starts_with("Up"));
    }
    assert_eq!(call(&site, "docker", &format!("rm {}", old.id)).status.code(), Some(1));
    assert!(call(&site, "docker", &format!("rm -f {}", old.id)).status.success());
    // the new pair, and the container of the old sandbox, which has ended
    assert_eq!(list().len(), 3);
    assert_ne!(scheduler(&site).id, old.id);
    let ended = list().pop().unwrap();
    assert!(call(&site, "docker", &format!("rm -f {}", ended.split_once('=').unwrap().0)).status.success());
    assert_eq!(list().len(), 2);
    let inspected: Value =
        serde_json::from_slice(&call(&site, "docker", &format!("inspect {}", scheduler(&site).id)).stdout).unwrap();
    assert_eq!(inspected[0]["State"]["Running"], true);
}
