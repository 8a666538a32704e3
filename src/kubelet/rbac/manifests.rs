//! The roles and bindings that a cluster needs so that kubelets get their certificates by themselves, as YAML for `kubectl apply`.

use std::fmt::Write;

use crate::evidence::version::Version;
use crate::kubelet::objects::SERVING;

use super::{NODES, Rbac, Right, Subject};

/// One right that somebody is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The right.
    pub right: Right,
    /// Whom it is for.
    pub subject: Subject,
    /// The name that its binding gets, if it is free.
    name: &'static str,
    /// Why, as a comment.
    why: &'static str,
}

/// What a cluster of this version needs. `bootstrap`: who asks for a node's first certificate; `approver`: who else than an admin is to
/// approve serving requests.
///
/// Names and subjects are kubeadm's (kubeadm `tlsbootstrap.go`, the same from 1.8 to 1.36), so that on a kubeadm cluster they are the ones that
/// are there.
pub fn needs(version: Version, bootstrap: &Subject, approver: Option<&Subject>) -> Vec<Need> {
    let need = |right, subject: &Subject, name, why| Need { right, subject: subject.clone(), name, why };
    let nodes = Subject::Group(NODES.to_owned());
    let mut all = vec![
        need(Right::Create, bootstrap, "kubeadm:kubelet-bootstrap", "a new node may ask for its first certificate"),
        need(
            Right::NodeClient,
            bootstrap,
            "kubeadm:node-autoapprove-bootstrap",
            "kube-controller-manager approves that request",
        ),
        need(
            Right::SelfNodeClient,
            &nodes,
            "kubeadm:node-autoapprove-certificate-rotation",
            "kube-controller-manager approves the renewal of a node's client certificate",
        ),
        need(
            Right::SelfNodeServer,
            &nodes,
            "k8s-certs-renew:node-autoapprove-serving",
            "kube-controller-manager approves a node's serving certificate (1.7 to 1.10, with its RotateKubeletServerCertificate on)",
        ),
    ];
    all.extend(approver.map(|approver| {
        need(
            Right::ApproveServing,
            approver,
            "k8s-certs-renew:kubelet-serving-approver",
            "k8s-certs-renew kubelet approve --kubeconfig works with this login, which is no admin's",
        )
    }));
    all.retain(|need| need.right.is_of(Some(version)));
    all
}

/// Those of them that the cluster does not grant yet, under whatever name.
pub fn missing(needs: Vec<Need>, rbac: &Rbac) -> Vec<Need> {
    needs.into_iter().filter(|need| rbac.grants(need.right, &need.subject.who()).is_none()).collect()
}

/// The YAML of these needs. `there`: what the cluster has, whose names are left alone: `kubectl apply` would take away the subjects of a
/// binding of the same name, and cannot change its role.
pub fn yaml(needs: &[Need], version: Version, there: Option<&Rbac>) -> String {
    let mut text = String::new();
    for need in needs {
        let mut role = need.right.role().to_owned();
        if let Some(rules) = rules(need.right, version) {
            // a role of this name that does not hold the right is somebody else's
            let is_taken = |name: &str| there.is_some_and(|there| there.has_role(name));
            let holds = there.is_some_and(|there| there.role_holds(&role, need.right));
            if !holds {
                role = free(&role, is_taken);
                let _ = write!(text, "---\n# {}\n{}", need.why, object(version, "ClusterRole", &role));
                let _ = writeln!(text, "rules:");
                text.push_str(&rules);
            }
        } else if there.is_some_and(|there| !there.role_holds(&role, need.right)) {
            // Kubernetes makes it at the start of kube-apiserver, unless somebody has told it not to
            let _ = writeln!(
                text,
                "# ClusterRole '{role}' is missing or was changed: restart kube-apiserver, which makes it anew"
            );
        }
        let name = free(need.name, |name| there.is_some_and(|there| there.has_binding(name)));
        let _ = write!(text, "---\n# {}\n{}", need.why, object(version, "ClusterRoleBinding", &name));
        let _ = write!(
            text,
            "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {}\nsubjects:\n{}",
            quoted(&role),
            subject(&need.subject)
        );
    }
    text
}

/// The rules of a role that Kubernetes of this version does not make by itself.
fn rules(right: Right, version: Version) -> Option<String> {
    let sub = match right {
        // from 1.8 on kube-apiserver makes both
        Right::NodeClient if version < (1, 8) => "nodeclient",
        Right::SelfNodeClient if version < (1, 8) => "selfnodeclient",
        Right::SelfNodeServer => "selfnodeserver",
        Right::ApproveServing => return Some(approver_rules()),
        _ => return None,
    };
    Some(rule(&["create"], "certificates.k8s.io", &format!("certificatesigningrequests/{sub}"), None))
}

/// What `kubelet approve` asks for: the requests, the nodes, other approvers; and the approval of one signer's requests.
fn approver_rules() -> String {
    [
        rule(&["get", "list"], "certificates.k8s.io", "certificatesigningrequests", None),
        rule(&["update"], "certificates.k8s.io", "certificatesigningrequests/approval", None),
        rule(&["approve"], "certificates.k8s.io", "signers", Some(SERVING)),
        rule(&["get", "list"], "", "nodes", None),
        rule(&["get", "list"], "apps", "deployments", None),
    ]
    .concat()
}

