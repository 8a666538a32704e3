//! Killed again and again: each run goes on where the one before was killed.

use super::site::{Killed, finishes, killed, node, prepare};
use super::table::{At, Boundary, How, Next};

#[test]
fn runs_that_are_killed_one_after_another_come_to_the_end_all_the_same() {
    let next = Next { renews: false, restarts: "", copies: 1 };
    let boundaries = [
        How::Tool("certs renew all", 0, At::Before),
        How::Tool("certs renew all", 1, At::After),
        How::Tool("rmp -f kube-apiserver@1", 0, At::After),
        How::Said("kube-apiserver restarted"),
        How::Said("removing the sandbox of 'kube-controller-manager"),
        How::Tool("rmp -f kube-scheduler@1", 0, At::Before),
        How::Said("kube-scheduler restarted"),
        How::InWrite("Updating /root/.kube/config", "/root/.kube/.config.k8s-certs-renew"),
        How::Said("Updating /home/ops/.kube/config"),
    ];
    let site = node();
    let before = Killed::before(&site);
    for how in boundaries {
        let row = Boundary { name: "one after another", how, next };
        prepare(&site, &row);
        killed(&site, &row);
    }
    finishes(&site, "one after another", &before, Some(next));
}
