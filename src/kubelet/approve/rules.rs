//! The rules by which a serving request is approved; every one must hold.
//!
//! The signer itself (kube-controller-manager, 1.18 and later) checks subject, usages and kinds of names only: that the names are the
//! node's own is the approver's to see (Kubernetes' documentation of `kubernetes.io/kubelet-serving`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use chrono::{DateTime, Duration, Utc};

use crate::evidence::version::Version;
use crate::kubelet::csr::pkcs10::{self, San, Signed, SigningRequest};
use crate::kubelet::objects::{CertificateRequest, NODE_USER, NodeObject, SERVING};
use crate::kubelet::rbac::NODES;
use crate::report::words::span;

/// The longest life that is approved: a year and a day.
const LONGEST: Duration = Duration::days(366);
/// The shortest that Kubernetes takes (1.22 and later).
const SHORTEST: Duration = Duration::seconds(600);
/// What a certificate for serving may be for: what kubelets ask for up to 1.26, and from 1.27 on with an ECDSA key.
const USAGES: [&[&str]; 2] =
    [&["digital signature", "key encipherment", "server auth"], &["digital signature", "server auth"]];

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// `spec.signerName` is kubelet-serving's.
    Signer,
    /// Who made it is a node that exists.
    Requester,
    /// He is in the group of nodes.
    Group,
    /// It is one PKCS#10 request in one PEM block, not too long.
    Request,
    /// It is signed by the key that it asks a certificate for.
    Signature,
    /// Its subject is the node's name and group, and nothing else.
    Subject,
    /// The usages are those of serving.
    Usages,
    /// It asks for names and for nothing else.
    Extras,
    /// It names at least one host name or address.
    NameMissing,
    /// It names host names and addresses only.
    NameKind,
    /// Every name is one of the Node's own addresses.
    NameForeign,
    /// No name is another Node's too.
    NameShared,
    /// No name is kube-apiserver's, unless the node is a control plane.
    NameApiserver,
    /// The lifetime is neither too short nor too long, and ends no later than the CA.
    Lifetime,
}

impl Rule {
    /// Its name in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signer => "signer",
            Self::Requester => "requester",
            Self::Group => "group",
            Self::Request => "request",
            Self::Signature => "signature",
            Self::Subject => "subject",
            Self::Usages => "usages",
            Self::Extras => "extras",
            Self::NameMissing => "name-missing",
            Self::NameKind => "name-kind",
            Self::NameForeign => "name-foreign",
            Self::NameShared => "name-shared",
            Self::NameApiserver => "name-apiserver",
            Self::Lifetime => "lifetime",
        }
    }
}

/// A rule that does not hold, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// What was found instead.
    pub why: String,
}

/// What requests are judged against.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The nodes of the cluster.
    pub nodes: &'a [NodeObject],
    /// The names of kube-apiserver's own certificate.
    pub apiserver: &'a [String],
    /// kube-apiserver's version.
    pub version: Option<Version>,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// When the signing CA ends (UTC), where that is known.
    pub ca_ends: Option<DateTime<Utc>>,
}

/// Every rule that does not hold; none: it may be approved.
pub fn broken(request: &CertificateRequest, ground: &Ground<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |rule, why: String| refusals.push(Refusal { rule, why });
    signer(request, ground, &mut refuse);
    let node = requester(request, ground, &mut refuse);
    if !request.groups.iter().any(|group| group == NODES) {
        refuse(Rule::Group, format!("who made it is not in group '{NODES}'"));
    }
    usages(request, &mut refuse);
    lifetime(request, ground, &mut refuse);
    let inside = match request.pem.as_deref() {
        Some(pem) => pkcs10::read(pem),
        None => Err("spec.request is no base64".to_owned()),
    };
    match inside {
        Ok(inside) => {
            subject(&inside, request, &mut refuse);
            names(&inside, node, ground, &mut refuse);
        }
        Err(why) => refuse(Rule::Request, why),
    }
    refusals
}

/// Whether somebody means kubelet-serving by this signer; only the one of exactly this name is it.
pub fn is_like_serving(signer: &str) -> bool {
    signer.to_ascii_lowercase().contains("kubelet-serving")
}

fn signer(request: &CertificateRequest, ground: &Ground<'_>, refuse: &mut impl FnMut(Rule, String)) {
    match request.signer.as_deref() {
        Some(SERVING) => {}
        Some(other) => refuse(Rule::Signer, format!("signerName is '{other}', not '{SERVING}'")),
        None if ground.version.is_some_and(|version| version < (1, 18)) => {}
        None => refuse(Rule::Signer, "it has no signerName".to_owned()),
    }
}

