//! The steps of a run, one file each.

pub mod backup;
pub mod deadlines;
mod identity;
pub mod images;
pub mod kubeconfig;
pub mod preflight;
pub mod quorum;
pub mod ready;
pub mod renew;
pub mod restart;
pub mod stop;

pub use deadlines::Deadlines;

use crate::host::{Clock, Signals};
use crate::node::Node;

/// What every step works on.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The node.
    pub node: &'a Node,
    /// The node's name, as static pods have it behind their own.
    pub node_name: &'a str,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Signals that end the run between its steps.
    pub signals: &'a Signals,
    /// How long everything may take.
    pub deadlines: &'a Deadlines,
}
