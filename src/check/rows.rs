//! How each certificate stands.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, Utc};

use crate::decision::{CopyFact, Standing};
use crate::evidence::beyond::{Beyond, InMemory};
use crate::evidence::{Loopback, Verdict};
use crate::inventory::{Certificate, Kind, Leaf, Manager, Problem};
use crate::report::check_report::{Limits, Row, Status};
use crate::report::table::state;
use crate::run::survey::Survey;

/// What a row is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// What was found.
    pub survey: &'a Survey,
    /// From when on what the job does not renew is worth an alarm.
    pub limits: Limits,
    /// The instant to judge by (UTC).
    pub now: DateTime<Utc>,
    /// Whether the job runs here.
    pub control_plane: bool,
}

impl Judge<'_> {
    /// Every certificate: those of the node by name, then further ones, then those in memory, then the authorities and what
    /// is trusted `beside` them.
    pub fn rows(&self, also: &[Certificate], beyond: &Beyond, beside: &[Certificate]) -> Vec<Row> {
        let inventory = &self.survey.found.inventory;
        let there = |certificate: &&Certificate| certificate.required || !certificate.missing;
        let paths: BTreeSet<_> =
            inventory.certificates.iter().chain(&inventory.authorities).map(|known| &known.path).collect();
        let mut rows: Vec<Row> = inventory.certificates.iter().filter(there).map(|one| self.row(one)).collect();
        rows.extend(also.iter().filter(|one| !paths.contains(&one.path)).map(|one| self.row(one)));
        rows.extend(self.survey.evidence.loopback.as_ref().map(|loopback| self.loopback(loopback)));
        rows.extend(beyond.in_memory.iter().map(|seen| self.self_made(seen)));
        rows.extend(inventory.authorities.iter().filter(there).map(|one| self.row(one)));
        rows.extend(beside.iter().map(|one| Row { is_authority: true, ..self.row(one) }));
        rows
    }

    fn row(&self, certificate: &Certificate) -> Row {
        let due = self.survey.decision.renew.iter().any(|item| item.name == certificate.name);
        let leaf = certificate.leaf.as_ref();
        let (readers, in_use, rereads) = self.in_use(&certificate.name);
        let warn_before = leaf.and_then(|leaf| self.warn_before(certificate, leaf));
        let (status, state) = self.status(certificate, warn_before);
        Row {
            name: certificate.name.clone(),
            certificate: Some(certificate.clone()),
            is_authority: matches!(certificate.kind, Kind::Authority { .. }),
            not_before: leaf.map(|leaf| leaf.not_before),
            not_after: leaf.map(|leaf| leaf.not_after),
            serial: leaf.map(|leaf| leaf.serial.clone()),
            manager: certificate.manager.to_string(),
            readers,
            in_use,
            rereads,
            warn_before,
            due: due && self.control_plane,
            state,
            status,
        }
    }

    /// The certificate that kube-apiserver keeps in memory to talk to itself: in no file, renewed by a restart only.
    fn loopback(&self, loopback: &Loopback) -> Row {
        let warn_before = self.survey.schedule.threshold.at();
        let (status, state) = match () {
            () if loopback.not_after < self.now => (Status::Critical, "expired"),
            () if warn_before.is_some_and(|before| loopback.not_after < before) => (Status::Warning, "due"),
            () => (Status::Ok, "ok"),
        };
        let due = self.survey.decision.restarts("kube-apiserver") && status == Status::Warning;
        let seen = InMemory {
            component: "kube-apiserver".to_owned(),
            serial: loopback.serial.clone(),
            not_before: loopback.not_before,
            not_after: loopback.not_after,
        };
        Row { due, warn_before, state: state.to_owned(), status, ..in_memory(&seen, "loopback") }
    }

    /// A certificate that kube-controller-manager or kube-scheduler made itself at its start. It serves health and metrics, and
    /// kubelet's probes do not check it, so that an old one is worth no more than a warning.
    fn self_made(&self, seen: &InMemory) -> Row {
        let expired = seen.not_after < self.now;
        let (status, state) = if expired { (Status::Warning, "expired") } else { (Status::Ok, "ok") };
        Row { warn_before: Some(self.now), state: state.to_owned(), status, ..in_memory(seen, "serving") }
    }

    /// Who reads it, the worst verdict on them as far as it is about this certificate, and whether it is read again unseen.
    fn in_use(&self, name: &str) -> (Vec<String>, Option<Verdict>, bool) {
        let Survey { found, evidence, .. } = self.survey;
        let reads = |reader: &&crate::decision::Reader| reader.reads.iter().any(|read| read == name);
        let mut readers: Vec<String> =
            found.readers.iter().filter(reads).map(|reader| reader.component.clone()).collect();
        let mut verdict = None;
        for component in evidence.components.iter().filter(|component| component.covers.iter().any(|one| one == name)) {
            verdict = verdict.max(Some(component.verdict));
            if !readers.contains(&component.name) {
                readers.push(component.name.clone());
            }
        }
        let mut reread = false;
        for component in evidence.components.iter().filter(|component| component.rereads.iter().any(|one| one == name))
        {
            reread = true;
            if !readers.contains(&component.name) {
                readers.push(component.name.clone());
            }
        }
        // what a component reads and its verdict is not about cannot be seen
        let verdict = verdict.or_else(|| (!readers.is_empty()).then_some(Verdict::Unknown));
        (readers, verdict, reread && verdict == Some(Verdict::Unknown))
    }

    fn is_of_the_job(&self, certificate: &Certificate) -> bool {
        self.control_plane
            && certificate.manager == Manager::Kubeadm
            && !matches!(certificate.kind, Kind::Authority { .. })
    }

    fn copy(&self, certificate: &Certificate) -> Option<&CopyFact> {
        self.survey.found.copies.iter().find(|copy| copy.path == certificate.path)
    }

    fn warn_before(&self, certificate: &Certificate, leaf: &Leaf) -> Option<DateTime<Utc>> {
        let threshold = self.survey.schedule.threshold.at();
        let ours = |copy: &CopyFact| self.control_plane && !matches!(copy.standing, Standing::Foreign(_));
        if self.is_of_the_job(certificate) || self.copy(certificate).is_some_and(ours) {
            return threshold;
        }
        if certificate.manager == Manager::Kubelet {
            // rotation is to have replaced it at nine tenths of its life (client-go `certificate_manager.go`)
            let tenth = (leaf.not_after - leaf.not_before) / 10;
            return if is_self_signed_of_kubelet(certificate) { None } else { self.now.checked_add_signed(tenth) };
        }
        let limit = self.now.checked_add_signed(self.limits.warning);
        // what somebody named besides is not looked at by the job
        let inventory = &self.survey.found.inventory;
        let mut of_node = inventory.certificates.iter().chain(&inventory.authorities);
        let is_of_node = of_node.any(|known| known.path == certificate.path);
        limit.max(threshold.filter(|_| self.control_plane && is_of_node))
    }

    fn status(&self, certificate: &Certificate, warn_before: Option<DateTime<Utc>>) -> (Status, String) {
        let due = self.survey.schedule.threshold;
        let Some(leaf) = &certificate.leaf else {
            let status = if certificate.missing { Status::Critical } else { Status::Unknown };
            return (status, state(certificate, false, self.now));
        };
        let of_the_job = self.is_of_the_job(certificate);
        let copy = self.copy(certificate);
        let early = warn_before.is_some_and(|before| leaf.not_after < before);
        let is_due = if of_the_job { due.due(leaf, self.now).is_some() } else { copy.is_some() && early };
        let word = state(certificate, is_due, self.now);
        let left = leaf.not_after - self.now;
        let not_yet = certificate.problems.iter().any(|problem| matches!(problem, Problem::NotYetValid { .. }));
        let buffer = Duration::days(i64::from(due.days_buffer));
        let status = match () {
            () if copy.is_some_and(|copy| copy.standing == Standing::Outdated) => {
                let word = if word == "expired" { word } else { "outdated".to_owned() };
                return (Status::Warning, word);
            }
            () if left < Duration::zero() && is_self_signed_of_kubelet(certificate) => Status::Warning,
            () if left < Duration::zero() || not_yet || certificate.is_damaged() => Status::Critical,
            () if certificate.is_unreadable() => Status::Unknown,
            // by then the job cannot have done its work
            () if is_due && of_the_job && left < buffer => Status::Critical,
            () if is_due => Status::Warning,
            () if of_the_job => Status::Ok,
            () if certificate.manager == Manager::Kubelet => {
                let starts_wrong =
                    |problem: &Problem| matches!(problem, Problem::NotTheRotated { .. } | Problem::NotALink);
                if early || certificate.problems.iter().any(starts_wrong) { Status::Warning } else { Status::Ok }
            }
            () if left < self.limits.critical && copy.is_none() => Status::Critical,
            () if early => Status::Warning,
            () => Status::Ok,
        };
        // kubectl on this node and no more: nothing of the cluster depends on a copy
        let status = if copy.is_some() { status.min(Status::Warning) } else { status };
        let word = match (word.as_str(), status, early) {
            ("ok", Status::Ok, _) => word,
            ("ok", _, true) => "ends soon".to_owned(),
            ("ok", _, false) => "not rotated".to_owned(),
            _ => word,
        };
        (status, word)
    }
}

fn in_memory(seen: &InMemory, what: &str) -> Row {
    Row {
        name: format!("{} ({what})", seen.component),
        certificate: None,
        is_authority: false,
        not_before: Some(seen.not_before),
        not_after: Some(seen.not_after),
        serial: Some(seen.serial.clone()),
        manager: "in memory".to_owned(),
        readers: vec![seen.component.clone()],
        in_use: Some(Verdict::InUse),
        rereads: false,
        warn_before: None,
        due: false,
        state: String::new(),
        status: Status::Ok,
    }
}

/// kubelet makes a self-signed serving certificate once and keeps it past its end (`kubelet.crt`); no client checks it unless
/// kube-apiserver is told to.
pub fn is_self_signed_of_kubelet(certificate: &Certificate) -> bool {
    certificate.manager == Manager::Kubelet
        && matches!(certificate.kind, Kind::Pair { .. })
        && certificate.ca_name.is_none()
        && !certificate.problems.iter().any(|problem| matches!(problem, Problem::NotSignedByCa { .. }))
}
