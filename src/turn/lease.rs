//! The Lease that is the turn: read, written and judged. Pure.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::journal::TurnSeen;

/// The namespace of the Lease.
pub const NAMESPACE: &str = "kube-system";
/// The name of the Lease.
pub const NAME: &str = "k8s-certs-renew";
/// Where the Lease is (coordination.k8s.io/v1: Kubernetes 1.14 and later).
pub const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/k8s-certs-renew";
/// Where it is created.
pub const LIST: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// No duration beyond this is believed, nor asked for: what holds a Lease for longer is no run of this program.
pub const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// No more characters of a holder are kept or told; a node's name has 253 at most.
const HOLDER: usize = 400;

/// Who a run is to the others: its node, the boot, and the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// The node's name.
    pub node: String,
    /// What stands in the Lease: `<node>/<boot id>/<run id>`.
    pub id: String,
}

/// The Lease as the API server has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// `metadata.resourceVersion`: another one means that somebody has written it.
    pub version: String,
    /// `spec.holderIdentity`; none where it is free.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`, where it is one that can be believed: from a second to six hours.
    pub duration: Option<Duration>,
    object: Value,
}

/// A version of the Lease, and the moment (since boot) at which this node saw it first. What is watched is kept in the journal, so that
/// the next run goes on with the same wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    first: Option<(String, String, Duration)>,
}

/// How the Lease stands to this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has it, or who had it has not written it for as long as it is good.
    Free,
    /// An earlier run of this very node has it: it is over, as the node's own lock says.
    Ours,
    /// This very run has it.
    Mine,
    /// Another node has it.
    Held {
        /// Its name.
        by: String,
        /// How long it is good, as seen from here, if nobody writes it (seconds, not less than one).
        left: Duration,
    },
}

impl Me {
    /// The run that began at `began` (since that boot) on this node. No two runs of one boot begin at the same moment, as the node's lock
    /// keeps them apart.
    pub fn new(node: &str, boot_id: Option<&str>, began: Duration) -> Self {
        let boot = boot_id.unwrap_or("unknown-boot");
        Self { node: node.to_owned(), id: format!("{node}/{boot}/{:x}", began.as_nanos()) }
    }
}

impl Lease {
    /// Reads it. What is not as it should be in its spec counts as not there: the one thing that an API server cannot do without is
    /// the version.
    ///
    /// # Errors
    /// It is no object with a `metadata.resourceVersion`.
    pub fn parse(object: Value) -> Result<Self, String> {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if version.is_empty() {
            return Err(format!("the Lease '{NAMESPACE}/{NAME}' has no resourceVersion"));
        }
        let spec = &object["spec"];
        let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        let seconds = spec["leaseDurationSeconds"].as_u64().map(Duration::from_secs);
        Ok(Self {
            version,
            holder: holder.map(|holder| holder.chars().take(HOLDER).collect()),
            duration: seconds.filter(|seconds| (Duration::from_secs(1)..=LONGEST).contains(seconds)),
            object,
        })
    }

    /// When it was taken, by the clock of the node that did: for people to read.
    pub fn acquired(&self) -> Option<DateTime<Utc>> {
        self.object["spec"]["acquireTime"].as_str()?.parse().ok()
    }

    /// The node that holds it, if any.
    pub fn node(&self) -> Option<&str> {
        self.holder.as_deref().map(node_of)
    }

    /// How it stands to this run, when this node has seen this very version of it for `watched`. `ours` is the duration of a Lease of
    /// this program's, for one that tells none.
    ///
    /// `renewTime` is not looked at: it is by the clock of the other node.
    pub fn judge(&self, me: &Me, watched: Duration, ours: Duration) -> Standing {
        let Some(holder) = &self.holder else { return Standing::Free };
        if *holder == me.id {
            return Standing::Mine;
        }
        // two nodes of one cluster never have one name
        if node_of(holder) == me.node {
            return Standing::Ours;
        }
        let left = self.duration.unwrap_or(ours).saturating_sub(watched);
        if left.is_zero() {
            return Standing::Free;
        }
        Standing::Held { by: node_of(holder).to_owned(), left: left.max(Duration::from_secs(1)) }
    }

