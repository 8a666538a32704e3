//! Approving pending serving requests, which Kubernetes itself never does (1.11 and later). Nothing is ever denied, and what somebody has
//! decided is left as it is.

pub mod report;
pub mod rules;

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::inventory::x509;
use crate::node::{Node, pem};
use crate::report::check_report::Status;

use super::csr::{is_of, pkcs10};
use super::objects::{
    self, Approver, CertificateRequest, Purpose, Server, State, Unseen, all_requests, approvers, nodes,
};
use rules::{Ground, Refusal, broken, is_like_serving};

/// What is to be approved, and how.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// This node.
    pub node: &'a Node,
    /// Its name in the cluster.
    pub name: &'a str,
    /// Kubeconfigs to log in by, the first that may is taken.
    pub kubeconfigs: &'a [PathBuf],
    /// Whether other nodes' requests are looked at too.
    pub all_nodes: bool,
    /// Whether it is only said what would be approved.
    pub dry_run: bool,
    /// The present (UTC).
    pub now: DateTime<Utc>,
    /// Each question's to the API.
    pub deadline: Duration,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Approval {
    /// This node's name.
    pub node: String,
    /// As of when (UTC).
    pub at: DateTime<Utc>,
    /// Whether it was only said.
    pub dry_run: bool,
    /// Why nothing could be done.
    pub failure: Option<Unseen>,
    /// The approver that is at work, to which all is left.
    pub approver: Option<Approver>,
    /// Each pending serving request that was looked at, the oldest first.
    pub lines: Vec<Line>,
    /// How many of other nodes were not.
    pub others: usize,
}

/// A request, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The request.
    pub request: CertificateRequest,
    /// The names that it asks for.
    pub names: Vec<String>,
    /// What became of it.
    pub fate: Fate,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is approved; `again`: at the second try, since somebody had changed it between.
    Approved {
        /// Whether it took a second try.
        again: bool,
    },
    /// It would be (dry run).
    WouldBeApproved,
    /// It is left to the approver that is at work; by these rules it would be refused here.
    Left(Vec<Refusal>),
    /// These rules do not hold.
    Refused(Vec<Refusal>),
    /// Somebody else has decided it, or deleted it, meanwhile.
    Overtaken,
    /// The approval could not be written.
    Failed(Unseen),
}

impl Approval {
    /// How it ends: 0 all approved or none pending, 1 some refused or left, 2 an approval could not be written, 3 the API cannot be asked.
    pub fn status(&self) -> Status {
        if self.failure.is_some() {
            return Status::Unknown;
        }
        let of = |fate: &Fate| match fate {
            Fate::Approved { .. } | Fate::WouldBeApproved | Fate::Overtaken => Status::Ok,
            Fate::Left(_) | Fate::Refused(_) => Status::Warning,
            Fate::Failed(_) => Status::Critical,
        };
        self.lines.iter().map(|line| of(&line.fate)).max().unwrap_or(Status::Ok)
    }
}

/// Judges every pending serving request, and approves those for which every rule holds. Never fails: what went wrong is in what it returns.
pub fn approve(job: &Job<'_>) -> Approval {
    let mut approval = Approval {
        node: job.name.to_owned(),
        at: job.now,
        dry_run: job.dry_run,
        failure: None,
        approver: None,
        lines: Vec::new(),
        others: 0,
    };
    if let Err(unseen) = work(job, &mut approval) {
        approval.failure = Some(unseen);
    }
    approval
}

