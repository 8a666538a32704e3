//! The usual course of things.

use super::{run, site};

#[test]
fn a_node_with_time_left_is_left_alone() {
    let site = site(300);
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(
        ran.headlines(),
        [
            "Check Expiration before renewal",
            "Skip cert renew and K8S container restart, since all residualTimes are beyond threshold",
        ]
    );
    assert_eq!(site.renewed_since(&before), Vec::<String>::new());
    assert_eq!(site.world.acts(), Vec::<String>::new());
}

#[test]
fn a_due_node_is_renewed_restarted_copied_and_waited_for_in_the_old_jobs_words() {
    let site = site(5);
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(
        ran.headlines(),
        [
            "Check Expiration before renewal",
            "Renewing certificates managed by kubeadm",
            "Restarting control plane pods managed by kubeadm",
            "Updating /root/.kube/config",
            "Waiting for apiserver to be up again",
            "Expiration after renewal",
        ]
    );
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    assert_eq!(
        site.world.acts(),
        [
            "kubeadm certs renew all --config /etc/kubernetes/kubeadm-config.yaml",
            "crictl -t 60s rmp -f kube-apiserver@1",
            "crictl -t 60s rmp -f kube-controller-manager@1",
            "crictl -t 60s rmp -f kube-scheduler@1",
        ]
    );
    assert_eq!(site.tree.read("/root/.kube/config"), site.tree.read("/etc/kubernetes/admin.conf"));
    let again = run(&site, &["--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{}", again.text());
}

#[test]
fn a_dry_run_says_the_steps_and_changes_nothing() {
    let site = site(5);
    let before = site.serials();
    let ran = run(&site, &["--dry-run", "--detailed-exitcode"]);
    assert_eq!(ran.code, 11, "{}", ran.text());
    assert!(ran.out.contains("  2. kubeadm certs renew all (admin.conf, apiserver, "), "{}", ran.out);
    assert_eq!(ran.headlines().last(), Some(&"Dry run: nothing was changed"));
    assert_eq!(site.renewed_since(&before), Vec::<String>::new());
    assert_eq!(site.world.acts(), Vec::<String>::new());
    assert!(!site.tree.on_host("/var/lib/k8s-certs-renew").exists(), "a dry run leaves no state");
    assert_eq!(run(&site, &["--dry-run"]).code, 0);
}
