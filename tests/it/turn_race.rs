//! Two runs that race for the turn, against a real API server: `tests/e2e/ha.sh` has one, and runs this on its node.

use std::sync::Barrier;
use std::time::Duration;

use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::{Clock, SystemClock};
use k8s_certs_renew::node::{Node, Overrides};
use k8s_certs_renew::turn::door::Door;
use k8s_certs_renew::turn::lease::{Me, Seen};
use k8s_certs_renew::turn::taking::{Attempt, Bid, attempt, release, still_held};

const RACES: u32 = 1000;
/// A turn that is not given back is over before the next race, by the runners' own watches.
const DURATION: Duration = Duration::from_secs(600);
const BETWEEN: Duration = Duration::from_secs(700);

/// A node that runs in each race.
struct Runner<'n> {
    name: &'static str,
    door: Door<'n>,
    seen: Seen,
}

impl<'n> Runner<'n> {
    fn new(name: &'static str, node: &'n Node) -> Self {
        let door = Door::new(node, SystemClock.now(), Duration::from_secs(20), Vec::new());
        Self { name, door, seen: Seen::default() }
    }

    fn me(&self, race: u32) -> Me {
        Me::new(self.name, Some("boot"), Duration::from_nanos(race.into()))
    }

    /// What comes of a try, and whether it wrote.
    fn tries(&mut self, race: u32) -> (Attempt, bool) {
        let (me, mut wrote) = (self.me(race), None);
        let bid = Bid { me: &me, duration: DURATION, now: SystemClock.now(), since_boot: BETWEEN * (race + 1) };
        let came = attempt(&mut self.door, &bid, &mut self.seen, &mut wrote);
        (came, wrote.is_some())
    }
}

#[test]
#[ignore = "needs a real API server: tests/e2e/ha.sh has one"]
fn two_runs_that_race_for_the_turn_a_thousand_times_never_both_have_it() {
    let node = Node::look(Root::host(), &Overrides::default());
    assert!(node.is_control_plane(), "this is no control-plane node");
    let mut runners = [Runner::new("racer-a", &node), Runner::new("racer-b", &node)];
    let (mut wins, mut refused) = ([0, 0], 0);
    for race in 0..RACES {
        let start = Barrier::new(runners.len());
        let came = std::thread::scope(|scope| {
            let run = |runner| scope.spawn(|| start_at(&start, runner, race));
            runners.each_mut().map(run).map(|thread| thread.join().unwrap())
        });
        let has_it = came.each_ref().map(|(came, _)| matches!(came, Attempt::Taken(_)));
        assert!(has_it != [true, true], "race {race}: both have the turn");
        assert!(has_it != [false, false], "race {race}: nobody has the turn: {came:?}");
        let winner = usize::from(has_it[1]);
        wins[winner] += 1;
        refused += u32::from(came[1 - winner].1);
        let me = runners[winner].me(race);
        if race % 10 == 0 {
            let (again, _) = runners[1 - winner].tries(race);
            assert!(matches!(&again, Attempt::Held { by, .. } if *by == me.node), "race {race}: {again:?}");
            assert_eq!(still_held(&mut runners[winner].door, &me), Ok(()), "race {race}");
        }
        // every third dies with it: the other has seen it for long enough then, and the same node's next run need not wait
        if race % 3 != 2 {
            release(&mut runners[winner].door, &me, false, SystemClock.now()).unwrap();
        }
    }
    println!("{RACES} races: {wins:?} won, in {refused} the API server refused the write of the other");
    assert!(refused > RACES / 20, "the runners hardly ever met, so nothing is shown: {refused}");
}

fn start_at(start: &Barrier, runner: &mut Runner<'_>, race: u32) -> (Attempt, bool) {
    start.wait();
    runner.tries(race)
}
