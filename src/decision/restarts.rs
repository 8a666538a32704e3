//! What is restarted: what reads something that is renewed, what is stale, what is owed.

use crate::evidence::{Component, Verdict as Use};
use crate::exit::Exit;

use super::{Alarm, Cause, Decision, Facts, Reader, Restart, RestartPolicy, moment};

/// Decides which components are restarted, in the order in which it is done.
pub fn decide(facts: &Facts<'_>, decision: &mut Decision) {
    for reader in facts.readers {
        let renew = decision.renew.iter().map(|item| item.name.as_str());
        let renewed: Vec<&str> = renew.filter(|name| reader.reads.iter().any(|read| read == name)).collect();
        let name = reader.component.clone();
        let standing = why_restart(facts, reader);
        let otherwise = standing.as_ref().filter(|_| !renewed.is_empty()).map(|(cause, _)| *cause);
        let reads = (!renewed.is_empty()).then(|| (Cause::Renewed, format!("reads {}", renewed.join(", "))));
        // what re-reads its files is given time to do so, but not where its restart is asked for
        let asked = (reader.rereads && facts.restart == RestartPolicy::All).then(asked);
        let Some((cause, reason)) = asked.or(reads).or(standing) else { continue };
        if facts.restart == RestartPolicy::None {
            decision.notes.push(format!("{name} is not restarted, as asked for (--restart none): {reason}"));
        } else if matches!(cause, Cause::Stale | Cause::Owed) && facts.tried.contains(&name) {
            let message = format!(
                "{reason}; it was restarted with these very certificates before, so that once more would not help"
            );
            decision.alarms.push(Alarm { exit: Exit::NotProven, name, message });
        } else {
            decision.restart.push(Restart { name, reason, cause, otherwise, rereads: reader.rereads });
        }
    }
    host_etcd(facts, decision);
    decision.restart.sort_by(|one, other| (rank(&one.name), &one.name).cmp(&(rank(&other.name), &other.name)));
    // two pods can have the same label; the one that it means is restarted once
    decision.restart.dedup_by(|one, other| one.name == other.name);
}

/// An etcd that is no static pod of kubeadm's is told of and never touched.
fn host_etcd(facts: &Facts<'_>, decision: &mut Decision) {
    const NAME: &str = "etcd";
    if facts.readers.iter().any(|reader| reader.component == NAME) {
        return;
    }
    let Some(Component { verdict: Use::Stale, reason, .. }) = facts.evidence.get(NAME) else { return };
    let message = format!(
        "{reason}; it is not restarted by this program: restart it by hand (systemctl restart etcd), one member at a time"
    );
    if facts.restart == RestartPolicy::None {
        decision.notes.push(format!("{NAME}: {message}"));
    } else {
        decision.alarms.push(Alarm { exit: Exit::NotProven, name: NAME.to_owned(), message });
    }
}

/// Why a component is to be restarted though nothing that it reads is renewed, if it is.
fn why_restart(facts: &Facts<'_>, reader: &Reader) -> Option<(Cause, String)> {
    let seen = facts.evidence.get(&reader.component);
    let loopback = facts.evidence.loopback.as_ref().filter(|_| reader.component == "kube-apiserver");
    if let Some(Component { verdict: Use::Stale, reason, .. }) = seen {
        return Some((Cause::Stale, reason.clone()));
    }
    // What is proven to be in use needs no restart, whoever owes it. kube-apiserver shows what it serves, and not what it logs
    // in with elsewhere, so there that is no proof.
    let proven = reader.component != "kube-apiserver" && seen.is_some_and(|seen| seen.verdict == Use::InUse);
    if facts.owed.contains(&reader.component) && !proven {
        return Some((Cause::Owed, "an earlier run or a restore owes it, and has not seen it back".to_owned()));
    }
    if let Some(loopback) = loopback
        && facts.threshold.at().is_some_and(|threshold| loopback.not_after < threshold)
    {
        let end = moment(loopback.not_after);
        let reason = format!("the certificate that it keeps in memory ends on {end}; only a restart renews it");
        return Some((Cause::Loopback, reason));
    }
    (facts.restart == RestartPolicy::All).then(asked)
}

fn asked() -> (Cause, String) {
    (Cause::Asked, "asked for (--restart all)".to_owned())
}

/// kube-apiserver first: the others need it to come back. etcd last: without it nothing else would be proven.
fn rank(component: &str) -> usize {
    match component {
        "kube-apiserver" => 0,
        "kube-controller-manager" => 1,
        "kube-scheduler" => 2,
        "etcd" => 4,
        _ => 3,
    }
}
