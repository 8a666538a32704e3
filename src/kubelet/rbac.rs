//! Who may do what with certificate signing requests: by the rules of the role behind a binding and by its subjects, never by names.

pub mod findings;
pub mod manifests;

use serde_json::Value;

use crate::evidence::version::Version;
use crate::node::yaml::{list_at, text_at};

use super::objects::{SERVING, Server, Unseen};

/// The group of nodes that are in the cluster.
pub const NODES: &str = "system:nodes";
/// The group of every bootstrap token.
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// The group of the tokens that kubeadm makes, to which its bindings give rights (kubeadm `constants.go`).
pub const KUBEADM_TOKENS: &str = "system:bootstrappers:kubeadm:default-node-token";
/// The group of everybody who is logged in.
const AUTHENTICATED: &str = "system:authenticated";
const CERTIFICATES: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

/// What somebody may do with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Create requests, and see what comes of them: what a kubelet needs for its first one.
    Create,
    /// First client requests are approved by kube-controller-manager (1.7 and later).
    NodeClient,
    /// Requests that renew the own client certificate are approved (1.7 and later).
    SelfNodeClient,
    /// Requests for the own serving certificate are approved (1.7 to 1.10; Kubernetes #46884, removed by #62471).
    SelfNodeServer,
    /// Approve serving requests oneself (1.18 and later by signer).
    ApproveServing,
}

impl Right {
    /// What rules it takes: verb, resource, and the name of the resource where one counts.
    fn needs(self) -> Vec<(&'static str, String, Option<&'static str>)> {
        let sub = |name: &str| format!("{REQUESTS}/{name}");
        match self {
            Self::Create => ["create", "get", "list", "watch"].map(|verb| (verb, REQUESTS.to_owned(), None)).to_vec(),
            Self::NodeClient => vec![("create", sub("nodeclient"), None)],
            Self::SelfNodeClient => vec![("create", sub("selfnodeclient"), None)],
            Self::SelfNodeServer => vec![("create", sub("selfnodeserver"), None)],
            Self::ApproveServing => {
                vec![("update", sub("approval"), None), ("approve", "signers".to_owned(), Some(SERVING))]
            }
        }
    }

    /// The role of Kubernetes' own that holds it.
    pub fn role(self) -> &'static str {
        match self {
            Self::Create => "system:node-bootstrapper",
            Self::NodeClient => "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            Self::SelfNodeClient => "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            Self::SelfNodeServer => "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver",
            Self::ApproveServing => "k8s-certs-renew:kubelet-serving-approver",
        }
    }

    /// Whether kube-controller-manager of this version asks for it at all.
    pub fn is_of(self, version: Option<Version>) -> bool {
        let from_to = |from: Version, to: Version| version.is_none_or(|version| (from..to).contains(&version));
        match self {
            Self::Create | Self::ApproveServing => true,
            Self::NodeClient | Self::SelfNodeClient => from_to((1, 7), (u32::MAX, 0)),
            Self::SelfNodeServer => version.is_some() && from_to((1, 7), (1, 11)),
        }
    }
}

/// Somebody as kube-apiserver sees him: user name and all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// User name; empty for all members of the groups.
    pub user: String,
    groups: Vec<String>,
}

impl Who {
    /// A user with these groups, and `system:authenticated`.
    pub fn new(user: &str, groups: &[String]) -> Self {
        let mut groups = groups.to_vec();
        groups.push(AUTHENTICATED.to_owned());
        Self { user: user.to_owned(), groups }
    }

    /// The user of a bootstrap token (apiserver `bootstrap/token.go`).
    pub fn bootstrap_token(id: &str, extra_groups: &[String]) -> Self {
        let mut groups = vec![BOOTSTRAPPERS.to_owned()];
        groups.extend_from_slice(extra_groups);
        Self::new(&format!("system:bootstrap:{id}"), &groups)
    }

    /// A node that is in the cluster.
    pub fn node(name: &str) -> Self {
        Self::new(&format!("{}{name}", super::objects::NODE_USER), &[NODES.to_owned()])
    }

    /// Whether he is in this group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    /// The groups that are his alone to speak of.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str).filter(|group| *group != AUTHENTICATED)
    }
}

/// A subject of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A user by name.
    User(String),
    /// Everybody in a group.
    Group(String),
    /// A service account: namespace and name.
    ServiceAccount(String, String),
}