    /// The object that takes it: all else stays as it was read, the version above all, so that the API server refuses it (409) where
    /// somebody was faster. The times are for people to read.
    pub fn taken(&self, me: &Me, duration: Duration, now: DateTime<Utc>) -> Value {
        let transitions = self.object["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let transitions = transitions.saturating_add(u64::from(self.node() != Some(&me.node))).min(i32::MAX as u64);
        let mut object = self.object.clone();
        object["spec"] = spec(me, duration, now, transitions);
        object
    }

    /// The object that gives it back: without a holder, and kept.
    pub fn released(&self, now: DateTime<Utc>) -> Value {
        let mut object = self.object.clone();
        if let Some(spec) = object["spec"].as_object_mut() {
            // absent and not "": newer API servers may want a holder to have a name (coordination/v1 has it optional in all versions)
            spec.remove("holderIdentity");
            spec.insert("renewTime".to_owned(), micro_time(now).into());
        }
        object
    }
}

/// The object that creates it, taken.
pub fn created(me: &Me, duration: Duration, now: DateTime<Utc>) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": spec(me, duration, now, 0),
    })
}

fn spec(me: &Me, duration: Duration, now: DateTime<Utc>, transitions: u64) -> Value {
    let mut spec = Map::new();
    spec.insert("holderIdentity".to_owned(), me.id.clone().into());
    spec.insert("leaseDurationSeconds".to_owned(), duration.as_secs().min(LONGEST.as_secs()).max(1).into());
    spec.insert("acquireTime".to_owned(), micro_time(now).into());
    spec.insert("renewTime".to_owned(), micro_time(now).into());
    spec.insert("leaseTransitions".to_owned(), transitions.into());
    Value::Object(spec)
}

/// Kubernetes' `MicroTime` (apimachinery `RFC3339Micro`).
fn micro_time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

fn node_of(holder: &str) -> &str {
    holder.split('/').next().unwrap_or(holder)
}

impl Seen {
    /// What the journal keeps, if it is of this boot: after another one nobody knows how much time has passed in between.
    pub fn recall(kept: Option<&TurnSeen>, boot_id: Option<&str>) -> Self {
        let of_this_boot = kept.filter(|kept| boot_id == Some(kept.boot_id.as_str()));
        let first = of_this_boot
            .map(|kept| (kept.version.clone(), kept.holder.clone(), Duration::from_millis(kept.since_boot_ms)));
        Self { first }
    }

    /// What the journal is to keep; none where nobody is waited for, or the boot cannot be told.
    pub fn keep(&self, boot_id: Option<&str>) -> Option<TurnSeen> {
        let (version, holder, since_boot) = self.first.as_ref()?;
        Some(TurnSeen {
            version: version.clone(),
            holder: holder.clone(),
            boot_id: boot_id?.to_owned(),
            since_boot_ms: u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Notes what was read at this moment, and tells for how long this very version, with this holder, has been seen by now. A moment
    /// that is later than this one is none: what was seen counts from now on.
    pub fn note(&mut self, lease: &Lease, since_boot: Duration) -> Duration {
        let holder = lease.holder.clone().unwrap_or_default();
        match &self.first {
            Some((version, by, first)) if *version == lease.version && *by == holder && *first <= since_boot => {
                since_boot.saturating_sub(*first)
            }
            _ => {
                self.first = Some((lease.version.clone(), holder, since_boot));
                Duration::ZERO
            }
        }
    }

    /// Nobody is waited for any more.
    pub fn forget(&mut self) {
        self.first = None;
    }
}

#[cfg(test)]
mod tests;
