//! What has to be said, each with what to do.

use std::collections::BTreeSet;

use crate::decision::{Alarm, Cause, Standing, kubeadm_leaves, moment};
use crate::evidence::beyond::Beyond;
use crate::evidence::{Component, Verdict};
use crate::exit::Exit;
use crate::inventory::{Certificate, Kind, Manager, Problem};
use crate::report::check_report::{CheckReport, ComponentRow, Finding, Row, Status};
use crate::run::survey::Survey;

use super::advice::advice;
use super::rows::is_self_signed_of_kubelet;

/// How bad the verdict on a component is. `live`: the tree shows processes; one without has no components to judge.
pub fn of_component(component: &Component, live: bool) -> Status {
    match component.verdict {
        Verdict::InUse => Status::Ok,
        Verdict::Stale => Status::Warning,
        // without a serving certificate nobody gets logs from it
        Verdict::Unknown if live && is_without_serving(component) => Status::Warning,
        Verdict::Unknown if !live || component.expected => Status::Ok,
        Verdict::Unknown => Status::Unknown,
    }
}

fn is_without_serving(component: &Component) -> bool {
    component.name == "kubelet" && component.expected && component.served.is_none()
}

/// Everything that follows from rows, components and the decision.
pub fn findings(report: &CheckReport, survey: &Survey, beyond: &Beyond) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |status, about: &str, message: String| {
        found.push(Finding { status, about: about.to_owned(), message });
    };
    let alarms: Vec<&Alarm> = survey.decision.alarms.iter().filter(|alarm| applies(report, survey, alarm)).collect();
    for row in report.rows.iter().filter(|row| row.status > Status::Ok) {
        say(row.status, &row.name, about_row(row, report, survey, &alarms));
    }
    let told: BTreeSet<&str> =
        report.rows.iter().filter(|row| row.status > Status::Ok).map(|row| row.name.as_str()).collect();
    for alarm in alarms.iter().filter(|alarm| !told.contains(alarm.name.as_str())) {
        let status = if alarm.exit == Exit::CannotRead { Status::Unknown } else { Status::Warning };
        say(status, &alarm.name, alarm.message.clone());
    }
    for row in report.components.iter().filter(|row| row.status > Status::Ok) {
        let name = &row.component.name;
        if !alarms.iter().any(|alarm| alarm.name == *name) {
            say(row.status, name, about_component(row, survey));
        }
    }
    for restart in survey.decision.restart.iter().filter(|restart| restart.cause == Cause::Owed) {
        say(Status::Warning, &restart.name, format!("{}; the next run restarts it", restart.reason));
    }
    if let Some(answer) = beyond.kubelet.as_ref().filter(|answer| answer.status == 401) {
        let client = "apiserver-kubelet-client";
        let good = report.rows.iter().any(|row| row.name == client && row.status < Status::Unknown);
        if good {
            say(
                Status::Warning,
                "kubelet",
                format!(
                    "at {} it answers 401 to {client}, by which kube-apiserver logs in: kubectl logs and exec fail, however ready kube-apiserver is. The file that kubelet's clientCAFile names has to hold the CA that signed it; compare it with ca.crt, then: systemctl restart kubelet",
                    answer.addr
                ),
            );
        }
    }
    found.extend(notes(report, survey));
    found
}

/// Whether what a run would say is true here: where no job runs, nobody renews kubeadm's certificates, nor writes copies.
fn applies(report: &CheckReport, survey: &Survey, alarm: &Alarm) -> bool {
    let of_kubeadm = survey.found.inventory.get(&alarm.name).is_some_and(|one| one.manager == Manager::Kubeadm);
    report.control_plane || !(of_kubeadm || alarm.exit == Exit::CopyFailed)
}

