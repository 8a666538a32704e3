//! What a restart needs: the tools, a runtime that has the pods, a kubelet that brings them back.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use k8s_certs_renew::host::Signals;

use super::seen::{
    APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, impatient, owed, renewed_and_copied,
    run_impatiently, sandboxes, script, text, with_tools,
};
use super::{Ran, now, plan, run, run_by, site, start, start_by};
use crate::support::clock::StillClock;
use crate::support::faults::{Return, Runtime};
use crate::support::site::Site;
use crate::support::world::demo;

#[test]
fn where_only_docker_has_the_pods_it_is_docker_that_restarts_them() {
    let expected: Vec<String> = std::iter::once(RENEW_ALL.to_owned())
        .chain(
            ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
                .iter()
                .flat_map(|name| [format!("docker rm -f {name}@1"), format!("docker rm -f {name}@1/{name}.0")]),
        )
        .collect();
    let dockershim = ["/usr/local/bin/kubelet", "--network-plugin=cni"];
    let cri_dockerd = ["/usr/local/bin/kubelet", "--container-runtime-endpoint=unix:///run/cri-dockerd.sock"];
    for (kubelet, crictl) in [
        (&dockershim[..], None),
        (&dockershim[..], Some("echo 'FATA[0000] connect: no such file' >&2; exit 1")),
        (&cri_dockerd[..], Some(r#"echo '{"items":[]}'"#)),
        (&cri_dockerd[..], Some("echo '{}'")),
    ] {
        let site = Site::with(&demo(), plan(5), |setup| {
            setup.kubelet = kubelet.iter().map(|&word| word.to_owned()).collect();
        });
        let before = files(&site);
        let (kubeadm, docker) = (site.world.tool("kubeadm"), site.world.tool("docker"));
        let mut tools = vec![("kubeadm", text(&kubeadm)), ("docker", text(&docker))];
        let crictl = crictl.map(|body| script(&site, "crictl", body));
        tools.extend(crictl.iter().map(|path| ("crictl", text(path))));
        let ran = start(with_tools(&site, &tools), &[], &Signals::none());
        assert_eq!(ran.code, 0, "{kubelet:?} {crictl:?}: {}", ran.text());
        assert_eq!(site.world.acts(), expected, "{kubelet:?} {crictl:?}");
        assert_eq!(
            sandboxes(&site),
            ["kube-apiserver@2", "kube-controller-manager@2", "kube-scheduler@2"],
            "{kubelet:?} {crictl:?}"
        );
        assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
        assert_eq!(owed(&site), None);
    }
}

#[test]
fn a_pod_that_does_not_come_back_under_docker_is_told_likewise() {
    let site = Site::with(&demo(), plan(5), |setup| setup.kubelet.truncate(1));
    site.world.fault(|faults| {
        faults.returns.insert("kube-controller-manager".to_owned(), Return::Never);
    });
    let argv = [site.options(), vec!["--runtime=docker".into(), "--docker".into(), site.world.tool("docker").into()]];
    let argv: Vec<OsString> = ["k8s-certs-renew", "run"].map(OsString::from).into_iter().chain(argv.concat()).collect();
    let ran = start_by(&impatient(), argv, &[], &Signals::none());
    assert_eq!(ran.code, 21, "{}", ran.text());
    assert_eq!(owed(&site).unwrap(), ["kube-controller-manager", "kube-scheduler"]);
    assert!(!site.world.calls().iter().any(|call| call.starts_with("crictl")), "{:?}", site.world.calls());
}

#[test]
fn a_runtime_without_the_pods_is_no_success_and_nothing_is_removed() {
    let site = site(5);
    let before = files(&site);
    site.world.fault(|faults| faults.runtime = Runtime::Empty);
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert_eq!(site.world.acts(), [RENEW_ALL]);
    assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
    assert_eq!(owed(&site).unwrap(), ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);
}

#[test]
fn a_tool_that_cannot_be_used_ends_the_run_before_anything_is_changed() {
    let site = site(5);
    let plain = site.world.dir().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).unwrap();
    let absent = site.world.dir().join("absent/kubeadm");
    let before = files(&site);
    for (unfit, why) in
        [(text(&absent), "not there"), (text(&plain), "not executable"), (text(site.world.dir()), "not a regular file")]
    {
        for (bad, good) in [("kubeadm", "crictl"), ("crictl", "kubeadm")] {
            let other = site.world.tool(good);
            let ran = start(with_tools(&site, &[(bad, unfit), (good, text(&other))]), &[], &Signals::none());
            assert_eq!(ran.code, 69, "{bad} {why}: {}", ran.text());
            assert!(ran.err.contains(unfit) && ran.err.contains(why), "{bad} {why}: {}", ran.err);
            assert!(ran.err.contains(&format!("--{bad} PATH")), "{bad} {why}: {}", ran.err);
            assert_eq!(site.world.acts(), Vec::<String>::new(), "{bad} {why}");
            assert_eq!(changed(&before, &files(&site)), Vec::<String>::new(), "{bad} {why}");
            assert!(!site.tree.on_host("/var/lib/k8s-certs-renew").exists(), "{bad} {why}");
        }
    }
    assert_eq!(run(&site, &[]).code, 0);
}

#[test]
fn a_tool_for_another_machine_is_named_and_leaves_the_files_as_they_are() {
    let site = site(5);
    let before = files(&site);
    let foreign = site.world.dir().join("foreign");
    std::fs::write(&foreign, b"\x7fELF\x02\x01\x01 of another machine").unwrap();
    std::fs::set_permissions(&foreign, PermissionsExt::from_mode(0o755)).unwrap();
    let crictl = site.world.tool("crictl");
    let ran =
        start(with_tools(&site, &[("kubeadm", text(&foreign)), ("crictl", text(&crictl))]), &[], &Signals::none());
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(ran.err.contains("cannot be started") && ran.err.contains(text(&foreign)), "{}", ran.err);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(site.world.acts(), Vec::<String>::new());
    assert_eq!(owed(&site), None, "nothing was renewed, so nothing is owed");
}

#[test]
fn a_tool_is_found_on_the_path() {
    let site = site(5);
    let bin = site.world.dir().join("bin");
    let path = format!("/nowhere:relative::{}", bin.display());
    let found = k8s_certs_renew::host::tools::find("crictl", None, Some(path.as_ref())).unwrap();
    assert_eq!(found, bin.join("crictl"));
}

#[test]
fn while_the_runtime_is_down_the_files_are_renewed_and_nothing_is_removed() {
    let site = site(5);
    let before = (files(&site), sandboxes(&site));
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let ran = run_impatiently(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    let deferred = ran.headlines().into_iter().find(|line| line.starts_with("Deferred: ")).unwrap().to_owned();
    assert!(deferred.starts_with("Deferred: the container runtime does not answer: "), "{deferred}");
    assert_eq!(site.world.acts(), [RENEW_ALL]);
    assert_eq!(changed(&before.0, &files(&site)), renewed_and_copied());
    assert_eq!(sandboxes(&site), before.1);
    assert_eq!(owed(&site).unwrap(), ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);

    // still down: what is owed stays owed, and nothing is renewed again
    let serials = site.serials();
    site.world.forget_calls();
    assert_eq!(run_impatiently(&site, &[]).code, 23);
    assert_eq!(site.world.acts(), Vec::<String>::new());

    site.world.fault(|_| {});
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(site.renewed_since(&serials), Vec::<String>::new());
    assert_eq!(owed(&site), None);
}

#[test]
fn a_runtime_that_is_still_starting_is_waited_for() {
    let site = site(5);
    // below 2 minutes of waiting
    let crictl = script(
        &site,
        "crictl",
        &format!("echo >> $0.n; [ $(wc -l < $0.n) -gt 3 ] && exec {} \"$@\"; exit 1", text(&site.world.tool("crictl"))),
    );
    let kubeadm = site.world.tool("kubeadm");
    let argv = with_tools(&site, &[("kubeadm", text(&kubeadm)), ("crictl", text(&crictl))]);
    let clock = StillClock::at(now());
    let ran = start_by(&clock, argv, &[], &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(clock.slept() >= Duration::from_millis(900), "{:?}", clock.slept());
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
}

#[test]
fn while_kubelet_is_dead_nothing_is_removed() {
    let site = site(5);
    let before = (files(&site), sandboxes(&site));
    site.world.fault(|faults| faults.kubelet_down = true);
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.out.contains("## Deferred: kubelet is not running"), "{}", ran.out);
    assert!(ran.out.contains("systemctl start kubelet"), "{}", ran.out);
    assert_eq!(site.world.acts(), [RENEW_ALL]);
    assert_eq!(changed(&before.0, &files(&site)), renewed_and_copied());
    assert_eq!(sandboxes(&site), before.1);
    assert_eq!(owed(&site).unwrap(), ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);
}

/// What happens to kubelet while the run waits for kube-apiserver: its `/proc` entry is changed so.
fn kubelet_meanwhile(act: fn(&Path)) -> (Site, Ran) {
    let site = site(5);
    site.world.fault(|faults| {
        faults.returns.insert("kube-apiserver".to_owned(), Return::After(1));
    });
    let entry = site.tree.on_host("/proc/700");
    let clock = StillClock::at(now()).meanwhile(move |number| {
        if number == 1 {
            act(&entry);
        }
    });
    let ran = run_by(&clock, &site, &[], &Signals::none());
    (site, ran)
}

#[test]
fn a_kubelet_that_is_restarted_or_ends_between_two_removals_defers_the_rest() {
    let restarted: fn(&Path) = |entry| {
        let stat = std::fs::read_to_string(entry.join("stat")).unwrap();
        std::fs::write(entry.join("stat"), stat.replace(" 1000 0 0\n", " 5000 0 0\n")).unwrap();
    };
    let ended: fn(&Path) = |entry| std::fs::remove_dir_all(entry).unwrap();
    for (act, why) in [(restarted, "kubelet was restarted meanwhile"), (ended, "kubelet has ended meanwhile")] {
        let (site, ran) = kubelet_meanwhile(act);
        assert_eq!(ran.code, 23, "{why}: {}", ran.text());
        assert!(ran.out.contains(&format!("## Deferred: {why}")), "{why}: {}", ran.out);
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER], "{why}");
        assert_eq!(owed(&site).unwrap(), ["kube-controller-manager", "kube-scheduler"], "{why}");
        assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
    }
}

