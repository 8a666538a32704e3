//! Renewals that are not the usual ones: external CAs, kubeconfigs that kubeadm refuses, a node past its first year.

use super::{DONE, RESTARTS, acts, by_config, by_dir, files, now, plan, run, site, stacked, untouched};
use crate::support::faults::Renewal;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tls_server::Answer;
use crate::support::tree::{Layout, Plan};
use crate::support::world::demo;

// R01
#[test]
fn with_an_external_ca_nothing_is_restarted_or_copied_and_the_names_are_told() {
    let site = site(3);
    for key in ["ca.key", "front-proxy-ca.key"] {
        site.tree.remove(&format!("/etc/kubernetes/ssl/{key}"));
    }
    let before = files(&site);
    for args in [&["--detailed-exitcode"][..], &["--detailed-exitcode", "--dry-run"], &["--force"]] {
        let ran = run(&site, args);
        assert_eq!(ran.code, 25, "{args:?}: {}", ran.text());
        let names = site.tree.renewed_by_kubeadm().join(", ");
        assert_eq!(ran.headlines(), [DONE[0], &format!("Cannot renew: {names}")]);
        assert!(ran.err.contains("the key of its CA 'ca' is not on this node (external CA)"), "{}", ran.err);
        untouched(&site, &before);
    }
    // with time left there is nothing to tell
    let site = super::site(300);
    site.tree.remove("/etc/kubernetes/ssl/ca.key");
    assert_eq!(run(&site, &[]).code, 0);
}

// R01
#[test]
fn where_one_ca_key_is_absent_the_rest_is_renewed_and_in_use() {
    let table: [(&str, &str, &[&str]); 3] = [
        ("front-proxy-ca.key", "front-proxy-client", &RESTARTS),
        ("etcd/ca.key", "apiserver-etcd-client,etcd-healthcheck-client,etcd-peer,etcd-server", &RESTARTS),
        (
            "ca.key",
            "admin.conf,apiserver,apiserver-kubelet-client,controller-manager.conf,scheduler.conf,super-admin.conf",
            &RESTARTS[..1],
        ),
    ];
    for (key, kept, restarts) in table {
        let site = stacked(3);
        site.tree.remove(&format!("/etc/kubernetes/pki/{key}"));
        let kept: Vec<&str> = kept.split(',').collect();
        let (before, copy) = (site.serials(), site.tree.read("/root/.kube/config"));
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 25, "{key}: {}", ran.text());
        let renewed: Vec<_> = site.tree.renewed_by_kubeadm().into_iter().filter(|name| !kept.contains(name)).collect();
        assert_eq!(site.renewed_since(&before), renewed);
        assert_eq!(site.world.acts()[0], "kubeadm certs renew all --cert-dir /etc/kubernetes/pki");
        assert_eq!(site.world.acts()[1..], *restarts, "{key}");
        for name in &kept {
            assert!(ran.err.contains(&format!("warning: {name}: expires on ")), "{name}: {}", ran.err);
        }
        assert_eq!(site.tree.read("/root/.kube/config") == copy, kept.contains(&"admin.conf"));
    }
}

// R02: kubeadm wants embedded data, and stops at the first error
#[test]
fn a_kubeconfig_that_names_files_stops_nobody_else_and_is_tried_again() {
    let site = site(3);
    let (ca, spec) = site.tree.spec("scheduler.conf", now() + days(3));
    let pair = ca.issue(&spec);
    site.tree.write("/etc/kubernetes/own/scheduler.crt", &pair.cert);
    site.tree.write("/etc/kubernetes/own/scheduler.key", &pair.key);
    let server = site.tree.server();
    let conf = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: '{server}', certificate-authority: ssl/ca.crt}}\n\
         contexts:\n- name: x\n  context: {{cluster: c, user: u}}\ncurrent-context: x\nusers:\n- name: u\n  \
         user: {{client-certificate: own/scheduler.crt, client-key: own/scheduler.key}}\n"
    );
    site.tree.write("/etc/kubernetes/scheduler.conf", &conf);
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 25, "{}", ran.text());
    assert!(
        ran.err.contains("scheduler.conf: expires on ") && ran.err.contains("the kubeconfig names files"),
        "{}",
        ran.err
    );
    let renewed: Vec<_> = site.tree.renewed_by_kubeadm().into_iter().filter(|name| *name != "scheduler.conf").collect();
    assert_eq!(site.renewed_since(&before), renewed);
    assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS[..2]));
    assert_eq!(site.tree.read("/etc/kubernetes/scheduler.conf"), conf);
    // the rest is fresh now; what cannot be renewed is told again
    site.world.forget_calls();
    let ran = run(&site, &[]);
    assert_eq!((ran.code, site.world.acts()), (25, vec![]), "{}", ran.text());
    assert_eq!(ran.headlines().last(), Some(&"Cannot renew: scheduler.conf"));
}

