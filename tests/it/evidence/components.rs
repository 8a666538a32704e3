//! Components that are judged by their start, and the whole of a node.

use k8s_certs_renew::evidence::Verdict::{InUse, Stale, Unknown};

use super::{Node, now, verdicts};
use crate::support::tree::Layout;

const CONTROLLER: &str = "kube-controller-manager";
const CONF: &str = "/etc/kubernetes/controller-manager.conf";

#[test]
fn what_started_after_its_credentials_were_there_is_in_use() {
    let evidence = Node::new(Layout::Kubespray).look();
    let expected = [
        ("kube-apiserver", InUse),
        (CONTROLLER, InUse),
        ("kube-scheduler", InUse),
        // there are its certificates, and no process
        ("etcd", Unknown),
        // nobody listens on 10250 in the fixture, and its process is there
        ("kubelet", Unknown),
    ];
    assert_eq!(verdicts(&evidence), expected);
    let apiserver = evidence.get("kube-apiserver").unwrap();
    assert!(apiserver.reason.ends_with("and started after its client certificates were there"), "{}", apiserver.reason);
    assert!(apiserver.process.is_some());
    assert_eq!(apiserver.served.as_ref().unwrap().not_after, now() + chrono::Duration::days(300));
}

// P01
#[test]
fn after_a_renewal_by_hand_controller_manager_and_scheduler_are_stale_and_the_apiserver_is_not() {
    let mut node = Node::new(Layout::Kubespray);
    node.renew(
        &["apiserver", "apiserver-kubelet-client", "front-proxy-client", "controller-manager.conf", "scheduler.conf"],
        9100,
    );
    let evidence = node.look();
    assert_eq!(verdicts(&evidence)[..3], [("kube-apiserver", InUse), (CONTROLLER, Stale), ("kube-scheduler", Stale)]);
    let reason = |name| evidence.get(name).unwrap().reason.clone();
    assert!(reason("kube-apiserver").ends_with("its client certificates: unknown (re-read by design)"));
    assert_eq!(
        reason(CONTROLLER),
        "reads controller-manager.conf at its start only; it started 2 h ago, and the credential was put there after that, 15 min ago at least"
    );
    node.restart(CONTROLLER, 9200);
    assert_eq!(
        verdicts(&node.look())[..3],
        [("kube-apiserver", InUse), (CONTROLLER, InUse), ("kube-scheduler", Stale)]
    );
}

#[test]
fn an_old_kubeconfig_that_is_put_back_is_stale_for_what_started_in_between() {
    let mut node = Node::new(Layout::Kubespray);
    let old = node.site.tree.read(CONF);
    node.renew(&["controller-manager.conf"], 9000);
    node.restart(CONTROLLER, 9100);
    assert_eq!(node.component(CONTROLLER).verdict, InUse);
    node.note(9150);
    node.site.tree.write(CONF, old);
    node.note(9200);
    assert_eq!(node.component(CONTROLLER).verdict, Stale);
}

#[test]
fn the_worst_of_several_processes_counts() {
    let mut node = Node::without_journal(Layout::Kubespray);
    // a standby on another port, healthy, that has run since before the credential was there
    node.process(4242, &["/usr/local/bin/kube-controller-manager", "--secure-port=20257"], 3);
    node.process(4243, &["kube-controller-manager", "--secure-port=30257"], 9999);
    node.changed_at(CONF, 8);
    let component = node.component(CONTROLLER);
    assert_eq!((component.verdict, component.process.unwrap().pid), (Stale, 4242));
    assert!(component.reason.starts_with("process 4242: "), "{}", component.reason);
}

#[test]
fn without_a_journal_the_files_last_change_decides() {
    let mut node = Node::without_journal(Layout::Kubespray);
    for (second, verdict) in [(-500, InUse), (5, InUse), (5000, Stale), (10_500, Unknown)] {
        node.changed_at(CONF, second);
        assert_eq!(node.component(CONTROLLER).verdict, verdict, "{second}");
    }
}

#[test]
fn a_file_with_an_old_time_of_its_own_is_judged_by_the_kernels() {
    let mut node = Node::without_journal(Layout::Kubespray);
    let file = std::fs::File::options().write(true).open(node.site.tree.on_host(CONF)).unwrap();
    file.set_modified(now().into()).unwrap();
    node.changed_at(CONF, 5000);
    let component = node.component(CONTROLLER);
    assert_eq!(component.verdict, Stale);
    assert!(component.reason.contains("an old content was put back"), "{}", component.reason);
}

#[test]
fn a_link_that_leads_to_the_file_does_not_hide_its_change() {
    let mut node = Node::without_journal(Layout::Kubespray);
    node.site.tree.write("/srv/kcm.conf", node.site.tree.read(CONF));
    node.site.tree.link("/srv/kcm.conf", CONF);
    node.changed_at("/srv/kcm.conf", 5000);
    assert_eq!(node.component(CONTROLLER).verdict, Stale);
    node.changed_at("/srv/kcm.conf", 2);
    assert_eq!(node.component(CONTROLLER).verdict, InUse);
}

