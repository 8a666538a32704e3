//! Taking the turn, against a store that does what a real API server does: it decides by the version.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Attempt, Bid, Held, Reply, Store, attempt, release, still_held};
use crate::turn::lease::{Lease, Me, Seen};

const DURATION: Duration = Duration::from_secs(600);

/// One object in an etcd, and what goes wrong with the next requests.
#[derive(Debug, Default)]
struct Etcd {
    revision: u64,
    object: Option<Value>,
    /// For each next write: whether it is done (true) or not before its answer is lost.
    lose: Vec<bool>,
    /// What is answered in place of everything.
    instead: Option<Reply>,
    /// Somebody who writes just before the next so many writes of others.
    intruder: u32,
}

#[derive(Debug, Clone, Default)]
struct Api(Arc<Mutex<Etcd>>);

impl Api {
    fn with(object: Value) -> Self {
        let api = Self::default();
        api.edit(|etcd| etcd.put(object));
        api
    }

    fn edit<T>(&self, change: impl FnOnce(&mut Etcd) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn holder(&self) -> Option<String> {
        self.edit(|etcd| Some(etcd.object.as_ref()?["spec"]["holderIdentity"].as_str()?.to_owned()))
    }
}

impl Etcd {
    fn put(&mut self, mut object: Value) -> Reply {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.object = Some(object.clone());
        Reply::Object(object)
    }

    fn write(&mut self, object: &Value) -> Reply {
        if self.intruder > 0 {
            self.intruder -= 1;
            let mut other = self.object.clone().unwrap();
            other["metadata"]["annotations"] = json!({ "edited": self.intruder });
            self.put(other);
        }
        let version = &object["metadata"]["resourceVersion"];
        let is_current = match &self.object {
            None => version.is_null(),
            Some(now) => now["metadata"]["resourceVersion"] == *version,
        };
        if !is_current {
            return Reply::Conflict;
        }
        match self.lose.pop() {
            None => self.put(object.clone()),
            Some(done) => {
                if done {
                    self.put(object.clone());
                }
                Reply::Lost("no answer in time".to_owned())
            }
        }
    }
}

impl Store for Api {
    fn read(&mut self) -> Reply {
        self.edit(|etcd| match (&etcd.instead, &etcd.object) {
            (Some(reply), _) => reply.clone(),
            (None, None) => Reply::Absent,
            (None, Some(object)) => Reply::Object(object.clone()),
        })
    }

    fn create(&mut self, object: &Value) -> Reply {
        self.edit(|etcd| if etcd.object.is_some() { Reply::Conflict } else { etcd.write(object) })
    }

    fn replace(&mut self, object: &Value) -> Reply {
        self.edit(|etcd| etcd.write(object))
    }
}

/// A run on a node, at a moment since boot.
struct Run {
    me: Me,
    seen: Seen,
    wrote: Option<Duration>,
    api: Api,
}

impl Run {
    fn new(node: &str, run: u64, api: &Api) -> Self {
        let me = Me::new(node, Some("boot"), Duration::from_nanos(run));
        Self { me, seen: Seen::default(), wrote: None, api: api.clone() }
    }

    fn at(&mut self, second: u64) -> Attempt {
        let now = "2026-03-02T03:00:00Z".parse().unwrap();
        let bid = Bid { me: &self.me, duration: DURATION, now, since_boot: Duration::from_secs(second) };
        attempt(&mut self.api, &bid, &mut self.seen, &mut self.wrote)
    }

