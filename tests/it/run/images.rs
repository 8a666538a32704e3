//! Nothing is removed that would need a registry to come back.

use std::ffi::OsString;

use k8s_certs_renew::host::Signals;

use super::seen::{APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, owed, renewed_and_copied};
use super::{Ran, plan, run, site, start, untouched};
use crate::support::faults::Images;
use crate::support::kubelet::PAUSE;
use crate::support::site::Site;
use crate::support::world::demo;

const SCHEDULERS: &str = "k8s.gcr.io/kube-scheduler:v1.20.2";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";

/// Runs it on docker, first dry.
fn on_docker(site: &Site, args: &[&str]) -> Ran {
    let docker = ["--runtime=docker".into(), "--docker".into(), site.world.tool("docker").into()];
    let argv = ["k8s-certs-renew", "run"].iter().chain(args).map(OsString::from);
    start(argv.chain(site.options()).chain(docker).collect(), &[], &Signals::none())
}

/// The lines that say what is put off.
fn deferred(ran: &Ran) -> Vec<String> {
    ran.headlines().into_iter().filter_map(|line| line.strip_prefix("Deferred: ")).map(str::to_owned).collect()
}

#[test]
fn a_component_whose_image_is_missing_stays_up_the_others_are_restarted_and_the_next_run_finishes() {
    let site = site(5);
    site.world.fault(|faults| faults.missing_images = vec![SCHEDULERS.to_owned()]);
    let told = [format!(
        "the container runtime does not have '{SCHEDULERS}', which kube-scheduler runs, so that would not come back where no registry answers (crictl pull {SCHEDULERS})"
    )];
    let untouched_files = super::files(&site);
    let ran = run(&site, &["--dry-run"]);
    assert_eq!((ran.code, deferred(&ran)), (23, told.to_vec()), "{}", ran.text());
    untouched(&site, &untouched_files);

    let before = files(&site);
    let ran = run(&site, &[]);
    assert_eq!((ran.code, deferred(&ran)), (23, told.to_vec()), "{}", ran.text());
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER]);
    assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
    assert_eq!(owed(&site).unwrap(), ["kube-scheduler"]);

    site.world.fault(|_| {});
    site.world.forget_calls();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, deferred(&ran)), (10, Vec::new()), "{}", ran.text());
    assert_eq!(site.world.acts(), [SCHEDULER]);
    assert_eq!(owed(&site), None);
}

#[test]
fn an_image_that_only_an_init_container_needs_counts_too() {
    let site = site(5);
    let before = "  initContainers:\n  - {name: before, image: 'example.org/before:1'}\n";
    let manifest = site.tree.read(MANIFEST).replace("  hostNetwork: true\n", &format!("{before}  hostNetwork: true\n"));
    site.tree.write(MANIFEST, manifest);
    site.world.fault(|faults| faults.missing_images = vec![SCHEDULERS.to_owned()]);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    let pulls = format!("(crictl pull example.org/before:1; crictl pull {SCHEDULERS})");
    assert!(deferred(&ran)[0].ends_with(&pulls), "{}", ran.out);
    site.world.fault(|_| {});
    site.world.edit(|state| state.images.push("example.org/before:1".to_owned()));
    assert_eq!(run(&site, &["--detailed-exitcode"]).code, 10);
    assert_eq!(owed(&site), None);
}

