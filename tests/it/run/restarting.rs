//! Restarting static pods: which ones, in which order, and what happens when one does not come back.

use super::seen::{
    APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, owed, renewed_and_copied, run_impatiently,
    sandboxes,
};
use super::{plan, run, site, stacked};
use crate::support::faults::{Removal, Renewal, Return, Runtime, then};
use crate::support::kubelet::Sandbox;
use crate::support::manifests::pod;
use crate::support::site::Site;
use crate::support::world::demo;

#[test]
fn pods_that_only_look_like_static_pods_of_the_control_plane_are_left_alone() {
    for node in ["node1", "node1.example.com", "a+b", "n.1"] {
        let site = Site::with(&demo(), plan(5), |setup| node.clone_into(&mut setup.node));
        site.tree.write("/etc/hostname", format!("{node}\n"));
        let others = [
            ("calico-etcd-7xk2p", "kube-system", Some("etcd")),
            ("etcd-backup-29123-abcde", "kube-system", None),
            ("etcdproxy-1", "kube-system", None),
            ("my-kube-scheduler-extender-66f", "kube-system", Some("kube-scheduler")),
            ("kube-apiserver-aab", "kube-system", Some("kube-apiserver")),
            ("kube-scheduler-nx1", "kube-system", Some("kube-scheduler")),
            ("kube-apiserver-node1xexample.com", "kube-system", Some("kube-apiserver")),
        ];
        for (name, namespace, component) in others {
            site.world.add_pod(name, namespace, component);
        }
        // the very name, but from the API; and static pods of another name or namespace
        site.world.add_pod(&format!("kube-scheduler-{node}"), "kube-system", Some("kube-scheduler"));
        site.world.edit(|state| {
            let own = state.newest("kube-apiserver").unwrap().clone();
            for (name, namespace) in [("kube-apiserver", "kube-system-extra"), ("kube-apiserver-proxy", "kube-system")]
            {
                let (pod, id) = (format!("{name}-{node}"), format!("{namespace}{name}").replace('-', "a"));
                state.names.insert(id.clone(), format!("{name} in {namespace}"));
                let component = Some(name.to_owned());
                let (uid, created_ns) = (format!("{:0>32}", id.len()), own.created_ns - 1);
                let namespace = namespace.to_owned();
                state.sandboxes.push(Sandbox { id, pod, namespace, component, uid, created_ns, ..own.clone() });
            }
        });
        let before = sandboxes(&site);
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{node}: {}", ran.text());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{node}");
        let gone: Vec<String> = before.into_iter().filter(|name| !sandboxes(&site).contains(name)).collect();
        assert_eq!(gone, ["kube-apiserver@1", "kube-controller-manager@1", "kube-scheduler@1"], "{node}");
    }
}

#[test]
fn a_kubelet_that_overrides_its_host_name_names_the_pods() {
    let site = Site::with(&demo(), plan(5), |setup| {
        setup.node = "master-a".to_owned();
        setup.kubelet.push("--hostname-override=Master-A".to_owned());
    });
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
}

// P06
#[test]
fn a_component_that_does_not_come_back_ends_the_restarts_and_the_next_run_makes_up_for_it() {
    let site = site(5);
    let before = files(&site);
    site.world.fault(|faults| {
        faults.returns.insert("kube-controller-manager".to_owned(), Return::After(1000));
    });
    let ran = run_impatiently(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 21, "{}", ran.text());
    assert!(
        ran.err.contains("error: kube-controller-manager is not back: kubelet has made no new sandbox"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("journalctl -u kubelet"), "{}", ran.err);
    assert!(
        ran.err.contains("still to be restarted, by the next run: kube-controller-manager, kube-scheduler"),
        "{}",
        ran.err
    );
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER]);
    assert_eq!(ran.headlines().last(), Some(&"Expiration after renewal"));
    assert!(ran.headlines().contains(&"Updating /root/.kube/config"));
    assert!(ran.headlines().contains(&"Waiting for apiserver to be up again"));
    assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
    assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
    assert_eq!(owed(&site).unwrap(), ["kube-controller-manager", "kube-scheduler"]);

    // kubelet has made it at last
    site.world.fault(|_| {});
    site.world.edit(|state| state.sandboxes.iter_mut().for_each(|one| one.hidden_for = 0));
    site.world.forget_calls();
    let serials = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(
        ran.headlines(),
        ["Check Expiration before renewal", "Restarting only: kube-scheduler", "Waiting for apiserver to be up again"],
        "kube-controller-manager is proven to be in use by now"
    );
    assert_eq!(site.world.acts(), [SCHEDULER]);
    assert_eq!(site.renewed_since(&serials), Vec::<String>::new());
    assert_eq!(owed(&site), None);
    site.world.forget_calls();
    assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