fn about_row(row: &Row, report: &CheckReport, survey: &Survey, alarms: &[&Alarm]) -> String {
    let Some(certificate) = &row.certificate else { return about_memory(row) };
    let copy = survey.found.copies.iter().find(|copy| copy.path == certificate.path);
    match copy.map(|copy| &copy.standing) {
        Some(Standing::Outdated) => {
            return "an old copy: it holds an older credential than admin.conf; the next run writes it anew, or: k8s-certs-renew run".to_owned();
        }
        Some(Standing::Same | Standing::Current) => {
            return "is written anew by the run that renews admin.conf".to_owned();
        }
        _ => {}
    }
    if certificate.manager == Manager::Kubelet && row.state == "expired" && !is_self_signed_of_kubelet(certificate) {
        return kubelet_expired(certificate);
    }
    let alarm = alarms.iter().find(|alarm| alarm.name == row.name && alarm.exit != Exit::NotProven);
    if let Some(alarm) = alarm {
        let first = certificate.problems.first();
        let advice = first
            .filter(|one| alarm.exit == Exit::CannotRead || one.is_kept_by_renewal())
            .and_then(|problem| advice(problem, certificate.manager));
        return advice.map_or_else(|| alarm.message.clone(), |advice| format!("{}; {advice}", alarm.message));
    }
    match certificate.problems.iter().find(|problem| !matches!(problem, Problem::OutlivesCa { .. } | Problem::ServerNotNamed { .. })) {
        _ if row.due => due(row, survey),
        Some(problem) => match advice(problem, certificate.manager).filter(|_| !problem.is_date()) {
            Some(advice) => format!("{problem} ('{}'); {advice}", certificate.path.display()),
            None => format!("{problem} ('{}'); {}", certificate.path.display(), who(certificate, report)),
        },
        None if certificate.manager == Manager::Kubelet => "more than nine tenths of its life are over, and kubelet has not replaced it: see why its rotation fails (journalctl -u kubelet, kubectl get csr)".to_owned(),
        None => format!("ends on {}; {}", certificate.not_after().map(moment).unwrap_or_default(), who(certificate, report)),
    }
}

fn due(row: &Row, survey: &Survey) -> String {
    let days = survey.schedule.threshold.days_buffer;
    match row.status {
        Status::Critical if row.state == "due" => format!(
            "ends in less than the days-buffer of {days} days, so the job has not done its work in time: run it now (k8s-certs-renew run), and see why its timer did not (systemctl list-timers --all, journalctl -u k8s-certs-renew)"
        ),
        Status::Critical => format!("{}: k8s-certs-renew run renews it, and restarts what uses it", row.state),
        _ => "due: the next run renews it, and restarts what uses it".to_owned(),
    }
}

/// Who has to do it, where no run does.
fn who(certificate: &Certificate, report: &CheckReport) -> String {
    let authority = matches!(certificate.kind, Kind::Authority { .. });
    match certificate.manager {
        Manager::Kubeadm if authority => "replace the CA before that: nothing that it signed works any longer than it".to_owned(),
        Manager::Kubeadm if !report.control_plane => {
            "nothing renews it here, as this is no control-plane node: delete it if it is of no use, else copy it anew from a control plane".to_owned()
        }
        Manager::Kubeadm => "no run renews it".to_owned(),
        Manager::Kubelet if is_self_signed_of_kubelet(certificate) => {
            "delete it and its key, then: systemctl restart kubelet".to_owned()
        }
        // never the one that it logs in with: the node would be lost
        Manager::Kubelet => "see: k8s-certs-renew kubelet check".to_owned(),
        Manager::Etcd => "whoever set up etcd renews it".to_owned(),
        Manager::External => "whoever issued it renews it".to_owned(),
    }
}

fn kubelet_expired(certificate: &Certificate) -> String {
    let rotated = certificate.problems.iter().find_map(|problem| match problem {
        Problem::NotTheRotated { rotated } => Some(rotated),
        _ => None,
    });
    if let Some(rotated) = rotated {
        return format!(
            "holds a certificate that has expired. kubelet goes on with the one that it rotates, and fails at its next start: let client-certificate and client-key in it name '{}', then: systemctl restart kubelet",
            rotated.display()
        );
    }
    "expired, and kubelet cannot ask for a new one with it: k8s-certs-renew kubelet check says what to type".to_owned()
}