impl Subject {
    fn of(value: &Value) -> Option<Self> {
        let name = text_at(value, &["name"])?;
        match text_at(value, &["kind"])?.as_str() {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => Some(Self::ServiceAccount(text_at(value, &["namespace"]).unwrap_or_default(), name)),
            _ => None,
        }
    }

    /// Whether it is this one, or he is in it. `*` for all users is RBAC of 1.5 and older.
    fn covers(&self, who: &Who) -> bool {
        match self {
            Self::User(name) => !who.user.is_empty() && *name == who.user,
            Self::Group(name) => who.is_in(name),
            Self::ServiceAccount(namespace, name) => who.user == format!("system:serviceaccount:{namespace}:{name}"),
        }
    }

    /// Who it is, where he is asked after by himself. Every member of a kubeadm token's group is a bootstrapper too.
    pub fn who(&self) -> Who {
        match self {
            Self::User(name) => Who::new(name, &[]),
            Self::Group(name) if name.starts_with("system:bootstrappers:") => {
                Who::new("", &[name.clone(), BOOTSTRAPPERS.to_owned()])
            }
            Self::Group(name) => Who::new("", std::slice::from_ref(name)),
            Self::ServiceAccount(namespace, name) => Who::new(
                &format!("system:serviceaccount:{namespace}:{name}"),
                &["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
            ),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(name) => write!(f, "user '{name}'"),
            Self::Group(name) => write!(f, "group '{name}'"),
            Self::ServiceAccount(namespace, name) => write!(f, "service account '{namespace}/{name}'"),
        }
    }
}

/// A binding of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its name; a RoleBinding's with its namespace before.
    pub name: String,
    /// The ClusterRole; none where it names a Role.
    pub role: Option<String>,
    /// Whom it is for.
    pub subjects: Vec<Subject>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
}

/// Roles and bindings of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rbac {
    roles: Vec<(String, Vec<Rule>)>,
    bindings: Vec<Binding>,
    namespaced: Vec<Binding>,
}

impl Rbac {
    /// Roles and bindings as this server has them.
    ///
    /// # Errors
    /// One of the lists was not seen.
    pub fn look(server: &Server) -> Result<Self, Unseen> {
        let list = |kind: &str| server.list(&super::objects::rbac(server.version, kind), "");
        Ok(Self::of(&list("clusterroles")?, &list("clusterrolebindings")?, &list("rolebindings")?))
    }

    /// Roles and bindings from their objects.
    pub fn of(roles: &[Value], bindings: &[Value], namespaced: &[Value]) -> Self {
        let name = |value: &Value| text_at(value, &["metadata", "name"]).unwrap_or_default();
        let role = |value: &Value| (name(value), list_at(value, &["rules"]).iter().map(Rule::of).collect());
        let binding = |value: &Value| {
            let namespace = text_at(value, &["metadata", "namespace"]).map(|namespace| format!("{namespace}/"));
            let is_cluster = text_at(value, &["roleRef", "kind"]).as_deref() == Some("ClusterRole");
            Binding {
                name: format!("{}{}", namespace.unwrap_or_default(), name(value)),
                role: text_at(value, &["roleRef", "name"]).filter(|_| is_cluster),
                subjects: list_at(value, &["subjects"]).iter().filter_map(Subject::of).collect(),
            }
        };
        Self {
            roles: roles.iter().map(role).collect(),
            bindings: bindings.iter().map(binding).collect(),
            namespaced: namespaced.iter().map(binding).collect(),
        }
    }

    /// The bindings by which somebody has this right; none where a part of it is missing. Only ClusterRoleBindings count, since requests
    /// belong to no namespace.
    pub fn grants(&self, right: Right, who: &Who) -> Option<Vec<&Binding>> {
        let mut by: Vec<&Binding> = Vec::new();
        for (verb, resource, name) in right.needs() {
            let allows = |binding: &&Binding| {
                binding.subjects.iter().any(|subject| subject.covers(who))
                    && self.rules(binding).any(|rule| rule.allows(verb, &resource, name))
            };
            let binding = self.bindings.iter().find(allows)?;
            if !by.contains(&binding) {
                by.push(binding);
            }
        }
        Some(by)
    }