    fn release(&mut self) -> Result<(), String> {
        release(&mut self.api, &self.me, false, "2026-03-02T03:10:00Z".parse().unwrap())
    }
}

fn taken(second: u64) -> Attempt {
    Attempt::Taken(Held { since: Duration::from_secs(second) })
}

fn held(by: &str, left: u64) -> Attempt {
    Attempt::Held { by: by.to_owned(), left: Duration::from_secs(left) }
}

#[test]
fn the_first_makes_it_the_second_waits_until_it_is_given_back() {
    let api = Api::default();
    let (mut one, mut two) = (Run::new("node1", 1, &api), Run::new("node2", 1, &api));
    assert_eq!(one.at(10), taken(10));
    assert_eq!(two.at(11), held("node1", 600));
    assert_eq!(two.at(41), held("node1", 570));
    one.release().unwrap();
    assert_eq!(api.holder(), None);
    assert_eq!(two.at(42), taken(42));
    assert_eq!(one.at(43), held("node2", 600));
}

#[test]
fn a_holder_that_died_is_waited_out_and_no_longer() {
    let api = Api::default();
    let (mut dead, mut two) = (Run::new("node1", 1, &api), Run::new("node2", 1, &api));
    assert_eq!(dead.at(10), taken(10));
    assert_eq!(two.at(1000), held("node1", 600));
    assert_eq!(two.at(1599), held("node1", 1));
    assert_eq!(two.at(1600), taken(1600));
    // back again, it finds another there, and gives nothing of that back
    assert_eq!(still_held(&mut dead.api.clone(), &dead.me).unwrap_err(), "node 'node2' has the turn by now");
    dead.release().unwrap();
    assert_eq!(api.holder().unwrap(), two.me.id);
}

#[test]
fn the_next_run_of_the_node_that_died_goes_on_at_once() {
    let api = Api::default();
    assert_eq!(Run::new("node1", 1, &api).at(10), taken(10));
    let mut waiting = Run::new("node2", 1, &api);
    assert_eq!(waiting.at(20), held("node1", 600));
    assert_eq!(Run::new("node1", 2, &api).at(30), taken(30));
    // and has it for the whole time anew
    assert_eq!(waiting.at(619), held("node1", 600));
    assert_eq!(waiting.at(1218), held("node1", 1));
}

#[test]
fn when_the_answer_to_a_write_is_lost_it_is_seen_who_holds_it() {
    for done in [true, false] {
        for exists in [true, false] {
            let api = if exists { Api::with(json!({ "spec": {} })) } else { Api::default() };
            api.edit(|etcd| etcd.lose = vec![done]);
            let mut run = Run::new("node1", 1, &api);
            assert_eq!(run.at(10), taken(10), "{done} {exists}");
            assert_eq!(api.edit(|etcd| etcd.revision), 1 + u64::from(exists), "{done} {exists}");
        }
    }
}

#[test]
fn a_turn_taken_by_a_write_whose_answer_was_lost_counts_from_that_write() {
    let api = Api::default();
    let mut run = Run::new("node1", 1, &api);
    api.edit(|etcd| etcd.lose = vec![true, false, false]);
    assert_eq!(run.at(10), Attempt::Again("no answer in time".to_owned()));
    api.edit(|etcd| etcd.lose = vec![true]);
    assert_eq!(run.at(30), taken(10));
    assert_eq!(api.holder().unwrap(), run.me.id);
}

#[test]
fn one_that_was_to_be_given_back_is_written_anew() {
    let api = Api::default();
    let mut run = Run::new("node1", 1, &api);
    assert_eq!(run.at(10), taken(10));
    api.edit(|etcd| etcd.lose = vec![false; 3]);
    assert!(run.release().is_err());
    run.wrote = None;
    assert_eq!((run.at(40), api.edit(|etcd| etcd.revision)), (taken(40), 2));
}

#[test]
fn somebody_who_keeps_writing_is_met_with_another_try_later() {
    let api = Api::with(json!({ "spec": {} }));
    let mut run = Run::new("node1", 1, &api);
    api.edit(|etcd| etcd.intruder = 2);
    assert_eq!(run.at(10), taken(10));
    api.edit(|etcd| etcd.intruder = 2);
    run.release().unwrap();
    api.edit(|etcd| etcd.intruder = 100);
    assert_eq!(run.at(20), Attempt::Again("others were faster".to_owned()));
    assert_eq!(api.holder(), None);
}

#[test]
fn what_the_api_server_refuses_or_loses_is_told_apart() {
    let told = |reply: Reply| {
        let api = Api::default();
        api.edit(|etcd| etcd.instead = Some(reply));
        Run::new("node1", 1, &api).at(10)
    };
    assert_eq!(told(Reply::Refused("403".into())), Attempt::Refused("403".into()));
    assert_eq!(told(Reply::Lost("500".into())), Attempt::Lost("500".into()));
    assert_eq!(told(Reply::Nobody("refused".into())), Attempt::Nobody("refused".into()));
    assert_eq!(
        told(Reply::Object(json!([]))),
        Attempt::Lost("the Lease 'kube-system/k8s-certs-renew' has no resourceVersion".into())
    );
}

fn enter(inside: &Mutex<u32>) -> u32 {
    let mut inside = inside.lock().unwrap();
    *inside += 1;
    *inside
}

#[test]
fn of_two_that_race_a_thousand_times_never_both_have_it() {
    let api = Api::default();
    let inside = Mutex::new(0_u32);
    let most = Mutex::new(0_u32);
    let turns: Vec<u32> = std::thread::scope(|scope| {
        let race = |node: &'static str| {
            let (api, inside, most) = (api.clone(), &inside, &most);
            scope.spawn(move || {
                let (mut turns, mut number) = (0, 0);
                while turns < 500 {
                    number += 1;
                    let mut run = Run::new(node, number, &api);
                    // long before anything could run out
                    if let Attempt::Taken(_) = run.at(10) {
                        let now = enter(inside);
                        let mut most = most.lock().unwrap();
                        *most = (*most).max(now);
                        drop(most);
                        std::thread::yield_now();
                        turns += 1;
                        *inside.lock().unwrap() -= 1;
                        run.release().unwrap();
                    }
                }
                turns
            })
        };
        let both = [race("node1"), race("node2")];
        both.map(|thread| thread.join().unwrap()).to_vec()
    });
    assert_eq!(*most.lock().unwrap(), 1, "{turns:?}");
    assert_eq!(turns, [500, 500]);
    assert!(Lease::parse(api.edit(|etcd| etcd.object.clone().unwrap())).unwrap().holder.is_none());
}

#[test]
fn what_an_earlier_run_of_the_node_has_left_is_given_back_and_nothing_of_anothers() {
    let api = Api::default();
    assert_eq!(Run::new("node1", 1, &api).at(10), taken(10));
    let give_back = |node: &str, any_run: bool| {
        let run = Run::new(node, 2, &api);
        release(&mut run.api.clone(), &run.me, any_run, "2026-03-02T03:10:00Z".parse().unwrap()).unwrap();
        api.holder().is_none()
    };
    assert_eq!([give_back("node2", true), give_back("node1", false), give_back("node1", true)], [false, false, true]);
}
