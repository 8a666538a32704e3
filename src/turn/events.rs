//! Events in `kube-system`, so that `kubectl get events` shows which node renewed, and why. They are a courtesy: nothing waits for them
//! for long, and nothing fails with them.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::door::Door;
use super::taking::Reply;
use crate::host::Deadline;
use crate::node::Node;

/// Where Events are created (core/v1: every version of Kubernetes).
const LIST: &str = "/api/v1/namespaces/kube-system/events";
/// Who tells.
const COMPONENT: &str = "k8s-certs-renew";
/// Bytes of a message that an API server takes (kube-apiserver, `NoteLengthLimit`).
const MESSAGE: usize = 1024;
/// Characters of `reportingInstance` that it takes.
const INSTANCE: usize = 128;

/// What an Event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A run begins to act.
    Renewing,
    /// It is done, and proven.
    Renewed,
    /// It did not end well.
    Failed,
    /// Its restarts are put off.
    Deferred,
}

impl Reason {
    /// The word in `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Renewing => "CertificatesRenewing",
            Self::Renewed => "CertificatesRenewed",
            Self::Failed => "CertificatesRenewalFailed",
            Self::Deferred => "CertificatesRestartDeferred",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Renewing | Self::Renewed => "Normal",
            Self::Failed | Self::Deferred => "Warning",
        }
    }
}

/// The Events of one run.
#[derive(Debug)]
pub struct Events<'a> {
    door: Door<'a>,
    node_name: String,
    /// How long one may take.
    limit: Duration,
    /// How many were tried.
    tried: i64,
    /// Whether none is sent any more.
    over: bool,
}

impl<'a> Events<'a> {
    /// The Events of this node. `now` is what dates are judged by, `limit` how long one may take, `peers` where other API servers were.
    pub fn new(node: &'a Node, node_name: &str, now: DateTime<Utc>, limit: Duration, peers: Vec<SocketAddr>) -> Self {
        // one that hangs is to leave time for another
        let door = Door::new(node, now, limit / 2, peers);
        Self { door, node_name: node_name.to_owned(), limit, tried: 0, over: false }
    }

    /// Creates one, as of `at` (UTC). After one that took too long, or is not allowed, no other is tried.
    ///
    /// # Errors
    /// It is not created: why.
    pub fn tell(&mut self, reason: Reason, message: &str, at: DateTime<Utc>) -> Result<(), String> {
        if self.over || !self.door.may_ask() {
            return Ok(());
        }
        let ends = Deadline::after(self.limit);
        self.door.until(ends);
        self.tried += 1;
        let reply = self.door.create_anywhere(LIST, &event(&self.node_name, self.tried, reason, message, at));
        // one API server that hangs costs half of the time, and as much the next time
        self.over = ends.left().is_none_or(|left| left <= self.limit / 2);
        match reply {
            Reply::Object(_) | Reply::Conflict => Ok(()),
            Reply::Absent => Err("the API server knows no Events, or no namespace 'kube-system' (404)".to_owned()),
            Reply::Refused(why) => {
                self.over = true;
                Err(why)
            }
            Reply::Lost(why) | Reply::Nobody(why) => Err(why),
        }
    }
}

/// The object. With `eventTime` an API server wants `reportingComponent`, `reportingInstance` and `action`, and lets an Event about a Node
/// be in `kube-system`; without it only in `default` (kube-apiserver 1.20 to 1.36, `legacyValidateEvent`). The two other times and
/// `source` are what older kubectls print.
fn event(node: &str, number: i64, reason: Reason, message: &str, at: DateTime<Utc>) -> Value {
    let seconds = at.to_rfc3339_opts(SecondsFormat::Secs, true);
    // a clock that is set back, or stands still, is not to give two the same name
    let name = format!("{node}.{:x}", at.timestamp_micros().saturating_add(number));
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": "kube-system" },
        // as kubelet does it: its uid is the node's name
        "involvedObject": { "kind": "Node", "name": node, "uid": node },
        "reason": reason.as_str(),
        "message": cut(message),
        "type": reason.kind(),
        "source": { "component": COMPONENT, "host": node },
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "count": 1,
        "eventTime": at.to_rfc3339_opts(SecondsFormat::Micros, true),
        "reportingComponent": COMPONENT,
        "reportingInstance": node.chars().take(INSTANCE).collect::<String>(),
        "action": reason.as_str(),
    })
}

/// As much of it as is taken, its end left out where it is longer.
fn cut(message: &str) -> String {
    if message.len() <= MESSAGE {
        return message.to_owned();
    }
    let end = (0..=MESSAGE - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Reason, cut, event};

    #[test]
    fn an_event_is_about_the_node_and_has_what_an_api_server_asks_for_in_kube_system() {
        let at = "2026-03-02T03:10:00.000007Z".parse().unwrap();
        let event = event("node1", 1, Reason::Deferred, "words", at);
        assert_eq!(event["involvedObject"], serde_json::json!({ "kind": "Node", "name": "node1", "uid": "node1" }));
        assert_eq!(event["metadata"]["namespace"], "kube-system");
        assert_eq!(event["eventTime"], "2026-03-02T03:10:00.000007Z");
        assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &"CertificatesRestartDeferred".into()));
        for key in ["reportingComponent", "reportingInstance", "action", "lastTimestamp"] {
            assert!(event[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {event}");
        }
    }

    #[test]
    fn two_events_of_one_moment_have_two_names() {
        let at = "2026-03-02T03:10:00Z".parse().unwrap();
        let name = |number| event("node1", number, Reason::Renewed, "", at)["metadata"]["name"].clone();
        assert_ne!(name(1), name(2));
    }

    #[test]
    fn a_message_is_no_longer_than_an_api_server_takes() {
        assert_eq!(cut("short"), "short");
        for unit in ["a", "é", "€"] {
            let told = cut(&unit.repeat(2000));
            assert!((1020..=1024).contains(&told.len()) && told.ends_with("..."), "{unit}: {}", told.len());
        }
    }
}
