//! How findings are put together.

use chrono::{DateTime, Utc};

use crate::report::check_report::Status;

use super::finding::KubeletFinding;

/// All is well.
pub fn ok(id: &'static str, about: impl Into<String>, seen: impl Into<String>, why: &str) -> KubeletFinding {
    KubeletFinding { status: Status::Ok, id, about: about.into(), seen: seen.into(), why: why.to_owned(), mend: None }
}

/// Something is to be mended.
pub fn bad(
    status: Status,
    id: &'static str,
    about: impl Into<String>,
    seen: impl Into<String>,
    why: impl Into<String>,
    mend: impl Into<String>,
) -> KubeletFinding {
    let (about, seen, why) = (about.into(), seen.into(), why.into());
    KubeletFinding { status, id, about, seen, why, mend: Some(mend.into()) }
}

/// A day, for people (UTC).
pub fn day(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d").to_string()
}
