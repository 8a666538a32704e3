//! A whole check, table and all, of a node and many further certificates.

use divan::Bencher;
use divan::counter::ItemsCount;
use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;

use super::inventory::{files, plan};
use crate::support::clock::StillClock;
use crate::support::pki::Algorithm;

/// So many certificates with their keys below `/srv/certs`, found by a pattern.
#[divan::bench(args = [0, 1_000, 10_000], sample_count = 5, sample_size = 1)]
fn also(bencher: Bencher<'_, '_>, number: usize) {
    let tree = plan(Algorithm::P256).build();
    files(&tree, number);
    let clock = StillClock::at(tree.plan.now);
    let signals = Signals::none();
    let argv = ["k8s-certs-renew", "check", "--also", "/srv/certs/*/*.crt", "--root"].map(Into::into);
    let process = Process {
        argv: argv.into_iter().chain([tree.dir().into()]).collect(),
        environment: Vec::new(),
        terminal: Terminal::default(),
        is_root: true,
        clock: &clock,
        signals: &signals,
    };
    bencher.counter(ItemsCount::new(number.max(1))).bench(|| main(&process, &mut Vec::new(), &mut Vec::new()));
}