fn rule(verbs: &[&str], group: &str, resource: &str, name: Option<&str>) -> String {
    let verbs: Vec<String> = verbs.iter().map(|verb| quoted(verb)).collect();
    let mut text = format!(
        "- apiGroups: [{}]\n  resources: [{}]\n  verbs: [{}]\n",
        quoted(group),
        quoted(resource),
        verbs.join(", ")
    );
    if let Some(name) = name {
        let _ = writeln!(text, "  resourceNames: [{}]", quoted(name));
    }
    text
}

fn object(version: Version, kind: &str, name: &str) -> String {
    let api = crate::kubelet::objects::since(Some(version), (1, 8));
    format!("apiVersion: rbac.authorization.k8s.io/{api}\nkind: {kind}\nmetadata:\n  name: {}\n", quoted(name))
}

fn subject(subject: &Subject) -> String {
    let of_rbac = |kind: &str, name: &str| {
        format!("- apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {}\n", quoted(name))
    };
    match subject {
        Subject::User(name) => of_rbac("User", name),
        Subject::Group(name) => of_rbac("Group", name),
        Subject::ServiceAccount(namespace, name) => {
            format!("- kind: ServiceAccount\n  namespace: {}\n  name: {}\n", quoted(namespace), quoted(name))
        }
    }
}

/// A name that nothing has yet: this one, else with a number behind it.
fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// A string of JSON is one of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{missing, needs, yaml};
    use crate::kubelet::rbac::{KUBEADM_TOKENS, Rbac, Right, Subject};
    use crate::node::yaml::parse_all;

    fn tokens() -> Subject {
        Subject::Group(KUBEADM_TOKENS.to_owned())
    }

    fn rights(version: (u32, u32)) -> Vec<Right> {
        needs(version, &tokens(), None).iter().map(|need| need.right).collect()
    }

    /// What a cluster has once this YAML was applied to it, with Kubernetes' own roles of this version.
    fn applied(version: (u32, u32), text: &str) -> Rbac {
        let documents = parse_all(text.as_bytes()).unwrap();
        let of = |kind: &str| documents.iter().filter(|one| one["kind"] == kind).cloned().collect::<Vec<Value>>();
        let mut roles = of("ClusterRole");
        let mut own = vec![(Right::Create, "certificatesigningrequests")];
        if version >= (1, 8) {
            own.push((Right::NodeClient, "certificatesigningrequests/nodeclient"));
            own.push((Right::SelfNodeClient, "certificatesigningrequests/selfnodeclient"));
        }
        for (right, resource) in own {
            roles.push(json!({ "metadata": { "name": right.role() }, "rules": [
                { "apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": ["create", "get", "list", "watch"] },
            ] }));
        }
        Rbac::of(&roles, &of("ClusterRoleBinding"), &[])
    }

    #[test]
    fn each_version_needs_what_its_controller_manager_asks_for() {
        use Right::{Create, NodeClient, SelfNodeClient, SelfNodeServer};
        assert_eq!(rights((1, 6)), [Create]);
        assert_eq!(rights((1, 7)), [Create, NodeClient, SelfNodeClient, SelfNodeServer]);
        assert_eq!(rights((1, 10)), [Create, NodeClient, SelfNodeClient, SelfNodeServer]);
        assert_eq!(rights((1, 11)), [Create, NodeClient, SelfNodeClient]);
        assert_eq!(rights((1, 36)), [Create, NodeClient, SelfNodeClient]);
    }

    #[test]
    fn once_applied_nothing_is_missing_on_any_version() {
        let approver = Subject::ServiceAccount("ops".to_owned(), "approver".to_owned());
        for version in [(1, 7), (1, 8), (1, 10), (1, 20), (1, 36)] {
            let all = needs(version, &tokens(), Some(&approver));
            let text = yaml(&all, version, None);
            assert_eq!(missing(all, &applied(version, &text)), [], "{version:?}\n{text}");
        }
    }

    #[test]
    fn the_api_version_is_the_clusters() {
        let of = |version| yaml(&needs(version, &tokens(), None), version, None);
        assert!(of((1, 7)).contains("apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: ClusterRole\n"));
        assert!(!of((1, 8)).contains("v1beta1") && !of((1, 11)).contains("\nkind: ClusterRole\n"));
    }

    #[test]
    fn what_is_there_under_another_name_is_not_made_twice_and_no_name_is_taken_over() {
        let version = (1, 20);
        let all = needs(version, &tokens(), None);
        // bindings of other names
        let text = yaml(&all, version, None).replace("\"kubeadm:", "\"ours:");
        assert_eq!(missing(all.clone(), &applied(version, &text)), []);
        // bindings of the same names for other subjects
        let there = applied(version, &yaml(&all, version, None).replace("system:nodes", "somebody"));
        let left = missing(all, &there);
        assert_eq!(left.iter().map(|need| need.right).collect::<Vec<_>>(), [Right::SelfNodeClient]);
        let text = yaml(&left, version, Some(&there));
        assert!(text.contains("name: \"kubeadm:node-autoapprove-certificate-rotation-2\""), "{text}");
    }

    #[test]
    fn a_name_from_outside_cannot_break_the_yaml() {
        let odd = Subject::User("a\"\n- b: {c".to_owned());
        let documents = parse_all(yaml(&needs((1, 20), &odd, None), (1, 20), None).as_bytes()).unwrap();
        assert_eq!(documents[0]["subjects"][0]["name"], "a\"\n- b: {c");
    }
}
