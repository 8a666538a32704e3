//! The stand-in kubeadm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use chrono::Duration;
use k8s_certs_renew::inventory::Problem;

use super::{call, now, site, stderr, stdout};
use crate::support::faults::{Renewal, then};
use crate::support::site::{Site, due};
use crate::support::tree::Layout;
use crate::support::world::demo;

const SSL: &str = "certs renew all --cert-dir /etc/kubernetes/ssl";
const PKI: &str = "certs renew all --cert-dir /etc/kubernetes/pki";
const DONE: &str = "Done renewing certificates. You must restart";

#[test]
fn a_renewal_changes_serial_key_and_dates_and_nothing_else() {
    for (layout, command) in [(Layout::Kubespray, SSL), (Layout::Kubeadm, PKI)] {
        let site = site(layout);
        let key = site.tree.on_host("/etc/kubernetes/pki/apiserver.key");
        let key = if layout == Layout::Kubespray { site.tree.on_host(&site.tree.pki("apiserver.key")) } else { key };
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let old_key = fs::read(&key).unwrap();
        let (before, old) = (site.serials(), site.tree.inventory());
        let output = call(&site, "kubeadm", command);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("certificate for serving the Kubernetes API renewed\n"));
        assert!(stdout(&output).contains(DONE));
        let names: Vec<String> = before.keys().cloned().collect();
        assert_eq!(site.renewed_since(&before), names, "{layout:?}");
        let new = site.tree.inventory();
        for name in &names {
            let leaf =
                |inventory: &k8s_certs_renew::inventory::Inventory| inventory.get(name).unwrap().leaf.clone().unwrap();
            let ca = new.authority_of(new.get(name).unwrap()).unwrap().leaf.clone().unwrap();
            assert_eq!(leaf(&old).identity(), leaf(&new).identity(), "{name}");
            assert_eq!(leaf(&new).not_after, now() + Duration::hours(8760), "{name}");
            assert_eq!(leaf(&new).not_before, ca.not_before, "{name}");
            assert_eq!(new.get(name).unwrap().problems, [], "{name}");
        }
        assert_ne!(fs::read(&key).unwrap(), old_key);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[test]
fn from_1_31_a_leaf_begins_five_minutes_ago() {
    let site = Site::with(&demo(), due(Layout::Kubeadm, now()), |setup| setup.kubeadm = "v1.36.2".to_owned());
    assert_eq!(stdout(&call(&site, "kubeadm", "version -o short")), "v1.36.2\n");
    assert!(call(&site, "kubeadm", PKI).status.success());
    let leaf = site.tree.inventory().get("apiserver").unwrap().leaf.clone().unwrap();
    assert_eq!(leaf.not_before, now() - Duration::minutes(5));
}

#[test]
fn a_name_renews_that_one_only() {
    let site = site(Layout::Kubespray);
    let before = site.serials();
    let output = call(&site, "kubeadm", "certs renew scheduler.conf --cert-dir /etc/kubernetes/ssl");
    assert!(output.status.success());
    assert!(!stdout(&output).contains(DONE));
    assert_eq!(site.renewed_since(&before), ["scheduler.conf"]);
    let unknown = call(&site, "kubeadm", "certs renew kubelet.conf");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("unknown command"));
}

#[test]
fn the_configuration_file_decides_alone_which_directory_is_renewed() {
    let site = site(Layout::Kubespray);
    let config = site.tree.on_host("/etc/kubernetes/kubeadm-config.yaml");
    let before = site.serials();
    // a directory that is not there beside it is passed over without a word, as the real one does
    let output = call(&site, "kubeadm", &format!("certs renew all --cert-dir /nowhere --config {}", config.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("Reading configuration"));
    assert_eq!(site.renewed_since(&before).len(), before.len());
    site.world.fault(|faults| faults.config_refused = true);
    let before = site.serials();
    let output = call(&site, "kubeadm", "certs renew all --config=/etc/kubernetes/kubeadm-config.yaml");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("old API spec"));
    assert_eq!(site.renewed_since(&before), [""; 0]);
}

#[test]
fn without_its_config_map_kubeadm_takes_etcd_to_be_stacked() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.cluster_config_unreachable = true);
    let output = call(&site, "kubeadm", SSL);
    assert!(output.status.success());
    assert!(stdout(&output).contains("Falling back to default configuration"));
    assert!(stdout(&output).contains("MISSING! certificate for serving etcd\n"));
}

#[test]
fn what_an_external_ca_signed_is_left_and_the_rest_renewed() {
    let site = site(Layout::Kubespray);
    site.tree.remove("/etc/kubernetes/ssl/front-proxy-ca.key");
    let before = site.serials();
    let output = call(&site, "kubeadm", SSL);
    assert!(output.status.success());
    assert!(
        stdout(&output)
            .contains("Detected external front-proxy-ca, certificate for the front proxy client can't be renewed\n")
    );
    assert_eq!(site.renewed_since(&before).len(), before.len() - 1);
}