    /// Bindings that give this right to others, without those that give everything.
    pub fn to_others(&self, right: Right, who: &Who) -> Vec<&Binding> {
        let needs = right.needs();
        let gives = |binding: &&Binding| {
            needs.iter().all(|(verb, resource, name)| {
                self.rules(binding).any(|rule| !rule.is_everything() && rule.allows(verb, resource, *name))
            })
        };
        let others = self.bindings.iter().filter(|binding| !binding.subjects.iter().any(|subject| subject.covers(who)));
        others.filter(|binding| !binding.subjects.is_empty()).filter(gives).collect()
    }

    /// Bindings that seem to give somebody this right, and do not: their role is gone or does not hold it, or they are RoleBindings.
    pub fn in_vain(&self, right: Right, who: &Who) -> Vec<String> {
        let is_his = |binding: &&Binding| binding.subjects.iter().any(|subject| subject.covers(who));
        let means_it =
            |role: &str| role == right.role() || (right == Right::NodeClient && role == "approve-node-client-csr");
        let mut vain = Vec::new();
        for binding in self.bindings.iter().filter(is_his) {
            let Some(role) = binding.role.as_deref().filter(|role| means_it(role)) else { continue };
            let why = if self.has_role(role) { "does not hold it" } else { "does not exist" };
            vain.push(format!("ClusterRoleBinding '{}' names ClusterRole '{role}', which {why}", binding.name));
        }
        for binding in
            self.namespaced.iter().filter(is_his).filter(|binding| binding.role.as_deref().is_some_and(means_it))
        {
            vain.push(format!(
                "RoleBinding '{}' counts for nothing: requests belong to no namespace, so it takes a ClusterRoleBinding",
                binding.name
            ));
        }
        vain
    }

    /// Service accounts and others that were given the right to approve serving requests, and not as admins of everything.
    pub fn may_approve_serving(&self) -> Vec<String> {
        let nobody = Who { user: String::new(), groups: Vec::new() };
        let bindings = self.to_others(Right::ApproveServing, &nobody);
        bindings.iter().flat_map(|binding| &binding.subjects).map(ToString::to_string).collect()
    }

    /// Whether there is a ClusterRole of this name.
    pub fn has_role(&self, name: &str) -> bool {
        self.roles.iter().any(|(role, _)| role == name)
    }

    /// Whether the ClusterRole of this name holds this right.
    pub fn role_holds(&self, name: &str, right: Right) -> bool {
        let rules =
            self.roles.iter().find(|(role, _)| role == name).map(|(_, rules)| rules.as_slice()).unwrap_or_default();
        right.needs().iter().all(|(verb, resource, name)| rules.iter().any(|rule| rule.allows(verb, resource, *name)))
    }

    /// Whether there is a ClusterRoleBinding of this name.
    pub fn has_binding(&self, name: &str) -> bool {
        self.bindings.iter().any(|binding| binding.name == name)
    }

    fn rules<'a>(&'a self, binding: &'a Binding) -> impl Iterator<Item = &'a Rule> {
        let role = self.roles.iter().find(|(name, _)| Some(name) == binding.role.as_ref());
        role.into_iter().flat_map(|(_, rules)| rules)
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let texts =
            |key: &str| list_at(value, &[key]).iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
        }
    }

    /// As apiserver's `rbac.RuleAllows`: `*` stands for all, `*/sub` for a subresource of all; a rule with resource names holds for
    /// those only, and so not for a create. For signers `domain/*` stands for all of a domain.
    fn allows(&self, verb: &str, resource: &str, name: Option<&str>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let of_all = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let of_domain = name.and_then(|name| name.split_once('/')).map(|(domain, _)| format!("{domain}/*"));
        has(&self.verbs, verb)
            && has(&self.groups, CERTIFICATES)
            && (has(&self.resources, resource) || of_all.is_some_and(|all| self.resources.contains(&all)))
            && (self.names.is_empty()
                || name.is_some_and(|name| self.names.iter().any(|one| one == name))
                || of_domain.is_some_and(|domain| self.names.contains(&domain)))
    }

    fn is_everything(&self) -> bool {
        let all = |list: &[String]| list.iter().any(|one| one == "*");
        all(&self.verbs) && all(&self.groups) && all(&self.resources)
    }
}

#[cfg(test)]
mod tests;