fn work(job: &Job<'_>, approval: &mut Approval) -> Result<(), Unseen> {
    let server = Server::open(job.node, job.kubeconfigs, job.now, job.deadline)?;
    // who cannot see whether an approver is there must not act behind it
    approval.approver = approvers(&server)?.into_iter().find(Approver::is_on);
    let mut nodes = nodes(&server)?;
    // this very node needs no mark: it has kube-apiserver's manifest (a label may be missing where kubeadm's phases are run one by one)
    nodes
        .iter_mut()
        .filter(|node| node.name == job.name)
        .for_each(|node| node.control_plane |= job.node.is_control_plane());
    let names = server.names();
    let ground =
        Ground { nodes: &nodes, apiserver: &names, version: server.version, now: job.now, ca_ends: ca_ends(job.node) };
    let mut pending: Vec<_> = all_requests(&server)?.into_iter().filter(is_candidate).collect();
    let all = pending.len();
    pending.retain(|request| job.all_nodes || is_of(request, job.name));
    pending.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    approval.others = all - pending.len();
    for request in pending {
        let refusals = broken(&request, &ground);
        let fate = match () {
            () if approval.approver.is_some() => Fate::Left(refusals),
            () if !refusals.is_empty() => Fate::Refused(refusals),
            () if job.dry_run => Fate::WouldBeApproved,
            () => write(&server, &request.name, &ground),
        };
        approval.lines.push(Line { names: names_of(&request), request, fate });
    }
    Ok(())
}

fn is_candidate(request: &CertificateRequest) -> bool {
    let is_meant = request.purpose() == Purpose::Serving || request.signer.as_deref().is_some_and(is_like_serving);
    request.state() == State::Pending && is_meant
}

/// Approves one, as it is now: it is read again, and judged again, since it may be another one of that name.
fn write(server: &Server, name: &str, ground: &Ground<'_>) -> Fate {
    for again in [false, true] {
        let object = match server.get(&objects::request(server.version, name)) {
            Ok(object) => object,
            Err(Unseen::NotFound(_)) => return Fate::Overtaken,
            Err(unseen) => return Fate::Failed(unseen),
        };
        let request = CertificateRequest::of(&object);
        if request.state() != State::Pending {
            return Fate::Overtaken;
        }
        let refusals = broken(&request, ground);
        if !refusals.is_empty() {
            return Fate::Refused(refusals);
        }
        match server.put(&objects::approval(server.version, name), &approved(object, ground.now)) {
            Ok(_) => return Fate::Approved { again },
            Err(Unseen::Conflict(_)) if !again => {}
            Err(Unseen::NotFound(_)) => return Fate::Overtaken,
            Err(unseen) => return Fate::Failed(unseen),
        }
    }
    Fate::Overtaken
}

/// The object with the approval added; all else, `resourceVersion` above all, as it was read.
fn approved(mut object: Value, now: DateTime<Utc>) -> Value {
    let condition = json!({
        "type": "Approved",
        "status": "True",
        "reason": "K8sCertsRenewApprove",
        "message": "approved by k8s-certs-renew kubelet approve: every name is one of the Node's own addresses",
        "lastUpdateTime": now.to_rfc3339_opts(SecondsFormat::Secs, true),
    });
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => object["status"]["conditions"] = json!([condition]),
    }
    object
}

fn names_of(request: &CertificateRequest) -> Vec<String> {
    let inside = request.pem.as_deref().and_then(|pem| pkcs10::read(pem).ok());
    let name = |name: &pkcs10::San| match name {
        pkcs10::San::Dns(host) => host.clone(),
        pkcs10::San::Ip(ip) => ip.to_string(),
        pkcs10::San::Other(what) => what.clone(),
    };
    inside.map(|inside| inside.names.iter().map(name).collect()).unwrap_or_default()
}

/// When the CA that kube-controller-manager signs with ends: its `--cluster-signing-cert-file`, else the cluster's.
fn ca_ends(node: &Node) -> Option<DateTime<Utc>> {
    let manifest = node.manifest("kube-controller-manager");
    let named = manifest.and_then(|manifest| manifest.flag_path("--cluster-signing-cert-file"));
    let path = named.unwrap_or_else(|| node.cert_dir.join("ca.crt"));
    let read = |path: &Path| node.root.read(path).ok().and_then(|text| pem::read(&text).ok());
    let pem = read(&path)?;
    let leaf = x509::leaf(&x509::certificate(pem.certificates.first()?).ok()?).ok()?;
    Some(leaf.not_after)
}
