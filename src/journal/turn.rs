//! What is remembered of the turn (one control-plane node at a time), and of the other control-plane nodes.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What one run leaves for the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Turn {
    /// Where the other API servers were when they were last seen: asked when this node's own is down.
    pub peers: Vec<SocketAddr>,
    /// Whom the last run waited for in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<TurnSeen>,
    /// How long the last run waited for its turn, in milliseconds; none where it took none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Whether a run has taken the turn, and is not known to have given it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Components whose hook before the restart was begun, and whose hook after it has not ended well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drained: Vec<String>,
}

/// A Lease that another node holds, and when this node saw it first as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSeen {
    /// Its `resourceVersion`.
    pub version: String,
    /// Its holder.
    pub holder: String,
    /// The boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Milliseconds since that boot.
    pub since_boot_ms: u64,
}

impl Turn {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
