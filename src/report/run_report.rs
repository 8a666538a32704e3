//! What a run decided and did, as one value.

use chrono::{DateTime, Utc};

use crate::decision::Decision;
use crate::evidence::Evidence;
use crate::exit::Exit;
use crate::inventory::Inventory;
use crate::settings::schedule::Schedule;
use crate::turn::Outcome as Turn;

use super::check_report::KubeletState;

/// A finished run.
#[derive(Debug)]
pub struct RunReport {
    /// The instant that it judged by (UTC).
    pub at: DateTime<Utc>,
    /// Whether it only said what it would do.
    pub dry_run: bool,
    /// The node's name.
    pub node: String,
    /// When the job runs next.
    pub schedule: Option<Schedule>,
    /// What was on disk before.
    pub before: Inventory,
    /// What is on disk now, where something was renewed.
    pub after: Option<Inventory>,
    /// What was in use before.
    pub evidence: Evidence,
    /// What was decided.
    pub decision: Decision,
    /// The steps, and what came of them.
    pub steps: Vec<StepReport>,
    /// What is known of the turn (one control-plane node at a time), where one was to be taken.
    pub turn: Option<Turn>,
    /// How each thing stands that kubelet's certificates depend on, sorted by name. No run acts on it.
    pub kubelet: Vec<KubeletState>,
    /// How it ended.
    pub exit: Exit,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// A step, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// The step's name.
    pub step: &'static str,
    /// What it works on.
    pub object: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A dry run would take it.
    Planned,
    /// Done.
    Done,
    /// Put off: why.
    Deferred(String),
    /// Failed: why.
    Failed(String),
    /// Not reached.
    NotReached,
}

impl Outcome {
    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Done => "done",
            Self::Deferred(_) => "deferred",
            Self::Failed(_) => "failed",
            Self::NotReached => "notReached",
        }
    }

    /// Why, where there is a reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Deferred(why) | Self::Failed(why) => Some(why),
            Self::Planned | Self::Done | Self::NotReached => None,
        }
    }
}
