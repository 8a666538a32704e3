//! Authorities: that end first, that stand side by side, and inside kubeconfigs.

use crate::support::pki::{Algorithm, Ca, Spec, days};
use crate::support::tree::kubeconfig;

use super::check;
use super::states::{self, RENEWED, State, now, plan};

// D06
#[test]
fn a_ca_that_ends_soon_is_an_alarm_of_its_own_and_no_renewal() {
    let mut plan = plan(300);
    plan.authorities_end = now() + days(20);
    let checked = check(&State::new(plan), &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "ca", "replace the CA before");
    assert!(checked.row("ca").ends_with("20d kubeadm - ends soon"), "{}", checked.row("ca"));
    assert!(checked.out.contains("a run now     would change nothing, and end with 25 (ca, "), "{}", checked.out);
    checked.expect("note", "ca", "apiserver-kubelet-client, controller-manager.conf");
}

#[test]
fn a_ca_that_ends_in_days_is_critical_and_an_expired_one_says_what_that_means() {
    for (left, words) in [(3, "replace the CA before that"), (-1, "nothing that it signed works")] {
        let mut plan = plan(300);
        plan.authorities_end = now() + days(left);
        let checked = check(&State::new(plan), &[]);
        assert_eq!(checked.code, 2, "{}", checked.out);
        checked.expect("critical", "ca", words);
    }
}

#[test]
fn a_leaf_that_outlives_its_ca_is_told_with_the_date_that_counts() {
    let mut plan = plan(300);
    plan.authorities_end = now() + days(200);
    let checked = check(&State::new(plan), &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    checked.expect(
        "note",
        "ca",
        "ends on 2026-09-26 12:00:00 UTC, before what it has signed: /root/.kube/config, admin.conf, apiserver",
    );
}

/// A node in the middle of a change of CA: ca.crt holds the new one, which signs, and then the old one.
fn side_by_side() -> (State, Ca) {
    let state = states::fresh();
    let tree = &state.site.tree;
    let new = Ca::new("kubernetes", Algorithm::P256, now() - days(1), now() + days(3650));
    tree.write(&tree.pki("ca.crt"), format!("{}{}", new.pair.cert, tree.ca.pair.cert));
    tree.write(&tree.pki("ca.key"), &new.pair.key);
    state.make_old();
    (state, new)
}

#[test]
fn an_old_and_a_new_ca_side_by_side_are_both_shown_and_explained() {
    let (state, new) = side_by_side();
    let checked = check(&state, &[]);
    assert!(checked.row("ca").contains("2036-03-07"), "{}", checked.row("ca"));
    assert!(checked.row("ca (2)").contains("2035-03-08"), "{}", checked.row("ca (2)"));
    checked.expect("note", "ca", "2 authorities side by side");
    checked.expect(
        "note",
        "ca",
        "kubernetes until 2036-03-07 12:00:00 UTC (this one signs); kubernetes until 2035-03-08",
    );
    // what has not followed yet refuses what the new one signs
    checked.expect("warning", "kubelet.conf", "knows the old CA of ca.crt only");
    assert_eq!(checked.code, 1, "{}", checked.out);
    let tree = &state.site.tree;
    for name in ["admin.conf", "controller-manager.conf", "scheduler.conf"] {
        let user = tree.issue(name, now() + days(300));
        let both = format!("{}{}", new.pair.cert, tree.ca.pair.cert);
        tree.write(&format!("/etc/kubernetes/{name}"), kubeconfig(&tree.server(), "u", &both, &user.cert, &user.key));
    }
    state.make_old();
    assert!(!check(&state, &[]).says("warning", "admin.conf", "knows the old CA"));
}

// K10
#[test]
fn a_ca_inside_a_kubeconfig_is_judged_beside_its_client_certificate() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let old = Ca::new("kubernetes", Algorithm::P256, now() - days(3650), now() - days(2));
    let (ca, spec) = tree.spec("admin.conf", now() + days(300));
    let user = ca.issue(&spec);
    tree.write(
        "/etc/kubernetes/admin.conf",
        kubeconfig(&tree.server(), "admin", &old.pair.cert, &user.cert, &user.key),
    );
    state.make_old();
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.row("admin.conf").ends_with("damaged"), "{}", checked.row("admin.conf"));
    assert!(checked.row("admin.conf (its CA)").contains("expired"), "{}", checked.out);
    checked.expect("critical", "admin.conf", "the CA inside is not the CA on disk, 'ca'");

    // that of another cluster, which somebody named
    let lab = Ca::new("lab", Algorithm::P256, now() - days(3650), now() + days(3));
    let user = lab.issue(&Spec::client("lab", &[], now() - days(9), now() + days(300)));
    tree.write("/srv/lab.conf", kubeconfig("https://192.0.2.9:6443", "lab", &lab.pair.cert, &user.cert, &user.key));
    let checked = check(&state, &["--also", "/srv/lab.conf"]);
    assert!(checked.row("/srv/lab.conf").ends_with("300d external - ok"), "{}", checked.row("/srv/lab.conf"));
    assert!(checked.row("/srv/lab.conf (its CA)").contains("3d external - ends soon"), "{}", checked.out);
    checked.expect("critical", "/srv/lab.conf (its CA)", "whoever issued it renews it");
}

#[test]
fn an_external_ca_is_said_once_and_is_no_alarm_while_nothing_is_due() {
    let state = states::fresh();
    state.site.tree.remove(&state.site.tree.pki("ca.key"));
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    let told: Vec<_> = checked.all("note").into_iter().filter(|line| line.contains("external CA")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        RENEWED.iter().filter(|name| **name != "front-proxy-client").all(|name| told[0].contains(name)),
        "{told:?}"
    );
    assert!(
        checked.out.contains("could renew   no: admin.conf: the key of its CA 'ca' is not on this node"),
        "{}",
        checked.out
    );
}
