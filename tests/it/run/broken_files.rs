//! A component that could not start again, and one that nothing is known of, are not removed; and not forgotten.

use super::seen::{APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, owed, run_impatiently};
use super::{now, plan, run, site};
use crate::support::manifests::pod;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::world::demo;

fn removals(site: &Site) -> Vec<String> {
    site.world.acts().into_iter().filter(|act| act.starts_with("crictl")).collect()
}

#[test]
fn a_component_whose_own_files_are_broken_goes_on_and_the_others_are_restarted() {
    for broken in ["apiserver.crt", "front-proxy-client.crt"] {
        let site = site(5);
        let path = site.tree.pki(broken);
        let whole = site.tree.read(&path);
        site.tree.write(&path, "");
        let rehearsed = run(&site, &["--dry-run"]);
        let ran = run_impatiently(&site, &[]);
        assert_eq!(rehearsed.code, ran.code, "{broken}: {}", rehearsed.text());
        assert_ne!(ran.code, 0, "{broken}: {}", ran.text());
        assert!(!removals(&site).contains(&APISERVER.to_owned()), "{broken}: {}", ran.text());
        assert!(!ran.err.contains("not ready after"), "{broken}: a wait for what cannot be seen: {}", ran.err);
        assert!(ran.out.contains(&format!("## Deferred: kube-apiserver reads '{path}'")), "{broken}: {}", ran.out);
        assert_eq!(removals(&site), [CONTROLLER_MANAGER, SCHEDULER], "{broken}");
        assert_eq!(owed(&site).unwrap(), ["kube-apiserver"], "{broken}");
        // as long as it is so, nobody says done
        assert_eq!(run_impatiently(&site, &[]).code, 23, "{broken}");
        assert_eq!(removals(&site), [CONTROLLER_MANAGER, SCHEDULER], "{broken}");
        // put back by hand, it is due, and all are renewed once more
        site.tree.write(&path, &whole);
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{broken}: {}", ran.text());
        assert_eq!(removals(&site)[2], APISERVER, "{broken}");
        assert_eq!(owed(&site), None, "{broken}");
    }
}

#[test]
fn a_component_whose_manifest_cannot_be_read_is_owed_its_restart() {
    for (component, restart) in [("kube-scheduler", SCHEDULER), ("kube-apiserver", APISERVER)] {
        let site = site(5);
        let path = format!("/etc/kubernetes/manifests/{component}.yaml");
        let whole = site.tree.read(&path);
        site.tree.write(&path, "{");
        assert_eq!(run(&site, &["--dry-run"]).code, 23, "{component}");
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 23, "{component}: {}", ran.text());
        let deferred = format!("## Deferred: the manifest of '{component}' cannot be read");
        assert!(ran.out.contains(&deferred), "{component}: {}", ran.out);
        let others: Vec<_> =
            [APISERVER, CONTROLLER_MANAGER, SCHEDULER].into_iter().filter(|one| *one != restart).collect();
        assert_eq!(removals(&site), others, "{component}");
        assert_eq!(owed(&site).unwrap(), [component]);
        assert_eq!(run(&site, &[]).code, 23, "{component}");
        site.tree.write(&path, &whole);
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{component}: {}", ran.text());
        assert_eq!(removals(&site)[2..], [restart], "{component}");
        assert_eq!(owed(&site), None, "{component}");
    }
}

const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

fn with_kube_vip(probe: &str) -> Site {
    let argv = ["/kube-vip".to_owned(), "manager".to_owned()];
    let text = pod("kube-vip", None, &argv, probe, &[("kubeconfig", "/etc/kubernetes/admin.conf", "FileOrCreate")]);
    Site::with(&demo(), plan(5), |setup| {
        std::fs::write(
            setup.root.join(KUBE_VIP.trim_start_matches('/')),
            text.replace("hostNetwork: true", "hostNetwork: false"),
        )
        .unwrap();
    })
}

#[test]
fn a_pod_that_is_taken_away_is_owed_nothing() {
    let site = with_kube_vip("");
    site.world.fault(|faults| faults.runtime = crate::support::faults::Runtime::Down);
    assert_eq!(run_impatiently(&site, &[]).code, 23);
    assert!(owed(&site).unwrap().contains(&"kube-vip".to_owned()));
    site.world.fault(|_| {});
    std::fs::remove_file(site.tree.on_host(KUBE_VIP)).unwrap();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(owed(&site), None);
}

#[test]
fn the_health_of_a_pod_in_a_network_of_its_own_is_kubelets_to_ask() {
    let probe = "    livenessProbe:\n      httpGet:\n        path: /healthz\n        port: 1\n";
    let site = with_kube_vip(probe);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(
        site.world.acts(),
        [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER, "crictl -t 60s rmp -f kube-vip@1"]
    );
}

#[test]
fn a_renewal_that_gives_certificates_of_the_past_is_no_success() {
    let site = Site::with(&demo(), plan(5), |setup| setup.now = now() - days(800));
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(ran.err.contains("admin.conf is renewed, and still due: expired on"), "{}", ran.err);
}
