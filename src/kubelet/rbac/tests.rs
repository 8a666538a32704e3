use serde_json::{Value, json};

use super::{Rbac, Right, Who};

const REQUESTS: &str = "certificatesigningrequests";

fn role(name: &str, rules: &Value) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({ "apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": verbs })
}

fn binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({ "metadata": { "name": name }, "roleRef": { "kind": "ClusterRole", "name": role }, "subjects": [subject] })
}

fn group(name: &str) -> Value {
    json!({ "kind": "Group", "name": name })
}

fn user(name: &str) -> Value {
    json!({ "kind": "User", "name": name })
}

fn node() -> Who {
    Who::node("node1")
}

/// Whether node1's renewals are approved, with a role of these rules bound to its group.
fn renews(rules: &Value) -> bool {
    let rbac = Rbac::of(&[role("r", rules)], &[binding("b", "r", &group("system:nodes"))], &[]);
    rbac.grants(Right::SelfNodeClient, &node()).is_some()
}

// L09
#[test]
fn the_rules_behind_a_role_count_and_not_its_name() {
    let own = "certificatesigningrequests/selfnodeclient";
    assert!(renews(&json!([rule(&["create"], own)])));
    assert!(renews(&json!([rule(&["*"], "*")])));
    assert!(renews(&json!([rule(&["create"], "*/selfnodeclient")])));
    assert!(renews(&json!([rule(&["get"], own), rule(&["create"], own)])));
    assert!(!renews(&json!([rule(&["get"], own)])));
    assert!(!renews(&json!([rule(&["create"], REQUESTS)])));
    assert!(!renews(&json!([rule(&["create"], "certificatesigningrequests/nodeclient")])));
    assert!(!renews(&json!([{ "apiGroups": ["apps"], "resources": [own], "verbs": ["create"] }])));
    assert!(!renews(
        &json!([{ "apiGroups": ["certificates.k8s.io"], "resources": [own], "verbs": ["create"], "resourceNames": ["a"] }])
    ));
    assert!(!renews(&Value::Null));
}

// L09
#[test]
fn groups_users_and_service_accounts_are_subjects_and_names_of_bindings_do_not_matter() {
    let roles = [role("any", &json!([rule(&["create"], "certificatesigningrequests/selfnodeclient")]))];
    let grants = |subject: Value, who: &Who| {
        let rbac = Rbac::of(&roles, &[binding("whatever", "any", &subject)], &[]);
        rbac.grants(Right::SelfNodeClient, who).map(|by| by[0].name.clone())
    };
    assert_eq!(grants(group("system:nodes"), &node()).as_deref(), Some("whatever"));
    assert!(grants(group("system:authenticated"), &node()).is_some());
    assert!(grants(user("system:node:node1"), &node()).is_some());
    assert!(grants(user("system:node:node2"), &node()).is_none());
    assert!(grants(user("system:nodes"), &node()).is_none());
    assert!(grants(group("system:node:node1"), &node()).is_none());
    let account = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "boot" });
    assert!(grants(account.clone(), &Who::new("system:serviceaccount:kube-system:boot", &[])).is_some());
    assert!(grants(account, &Who::new("boot", &[])).is_none());
}

#[test]
fn a_right_may_come_from_several_bindings_and_a_part_of_it_is_none() {
    let roles = [
        role("c", &json!([rule(&["create"], REQUESTS)])),
        role("s", &json!([rule(&["get", "list", "watch"], REQUESTS)])),
    ];
    let (create, see) = (binding("c", "c", &group("g")), binding("s", "s", &group("g")));
    let who = Who::new("", &["g".to_owned()]);
    let by = |bindings: &[Value]| {
        let rbac = Rbac::of(&roles, bindings, &[]);
        rbac.grants(Right::Create, &who).map(|by| by.iter().map(|one| one.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(by(&[create.clone(), see]), Some(vec!["c".to_owned(), "s".to_owned()]));
    assert_eq!(by(&[create]), None);
}

#[test]
fn what_only_seems_to_grant_is_named() {
    let renewal = Right::SelfNodeClient.role();
    let his = binding("dangling", renewal, &group("system:nodes"));
    let vain = Rbac::of(&[], std::slice::from_ref(&his), &[]).in_vain(Right::SelfNodeClient, &node());
    assert!(vain[0].contains("'dangling'") && vain[0].ends_with("does not exist"), "{vain:?}");
    let emptied = Rbac::of(&[role(renewal, &json!([]))], std::slice::from_ref(&his), &[]);
    assert!(emptied.in_vain(Right::SelfNodeClient, &node())[0].ends_with("does not hold it"));
    let mut namespaced = his;
    namespaced["metadata"]["namespace"] = json!("kube-system");
    let roles = [role(renewal, &json!([rule(&["create"], "certificatesigningrequests/selfnodeclient")]))];
    let rbac = Rbac::of(&roles, &[], &[namespaced]);
    assert_eq!(rbac.grants(Right::SelfNodeClient, &node()), None);
    assert!(rbac.in_vain(Right::SelfNodeClient, &node())[0].starts_with("RoleBinding 'kube-system/dangling'"));
}

// the seed's second example: the binding is for another group than the token's
#[test]
fn a_right_that_others_have_is_told_and_admins_are_not() {
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let roles = [
        role("cluster-admin", &everything),
        role(Right::NodeClient.role(), &json!([rule(&["create"], "certificatesigningrequests/nodeclient")])),
    ];
    let bindings = [
        binding("admins", "cluster-admin", &group("system:masters")),
        binding("node-client-auto-approve-csr", Right::NodeClient.role(), &group("system:bootstrappers")),
    ];
    let rbac = Rbac::of(&roles, &bindings, &[]);
    let covered = Who::new("kubelet-bootstrap", &["system:bootstrappers".to_owned()]);
    let uncovered = Who::new("kubelet-bootstrap", &["system:kubelet-bootstrap".to_owned()]);
    assert!(rbac.grants(Right::NodeClient, &covered).is_some());
    assert_eq!(rbac.grants(Right::NodeClient, &uncovered), None);
    let others: Vec<_> = rbac.to_others(Right::NodeClient, &uncovered).iter().map(|one| one.name.clone()).collect();
    assert_eq!(others, ["node-client-auto-approve-csr"]);
}

#[test]
fn who_may_approve_serving_requests_is_judged_by_signer() {
    let approver = |signer: &str| {
        let rules = json!([
            rule(&["update"], "certificatesigningrequests/approval"),
            { "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"], "resourceNames": [signer] },
        ]);
        let account = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "approver" });
        Rbac::of(&[role("a", &rules)], &[binding("a", "a", &account)], &[]).may_approve_serving()
    };
    assert_eq!(approver("kubernetes.io/kubelet-serving"), ["service account 'kube-system/approver'"]);
    assert_eq!(approver("kubernetes.io/*").len(), 1);
    assert!(approver("kubernetes.io/kube-apiserver-client").is_empty());
}