fn about_memory(row: &Row) -> String {
    let component = row.readers.first().map_or("", String::as_str);
    match (component, row.status) {
        ("kube-apiserver", Status::Critical) => {
            "expired in the memory of kube-apiserver, which fails with it though every file is good: k8s-certs-renew run restarts it".to_owned()
        }
        ("kube-apiserver", _) => "ends before the threshold, and is in no file: the next run restarts kube-apiserver for a new one".to_owned(),
        _ => format!("the certificate that {component} made itself at its start has expired; health probes do not mind, a monitoring that checks it does; a restart makes a new one"),
    }
}

fn about_component(row: &ComponentRow, survey: &Survey) -> String {
    let Component { name, verdict, reason, .. } = &row.component;
    let todo = match verdict {
        Verdict::Stale if survey.decision.restarts(name) => "; the next run restarts it, or: k8s-certs-renew run",
        Verdict::Stale if name == "kubelet" => "; systemctl restart kubelet",
        Verdict::Stale => "; restart it by hand",
        _ if name == "kubelet" => "; systemctl status kubelet",
        _ => "",
    };
    match verdict {
        Verdict::Unknown => format!("{reason}{todo}"),
        _ => format!("{verdict}: {reason}{todo}"),
    }
}

/// What is worth knowing, and no trouble.
fn notes(report: &CheckReport, survey: &Survey) -> Vec<Finding> {
    let note = |about: &str, message: String| Finding { status: Status::Ok, about: about.to_owned(), message };
    let inventory = &survey.found.inventory;
    let mut notes = Vec::new();
    // as a run puts them; here they come with what to do, and at their certificates
    let mut oddities = BTreeSet::new();
    for certificate in &inventory.certificates {
        for problem in certificate.problems.iter().filter(|problem| problem.is_note()) {
            oddities.insert(format!("'{}': {problem}", certificate.name));
            let told = report.rows.iter().any(|row| row.name == certificate.name && row.status > Status::Ok);
            if !told && !matches!(problem, Problem::OutlivesCa { .. }) {
                let todo = advice(problem, certificate.manager).map(|advice| format!("; {advice}")).unwrap_or_default();
                notes.push(note(&certificate.name, format!("{problem}{todo}")));
            }
        }
    }
    for certificate in kubeadm_leaves(inventory).filter(|_| report.control_plane) {
        let told = report.rows.iter().any(|row| row.name == certificate.name && row.status > Status::Ok);
        if let Err(why) = certificate.renewable()
            && !told
        {
            notes.push(note(&certificate.name, format!("cannot be renewed here: {why}")));
        }
    }
    notes.extend(outliving(survey).into_iter().map(|(ca, message)| note(&ca, message)));
    let rest = survey.decision.notes.iter().filter(|text| !oddities.contains(*text));
    if report.control_plane {
        notes.extend(rest.map(|text| note("note", text.clone())));
    }
    notes
}

/// Leaves that are valid for longer than their CA, by CA. kubeadm does not cap a leaf at its CA's end.
fn outliving(survey: &Survey) -> Vec<(String, String)> {
    let inventory = &survey.found.inventory;
    let of = |authority: &Certificate| {
        let outlives = |one: &&Certificate| {
            one.problems
                .iter()
                .any(|problem| matches!(problem, Problem::OutlivesCa { ca, .. } if *ca == authority.name))
        };
        let names: Vec<&str> = inventory.certificates.iter().filter(outlives).map(|one| one.name.as_str()).collect();
        let end = authority.not_after().filter(|_| !names.is_empty())?;
        let message = format!(
            "ends on {}, before what it has signed: {} work no longer than that, whatever their own dates; replace the CA before",
            moment(end),
            names.join(", ")
        );
        Some((authority.name.clone(), message))
    };
    inventory.authorities.iter().filter_map(of).collect()
}
