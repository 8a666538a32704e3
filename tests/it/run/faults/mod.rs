//! The fault table: every step, and each fault that can hit it. The node is as it was, or finished, or in between with a
//! journal that says so; the exit code says which; and when the fault is gone, the next run comes to the end.

mod disks;
mod kubeadm;
mod pods;

use super::crash::site::{Killed, clean, comes_round, leftovers};
use super::seen::{RENEWED, changed, files, owed};
use crate::support::site::Site;

/// What a run that a fault has hit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing is changed and nothing is owed.
    AsItWas,
    /// Everything is renewed and in use, but for what the exit code is about.
    Finished,
    /// What could be renewed is, and is in use; the rest is as it was; nothing is owed.
    InPart,
    /// Something in between, and the journal says so.
    Told,
}

/// How many cells are tried.
pub fn count() -> usize {
    disks::TABLE.len() + kubeadm::TABLE.len() + kubeadm::OTHERS + pods::count()
}

/// Demands that the run ended with this code, and left the node so; and that the next run comes to the end once `mend` has
/// taken the fault away.
fn judged(
    site: &Site,
    name: &str,
    before: &Killed,
    (code, said): (Option<i32>, &str),
    expected: (i32, Left),
    mend: impl FnOnce(&Site),
) {
    assert_eq!(code, Some(expected.0), "{name}: {said}");
    let written = changed(&before.files, &files(site));
    let is_changed = written.iter().any(|path| RENEWED.contains(&path.as_str()));
    let whole = site.tree.inventory().certificates.iter().all(|one| !one.is_damaged());
    let renewed = site.renewed_since(&before.serials);
    let acts = site.world.acts();
    let last_renewal = acts.iter().rposition(|act| act.starts_with("kubeadm"));
    let restarted = |component: &str| {
        acts.iter().rposition(|act| act.contains(&format!("rmp -f {component}@"))) > last_renewal.or(Some(0))
    };
    let in_use = |component: &str, reads: &[&str]| {
        restarted(component) || !reads.iter().any(|name| renewed.iter().any(|one| one == name))
    };
    let all_in_use = in_use("kube-apiserver", &["apiserver", "apiserver-kubelet-client", "front-proxy-client"])
        && in_use("kube-controller-manager", &["controller-manager.conf"])
        && in_use("kube-scheduler", &["scheduler.conf"]);
    let is_owed = owed(site).is_some();
    let left = match (is_changed, is_owed) {
        (_, true) => Left::Told,
        (false, false) => Left::AsItWas,
        (true, false) if whole && all_in_use && renewed == site.tree.renewed_by_kubeadm() => Left::Finished,
        (true, false) if whole && all_in_use => Left::InPart,
        (true, false) => panic!("{name}: in between, and the journal does not say so: {written:?}, {acts:?}: {said}"),
    };
    assert_eq!(left, expected.1, "{name}: {acts:?}: {said}");
    if left == Left::AsItWas {
        assert_eq!(written, Vec::<String>::new(), "{name}");
        // what was stale before may be restarted, but not by a run that could not begin
        assert!(expected.0 != 74 || acts.is_empty(), "{name}: {acts:?}");
    }
    assert_eq!(leftovers(site), Vec::<std::path::PathBuf>::new(), "{name}");
    clean(site);
    mend(site);
    comes_round(site, name, before, None);
}
