//! Killed while kubeadm writes, and kubeadm with the run: as when the machine dies, or systemd kills the unit's whole group.

use std::os::unix::process::ExitStatusExt;

use super::site::{Killed, ended, finishes, node};
use super::table::Next;
use crate::support::events::{Act, Event, Point};
use crate::support::faults::Renewal;
use crate::support::site::Site;

/// What kubeadm writes on kubespray's node, in its order.
const FILES: [&str; 9] = [
    "admin.conf",
    "apiserver.key",
    "apiserver.crt",
    "apiserver-kubelet-client.key",
    "apiserver-kubelet-client.crt",
    "controller-manager.conf",
    "front-proxy-client.key",
    "front-proxy-client.crt",
    "scheduler.conf",
];
const EVERYTHING: Next = Next { renews: true, restarts: "acs", copies: 2 };
const ALL_RESTARTS: Next = Next { renews: false, ..EVERYTHING };

/// How many points are tried.
pub fn count() -> usize {
    FILES.len() + within().len() + OTHERS.len() + 1
}

/// The points within a file: emptied, and half written; of each kind of file, and of those that are read only at a start.
fn within() -> Vec<Point> {
    let emptied = [0, 1, 2, 5, 8].into_iter().map(|file| Point::Emptied(FILES[file].to_owned()));
    emptied.chain(FILES[..3].iter().map(|file| Point::Half((*file).to_owned()))).collect()
}

/// Kills the run, and kubeadm with it, at this point of the first call that renews all.
pub fn kill(site: &Site, renewals: Vec<Renewal>, call: &str, point: Point) -> Killed {
    let before = Killed::before(site);
    site.world.fault(|faults| {
        faults.renewals = renewals;
        faults.events = vec![Event { call: call.to_owned(), number: 0, point, act: Act::KillsBoth }];
    });
    let (status, said) = ended(site);
    assert_eq!(status.signal(), Some(9), "{status}: {said}");
    before
}

#[test]
fn killed_with_kubeadm_between_two_files_a_run_is_made_up_for() {
    for file in FILES {
        let site = node();
        let before = kill(&site, Vec::new(), "certs renew all", Point::Written(file.to_owned()));
        // with the last one all files are whole, and only the restarts are owed
        let next = if file == FILES[8] { ALL_RESTARTS } else { EVERYTHING };
        finishes(&site, &format!("kubeadm has written {file}"), &before, Some(next));
    }
}

#[test]
fn killed_with_kubeadm_in_the_middle_of_a_file_a_run_is_made_up_for() {
    for point in within() {
        let site = node();
        let name = format!("kubeadm: {point:?}");
        let before = kill(&site, Vec::new(), "certs renew all", point);
        finishes(&site, &name, &before, Some(EVERYTHING));
    }
}

/// A boundary: its name, what kubeadm does, the call, and the point of it.
type InCalls = (&'static str, fn() -> Vec<Renewal>, &'static str, Point);

/// Boundaries of a renewal that kubeadm does not do in one go.
const OTHERS: [InCalls; 5] = [
    (
        "renew all has stopped half-way, not answered",
        || vec![Renewal::StopsAt("front-proxy-client".to_owned())],
        "certs renew all",
        Point::After,
    ),
    (
        "before the call for one that renew all has left out",
        || vec![Renewal::StopsAt("scheduler.conf".to_owned()), Renewal::Ordinary],
        "certs renew scheduler.conf",
        Point::Before,
    ),
    (
        "a torn pair, before it is put back",
        || vec![Renewal::Tears("apiserver".to_owned()), Renewal::Ordinary],
        "certs renew all",
        Point::After,
    ),
    (
        "another CA's signature, before it is put back",
        || vec![Renewal::AnotherCa("apiserver".to_owned()), Renewal::Ordinary],
        "certs renew all",
        Point::After,
    ),
    (
        "a torn pair was put back, before its own call",
        || vec![Renewal::Tears("apiserver".to_owned()), Renewal::Ordinary],
        "certs renew apiserver",
        Point::Before,
    ),
];

#[test]
fn killed_in_a_renewal_of_several_calls_a_run_is_made_up_for() {
    for (name, renewals, call, point) in OTHERS {
        let site = node();
        let before = kill(&site, renewals(), call, point);
        finishes(&site, name, &before, Some(EVERYTHING));
    }
}

// the file that the put-back was writing has its own name again, or goes
#[test]
fn killed_in_the_write_that_puts_a_torn_pair_back_a_run_leaves_no_key_behind() {
    let site = node();
    let before = kill(&site, vec![Renewal::Tears("apiserver".to_owned())], "certs renew all", Point::After);
    site.tree.write("/etc/kubernetes/ssl/.apiserver.key.k8s-certs-renew", "-----BEGIN");
    finishes(&site, "in the write that puts back", &before, Some(EVERYTHING));
}
