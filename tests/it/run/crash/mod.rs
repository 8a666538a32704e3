//! The crash table: a run is killed (SIGKILL) before, in and after every step. Whatever the moment, nothing half-written
//! of ours stays, the next run finishes what was begun, and the run after it finds nothing to do.

mod host;
mod kubeadm;
pub mod site;
mod sweep;
mod table;
mod twice;

use site::{Killed, finishes, killed, node, prepare};
use table::{BEFORE_KUBEADM, Boundary, COPIES_AND_WAIT, END, RENEWAL, RESTARTS};

/// Kills a run at each of these boundaries, each on a node of its own, and demands of the next run what the row says.
fn each(table: &[Boundary]) {
    for row in table {
        let site = node();
        prepare(&site, row);
        let before = Killed::before(&site);
        killed(&site, row);
        finishes(&site, row.name, &before, Some(row.next));
    }
}

/// How many boundaries are tried, each by its name.
pub fn count() -> usize {
    let tables = [BEFORE_KUBEADM, RENEWAL, RESTARTS, COPIES_AND_WAIT, END];
    tables.iter().map(|table| table.len()).sum::<usize>() + kubeadm::count()
}

#[test]
fn killed_before_kubeadm_a_run_has_changed_nothing() {
    each(BEFORE_KUBEADM);
}

#[test]
fn killed_around_the_renewal_a_run_is_finished_by_the_next() {
    each(RENEWAL);
}

#[test]
fn killed_in_the_restarts_a_run_is_finished_by_the_next() {
    each(RESTARTS);
}

#[test]
fn killed_at_the_copies_or_the_wait_a_run_is_finished_by_the_next() {
    each(COPIES_AND_WAIT);
    each(END);
}
