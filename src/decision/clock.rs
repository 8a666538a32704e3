//! Whether the clock can be trusted: a wrong one makes certificates that nobody accepts once it is right again.

use chrono::{DateTime, Duration, Utc};

use crate::inventory::{Certificate, Inventory};

use super::{kubeadm_leaves, moment};

/// By how much the clock may stand before the last run. A small step back, as a time service makes, harms nothing.
const STEP_BACK: Duration = Duration::minutes(5);

/// What the clock is judged by.
#[derive(Debug, Clone, Copy)]
pub struct ClockFacts<'a> {
    /// What is on disk.
    pub inventory: &'a Inventory,
    /// The instant to judge by (UTC).
    pub now: DateTime<Utc>,
    /// Whether the kernel takes the clock that this instant comes from to be set; `None` where that is not known.
    pub synchronised: Option<bool>,
    /// When a run last came to a decision, by the journal (UTC).
    pub last_run: Option<DateTime<Utc>>,
    /// Whether it is trusted whatever it says.
    pub force: bool,
}

/// Why the clock cannot be trusted, if it cannot:
/// - it says a time before a CA of this node, or a certificate that kubeadm renews, is valid;
/// - it says a time more than five minutes before the last run;
/// - by it one of those certificates has expired, and the kernel says that it is not synchronised.
///
/// A forced run is never refused, so that a wrong time in a certificate or in the journal does not stop the job for ever.
pub fn distrust(clock: &ClockFacts<'_>) -> Option<String> {
    if clock.force {
        return None;
    }
    let why = not_yet_valid(clock).or_else(|| before_the_last_run(clock)).or_else(|| expired_unsynchronised(clock))?;
    let now = moment(clock.now);
    Some(format!(
        "the clock says {now}, but {why}; set the clock (timedatectl, chronyc tracking), or use --force if the clock is right"
    ))
}

fn not_yet_valid(clock: &ClockFacts<'_>) -> Option<String> {
    judged(clock.inventory).find_map(|certificate| {
        let from = certificate.leaf.as_ref()?.not_before;
        (clock.now < from).then(|| format!("'{}' is not valid before {}", certificate.name, moment(from)))
    })
}

fn before_the_last_run(clock: &ClockFacts<'_>) -> Option<String> {
    let last = clock.last_run?;
    (last - clock.now > STEP_BACK).then(|| format!("the last run was on {}", moment(last)))
}

fn expired_unsynchronised(clock: &ClockFacts<'_>) -> Option<String> {
    if clock.synchronised != Some(false) {
        return None;
    }
    judged(clock.inventory).find_map(|certificate| {
        let end = certificate.not_after()?;
        let why = "and the kernel says that the clock is not synchronised";
        (end < clock.now).then(|| format!("by it '{}' expired on {}, {why}", certificate.name, moment(end)))
    })
}

/// What the clock is judged by. An expired certificate of others, such as kubelet's own for serving, may lie about for years and
/// would stop the job on a node without a time source.
fn judged(inventory: &Inventory) -> impl Iterator<Item = &Certificate> {
    inventory.authorities.iter().chain(kubeadm_leaves(inventory))
}
