//! One node at a time, and only while the others carry the load: the turn that a run takes before its first restart.
//!
//! The turn is the Lease `kube-system/k8s-certs-renew` (coordination.k8s.io/v1), which every API server keeps in the one etcd of the
//! cluster, so that the API server decides between two nodes. Clocks of other nodes count for nothing: how old a Lease is, is told by how
//! long this node itself has seen it unchanged.

pub mod door;
pub mod events;
pub mod glance;
pub mod hooks;
pub mod lease;
pub mod others;
mod pace;
pub mod server;
pub mod taking;
mod wait;

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::journal::{Turn, TurnSeen};
use crate::node::proc::boot_id;
use crate::steps::Context;

use door::Door;
use lease::{LONGEST, Me, Seen, Standing};
use others::Tally;
use taking::{Bid, Held, peek};

pub use wait::Ended;

/// What is known of a turn, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether this run had it.
    pub held: bool,
    /// How long was waited, for it and for what had to be mended first.
    pub waited: Duration,
    /// The node that was waited for last, if any; in a dry run the one that has the turn now.
    pub holder: Option<String>,
    /// How many of the other API servers were ready when they were last asked; none where that was not seen.
    pub others: Option<Tally>,
}

/// What is told while a run waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A headline of the log.
    Head(String),
    /// A line of the log.
    Line(String),
    /// Something that a person should look at.
    Warn(String),
}

/// What a turn needs of the run.
pub trait Around {
    /// Which members of etcd's cluster are down, if that counts.
    fn etcd(&mut self) -> Option<String>;
    /// Keeps for a later run whom this one waits for, and where the other API servers are.
    fn note(&mut self, seen: Option<TurnSeen>, peers: &[SocketAddr]);
    /// Keeps for a later run that the Lease may be this node's from now on.
    ///
    /// # Errors
    /// It is not kept, and so nothing may be taken: why.
    fn takes(&mut self) -> Result<(), String>;
    /// Tells what happens.
    fn say(&mut self, word: Word);
}

/// A run as one of several that take turns.
#[derive(Debug)]
pub struct Party<'a> {
    context: Context<'a>,
    door: Door<'a>,
    me: Me,
    boot_id: Option<String>,
    /// How long the Lease is good (whole seconds).
    duration: Duration,
    ends_soon: Option<String>,
    own_down: bool,
    /// Whether it has been said that others are not ready, and that this does not count.
    excused: bool,
    seen: Seen,
    held: Option<Held>,
    /// When the first write was sent, since boot.
    wrote: Option<Duration>,
    /// Whether the Lease may be this node's without having been taken anew: an earlier run was killed, or it could not be given back.
    left: bool,
    /// What is known so far.
    pub outcome: Outcome,
}

/// [`Bid`] without its borrow.
#[derive(Debug, Clone, Copy)]
struct Terms {
    duration: Duration,
    now: DateTime<Utc>,
    since_boot: Duration,
}

impl Terms {
    fn bid<'m>(&self, me: &'m Me) -> Bid<'m> {
        Bid { me, duration: self.duration, now: self.now, since_boot: self.since_boot }
    }
}

impl<'a> Party<'a> {
    /// The run that began at `began` (since boot), judging dates by `now`. `kept` is what an earlier run has left, `ends_soon` why
    /// waiting for others does more harm than going on: a certificate in use that ends soon.
    pub fn new(
        context: Context<'a>,
        now: DateTime<Utc>,
        began: Duration,
        kept: &Turn,
        ends_soon: Option<String>,
    ) -> Self {
        let boot_id = boot_id(&context.node.root);
        Self {
            door: Door::new(context.node, now, context.deadlines.api, kept.peers.clone()),
            me: Me::new(context.node_name, boot_id.as_deref(), began),
            duration: Duration::from_secs(context.deadlines.holding().as_secs() + 1).min(LONGEST),
            seen: Seen::recall(kept.seen.as_ref(), boot_id.as_deref()),
            boot_id,
            context,
            ends_soon,
            own_down: false,
            excused: false,
            held: None,
            wrote: None,
            left: kept.held,
            outcome: Outcome::default(),
        }
    }

    /// One look, for a dry run, which takes nothing: whose turn it is, and how many of the others are ready. What stands in the way, if
    /// anything does; an API that does not answer is nobody's turn.
    ///
    /// # Errors
    /// The API cannot be asked, or does not let this node look: why.
    pub fn look(&mut self) -> Result<Option<String>, String> {
        use taking::{Attempt, Reply};
        if !self.door.may_ask() {
            return Ok(None);
        }
        let seen = self.who();
        self.own_down = self.door.own_answers == Some(false);
        let peers = match seen {
            Ok(peers) => peers,
            Err(Reply::Refused(why)) => return Ok(self.unless_excused(wait::refused(&why))),
            Err(Reply::Lost(why) | Reply::Nobody(why)) => return Err(why),
            Err(Reply::Object(_) | Reply::Absent | Reply::Conflict) => return Err("an odd answer".to_owned()),
        };
        if peers.is_empty() {
            self.outcome.others = Some(Tally { ready: 0, of: 0 });
            return Ok(None);
        }
        let others = others::look(&self.door, peers);
        self.outcome.others = Some(others.tally());
        let bid = self.bid();
        match peek(&mut self.door, &bid.bid(&self.me), &mut self.seen) {
            Ok(Standing::Held { by, .. }) => self.outcome.holder = Some(by),
            Ok(Standing::Free | Standing::Ours | Standing::Mine) => {}
            Err(Attempt::Refused(why)) => return Ok(self.unless_excused(wait::refused(&why))),
            Err(Attempt::Lost(why) | Attempt::Nobody(why) | Attempt::Again(why)) => return Err(why),
            Err(Attempt::Taken(_) | Attempt::Held { .. }) => {}
        }
        Ok(others.down().and_then(|down| self.unless_excused(down)))
    }

    fn unless_excused(&self, why: String) -> Option<String> {
        Some(why).filter(|_| self.excuse().is_none())
    }

    /// Gives the turn back, if this run has it, or an earlier run of this node has left it behind. What could not be given back is given
    /// back by the next call.
    ///
    /// # Errors
    /// It may still be this node's: why. The others wait it out.
    pub fn give_back(&mut self) -> Result<(), String> {
        if self.wrote.is_none() && !self.left {
            return Ok(());
        }
        if !self.door.may_ask() {
            return Err("nothing runs below this root, so no API server is asked".to_owned());
        }
        (self.held, self.wrote, self.left) = (None, None, true);
        // of this node no other run is at work, as its lock says
        taking::release(&mut self.door, &self.me, true, self.context.clock.now())?;
        self.left = false;
        Ok(())
    }

    /// How long the Lease is good.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    fn now(&self) -> Duration {
        self.context.clock.since_boot()
    }

    fn bid(&self) -> Terms {
        Terms { duration: self.duration, now: self.context.clock.now(), since_boot: self.now() }
    }
}
