//! Waiting for the turn: until the others carry the load, and nobody else restarts.

use std::time::Duration;

use super::lease::Standing;
use super::others::{self, Tally};
use super::pace::{For, Pace};
use super::taking::{self, Attempt, Held, Reply};
use super::{Around, Party, Word};
use crate::steps::ready::Waited;

/// Nobody has to answer for so long before it counts as nobody: a single connection may fail for many a reason.
const SILENCE: Duration = Duration::from_secs(20);
/// Where waiting does harm, what may go by itself is given so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It is this node's turn, or there is nobody to take turns with.
    Go,
    /// Not in time, or in vain: why.
    Deferred(String),
    /// By this signal.
    Signal(i32),
}

/// What came of a look at everything.
#[derive(Debug)]
enum Round {
    Taken(Held),
    /// Nobody is to be waited for: why.
    Free(Word),
    Wait(For, String),
    Deferred(String),
}

/// What a wait has seen so far.
#[derive(Debug)]
struct Sight {
    begin: Duration,
    /// Whether an API server of this cluster was there.
    there: bool,
}

impl Party<'_> {
    /// Waits for the turn, no longer than [`crate::steps::Deadlines::turn`], and takes it.
    ///
    /// Nothing is held while something has to be mended: the others are looked at before the turn is taken, and once more when it is.
    pub fn wait(&mut self, around: &mut dyn Around) -> Ended {
        if !self.door.may_ask() {
            return Ended::Go;
        }
        let mut sight = Sight { begin: self.now(), there: false };
        let mut pace = Pace::new(&self.me.id, sight.begin);
        let ended = loop {
            let (what, state) = match self.round(&mut sight, around) {
                Round::Taken(held) => {
                    self.held = Some(held);
                    self.outcome.held = true;
                    break Ended::Go;
                }
                // with nobody to take turns with, etcd's cluster has to be whole all the same
                Round::Free(why) => match around.etcd() {
                    Some(down) => (For::Mended, down),
                    None => {
                        around.say(why);
                        break Ended::Go;
                    }
                },
                Round::Deferred(why) => break Ended::Deferred(why),
                Round::Wait(what, state) => (what, state),
            };
            if let Some(number) = self.context.signals.received() {
                break Ended::Signal(number);
            }
            let waited = self.now().saturating_sub(sight.begin);
            if waited >= self.context.deadlines.turn {
                break Ended::Deferred(format!("{state}, and still so after {} s", waited.as_secs()));
            }
            if let Some(word) = pace.word(what.clone(), &state, waited) {
                around.say(word);
            }
            if let Some(number) = pace.pause(self.context.clock, self.context.signals, &what) {
                break Ended::Signal(number);
            }
        };
        self.outcome.waited = self.now().saturating_sub(sight.begin);
        if ended == Ended::Go {
            self.seen.forget();
        } else {
            // what was written in vain, as far as could be seen, may be there all the same; who ends the run tries it once more, and tells
            let _ = self.give_back();
        }
        around.note(self.seen.keep(self.boot_id.as_deref()), &self.door.peers);
        ended
    }

    fn round(&mut self, sight: &mut Sight, around: &mut dyn Around) -> Round {
        let seen = self.who();
        // by the first answer of any kind: a server that refuses, or is lost, is there as well
        if !sight.there && !matches!(seen, Err(Reply::Nobody(_))) {
            sight.there = true;
            self.own_down = self.door.own_answers == Some(false);
        }
        let peers = match seen {
            Ok(peers) => peers,
            Err(reply) => return self.trouble(reply, sight),
        };
        if peers.is_empty() {
            self.outcome.others = Some(Tally { ready: 0, of: 0 });
            let why = "this is the only control-plane node, so there are no turns to take";
            return Round::Free(Word::Line(why.to_owned()));
        }
        let bid = self.bid();
        match taking::peek(&mut self.door, &bid.bid(&self.me), &mut self.seen) {
            Ok(Standing::Held { by, left }) => return self.held_by(&by, left, around),
            Ok(Standing::Ours | Standing::Mine) => self.left = true,
            Ok(Standing::Free) => {}
            Err(failed) => return self.failed(failed, sight, around),
        }
        if let Some(down) = around.etcd().or_else(|| self.down(peers.clone(), around)) {
            return self.wait_for_others(down);
        }
        if let Err(why) = around.takes() {
            return Round::Deferred(why);
        }
        let held = match taking::attempt(&mut self.door, &bid.bid(&self.me), &mut self.seen, &mut self.wrote) {
            Attempt::Taken(held) => held,
            failed => return self.failed(failed, sight, around),
        };
        // somebody may have begun just before
        let down = around.etcd().or_else(|| self.down(peers, around));
        match down {
            Some(down) => self.wait_for_others(down),
            None => Round::Taken(held),
        }
    }

    /// With nothing held: whoever is not ready may need this very turn to become so.
    fn wait_for_others(&mut self, down: String) -> Round {
        // tried again with each look; who ends the run tells what came of it
        let _ = self.give_back();
        Round::Wait(For::Mended, down)
    }

    fn held_by(&mut self, by: &str, left: Duration, around: &mut dyn Around) -> Round {
        // the next run goes on with this wait, also if this one is killed
        around.note(self.seen.keep(self.boot_id.as_deref()), &self.door.peers);
        self.outcome.holder = Some(by.to_owned());
        Round::Wait(
            For::Turn(by.to_owned()),
            format!("node '{by}' has the turn, for {} s more at most", left.as_secs()),
        )
    }

    fn failed(&mut self, failed: Attempt, sight: &Sight, around: &mut dyn Around) -> Round {
        match failed {
            Attempt::Taken(held) => Round::Taken(held),
            Attempt::Held { by, left } => self.held_by(&by, left, around),
            Attempt::Again(why) => Round::Wait(For::Again, format!("the turn could not be taken yet: {why}")),
            Attempt::Refused(why) => self.trouble(Reply::Refused(why), sight),
            Attempt::Lost(why) => self.trouble(Reply::Lost(why), sight),
            Attempt::Nobody(why) => self.trouble(Reply::Nobody(why), sight),
        }
    }

    /// The API does not do what it should.
    fn trouble(&self, reply: Reply, sight: &Sight) -> Round {
        let waited = self.now().saturating_sub(sight.begin);
        match reply {
            Reply::Nobody(why) if !sight.there => {
                if waited < SILENCE.min(self.context.deadlines.turn) {
                    return Round::Wait(For::Answer, format!("no API server of this cluster answers ({why})"));
                }
                Round::Free(Word::Line(format!(
                    "no API server of this cluster answers, so there is nobody to take turns with: {why}"
                )))
            }
            Reply::Refused(why) => match self.excuse() {
                Some(excuse) => go_on(&why, excuse),
                None => Round::Deferred(refused(&why)),
            },
            Reply::Nobody(why) | Reply::Lost(why) => {
                match self.excuse().filter(|_| waited >= PATIENCE.min(self.context.deadlines.turn)) {
                    Some(excuse) => go_on(&why, excuse),
                    None => Round::Wait(For::Mended, format!("the API gives no answer to take turns by ({why})")),
                }
            }
            Reply::Object(_) | Reply::Absent | Reply::Conflict => {
                Round::Wait(For::Again, "the API gives an odd answer".to_owned())
            }
        }
    }

    /// Looks once more before something is taken down in the middle of the turn: whether it is still this run's, and, where `heavy` is
    /// taken down, whether the others carry the load.
    ///
    /// # Errors
    /// It is not to be taken down now: why.
    pub fn again(&mut self, heavy: bool, around: &mut dyn Around) -> Result<(), String> {
        let Some(held) = self.held else { return Ok(()) };
        let over = self.now().saturating_sub(held.since) + self.context.deadlines.last() > self.duration;
        if over {
            return Err("the turn may end before this restart does".to_owned());
        }
        taking::still_held(&mut self.door, &self.me)?;
        if !heavy {
            return Ok(());
        }
        let (limit, pause) = (self.context.deadlines.others, Duration::from_secs(2));
        let (clock, signals) = (self.context.clock, self.context.signals);
        let look = || match self.who() {
            Ok(peers) => self.down(peers, around).map_or(Ok(()), Err),
            Err(_) if self.excuse().is_some() => Ok(()),
            Err(Reply::Refused(why) | Reply::Lost(why) | Reply::Nobody(why)) => Err(why),
            Err(_) => Err("the API gives an odd answer".to_owned()),
        };
        match crate::steps::ready::until(clock, signals, limit, pause, look) {
            // a signal ends the run between two steps
            Waited::Done(_) | Waited::Signal(_) => Ok(()),
            Waited::TooLong(why) => Err(why),
        }
    }

    pub(super) fn who(&mut self) -> Result<Vec<others::Peer>, Reply> {
        let own = self.context.node.manifest("kube-apiserver");
        others::who(&mut self.door, own, self.context.node_name)
    }

    /// Which of the others are not ready, if that counts.
    fn down(&mut self, peers: Vec<others::Peer>, around: &mut dyn Around) -> Option<String> {
        let others = others::look(&self.door, peers);
        self.outcome.others = Some(others.tally());
        let down = others.down()?;
        let Some(excuse) = self.excuse().map(str::to_owned) else { return Some(down) };
        if !std::mem::replace(&mut self.excused, true) {
            around.say(Word::Warn(format!("{down}; going on all the same, since {excuse}")));
        }
        None
    }

    pub(super) fn excuse(&self) -> Option<&str> {
        let own = "this node's own kube-apiserver is down already, and waiting would be worse";
        self.ends_soon.as_deref().or(self.own_down.then_some(own))
    }
}

/// What is said where the API server refuses.
pub(super) fn refused(why: &str) -> String {
    format!(
        "the API server does not let this node take its turn: {why}; give admin.conf's user its rights back, or go on with --alone"
    )
}

fn go_on(why: &str, excuse: &str) -> Round {
    Round::Free(Word::Warn(format!("no turn can be taken ({why}); going on all the same, since {excuse}")))
}