// R06
#[test]
fn what_renew_all_leaves_out_is_no_success() {
    let site = site(3);
    site.world.fault(|faults| faults.renewals = vec![Renewal::StopsAt("scheduler.conf".into())]);
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(ran.err.contains("error: scheduler.conf is not renewed: unchanged"), "{}", ran.err);
    let renewed: Vec<_> = site.tree.renewed_by_kubeadm().into_iter().filter(|name| *name != "scheduler.conf").collect();
    assert_eq!(site.renewed_since(&before), renewed);
    let calls = [by_config("all"), by_config("scheduler.conf"), by_dir("scheduler.conf")];
    assert_eq!(site.world.acts(), acts(&calls, &RESTARTS[..2]), "kube-scheduler reads nothing new");
    assert_eq!(ran.headlines(), DONE, "copy and wait are not left out");
    // the next run tries that one again, and the others along with it
    site.world.fault(|_| {});
    assert_eq!(run(&site, &["--detailed-exitcode"]).code, 10);
    assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
}

// R10: past its first year the node's API is dead, and kubeadm can ask nobody
#[test]
fn a_node_whose_certificates_have_all_expired_is_repaired_without_its_api() {
    let table = [
        (Plan::new(Layout::Kubespray, now()), true),
        (Plan::new(Layout::Kubespray, now()), false),
        (Plan::new(Layout::Kubeadm, now()), false),
    ];
    for (mut plan, config) in table {
        plan.ends = super::plan(-10).ends;
        let stacked = plan.layout == Layout::Kubeadm;
        for name in ["apiserver-etcd-client", "etcd-healthcheck-client", "etcd-peer", "etcd-server", "super-admin.conf"]
        {
            plan = if stacked { plan.ends(name, now() - days(10)) } else { plan };
        }
        let site = Site::new(&demo(), plan);
        if !config && !stacked {
            site.tree.remove("/etc/kubernetes/kubeadm-config.yaml");
        }
        site.world.fault(|faults| faults.cluster_config_unreachable = true);
        site.servers.apiserver.script(|script| script.first = vec![Answer::Closes]);
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
        assert_eq!(site.world.acts()[1..], RESTARTS);
        assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
    }
}

#[test]
fn force_renews_a_node_with_time_left() {
    let site = site(300);
    let before = site.serials();
    let ran = run(&site, &["--force", "--detailed-exitcode"]);
    assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    assert!(ran.out.contains("forced"), "{}", ran.out);
}

// D06: renewing leaves cannot help
#[test]
fn a_ca_that_ends_soon_is_an_alarm_and_no_renewal() {
    let mut plan = plan(300);
    plan.authorities_end = now() + days(20);
    let site = Site::new(&demo(), plan);
    let before = files(&site);
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 25, "{}", ran.text());
    assert!(ran.err.contains("warning: ca: this CA expires on 2026-03-22 03:10:00 UTC"), "{}", ran.err);
    untouched(&site, &before);
}

// D08: a validity shorter than interval and margin would be renewed at each run
#[test]
fn a_renewal_that_is_due_again_at_once_is_no_success() {
    let site = site(5);
    let ran = run(&site, &["--on-calendar", "2028-01-01"]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(ran.err.contains("is renewed, and still due"), "{}", ran.err);
    assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS));
}

#[test]
fn a_usage_that_was_wrong_before_is_no_failure_of_the_renewal() {
    let site = site(5);
    let (_, spec) = site.tree.spec("apiserver", now() + days(5));
    site.tree.put("front-proxy-client", &site.tree.front_proxy_ca.issue(&spec));
    let before = site.serials();
    let ran = run(&site, &[]);
    assert_ne!(ran.code, 20, "{}", ran.text());
    assert!(site.renewed_since(&before).contains(&"front-proxy-client".to_owned()), "{}", ran.text());
    // and is told once it is no more due
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 25, "{}", ran.text());
    assert!(ran.err.contains("its extended key usages lack clientAuth"), "{}", ran.err);
}