#[test]
fn a_file_that_cannot_be_read_stops_it_there() {
    let site = site(Layout::Kubespray);
    site.tree.write("/etc/kubernetes/controller-manager.conf", "");
    let before = site.serials();
    let output = call(&site, "kubeadm", SSL);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/etc/kubernetes/controller-manager.conf"), "{}", stderr(&output));
    assert_eq!(site.renewed_since(&before), ["admin.conf", "apiserver", "apiserver-kubelet-client"]);
}

#[test]
fn each_fault_does_what_it_says() {
    let name = || "apiserver".to_owned();
    // fault, exit code, how many are renewed; the kubespray node has six
    let table = [
        (Renewal::Refuses, 1, 0),
        (Renewal::StopsAt("scheduler.conf".to_owned()), 1, 5),
        (Renewal::DoesNothing, 0, 0),
        (Renewal::PrintsHelp, 0, 0),
        (Renewal::Slow(1), 0, 6),
        (Renewal::Tears(name()), 0, 5),
        (Renewal::AnotherCa(name()), 0, 6),
        (Renewal::OtherNames(name()), 0, 6),
        (Renewal::RenewsDirectory("/etc/kubernetes/old".to_owned()), 1, 1),
    ];
    for (fault, code, renewed) in table {
        let site = site(Layout::Kubespray);
        site.world.fault(|faults| faults.renewals = vec![fault.clone()]);
        let before = site.serials();
        let old = site.tree.inventory().get("apiserver").unwrap().leaf.clone().unwrap();
        if matches!(fault, Renewal::RenewsDirectory(_)) {
            // kubeconfigs are signed with the CA of the directory too
            let file = |name: &str| site.tree.read(&format!("/etc/kubernetes/ssl/{name}"));
            for name in ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key"] {
                site.tree.write(&format!("/etc/kubernetes/old/{name}"), file(name));
            }
        }
        let output = call(&site, "kubeadm", SSL);
        if matches!(fault, Renewal::RenewsDirectory(_)) {
            assert_eq!(site.renewed_since(&before), ["admin.conf", "controller-manager.conf", "scheduler.conf"]);
            continue;
        }
        assert_eq!(output.status.code(), Some(code), "{fault:?}: {}", stderr(&output));
        assert_eq!(site.renewed_since(&before).len(), renewed, "{fault:?}");
        let inventory = site.tree.inventory();
        let apiserver = inventory.get("apiserver").unwrap();
        let new = apiserver.leaf.clone().unwrap();
        match fault {
            Renewal::Tears(_) => {
                assert!(apiserver.problems.contains(&Problem::KeyMismatch), "{:?}", apiserver.problems);
            }
            Renewal::AnotherCa(_) => {
                assert!(apiserver.problems.iter().any(|problem| matches!(problem, Problem::NotSignedByCa { .. })));
            }
            Renewal::OtherNames(_) => assert_ne!(new.identity(), old.identity()),
            _ => assert_eq!(new.identity(), old.identity()),
        }
    }
}

#[test]
fn a_kubeconfig_too_can_be_torn() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.renewals = vec![Renewal::Tears("admin.conf".to_owned())]);
    assert!(call(&site, "kubeadm", SSL).status.success());
    assert!(site.tree.inventory().get("admin.conf").unwrap().problems.contains(&Problem::KeyMismatch));
}

#[test]
fn killed_between_key_and_certificate_it_leaves_a_torn_pair() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.renewals = vec![Renewal::KilledAt("apiserver".to_owned(), 9)]);
    let before = site.serials();
    let output = call(&site, "kubeadm", SSL);
    assert_eq!(output.status.signal(), Some(9));
    assert_eq!(site.renewed_since(&before), ["admin.conf"]);
    assert!(site.tree.inventory().get("apiserver").unwrap().problems.contains(&Problem::KeyMismatch));
}

#[test]
fn the_last_fault_holds_for_every_later_call() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.renewals = then(2, Renewal::Refuses, Renewal::Ordinary));
    let codes: Vec<_> = (0..4).map(|_| call(&site, "kubeadm", SSL).status.code()).collect();
    assert_eq!(codes, [Some(1), Some(1), Some(0), Some(0)]);
}

#[test]
fn a_hanging_kubeadm_changes_nothing_and_does_not_end() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.renewals = vec![Renewal::HangsAt("apiserver".to_owned())]);
    let before = site.serials();
    let mut child =
        Command::new(site.world.tool("kubeadm")).args(SSL.split(' ')).stdout(Stdio::null()).spawn().unwrap();
    let mut looks = 0;
    while site.renewed_since(&before).is_empty() {
        looks += 1;
        assert!(looks < 100_000 && child.try_wait().unwrap().is_none());
    }
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(site.renewed_since(&before), ["admin.conf"]);
}

#[test]
fn a_child_that_is_left_behind_does_not_keep_kubeadm_from_ending() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.renewals = vec![Renewal::LeavesChild]);
    let mut child =
        Command::new(site.world.tool("kubeadm")).args(SSL.split(' ')).stdout(Stdio::piped()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
}
