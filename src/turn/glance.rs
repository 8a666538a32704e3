//! One short look at the turn, for a report: who has it, and how many of the other API servers are ready. Takes nothing.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::door::Door;
use super::lease::Lease;
use super::others::{self, Tally};
use super::taking::{Reply, Store};
use crate::host::Deadline;
use crate::journal::Turn;
use crate::node::Node;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glance {
    /// Who has the turn now; none where nobody has, or that was not seen.
    pub holder: Option<Holder>,
    /// How many of the other API servers are ready; of none on a single control-plane node. None where that was not seen.
    pub others: Option<Tally>,
    /// Whether there are other control-plane nodes, as far as is known: a run has seen some before, where this look has not.
    pub is_shared: bool,
    /// Why not all was seen.
    pub unseen: Option<String>,
}

/// Who has the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: String,
    /// Whether it is the one that looks.
    pub is_own: bool,
    /// Since when, as the holder wrote it down by its own clock (UTC).
    pub since: Option<DateTime<Utc>>,
}

impl Glance {
    /// Whether this node has the turn; none where that was not seen.
    pub fn held(&self) -> Option<bool> {
        self.unseen.is_none().then(|| self.holder.as_ref().is_some_and(|holder| holder.is_own))
    }
}

/// Looks, for no longer than `limit`. `now` is what dates are judged by, `kept` what runs have left. None where there is no API to ask:
/// below another root, where nothing runs.
pub fn glance(node: &Node, node_name: &str, now: DateTime<Utc>, kept: &Turn, limit: Duration) -> Option<Glance> {
    // one that hangs is to leave time for another
    let mut door = Door::new(node, now, limit / 2, kept.peers.clone());
    if !door.may_ask() {
        return None;
    }
    door.until(Deadline::after(limit));
    let mut glance = Glance { is_shared: !kept.peers.is_empty(), ..Glance::default() };
    match look(&mut door, node, node_name, &mut glance) {
        Ok(()) => {}
        Err(Reply::Refused(why) | Reply::Lost(why) | Reply::Nobody(why)) => glance.unseen = Some(why),
        Err(_) => glance.unseen = Some("the API gives an odd answer".to_owned()),
    }
    Some(glance)
}

/// # Errors
/// What the API says instead of what it was asked for.
fn look(door: &mut Door<'_>, node: &Node, node_name: &str, glance: &mut Glance) -> Result<(), Reply> {
    let peers = others::who(door, node.manifest("kube-apiserver"), node_name)?;
    glance.is_shared = !peers.is_empty();
    if peers.is_empty() {
        glance.others = Some(Tally { ready: 0, of: 0 });
        return Ok(());
    }
    let lease = door.read();
    glance.others = Some(others::look(door, peers).tally());
    match lease {
        Reply::Absent => Ok(()),
        Reply::Object(object) => {
            let lease = Lease::parse(object).map_err(Reply::Lost)?;
            glance.holder = lease.node().map(|name| Holder {
                node: name.to_owned(),
                is_own: name == node_name,
                since: lease.acquired(),
            });
            Ok(())
        }
        reply => Err(reply),
    }
}
