//! Up to when a certificate has to last.

use chrono::{DateTime, Duration, Utc};

use super::moment;
use crate::inventory::Leaf;

/// The longest validity that a leaf is taken to have had. kubeadm up to 1.30 gives a renewed leaf the CA's NotBefore,
/// so the span of its dates says nothing about its age; its usual validity of a year does (kubeadm `certlist.go`).
const USUAL_VALIDITY: Duration = Duration::days(365);

/// Up to when a certificate has to last. All instants are UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// When the job's timer fires next; `None` where it never fires again.
    pub next_firing: Option<DateTime<Utc>>,
    /// The latest start of that firing: its random delay and its accuracy added.
    pub latest_start: Option<DateTime<Utc>>,
    /// Days added to that.
    pub days_buffer: u32,
}

impl Threshold {
    /// Latest start and buffer together: what ends before this is due. `None` where the timer never fires again.
    pub fn at(&self) -> Option<DateTime<Utc>> {
        self.latest_start?.checked_add_signed(Duration::days(i64::from(self.days_buffer)))
    }

    /// Why a leaf is due at `now`, if it is.
    pub fn due(&self, leaf: &Leaf, now: DateTime<Utc>) -> Option<String> {
        let not_after = leaf.not_after;
        if not_after < now {
            return Some(format!("expired on {}", moment(not_after)));
        }
        match self.at() {
            Some(threshold) => (not_after < threshold)
                .then(|| format!("expires on {}, before the threshold {}", moment(not_after), moment(threshold))),
            None => {
                let validity = (not_after - leaf.not_before).min(USUAL_VALIDITY);
                ((not_after - now) * 10 <= validity * 9)
                    .then(|| format!("expires on {}, and the timer never fires again", moment(not_after)))
            }
        }
    }
}
