//! `kubelet rbac`: what a cluster needs, and what it lacks.

use serde_json::json;

use super::api::{Api, BINDINGS, ROLES};

#[test]
fn what_is_missing_is_printed_and_once_applied_nothing_is() {
    let api = Api::new().with_own_roles();
    let checked = api.kubelet(&["rbac", "--diff"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    assert_eq!(checked.out.matches("kind: ClusterRoleBinding").count(), 3);
    api.apply(&checked.out);
    let checked = api.kubelet(&["rbac", "--diff"]);
    assert_eq!((checked.code, checked.out.as_str(), checked.err.as_str()), (0, "", "note: nothing is missing\n"));
    // without --diff all of it, whatever is there
    let checked = api.kubelet(&["rbac"]);
    assert_eq!((checked.code, checked.out.matches("kind: ClusterRoleBinding").count()), (0, 3));
}

#[test]
fn each_missing_binding_is_the_only_one_that_is_printed() {
    let api = Api::new().with_own_roles();
    let all = api.kubelet(&["rbac"]).out;
    for name in ["kubelet-bootstrap", "node-autoapprove-bootstrap", "node-autoapprove-certificate-rotation"] {
        let name = format!("kubeadm:{name}");
        api.with(|state| state.lists.get_mut(BINDINGS).unwrap().clear());
        api.apply(&all);
        api.with(|state| state.lists.get_mut(BINDINGS).unwrap().retain(|one| one["metadata"]["name"] != *name));
        let checked = api.kubelet(&["rbac", "--diff"]);
        assert_eq!((checked.code, checked.out.matches("kind:").count()), (1, 3), "{}", checked.out);
        assert!(checked.out.contains(&format!("name: \"{name}\"")), "{}", checked.out);
    }
}

#[test]
fn what_is_right_under_another_name_is_not_made_twice() {
    let api = Api::new().with_own_roles();
    api.apply(&api.kubelet(&["rbac"]).out.replace("\"kubeadm:", "\"somebody-elses:"));
    assert_eq!(api.kubelet(&["rbac", "--diff"]).code, 0);
}

#[test]
fn without_an_api_all_of_it_is_printed_and_that_is_said() {
    let api = Api::new();
    api.tree.remove("/etc/kubernetes/admin.conf");
    api.tree.remove("/etc/kubernetes/super-admin.conf");
    let checked = api.kubelet(&["rbac", "--diff"]);
    assert_eq!((checked.code, checked.out.matches("kind: ClusterRoleBinding").count()), (3, 3));
    assert!(checked.err.contains("cannot read '/etc/kubernetes/admin.conf'"), "{}", checked.err);
    assert!(checked.err.contains("everything is printed"), "{}", checked.err);
    assert_eq!(api.kubelet(&["rbac"]).code, 0);
}

#[test]
fn the_version_is_the_apis_unless_it_is_given() {
    let of = |version: &str, args: &[&str]| {
        let mut all = vec!["rbac"];
        all.extend(args);
        Api::of(version).kubelet(&all).out
    };
    assert!(!of("v1.20.2", &[]).contains("selfnodeserver"));
    let seven = of("v1.20.2", &["--kubernetes-version", "1.7"]);
    assert!(seven.contains("rbac.authorization.k8s.io/v1beta1") && seven.contains("selfnodeserver"), "{seven}");
    assert!(of("v1.10.13", &[]).contains("selfnodeserver"));
    assert_eq!(Api::new().kubelet(&["rbac", "--kubernetes-version", "1.5"]).code, 64);
}

#[test]
fn another_bootstrap_user_and_an_approver_can_be_named() {
    let api = Api::new().with_own_roles();
    let args = ["rbac", "--diff", "--bootstrap", "user:kubelet-bootstrap", "--approver", "serviceaccount:ops:approver"];
    let checked = api.kubelet(&args);
    assert!(checked.out.contains("kind: User\n  name: \"kubelet-bootstrap\""), "{}", checked.out);
    assert!(checked.out.contains("resourceNames: [\"kubernetes.io/kubelet-serving\"]"), "{}", checked.out);
    api.apply(&checked.out);
    assert_eq!(api.kubelet(&args).code, 0);
    // the default group is another matter
    assert_eq!(api.kubelet(&["rbac", "--diff"]).code, 1);
}

#[test]
fn a_role_that_was_emptied_is_said_to_be() {
    let api = Api::new().with_own_roles();
    api.with(|state| state.lists.get_mut(ROLES).unwrap()[2]["rules"] = json!([]));
    let checked = api.kubelet(&["rbac", "--diff"]);
    assert!(
        checked.out.contains("selfnodeclient' is missing or was changed: restart kube-apiserver"),
        "{}",
        checked.out
    );
}

#[test]
fn who_has_another_kind_of_token_is_told_to_name_its_user() {
    let api = Api::new();
    api.bootstrap("6df3c701f979cee17732c30958745947");
    let checked = api.kubelet(&["rbac"]);
    assert!(checked.err.contains("--bootstrap, such as user:kubelet-bootstrap"), "{}", checked.err);
    assert!(!checked.err.contains("6df3c7") && !checked.out.contains("6df3c7"));
}