// info tells it, or what runs now, or cri-dockerd's own flag
#[test]
fn without_the_pause_image_nothing_is_removed_whoever_tells_its_name() {
    let other = "example.org/pause:1";
    for (info_is_silent, sandboxes_are_silent, cri_dockerd, pause) in
        [(false, false, false, PAUSE), (true, false, false, PAUSE), (true, true, true, other)]
    {
        let site = site(5);
        if cri_dockerd {
            let stat = "4242 (cri-dockerd) S 1 4242 4242 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 5000 0 0\n";
            site.tree.write("/proc/4242/stat", stat);
            let cmdline = format!("/usr/bin/cri-dockerd\0--pod-infra-container-image={other}\0");
            site.tree.write("/proc/4242/cmdline", cmdline);
        }
        let fault = |missing: &[&str]| {
            site.world.fault(|faults| {
                faults.missing_images = missing.iter().map(|&image| image.to_owned()).collect();
                (faults.info_is_silent, faults.sandboxes_are_silent) = (info_is_silent, sandboxes_are_silent);
            });
        };
        fault(&[pause]);
        let told = format!(
            "the container runtime does not have its pause image '{pause}', so no pod would come back where no registry answers (crictl pull {pause})"
        );
        let dry = run(&site, &["--dry-run"]);
        assert_eq!((dry.code, deferred(&dry)), (23, vec![told.clone()]), "{}", dry.text());
        let before = files(&site);
        let ran = run(&site, &[]);
        assert_eq!((ran.code, deferred(&ran)), (23, vec![told]), "{}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL]);
        assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
        assert_eq!(owed(&site).unwrap().len(), 3);
        fault(&[]);
        site.world.edit(|state| state.images.push(pause.to_owned()));
        assert_eq!(run(&site, &["--detailed-exitcode"]).code, 10);
        assert_eq!(owed(&site), None);
    }
}

// containerd and CRI-O have a pause image of their own: kubelet's flag only keeps its one from being collected
#[test]
fn a_pause_image_that_nobody_tells_is_not_looked_for_and_kubelets_flag_is_not_the_runtimes() {
    let flag = "--pod-infra-container-image=example.org/not/there:1";
    for silent in [false, true] {
        let site = Site::with(&demo(), plan(5), |setup| setup.kubelet.push(flag.to_owned()));
        site.world.fault(|faults| {
            (faults.info_is_silent, faults.sandboxes_are_silent) = (silent, silent);
            if silent {
                faults.missing_images = vec![PAUSE.to_owned()];
            }
        });
        assert_eq!(run(&site, &["--dry-run"]).err.matches("pause").count(), 0);
        let ran = run(&site, &["--verbose"]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert_eq!(ran.err.contains("does not tell its pause image"), silent, "{}", ran.err);
    }
}

#[test]
fn a_list_of_images_that_cannot_be_had_is_told_once_and_puts_nothing_off() {
    for images in [Images::Empty, Images::Garbled, Images::Refused] {
        let site = site(5);
        site.world.fault(|faults| {
            faults.images = images;
            faults.missing_images = vec![SCHEDULERS.to_owned()];
        });
        for args in [&["--dry-run"][..], &[]] {
            let ran = run(&site, args);
            assert_eq!(ran.code, 0, "{images:?}: {}", ran.text());
            let words = "warning: cannot tell which images the container runtime has";
            assert_eq!(ran.err.matches(words).count(), 1, "{images:?}: {}", ran.err);
        }
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{images:?}");
    }
}

#[test]
fn under_docker_images_are_looked_for_likewise() {
    let other = "example.org/pause:1";
    let flag = format!("--pod-infra-container-image={other}");
    let table = [
        (None, SCHEDULERS, "kube-scheduler runs", 1),
        // what the sandboxes run on now, or what dockershim was told
        (None, PAUSE, "pause image", 3),
        (Some(flag), other, "pause image", 3),
    ];
    for (flag, missing, words, owing) in table {
        let site = Site::with(&demo(), plan(5), |setup| {
            setup.kubelet.truncate(1);
            setup.kubelet.extend(flag);
        });
        site.world.fault(|faults| faults.missing_images = vec![missing.to_owned()]);
        for args in [&["--dry-run"][..], &[]] {
            let ran = on_docker(&site, args);
            let told = deferred(&ran);
            assert_eq!((ran.code, told.len()), (23, 1), "{missing}: {}", ran.text());
            assert!(told[0].contains(words) && told[0].contains(&format!("docker pull {missing}")), "{told:?}");
        }
        assert_eq!(owed(&site).unwrap().len(), owing, "{missing}");
        site.world.fault(|_| {});
        site.world.edit(|state| state.images.push(missing.to_owned()));
        assert_eq!(on_docker(&site, &["--detailed-exitcode"]).code, 10);
        assert_eq!(owed(&site), None);
    }
}

#[test]
fn a_run_that_restarts_nothing_asks_for_no_image() {
    for (left, args) in [(300, &[][..]), (5, &["--restart", "none"])] {
        let site = site(left);
        run(&site, args);
        assert!(!site.world.calls().iter().any(|call| call.starts_with("crictl")), "{:?}", site.world.calls());
    }
}