#[test]
fn a_credential_that_cannot_be_used_is_no_reason_for_a_restart() {
    let mut node = Node::new(Layout::Kubespray);
    node.site.tree.edit(CONF, |text| text.replace("client-certificate-data: ", "client-certificate-data: AAAA"));
    node.note(9000);
    let component = node.component(CONTROLLER);
    assert_eq!(component.verdict, Unknown, "{}", component.reason);
}

#[test]
fn a_kubeconfig_that_names_files_is_never_stale_for_its_age() {
    let mut node = Node::new(Layout::Kubespray);
    node.note(8990);
    let pair = node.site.tree.issue("controller-manager.conf", now() + chrono::Duration::days(365));
    node.site.tree.write("/etc/kubernetes/kcm.pem", format!("{}{}", pair.cert, pair.key));
    let text = node.site.tree.kubelet_conf("/etc/kubernetes/kcm.pem");
    node.site.tree.write(CONF, text);
    node.note(9000);
    let component = node.component(CONTROLLER);
    assert_eq!(component.verdict, Unknown);
    assert!(component.reason.contains("by design"), "{}", component.reason);
    node.restart(CONTROLLER, 9100);
    assert_eq!(node.component(CONTROLLER).verdict, InUse);
    // before 1.18 nothing re-read them
    node.restart(CONTROLLER, 100);
    node.site
        .tree
        .edit("/etc/kubernetes/manifests/kube-controller-manager.yaml", |text| text.replace("v1.20.2", "v1.17.9"));
    assert_eq!(node.component(CONTROLLER).verdict, Stale);
}

// P13
#[test]
fn other_static_pods_are_judged_by_their_start_too() {
    let mut node = Node::new(Layout::Kubespray);
    let vip = "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-vip, namespace: kube-system}\nspec:\n  hostNetwork: true\n  \
               containers:\n  - name: kube-vip\n    image: ghcr.io/kube-vip/kube-vip:v0.8.0\n    args: [manager]\n    \
               volumeMounts: [{name: kubeconfig, mountPath: /etc/kubernetes/admin.conf}]\n  volumes:\n  - name: kubeconfig\n    \
               hostPath: {path: /etc/kubernetes/admin.conf}\n";
    node.site.tree.write("/etc/kubernetes/manifests/kube-vip.yaml", vip);
    assert_eq!(node.component("kube-vip").verdict, Unknown);
    node.process(900, &["/kube-vip", "manager"], 50);
    assert_eq!(node.component("kube-vip").verdict, InUse);
    node.renew(&["admin.conf"], 9000);
    assert_eq!(node.component("kube-vip").verdict, Stale);
    assert_eq!(node.look().components.last().unwrap().name, "kube-vip");
}

#[test]
fn the_runtimes_word_stands_in_for_a_process_that_is_not_shown() {
    let mut node = Node::new(Layout::Kubespray);
    node.renew(&["controller-manager.conf"], 9100);
    node.end(CONTROLLER);
    assert_eq!(node.component(CONTROLLER).verdict, Unknown);
    for (ago, verdict) in [(2000, Stale), (100, InUse)] {
        node.created.insert(CONTROLLER.to_owned(), now() - chrono::Duration::seconds(ago));
        assert_eq!(node.component(CONTROLLER).verdict, verdict);
    }
}

// P02: a mirror pod that was deleted is young, and its container's process is not
#[test]
fn a_process_that_is_shown_is_believed_before_a_younger_date_of_the_runtimes() {
    let mut node = Node::new(Layout::Kubespray);
    node.renew(&["controller-manager.conf"], 9100);
    node.created.insert(CONTROLLER.to_owned(), now() - chrono::Duration::seconds(10));
    assert_eq!(node.component(CONTROLLER).verdict, Stale);
}

#[test]
fn what_this_run_renewed_for_is_stale_until_it_is_restarted() {
    let mut node = Node::new(Layout::Kubespray);
    node.renewed_for.push("kube-apiserver".to_owned());
    assert_eq!(verdicts(&node.look())[..2], [("kube-apiserver", Stale), (CONTROLLER, InUse)]);
}

#[test]
fn a_tree_without_processes_proves_nothing() {
    let node = Node::new(Layout::Kubeadm);
    std::fs::remove_dir_all(node.site.tree.on_host("/proc")).unwrap();
    let evidence = node.look();
    assert_eq!(evidence.components.len(), 5);
    for component in &evidence.components {
        assert_eq!((component.verdict, &component.served), (Unknown, &None), "{}", component.name);
        assert!(component.reason.contains("no /proc"), "{}", component.reason);
    }
    assert_eq!(evidence.loopback, None);
}
