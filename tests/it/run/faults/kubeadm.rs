//! A kubeadm that does not do what it says: each is found by reading the files again.

use std::time::Duration;

use super::super::crash::site::{ARGS, Killed, node};
use super::super::kubeadm::run_within;
use super::super::run;
use super::{Left, judged};
use crate::support::faults::Renewal;

/// A cell: what kubeadm does at each call, how the run ends, and words that it ends with.
type Cell = (&'static str, fn() -> Renewal, (i32, Left), &'static str);

/// The faults of kubeadm.
pub const TABLE: &[Cell] = &[
    ("renew: exit 0 and nothing changed", || Renewal::DoesNothing, (20, Left::AsItWas), "unchanged: it has the serial"),
    ("renew: exit 1 and nothing changed", || Renewal::Refuses, (20, Left::AsItWas), "failed to load the configuration"),
    ("renew: help text and exit 0", || Renewal::PrintsHelp, (20, Left::AsItWas), "unchanged: it has the serial"),
    (
        "renew: exit 1 half-way",
        || Renewal::StopsAt("controller-manager.conf".to_owned()),
        (20, Left::InPart),
        "failed to renew certificate controller-manager.conf",
    ),
    (
        "renew: another directory",
        || Renewal::RenewsDirectory("/etc/kubernetes/another".to_owned()),
        (20, Left::InPart),
        "unchanged: it has the serial",
    ),
    (
        "renew: killed by a signal within a pair",
        || Renewal::KilledAt("apiserver".to_owned(), 9),
        (20, Left::InPart),
        "ended by signal 9",
    ),
    ("renew: a torn pair and exit 0", || Renewal::Tears("apiserver".to_owned()), (20, Left::InPart), "put back from"),
    (
        "renew: another CA's signature and exit 0",
        || Renewal::AnotherCa("front-proxy-client".to_owned()),
        (20, Left::InPart),
        "put back from",
    ),
    (
        "renew: other names and exit 0",
        || Renewal::OtherNames("apiserver".to_owned()),
        (20, Left::InPart),
        "put back from",
    ),
];

/// The cells that are tests of their own.
pub const OTHERS: usize = 2;

#[test]
fn a_kubeadm_that_is_not_to_be_believed_is_found_out() {
    for (name, fault, expected, words) in TABLE {
        let site = node();
        if name.contains("another directory") {
            // another set, with CAs of its own
            for file in std::fs::read_dir(site.tree.on_host("/etc/kubernetes/ssl")).unwrap() {
                let file = file.unwrap().file_name().into_string().unwrap();
                site.tree.write(
                    &format!("/etc/kubernetes/another/{file}"),
                    site.tree.read(&format!("/etc/kubernetes/ssl/{file}")),
                );
            }
        }
        let before = Killed::before(&site);
        site.world.fault(|faults| faults.renewals = vec![fault()]);
        let ran = run(&site, &ARGS);
        assert!(ran.err.contains(words), "{name}: '{words}' is not in: {}", ran.err);
        judged(&site, name, &before, (Some(i32::from(ran.code)), &ran.text()), *expected, |_| {});
    }
}

#[test]
fn a_kubeadm_that_hangs_is_ended_and_told() {
    let site = node();
    let before = Killed::before(&site);
    site.world.fault(|faults| faults.renewals = vec![Renewal::Hangs]);
    let (report, err) = run_within(&site, Duration::from_millis(50));
    let code = Some(i32::from(report.exit.code()));
    assert!(err.contains("is not renewed: unchanged"), "{err}");
    judged(&site, "renew: a hang", &before, (code, &err), (20, Left::AsItWas), |_| {});
}

#[test]
fn a_ca_that_is_kept_elsewhere_is_no_fault_of_kubeadms() {
    let site = node();
    let before = Killed::before(&site);
    let keys = ["/etc/kubernetes/ssl/ca.key", "/etc/kubernetes/ssl/front-proxy-ca.key"];
    let kept = keys.map(|key| site.tree.read(key));
    keys.iter().for_each(|key| site.tree.remove(key));
    let without = Killed::before(&site);
    let ran = run(&site, &ARGS);
    let said = ran.text();
    assert!(said.contains("Cannot renew: "), "{said}");
    judged(
        &site,
        "renew: external CA",
        &Killed { serials: before.serials, files: without.files },
        (Some(i32::from(ran.code)), &said),
        (25, Left::AsItWas),
        |site| {
            keys.iter().zip(kept).for_each(|(key, text)| site.tree.write(key, text));
        },
    );
}
