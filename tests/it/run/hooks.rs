//! Commands around each restart: a load balancer is told, and never forgotten.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use k8s_certs_renew::host::Signals;

use super::binary::program;
use super::seen::owed;
use super::turns::peer;
use super::{Ran, run, run_by, site, stacked, start};
use crate::support::clock::StillClock;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, TlsServer};

/// A hook that writes down how it was called, and fails where a file says so.
fn hook(site: &Site) -> String {
    let dir = site.world.dir();
    let path = dir.join("hook.sh");
    let text = format!(
        "#!/bin/sh\necho \"$K8S_CERTS_RENEW_PHASE $K8S_CERTS_RENEW_COMPONENT $K8S_CERTS_RENEW_NODE $*\" >> '{0}/hooks.log'\ntest ! -e \"{0}/fail-$K8S_CERTS_RENEW_PHASE\"\n",
        dir.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{} 'with two' words", path.display())
}

fn log(site: &Site) -> Vec<String> {
    let text = std::fs::read_to_string(site.world.dir().join("hooks.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn fail(site: &Site, phase: &str) -> PathBuf {
    let path = site.world.dir().join(format!("fail-{phase}"));
    std::fs::write(&path, "").unwrap();
    path
}

fn run_with_hooks(site: &Site) -> Ran {
    let hook = hook(site);
    run(site, &["--pre-restart", &hook, "--post-restart", &hook])
}

fn calls(of: &[(&str, &str)]) -> Vec<String> {
    of.iter().map(|(phase, component)| format!("{phase} {component} node1 with two words")).collect()
}

#[test]
fn each_restart_has_its_hooks_before_and_after_it() {
    let site = site(5);
    let ran = run_with_hooks(&site);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let expected = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        .map(|component| [("pre-restart", component), ("post-restart", component)])
        .concat();
    assert_eq!(log(&site), calls(&expected));
    assert_eq!(run_with_hooks(&site).code, 0);
    assert_eq!(log(&site).len(), 6, "a run that restarts nothing calls none");
}

#[test]
fn a_hook_that_fails_before_a_restart_leaves_the_component_running_and_is_taken_back() {
    let site = site(5);
    let failing = fail(&site, "pre-restart");
    let ran = run_with_hooks(&site);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.out.contains("Deferred: the pre-restart hook for kube-apiserver failed"), "{}", ran.out);
    assert_eq!(log(&site), calls(&[("pre-restart", "kube-apiserver"), ("post-restart", "kube-apiserver")]));
    assert_eq!(site.world.acts().iter().filter(|act| act.contains("rmp")).count(), 0);
    std::fs::remove_file(failing).unwrap();
    let ran = run_with_hooks(&site);
    assert_eq!((ran.code, owed(&site)), (0, None), "{}", ran.text());
}

#[test]
fn a_hook_that_fails_after_a_restart_is_told_and_called_again_by_the_next_run() {
    let site = site(5);
    let failing = fail(&site, "post-restart");
    let ran = run_with_hooks(&site);
    assert_eq!((ran.code, owed(&site)), (23, None), "{}", ran.text());
    assert!(ran.err.contains("the post-restart hook for kube-scheduler failed"), "{}", ran.err);
    assert_eq!(site.world.acts().iter().filter(|act| act.contains("rmp")).count(), 3, "the node itself is done");
    let before = log(&site).len();
    let ran = run_with_hooks(&site);
    assert_eq!(ran.code, 23, "{}", ran.text());
    let owes =
        ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(|component| ("post-restart", component));
    assert_eq!(log(&site)[before..], calls(&owes));
    std::fs::remove_file(failing).unwrap();
    assert_eq!(run_with_hooks(&site).code, 0);
    let after = log(&site).len();
    let ran = run_with_hooks(&site);
    assert_eq!((ran.code, log(&site).len()), (0, after), "{}", ran.text());
}

#[test]
fn a_run_that_ends_in_between_leaves_the_hook_to_the_next_run() {
    let site = site(5);
    let hook = hook(&site);
    let args = ["--pre-restart", &hook, "--post-restart", &hook];
    site.servers
        .apiserver
        .script(|script| script.restarted = [vec![Answer::Status(500); 10], vec![Answer::Ready]].concat());
    let signals = Signals::none();
    let clock = StillClock::at(super::now()).raising(15, 3, &signals);
    let ran = run_by(&clock, &site, &args, &signals);
    assert_eq!(ran.code, 143, "{}", ran.text());
    assert_eq!(log(&site), calls(&[("pre-restart", "kube-apiserver")]));
    let ran = run(&site, &args);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let count = |call: &str| log(&site).iter().filter(|line| line.starts_with(call)).count();
    assert_eq!(count("post-restart kube-apiserver"), 1, "{:?}", log(&site));
    assert_eq!(count("pre-restart"), count("post-restart") + usize::from(count("pre-restart kube-apiserver") == 2));
}

#[test]
fn a_hook_that_is_owed_and_not_configured_any_more_is_told_once() {
    let site = site(5);
    fail(&site, "post-restart");
    assert_eq!(run_with_hooks(&site).code, 23);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.err.contains("there is no --post-restart any more"), "{}", ran.err);
    assert_eq!(run(&site, &[]).err.matches("--post-restart").count(), 0);
}

/// A node whose run was killed by the hook before the restart of kube-apiserver, and which has to wait for another one now.
fn killed_while_drained() -> (Site, TlsServer) {
    let site = stacked(20);
    let other = peer(&site, "node2");
    let path = site.world.dir().join("kills.sh");
    std::fs::write(&path, "#!/bin/sh\nkill -9 $PPID\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let status = program(&site, &["--pre-restart", path.to_str().unwrap()]).output().unwrap().status;
    assert_eq!(status.code(), None, "not killed: {status}");
    super::lock_is_free(site.tree.dir());
    other.script(|script| script.first = vec![Answer::Status(500)]);
    (site, other)
}

fn run_hastily_with_hooks(site: &Site) -> Ran {
    let hook = hook(site);
    let clock = StillClock::at(super::now()).oversleeping(std::time::Duration::from_secs(100));
    run_by(&clock, site, &["--pre-restart", &hook, "--post-restart", &hook], &Signals::none())
}

#[test]
fn a_drained_node_whose_restart_is_put_off_comes_back_and_is_drained_again_by_the_restart() {
    let (site, other) = killed_while_drained();
    let ran = run_hastily_with_hooks(&site);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert_eq!(log(&site), calls(&[("post-restart", "kube-apiserver")]), "{}", ran.text());
    assert!(owed(&site).unwrap().contains(&"kube-apiserver".to_owned()));
    other.script(|script| script.first = vec![Answer::Ready]);
    let ran = run_hastily_with_hooks(&site);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(log(&site)[1..3], calls(&[("pre-restart", "kube-apiserver"), ("post-restart", "kube-apiserver")]));
}

#[test]
fn a_drained_node_whose_api_server_is_not_ready_stays_drained() {
    let (site, _other) = killed_while_drained();
    site.servers.apiserver.script(|script| script.first = vec![Answer::Status(500)]);
    let ran = run_hastily_with_hooks(&site);
    assert_eq!((ran.code, log(&site).len()), (22, 0), "{}", ran.text());
    assert!(ran.err.contains("the node stays drained for kube-apiserver: 127.0.0.1:"), "{}", ran.err);
}

#[test]
fn what_a_hook_that_failed_has_written_is_in_the_log_and_in_no_event() {
    for phase in ["pre-restart", "post-restart"] {
        let site = site(5);
        let path = site.world.dir().join("talks.sh");
        let text =
            format!("#!/bin/sh\ntest \"$K8S_CERTS_RENEW_PHASE\" != {phase} || {{ echo token=s3cret >&2; exit 7; }}\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let hook = path.display().to_string();
        let ran = run(&site, &["--pre-restart", &hook, "--post-restart", &hook]);
        assert_eq!(ran.code, 23, "{}", ran.text());
        assert!(ran.err.contains("token=s3cret"), "{}", ran.err);
        let events = serde_json::to_string(&site.servers.cluster.edit(|objects| objects.events.clone())).unwrap();
        assert!(!events.contains("s3cret"), "{events}");
        if phase == "pre-restart" {
            assert!(events.contains("the pre-restart hook for kube-apiserver failed (exit code 7)"), "{events}");
        }
    }
}

#[test]
fn a_command_without_an_absolute_path_is_refused() {
    let site = site(5);
    let mut argv = vec!["k8s-certs-renew".into(), "run".into(), "--pre-restart".into(), "drain me".into()];
    argv.extend(site.options());
    let ran = start(argv, &[], &Signals::none());
    assert_eq!(ran.code, 64, "{}", ran.text());
    assert!(ran.err.contains("no absolute path"), "{}", ran.err);
}