#[test]
fn warnings_of_crictl_and_a_configuration_that_points_to_a_dead_socket_change_nothing() {
    let yamls = [
        None,
        Some("runtime-endpoint: unix:///var/run/dockershim.sock\nimage-endpoint: unix:///var/run/dockershim.sock\n"),
        Some("timeout: 10\ndebug: true\n"),
        Some("runtime-endpoint: [\n"),
    ];
    for yaml in yamls {
        let site = site(5);
        if let Some(yaml) = yaml {
            site.tree.write("/etc/crictl.yaml", yaml);
        }
        site.world.fault(|faults| faults.runtime = Runtime::Warns);
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{yaml:?}: {}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{yaml:?}");
        assert_eq!(sandboxes(&site), ["kube-apiserver@2", "kube-controller-manager@2", "kube-scheduler@2"], "{yaml:?}");
    }
}

#[test]
fn below_another_root_a_tool_of_this_machine_is_never_used_in_place_of_one_that_was_not_named() {
    let site = Site::with(&demo(), plan(5), |setup| setup.kubelet.truncate(1));
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    let path = site.world.dir().join("bin");
    let argv = with_tools(
        &site,
        &[("kubeadm", text(&site.world.tool("kubeadm"))), ("crictl", text(&site.world.tool("crictl")))],
    );
    let ran = start_by(&impatient(), argv, &[("PATH", text(&path))], &Signals::none());
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(!site.world.calls().iter().any(|call| call.starts_with("docker")), "{:?}", site.world.calls());
}
