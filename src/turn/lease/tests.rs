//! The Lease, judged and written.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Lease, Me, Seen, Standing, created};

const OURS: Duration = Duration::from_secs(3000);

fn me() -> Me {
    Me::new("node1", Some("boot-1"), Duration::from_secs(16))
}

fn lease(spec: &Value) -> Lease {
    Lease::parse(json!({ "metadata": { "name": "k8s-certs-renew", "resourceVersion": "7" }, "spec": spec })).unwrap()
}

fn held(by: &str, left: u64) -> Standing {
    Standing::Held { by: by.to_owned(), left: Duration::from_secs(left) }
}

#[test]
fn a_lease_is_judged_by_its_holder_and_by_how_long_it_was_seen_unchanged() {
    let of = |holder: &str, duration: Value| json!({ "holderIdentity": holder, "leaseDurationSeconds": duration });
    let other = "node2/boot/1";
    let table = [
        (of(other, json!(600)), 0, held("node2", 600)),
        (of(other, json!(600)), 599, held("node2", 1)),
        (of(other, json!(600)), 600, Standing::Free),
        (of(other, json!(600)), 100_000, Standing::Free),
        // its own times are by a clock that is not ours
        (
            json!({ "holderIdentity": other, "leaseDurationSeconds": 600, "renewTime": "1999-01-01T00:00:00.000000Z" }),
            10,
            held("node2", 590),
        ),
        (
            json!({ "holderIdentity": other, "leaseDurationSeconds": 600, "renewTime": "2999-01-01T00:00:00.000000Z" }),
            600,
            Standing::Free,
        ),
        // this node's: this run, and one that is over
        (of(&me().id, json!(600)), 0, Standing::Mine),
        (of("node1/boot-1/8", json!(600)), 0, Standing::Ours),
        (of("node1/boot-0/16", json!(600)), 0, Standing::Ours),
        (of("node1", json!(600)), 0, Standing::Ours),
        (of("node12/boot-1/10", json!(600)), 0, held("node12", 600)),
        // given back
        (of("", json!(600)), 0, Standing::Free),
        (json!({ "leaseDurationSeconds": 600 }), 0, Standing::Free),
        (json!({ "holderIdentity": null }), 0, Standing::Free),
        // nothing to go by
        (Value::Null, 0, Standing::Free),
        (json!("x"), 0, Standing::Free),
        (json!({ "holderIdentity": 7 }), 0, Standing::Free),
        // no duration that could be believed
        (of(other, json!(-5)), 2999, held("node2", 1)),
        (of(other, json!(0)), 3000, Standing::Free),
        (of(other, json!(4_000_000_000_u64)), 0, held("node2", 3000)),
        (of(other, json!("600")), 0, held("node2", 3000)),
        (of(other, Value::Null), 0, held("node2", 3000)),
        (of(other, json!(1.5)), 0, held("node2", 3000)),
    ];
    for (spec, watched, expected) in table {
        let standing = lease(&spec).judge(&me(), Duration::from_secs(watched), OURS);
        assert_eq!(standing, expected, "{spec} after {watched} s");
    }
}

#[test]
fn a_lease_without_a_version_is_none() {
    for object in [json!({}), json!([]), Value::Null, json!({ "metadata": { "resourceVersion": 7 } }), json!("x")] {
        assert!(Lease::parse(object.clone()).is_err(), "{object}");
    }
}

#[test]
fn a_holder_without_end_is_cut_off() {
    let lease = lease(&json!({ "holderIdentity": "n".repeat(100_000) }));
    assert_eq!(lease.holder.unwrap().len(), 400);
}

#[test]
fn it_is_taken_and_given_back_with_all_else_left_as_it_was() {
    let now = "2026-03-02T03:00:00.25Z".parse().unwrap();
    let made = created(&me(), OURS, now);
    assert_eq!(made["spec"]["holderIdentity"], "node1/boot-1/3b9aca000");
    assert_eq!(made["spec"]["leaseDurationSeconds"], 3000);
    assert_eq!(made["spec"]["acquireTime"], "2026-03-02T03:00:00.250000Z");
    let mut object = json!({ "metadata": { "resourceVersion": "9", "labels": { "a": "b" } },
        "spec": { "holderIdentity": "node2/b/1", "leaseTransitions": 4 } });
    let taken = Lease::parse(object.clone()).unwrap().taken(&me(), OURS, now);
    assert_eq!(taken["metadata"], object["metadata"]);
    assert_eq!(taken["spec"]["leaseTransitions"], 5);
    assert_eq!(taken["spec"]["holderIdentity"], me().id);
    let released = Lease::parse(taken).unwrap().released(now);
    assert_eq!(released["spec"].get("holderIdentity"), None);
    assert_eq!(released["spec"]["leaseDurationSeconds"], 3000);
    // from one run of a node to the next nothing has changed hands
    object["spec"]["holderIdentity"] = json!("node1/b/1");
    object["spec"]["leaseTransitions"] = json!(2_147_483_647);
    assert_eq!(Lease::parse(object).unwrap().taken(&me(), OURS, now)["spec"]["leaseTransitions"], 2_147_483_647);
    // without a spec to write to
    let bare = Lease::parse(json!({ "metadata": { "resourceVersion": "9" }, "spec": 5 })).unwrap();
    assert_eq!(bare.taken(&me(), OURS, now)["spec"]["holderIdentity"], me().id);
    assert_eq!(bare.released(now)["spec"], 5);
}

#[test]
fn what_is_seen_counts_from_its_first_sight_on_and_goes_on_in_the_next_run_of_this_boot() {
    let at = Duration::from_secs;
    let version = |version: &str, holder: &str| {
        Lease::parse(json!({ "metadata": { "resourceVersion": version }, "spec": { "holderIdentity": holder } }))
            .unwrap()
    };
    let mut seen = Seen::default();
    assert_eq!(seen.note(&version("1", "a"), at(100)), at(0));
    assert_eq!(seen.note(&version("1", "a"), at(130)), at(30));
    // written meanwhile, by whomever
    assert_eq!(seen.note(&version("2", "a"), at(140)), at(0));
    // another etcd may begin to count anew
    assert_eq!(seen.note(&version("2", "b"), at(150)), at(0));
    assert_eq!(seen.note(&version("2", "b"), at(170)), at(20));
    let kept = seen.keep(Some("boot-1"));
    let mut next = Seen::recall(kept.as_ref(), Some("boot-1"));
    assert_eq!(next.note(&version("2", "b"), at(2000)), at(1850));
    for (boot, since_boot) in [(Some("boot-2"), 2000), (None, 2000), (Some("boot-1"), 20)] {
        let mut anew = Seen::recall(kept.as_ref(), boot);
        assert_eq!(anew.note(&version("2", "b"), at(since_boot)), at(0), "{boot:?} at {since_boot}");
    }
    assert_eq!(seen.keep(None), None);
    seen.forget();
    assert_eq!(seen.keep(Some("boot-1")), None);
}
