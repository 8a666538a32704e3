//! How a wait goes on: when it is looked again, and when it is said what for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::Word;
use crate::host::{Clock, Signals};

/// Between two looks while another node has the turn.
const POLL: Duration = Duration::from_secs(2);
/// Between two looks while something has to be mended: at first, and at last.
const MENDED: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(12));
/// Before the next try where several were after the same.
const RACE: Duration = Duration::from_millis(200);
/// It is said again what is waited for.
const SAY: Duration = Duration::from_secs(5 * 60);
/// No single sleep is longer, so that a signal ends the wait soon.
const NAP: Duration = Duration::from_secs(1);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum For {
    /// The turn, which this node has.
    Turn(String),
    /// Something that has to be mended, or mends itself.
    Mended,
    /// Any answer at all.
    Answer,
    /// The next try, as somebody was faster.
    Again,
}

/// The pace of one wait.
#[derive(Debug)]
pub struct Pace {
    seed: (String, Duration),
    looks: u32,
    told: Option<(For, Duration)>,
}

impl Pace {
    /// The pace of who this is, from this moment on (since boot).
    pub fn new(who: &str, begin: Duration) -> Self {
        Self { seed: (who.to_owned(), begin), looks: 0, told: None }
    }

    /// What is to be said after a wait of this long; none where it has been said lately.
    pub fn word(&mut self, what: For, state: &str, waited: Duration) -> Option<Word> {
        let lately = |(before, at): &(For, Duration)| *before == what && waited.saturating_sub(*at) < SAY;
        // over in a moment
        let passing = matches!(what, For::Again | For::Answer);
        if passing || self.told.as_ref().is_some_and(lately) {
            return None;
        }
        let again = self.told.as_ref().is_some_and(|(before, _)| *before == what);
        let word = match &what {
            _ if again => Word::Line(format!("still waiting, for {} s so far: {state}", waited.as_secs())),
            For::Turn(node) => Word::Head(format!("Waiting for the turn: held by {node}")),
            _ => Word::Head(format!("Waiting for the others: {state}")),
        };
        self.told = Some((what, waited));
        Some(word)
    }

    /// Waits until the next look; the signal that came meanwhile, if one did.
    pub fn pause(&mut self, clock: &dyn Clock, signals: &Signals, what: &For) -> Option<i32> {
        let begin = clock.since_boot();
        let length = self.next(what);
        loop {
            if let Some(number) = signals.received() {
                return Some(number);
            }
            let left = length.saturating_sub(clock.since_boot().saturating_sub(begin));
            if left.is_zero() {
                return None;
            }
            clock.sleep(left.min(NAP));
        }
    }

    /// From once to twice as long as it has to be, so that several that wait do not ask in step. By chance for others, and not for who
    /// knows who waits, and since when.
    fn next(&mut self, what: &For) -> Duration {
        self.looks = self.looks.saturating_add(1);
        let least = match what {
            For::Turn(_) | For::Answer => POLL,
            For::Mended => (MENDED.0 * self.looks).min(MENDED.1),
            For::Again => RACE,
        };
        let mut hasher = DefaultHasher::new();
        (&self.seed, self.looks).hash(&mut hasher);
        let thousandths = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
        least + least * thousandths / 1000
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{For, Pace};
    use crate::turn::Word;

    fn lengths(who: &str, what: &For) -> Vec<Duration> {
        let mut pace = Pace::new(who, Duration::from_secs(7));
        (0..20).map(|_| pace.next(what)).collect()
    }

    #[test]
    fn two_that_wait_do_not_look_in_step_and_each_looks_within_its_bounds() {
        let turn = For::Turn("node3".into());
        let (one, two) = (lengths("node1/b/1", &turn), lengths("node2/b/1", &turn));
        assert_ne!(one, two);
        assert_eq!(one, lengths("node1/b/1", &turn));
        let bounds = Duration::from_secs(2)..Duration::from_secs(4);
        assert!(one.iter().chain(&two).all(|length| bounds.contains(length)), "{one:?} {two:?}");
        let mended = lengths("node1/b/1", &For::Mended);
        assert!(mended[0] < Duration::from_secs(6) && mended[19] >= Duration::from_secs(12), "{mended:?}");
    }

    #[test]
    fn it_is_said_at_once_what_is_waited_for_then_every_five_minutes_and_when_that_changes() {
        let mut pace = Pace::new("node1/b/1", Duration::ZERO);
        let (one, two) = (For::Turn("node2".into()), For::Turn("node3".into()));
        let mut told = |what: &For, second| pace.word(what.clone(), "s", Duration::from_secs(second));
        assert_eq!(told(&For::Answer, 0), None);
        assert_eq!(told(&one, 1), Some(Word::Head("Waiting for the turn: held by node2".into())));
        assert_eq!(told(&one, 3), None);
        assert_eq!(told(&For::Again, 4), None);
        assert_eq!(told(&one, 301), Some(Word::Line("still waiting, for 301 s so far: s".into())));
        assert_eq!(told(&one, 600), None);
        assert_eq!(told(&two, 601), Some(Word::Head("Waiting for the turn: held by node3".into())));
        assert_eq!(told(&For::Mended, 602), Some(Word::Head("Waiting for the others: s".into())));
    }
}