#[test]
fn a_sandbox_that_is_not_ready_or_whose_container_has_ended_is_no_running_pod() {
    let cases = [
        (Return::Never, "there is no sandbox of it"),
        (Return::NotReady, "not ready: no container"),
        (Return::Crashes, "ready: container kube-scheduler (attempt 0) not running"),
    ];
    for (how, state) in cases {
        let site = site(5);
        site.world.fault(|faults| {
            faults.returns.insert("kube-scheduler".to_owned(), how);
        });
        let ran = run_impatiently(&site, &[]);
        assert_eq!(ran.code, 21, "{how:?}: {}", ran.text());
        assert!(ran.err.contains("error: kube-scheduler is not back: "), "{how:?}: {}", ran.err);
        assert!(ran.err.contains(state), "{how:?}: {}", ran.err);
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{how:?}");
        assert_eq!(owed(&site).unwrap(), ["kube-scheduler"], "{how:?}");
    }
}

#[test]
fn a_pod_that_is_still_gone_at_the_next_run_is_said_and_stays_owed() {
    let site = site(5);
    site.world.fault(|faults| {
        faults.returns.insert("kube-scheduler".to_owned(), Return::Never);
    });
    assert_eq!(run_impatiently(&site, &[]).code, 21);
    site.world.forget_calls();
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 23, "{}", ran.text());
    assert!(ran.out.contains("knows no sandbox of static pod 'kube-scheduler"), "{}", ran.out);
    assert_eq!(site.world.acts(), Vec::<String>::new());
    assert_eq!(owed(&site).unwrap(), ["kube-scheduler"]);
}

// P06
#[test]
fn of_two_sandboxes_of_a_pod_both_go_and_the_ready_one_of_two_new_ones_counts() {
    let site = site(5);
    site.world.edit(|state| {
        let live = state.newest("kube-scheduler").unwrap().clone();
        let id = "0".repeat(64);
        state.names.insert(id.clone(), "kube-scheduler@0".to_owned());
        let created_ns = live.created_ns - 1;
        state.sandboxes.insert(0, Sandbox { id, ready: false, created_ns, ..live });
    });
    site.world.fault(|faults| {
        faults.returns.insert("kube-controller-manager".to_owned(), Return::Twice);
    });
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(
        site.world.acts(),
        [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER, "crictl -t 60s rmp -f kube-scheduler@0"]
    );
    assert_eq!(
        sandboxes(&site),
        ["kube-apiserver@2", "kube-controller-manager@2", "kube-controller-manager@3", "kube-scheduler@3"]
    );
}

#[test]
fn a_removal_that_runs_into_crictls_deadline_is_looked_at_and_tried_again() {
    let once = then(1, Removal::DeadlineExceeded, Removal::Ordinary);
    let cases = [
        (once, 0, vec![APISERVER, APISERVER, CONTROLLER_MANAGER, SCHEDULER]),
        (
            then(1, Removal::DeadlineExceededYetDone, Removal::Ordinary),
            0,
            vec![APISERVER, CONTROLLER_MANAGER, SCHEDULER],
        ),
        (then(1, Removal::Fails, Removal::Ordinary), 0, vec![APISERVER, APISERVER, CONTROLLER_MANAGER, SCHEDULER]),
        (vec![Removal::DeadlineExceeded], 21, vec![APISERVER, APISERVER]),
        (vec![Removal::DoesNothing], 21, vec![APISERVER]),
    ];
    for (removals, code, expected) in cases {
        let site = site(5);
        site.world.fault(|faults| faults.removals.clone_from(&removals));
        let ran = run_impatiently(&site, &[]);
        assert_eq!(ran.code, code, "{removals:?}: {}", ran.text());
        assert_eq!(site.world.acts()[1..], expected, "{removals:?}");
        assert_eq!(owed(&site).is_some(), code != 0, "{removals:?}");
    }
}

// no boot id, and file times that lie in the future of the clock: nothing proves when kube-controller-manager read what
#[test]
fn what_is_not_proven_after_its_restart_is_told_by_every_run_and_not_restarted_again() {
    let site = site(5);
    site.tree.remove("/proc/sys/kernel/random/boot_id");
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 21, "{}", ran.text());
    assert!(ran.err.contains("kube-controller-manager is back, and not proven to use what is on disk"), "{}", ran.err);
    site.world.forget_calls();
    for again in 1..=3 {
        let ran = run_impatiently(&site, &[]);
        assert_eq!(ran.code, 21, "run {again}: {}", ran.text());
        let restarted = site.world.acts().iter().any(|act| act.contains("kube-controller-manager"));
        assert!(!restarted, "run {again}: {:?}", site.world.acts());
        assert!(owed(&site).unwrap().contains(&"kube-controller-manager".to_owned()));
    }
}