fn requester<'a>(
    request: &CertificateRequest,
    ground: &Ground<'a>,
    refuse: &mut impl FnMut(Rule, String),
) -> Option<&'a NodeObject> {
    let Some(name) = request.node() else {
        refuse(Rule::Requester, format!("'{}' made it, who is no node", request.username));
        return None;
    };
    let node = ground.nodes.iter().find(|node| node.name == name);
    if node.is_none() {
        refuse(Rule::Requester, format!("the cluster has no Node '{name}'"));
    }
    node
}

fn usages(request: &CertificateRequest, refuse: &mut impl FnMut(Rule, String)) {
    let asked: BTreeSet<&str> = request.usages.iter().map(String::as_str).collect();
    if !USAGES.iter().any(|allowed| asked == allowed.iter().copied().collect()) {
        let list = request.usages.join(", ");
        refuse(Rule::Usages, format!("it is for '{list}', not for '{}'", USAGES[0].join(", ")));
    }
}

fn lifetime(request: &CertificateRequest, ground: &Ground<'_>, refuse: &mut impl FnMut(Rule, String)) {
    // without one it is kube-controller-manager's own, and cut off at the CA's end by it
    let Some(seconds) = request.expiration_seconds else { return };
    let Some(life) = Duration::try_seconds(seconds).filter(|life| *life <= LONGEST) else {
        return refuse(Rule::Lifetime, format!("it asks for {seconds} seconds, more than {}", span(LONGEST)));
    };
    if life < SHORTEST {
        refuse(Rule::Lifetime, format!("it asks for {seconds} seconds, less than {}", SHORTEST.num_seconds()));
    } else if ground.ca_ends.is_some_and(|ends| ground.now + life > ends) {
        refuse(Rule::Lifetime, format!("it asks for {}, and the CA ends before", span(life)));
    }
}

fn subject(inside: &SigningRequest, request: &CertificateRequest, refuse: &mut impl FnMut(Rule, String)) {
    match inside.signature {
        Signed::Well => {}
        Signed::Badly => {
            refuse(Rule::Signature, "it is not signed by the key that it asks a certificate for".to_owned());
        }
        Signed::Unjudged => refuse(Rule::Signature, "its signature's algorithm is not supported here".to_owned()),
    }
    if inside.common_names != [request.username.as_str()] || !request.username.starts_with(NODE_USER) {
        let names = inside.common_names.join("', '");
        refuse(Rule::Subject, format!("its common name is '{names}', and '{}' made it", request.username));
    }
    if inside.organizations != [NODES] {
        let names = inside.organizations.join("', '");
        refuse(Rule::Subject, format!("its organization is '{names}', not '{NODES}' alone"));
    }
    if !inside.other_subject.is_empty() {
        refuse(
            Rule::Subject,
            format!("its subject has more than name and organization: {}", inside.other_subject.join(", ")),
        );
    }
    if !inside.extras.is_empty() {
        refuse(Rule::Extras, format!("it asks for more than names: {}", inside.extras.join(", ")));
    }
}

fn names(
    inside: &SigningRequest,
    node: Option<&NodeObject>,
    ground: &Ground<'_>,
    refuse: &mut impl FnMut(Rule, String),
) {
    if !inside.names.iter().any(|name| !matches!(name, San::Other(_))) {
        refuse(Rule::NameMissing, "it names no host name and no address".to_owned());
    }
    for name in &inside.names {
        let shown = match name {
            San::Other(what) => {
                refuse(Rule::NameKind, format!("it names {what}"));
                continue;
            }
            San::Dns(host) => host.clone(),
            San::Ip(ip) => ip.to_string(),
        };
        // who made it is refused already
        let Some(node) = node else { continue };
        if !has(&node.addresses, name) {
            refuse(Rule::NameForeign, format!("'{shown}' is no address of Node '{}'", node.name));
            continue;
        }
        // a kubelet tells its own addresses, and so can lie about them
        if let Some(other) = ground.nodes.iter().find(|other| other.name != node.name && has(&other.addresses, name)) {
            refuse(Rule::NameShared, format!("'{shown}' is an address of Node '{}' too", other.name));
        }
        if !node.control_plane && has(ground.apiserver, name) {
            refuse(
                Rule::NameApiserver,
                format!("'{shown}' is a name of kube-apiserver's, and the node is marked as no control plane"),
            );
        }
    }
}

fn has(addresses: &[String], name: &San) -> bool {
    addresses.iter().any(|address| match (address.parse::<IpAddr>(), name) {
        (Ok(address), San::Ip(ip)) => address.to_canonical() == *ip,
        (Err(_), San::Dns(host)) => address.eq_ignore_ascii_case(host),
        _ => false,
    })
}
