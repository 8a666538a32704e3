//! What no renewal can help, and what is not kubeadm's to renew: said, with a way out.

use chrono::{DateTime, Duration, Utc};

use crate::exit::Exit;
use crate::inventory::{Certificate, Kind, Manager, Problem};

use super::{Alarm, Decision, Facts, moment};

/// Up to when what no run renews has to last. A timer that never fires again makes the job renew early; it is no reason
/// to raise the alarm about what others renew, so there the days-buffer alone counts.
fn horizon(facts: &Facts<'_>) -> DateTime<Utc> {
    let buffer = Duration::days(i64::from(facts.threshold.days_buffer));
    facts.threshold.at().or_else(|| facts.now.checked_add_signed(buffer)).unwrap_or(facts.now)
}

/// A CA that ends before the threshold, or cannot be read.
pub fn authorities(facts: &Facts<'_>, alarms: &mut Vec<Alarm>) {
    for authority in &facts.inventory.authorities {
        let (exit, message) = match &authority.leaf {
            None if authority.missing && !authority.required => continue,
            None => (Exit::CannotRead, problem_of(authority)),
            Some(leaf) if leaf.not_after < facts.now => (
                Exit::CannotRenew,
                format!("this CA expired on {}; nothing that it signed works: replace the CA", moment(leaf.not_after)),
            ),
            Some(leaf) if leaf.not_after < horizon(facts) => {
                let message = "this CA expires on {}, and renewing leaves cannot help: replace the CA before that";
                (Exit::CannotRenew, message.replace("{}", &moment(leaf.not_after)))
            }
            Some(_) => continue,
        };
        alarms.push(Alarm { exit, name: authority.name.clone(), message });
    }
}

/// What works and should be looked at all the same, such as a kubeconfig whose server the API's certificate does not name.
pub fn oddities(facts: &Facts<'_>, decision: &mut Decision) {
    for certificate in &facts.inventory.certificates {
        // a leaf that outlives its CA follows from a CA that ends early, which is an alarm where it matters
        let odd = |problem: &&Problem| problem.is_note() && !matches!(problem, Problem::OutlivesCa { .. });
        let notes = certificate.problems.iter().filter(odd).map(|problem| format!("'{}': {problem}", certificate.name));
        decision.notes.extend(notes);
    }
}

/// Certificates that others renew: kubelet's, host etcd's, and those that an operator brought.
pub fn others(facts: &Facts<'_>, decision: &mut Decision) {
    for certificate in &facts.inventory.certificates {
        let is_copy = facts.copies.iter().any(|copy| copy.path == certificate.path);
        if certificate.manager == Manager::Kubeadm || is_copy || (certificate.missing && !certificate.required) {
            continue;
        }
        let alarm = |exit, message| Alarm { exit, name: certificate.name.clone(), message };
        let Some(leaf) = &certificate.leaf else {
            decision.alarms.push(alarm(Exit::CannotRead, problem_of(certificate)));
            continue;
        };
        let expired = leaf.not_after < facts.now;
        match certificate.manager {
            // kubelet makes a self-signed serving certificate once and keeps it past its end; no client checks it
            // unless kube-apiserver is told to, so an old one is worth a word and no more
            Manager::Kubelet if expired && is_self_signed(certificate) => {
                decision.notes.push(format!("'{}' expired on {}: kubelet's self-signed serving certificate; delete it and its key and restart kubelet for a new one", certificate.name, moment(leaf.not_after)));
            }
            Manager::Kubelet if expired => {
                decision.alarms.push(alarm(
                    Exit::CannotRenew,
                    format!("expired on {}; kubelet renews it, not kubeadm: see why its rotation fails (journalctl -u kubelet)", moment(leaf.not_after)),
                ));
            }
            // rotation replaces it in time, whatever the threshold says
            Manager::Kubelet => {}
            _ => {
                let (end, horizon) = (leaf.not_after, horizon(facts));
                if end < horizon {
                    let reason = if expired {
                        format!("expired on {}", moment(end))
                    } else {
                        format!("expires on {}, before the threshold {}", moment(end), moment(horizon))
                    };
                    let who = if certificate.manager == Manager::Etcd {
                        "whoever set up etcd renews it"
                    } else {
                        "whoever issued it renews it"
                    };
                    decision.alarms.push(alarm(Exit::CannotRenew, format!("{reason}; {who}, not kubeadm")));
                }
            }
        }
    }
}

fn is_self_signed(certificate: &Certificate) -> bool {
    matches!(certificate.kind, Kind::Pair { .. })
        && certificate.ca_name.is_none()
        && !certificate.problems.iter().any(|problem| matches!(problem, Problem::NotSignedByCa { .. }))
}

fn problem_of(certificate: &Certificate) -> String {
    let problem = certificate.problems.first().map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
    format!("{problem} ('{}')", certificate.path.display())
}