// seen with containerd: `container is in starting state, can't be removed`
#[test]
fn a_sandbox_that_cannot_be_removed_for_some_seconds_is_tried_again_until_it_can() {
    let site = site(5);
    site.world.fault(|faults| faults.removals = then(6, Removal::Fails, Removal::Ordinary));
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts()[1..], [[APISERVER; 7].as_slice(), &[CONTROLLER_MANAGER, SCHEDULER]].concat());
    assert!(ran.slept >= std::time::Duration::from_secs(6), "{:?}", ran.slept);
}

#[test]
fn only_what_reads_something_that_was_renewed_is_restarted() {
    // kubeadm refuses all calls but the one for this certificate: `all` twice, then each name twice, in order
    let cases = [
        ("front-proxy-client", 10, vec![APISERVER]),
        ("controller-manager.conf", 8, vec![CONTROLLER_MANAGER]),
        ("scheduler.conf", 12, vec![SCHEDULER]),
        ("admin.conf", 2, vec![]),
    ];
    for (name, refused, expected) in cases {
        let site = site(5);
        let before = site.serials();
        site.world.fault(|faults| {
            faults.renewals = vec![Renewal::Refuses; refused];
            faults.renewals.extend([Renewal::Ordinary, Renewal::Refuses]);
        });
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 20, "{name}: {}", ran.text());
        assert_eq!(site.renewed_since(&before), [name]);
        let removals: Vec<String> = site.world.acts().into_iter().filter(|act| act.starts_with("crictl")).collect();
        assert_eq!(removals, expected, "{name}: {}", ran.text());
        assert_eq!(owed(&site), None, "{name}");
        let is_new = site.tree.read("/root/.kube/config") == site.tree.read("/etc/kubernetes/admin.conf");
        assert!(is_new, "{name}: {}", ran.text());
    }
}

const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

fn kube_vip(labels: bool) -> String {
    let argv = ["/kube-vip".to_owned(), "manager".to_owned()];
    let text = pod("kube-vip", None, &argv, "", &[("kubeconfig", "/etc/kubernetes/admin.conf", "FileOrCreate")]);
    if labels { text } else { text.replace("  labels:\n    component: kube-vip\n    tier: control-plane\n", "") }
}

fn with_kube_vip(days: i64, labels: bool) -> Site {
    Site::with(&demo(), plan(days), |setup| {
        std::fs::write(setup.root.join(KUBE_VIP.trim_start_matches('/')), kube_vip(labels)).unwrap();
    })
}

#[test]
fn another_static_pod_that_mounts_a_kubeconfig_is_restarted_last() {
    for labels in [true, false] {
        let site = with_kube_vip(5, labels);
        let first = sandboxes(&site).into_iter().find(|name| name.starts_with("kube-vip")).unwrap();
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let last = format!("crictl -t 60s rmp -f {first}");
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER, &last], "{labels}");
        assert!(!sandboxes(&site).contains(&first), "{labels}");
    }
}

#[test]
fn a_component_whose_manifest_cannot_be_read_for_a_while_stays_owed() {
    let site = with_kube_vip(5, true);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    assert_eq!(run_impatiently(&site, &[]).code, 23);
    site.world.fault(|_| {});
    site.tree.write(KUBE_VIP, "{");
    let ran = run(&site, &[]);
    assert!(ran.err.contains("still to be restarted, by the next run: kube-vip"), "{}", ran.text());
    assert_eq!(owed(&site).unwrap(), ["kube-vip"]);
    // nothing else to do, and still not forgotten
    run(&site, &[]);
    assert_eq!(owed(&site).unwrap(), ["kube-vip"]);
    site.tree.write(KUBE_VIP, kube_vip(true));
    site.world.forget_calls();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), ["crictl -t 60s rmp -f kube-vip@1"]);
    assert_eq!(owed(&site), None);
}

#[test]
fn what_no_longer_reads_any_certificate_is_owed_no_restart() {
    let site = with_kube_vip(5, true);
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    assert_eq!(run_impatiently(&site, &[]).code, 23);
    site.world.fault(|_| {});
    site.tree.write(KUBE_VIP, kube_vip(true).replace("/etc/kubernetes/admin.conf", "/etc/kube-vip.conf"));
    site.world.forget_calls();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(owed(&site), None);
}

#[test]
fn etcd_as_a_static_pod_is_proven_to_re_read_its_files_and_not_restarted() {
    let site = stacked(5);
    let before = site.serials();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    assert_eq!(
        site.world.acts(),
        [
            &format!("kubeadm certs renew all --cert-dir {}", site.tree.plan.shape.cert_dir),
            APISERVER,
            CONTROLLER_MANAGER,
            SCHEDULER
        ]
    );
    assert!(sandboxes(&site).contains(&"etcd@1".to_owned()));
    assert!(ran.out.contains("etcd uses what is on disk by itself, and is not restarted"), "{}", ran.out);
    assert_eq!((ran.slept, owed(&site)), (std::time::Duration::ZERO, None));
}
