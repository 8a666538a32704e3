//! Taking the turn, and giving it back: what is asked of the API server, in which order, and what its answers mean.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::lease::{Lease, Me, Seen, Standing, created};
use crate::steps::deadlines::WRITES;

/// What an API server answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The object, as it is now.
    Object(Value),
    /// 404.
    Absent,
    /// 409: somebody has written it meanwhile, or it is there already.
    Conflict,
    /// The login may not do this, or the API server does not know such objects: why. Asking again does not help.
    Refused(String),
    /// An API server is there, and there is no answer that can be used: why. A write may have been done all the same.
    Lost(String),
    /// No API server of this cluster is there: why, for each that was asked.
    Nobody(String),
}

/// Where the Lease is: the API server, and in tests a stand-in.
pub trait Store {
    /// Reads it.
    fn read(&mut self) -> Reply;
    /// Creates it.
    fn create(&mut self, object: &Value) -> Reply;
    /// Puts it in place of the one whose version it has.
    fn replace(&mut self, object: &Value) -> Reply;
}

/// The turn, taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// When it was taken, since boot: before the first write, so not later than anybody else saw it.
    pub since: Duration,
}

/// What came of one look at the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// This run has it.
    Taken(Held),
    /// Another node has it.
    Held {
        /// Its name.
        by: String,
        /// How long it is good at most, as seen from here.
        left: Duration,
    },
    /// Others were faster, or answers were lost, several times in a row: why.
    Again(String),
    /// It cannot be had, and asking again does not help: why.
    Refused(String),
    /// The API server is there, and gives no answer that can be used: why.
    Lost(String),
    /// No API server is there: why.
    Nobody(String),
}

/// What a try is made with.
#[derive(Debug, Clone, Copy)]
pub struct Bid<'a> {
    /// Who we are.
    pub me: &'a Me,
    /// How long the Lease is good (whole seconds).
    pub duration: Duration,
    /// The wall clock (UTC), for people who read the Lease.
    pub now: DateTime<Utc>,
    /// The time since boot.
    pub since_boot: Duration,
}

/// Looks how the Lease stands, and takes nothing.
///
/// # Errors
/// It cannot be seen: how so, never [`Attempt::Taken`].
pub fn peek(store: &mut dyn Store, bid: &Bid<'_>, seen: &mut Seen) -> Result<Standing, Attempt> {
    let Some(lease) = read(store)? else { return Ok(Standing::Free) };
    let watched = seen.note(&lease, bid.since_boot);
    Ok(lease.judge(bid.me, watched, bid.duration))
}

/// Looks at the Lease, and takes it if it is free. `wrote` is set before the first write, and tells that it may be ours without our
/// knowing it. One that is this run's without `wrote` was to be given back: it is written anew, so that what was lost on the way
/// cannot free it later.
pub fn attempt(store: &mut dyn Store, bid: &Bid<'_>, seen: &mut Seen, wrote: &mut Option<Duration>) -> Attempt {
    let mut state = "the Lease was changed meanwhile".to_owned();
    for _ in 0..WRITES {
        let lease = match read(store) {
            Ok(lease) => lease,
            Err(failed) => return failed,
        };
        // what was written before, and is not to be seen, has not been done, or it comes after this look
        let is_mine = |lease: &Lease| lease.holder.as_deref() == Some(&bid.me.id);
        if wrote.is_some() && !lease.as_ref().is_some_and(is_mine) {
            *wrote = Some(bid.since_boot);
        }
        let written = match lease {
            None => {
                wrote.get_or_insert(bid.since_boot);
                store.create(&created(bid.me, bid.duration, bid.now))
            }
            Some(lease) => match lease.judge(bid.me, seen.note(&lease, bid.since_boot), bid.duration) {
                // written by this run, and the answer was lost
                Standing::Mine if wrote.is_some() => {
                    seen.forget();
                    return Attempt::Taken(Held { since: wrote.unwrap_or(bid.since_boot) });
                }
                Standing::Held { by, left } => return Attempt::Held { by, left },
                Standing::Free | Standing::Ours | Standing::Mine => {
                    wrote.get_or_insert(bid.since_boot);
                    store.replace(&lease.taken(bid.me, bid.duration, bid.now))
                }
            },
        };
        match written {
            Reply::Object(object) if is_held_by(&object, bid.me) => {
                seen.forget();
                return Attempt::Taken(Held { since: wrote.unwrap_or(bid.since_boot) });
            }
            Reply::Object(_) => "the API server's answer names another holder".clone_into(&mut state),
            Reply::Conflict => "others were faster".clone_into(&mut state),
            Reply::Absent => {
                return Attempt::Refused(
                    "the API server knows no Leases (404), or no namespace 'kube-system'".to_owned(),
                );
            }
            Reply::Refused(why) => return Attempt::Refused(why),
            // it may have been written: who holds it is to be seen
            Reply::Lost(why) | Reply::Nobody(why) => state = why,
        }
    }
    Attempt::Again(state)
}

/// Whether this run still has it; an answer that cannot be had is no answer.
///
/// # Errors
/// Another one has it, or nobody: who.
pub fn still_held(store: &mut dyn Store, me: &Me) -> Result<(), String> {
    let Ok(lease) = read(store) else { return Ok(()) };
    let Some(lease) = lease else { return Err("the Lease was deleted meanwhile".to_owned()) };
    match &lease.holder {
        Some(holder) if *holder == me.id => Ok(()),
        Some(_) => Err(format!("node '{}' has the turn by now", lease.node().unwrap_or_default())),
        None => Err("somebody has given the turn back meanwhile".to_owned()),
    }
}

/// Gives it back, if this run has it; with `any_run` also if an earlier run of this node has left it behind.
///
/// # Errors
/// It may still be ours: why. The others wait it out.
pub fn release(store: &mut dyn Store, me: &Me, any_run: bool, now: DateTime<Utc>) -> Result<(), String> {
    let is_ours =
        |lease: &Lease| lease.holder.as_deref() == Some(&me.id) || (any_run && lease.node() == Some(&me.node));
    let mut state = String::new();
    for _ in 0..WRITES {
        let lease = match read(store) {
            Ok(Some(lease)) if is_ours(&lease) => lease,
            Ok(_) => return Ok(()),
            Err(Attempt::Refused(why) | Attempt::Lost(why) | Attempt::Nobody(why)) => return Err(why),
            Err(_) => return Err(state),
        };
        match store.replace(&lease.released(now)) {
            Reply::Object(_) | Reply::Absent => return Ok(()),
            Reply::Conflict => "the Lease was changed meanwhile".clone_into(&mut state),
            Reply::Refused(why) => return Err(why),
            Reply::Lost(why) | Reply::Nobody(why) => state = why,
        }
    }
    Err(state)
}

/// # Errors
/// What the look comes to.
fn read(store: &mut dyn Store) -> Result<Option<Lease>, Attempt> {
    match store.read() {
        Reply::Object(object) => Lease::parse(object).map(Some).map_err(Attempt::Lost),
        Reply::Absent => Ok(None),
        Reply::Conflict => Err(Attempt::Lost("409 to a question".to_owned())),
        Reply::Refused(why) => Err(Attempt::Refused(why)),
        Reply::Lost(why) => Err(Attempt::Lost(why)),
        Reply::Nobody(why) => Err(Attempt::Nobody(why)),
    }
}

fn is_held_by(object: &Value, me: &Me) -> bool {
    object["spec"]["holderIdentity"] == *me.id
}

#[cfg(test)]
mod tests;
