//! The decision, as tables: facts in, reasons out.

use chrono::{DateTime, Utc};
use k8s_certs_renew::decision::{
    Cause, CopyFact, Decision, Facts, Reader, Restart, RestartPolicy, Standing, Threshold, decide,
};
use k8s_certs_renew::evidence::{Component, Evidence, Loopback, Verdict};
use k8s_certs_renew::exit::Exit;
use k8s_certs_renew::inventory::{Certificate, Inventory, Kind, Leaf, Manager, NotRenewable, Problem};

use crate::support::pki::{at, days};

const NOW: &str = "2026-03-02T03:10:00Z";

fn now() -> DateTime<Utc> {
    at(NOW)
}

/// Next firing in 35 days, so the threshold is in 42 days and 31 minutes.
fn threshold() -> Threshold {
    let next = now() + days(35);
    Threshold { next_firing: Some(next), latest_start: Some(next + chrono::Duration::minutes(31)), days_buffer: 7 }
}

fn leaf(left: i64) -> Leaf {
    Leaf {
        subject: String::new(),
        common_name: String::new(),
        organizations: Vec::new(),
        issuer: String::new(),
        sans: Vec::new(),
        usages: Vec::new(),
        serial: "1".into(),
        not_before: now() + days(left) - days(365),
        not_after: now() + days(left),
        key_algorithm: String::new(),
        is_ca: false,
        der_sha256: String::new(),
        key_sha256: String::new(),
    }
}

/// A certificate of kubeadm's that lasts so many days more.
fn certificate(name: &str, left: i64) -> Certificate {
    Certificate {
        name: name.into(),
        path: format!("/etc/kubernetes/ssl/{name}.crt").into(),
        kind: Kind::Pair { key: format!("/etc/kubernetes/ssl/{name}.key").into() },
        manager: Manager::Kubeadm,
        ca_name: Some("ca".into()),
        required: true,
        missing: false,
        externally_managed: false,
        not_renewable: None,
        leaf: Some(leaf(left)),
        problems: Vec::new(),
    }
}

fn ca(left: i64) -> Certificate {
    let mut leaf = leaf(left);
    leaf.not_before = now() - days(700);
    Certificate {
        ca_name: None,
        leaf: Some(leaf),
        not_renewable: Some(NotRenewable::Authority),
        ..certificate("ca", 0)
    }
}

fn unreadable(name: &str, problem: Problem) -> Certificate {
    Certificate {
        leaf: None,
        problems: vec![problem],
        not_renewable: Some(NotRenewable::Unreadable),
        ..certificate(name, 0)
    }
}

struct Case {
    inventory: Inventory,
    threshold: Threshold,
    force: bool,
    readers: Vec<Reader>,
    owed: Vec<String>,
    cut_off: bool,
    copies: Vec<CopyFact>,
    evidence: Evidence,
    restart: RestartPolicy,
    tried: Vec<String>,
}

impl Case {
    fn new(certificates: Vec<Certificate>) -> Self {
        Self::with_ca(certificates, ca(3000))
    }

    fn with_ca(certificates: Vec<Certificate>, ca: Certificate) -> Self {
        let reader = |component: &str, reads: &[&str]| Reader {
            component: component.into(),
            reads: reads.iter().map(|&name| name.to_owned()).collect(),
            rereads: component == "etcd",
        };
        Self {
            inventory: Inventory { certificates, authorities: vec![ca] },
            threshold: threshold(),
            force: false,
            readers: vec![
                reader("etcd", &["etcd-server"]),
                reader("kube-apiserver", &["apiserver", "front-proxy-client"]),
                reader("kube-scheduler", &["scheduler.conf"]),
                reader("kube-vip", &["admin.conf"]),
                reader("kube-controller-manager", &["controller-manager.conf"]),
            ],
            owed: Vec::new(),
            cut_off: false,
            copies: Vec::new(),
            evidence: Evidence::default(),
            restart: RestartPolicy::Stale,
            tried: Vec::new(),
        }
    }

    fn decide(&self) -> Decision {
        decide(&Facts {
            inventory: &self.inventory,
            threshold: self.threshold,
            now: now(),
            synchronised: None,
            last_run: None,
            force: self.force,
            readers: &self.readers,
            owed: &self.owed,
            cut_off: self.cut_off,
            copies: &self.copies,
            evidence: &self.evidence,
            restart: self.restart,
            tried: &self.tried,
            half_written: &[],
        })
    }
}

fn names(items: &[k8s_certs_renew::decision::Item]) -> Vec<&str> {
    items.iter().map(|item| item.name.as_str()).collect()
}

/// What is restarted, and why.
fn restarts(decision: &Decision) -> Vec<(&str, Cause)> {
    decision.restart.iter().map(|Restart { name, cause, .. }| (name.as_str(), *cause)).collect()
}

fn seen(name: &str, verdict: Verdict) -> Component {
    Component {
        name: name.into(),
        verdict,
        reason: "started 3 d ago".into(),
        process: None,
        served: None,
        covers: Vec::new(),
        rereads: Vec::new(),
        expected: false,
    }
}

fn alarms(decision: &Decision) -> Vec<(u8, &str)> {
    decision.alarms.iter().map(|alarm| (alarm.exit.code(), alarm.name.as_str())).collect()
}

#[test]
fn what_outlives_the_threshold_is_left_alone() {
    let decision = Case::new(vec![certificate("apiserver", 43), certificate("scheduler.conf", 300)]).decide();
    assert!(decision.is_skip() && decision.alarms.is_empty(), "{decision:?}");
}

#[test]
fn one_due_leaf_takes_the_others_along_and_restarts_who_reads_them_in_order() {
    let decision = Case::new(vec![
        certificate("admin.conf", 300),
        certificate("apiserver", 300),
        certificate("controller-manager.conf", 300),
        certificate("etcd-server", 300),
        certificate("scheduler.conf", 42),
    ])
    .decide();
    assert_eq!(
        names(&decision.renew),
        ["admin.conf", "apiserver", "controller-manager.conf", "etcd-server", "scheduler.conf"]
    );
    assert!(decision.renew_all);
    let expected = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-vip", "etcd"];
    assert_eq!(restarts(&decision), expected.map(|name| (name, Cause::Renewed)));
    let rereading: Vec<bool> = decision.restart.iter().map(|item| item.rereads).collect();
    assert_eq!(rereading, [false, false, false, false, true]);
    let reason = &decision.renew.iter().find(|item| item.name == "scheduler.conf").unwrap().reason;
    assert_eq!(reason, "expires on 2026-04-13 03:10:00 UTC, before the threshold 2026-04-13 03:41:00 UTC");
}

#[test]
fn the_boundary_is_the_threshold_itself() {
    let exactly = |offset: i64| {
        let mut certificate = certificate("apiserver", 0);
        certificate.leaf.as_mut().unwrap().not_after = threshold().at().unwrap() + chrono::Duration::seconds(offset);
        Case::new(vec![certificate]).decide().is_skip()
    };
    assert!(exactly(0) && exactly(1) && !exactly(-1));
}

#[test]
fn a_missing_optional_certificate_is_never_due_and_a_missing_required_one_is_an_alarm() {
    let missing =
        |required| Certificate { required, missing: true, ..unreadable("super-admin.conf", Problem::Missing) };
    let optional = Case::new(vec![certificate("apiserver", 300), missing(false)]).decide();
    assert!(optional.is_skip() && optional.alarms.is_empty(), "{optional:?}");
    let required = Case::new(vec![certificate("apiserver", 300), missing(true)]).decide();
    assert!(required.is_skip());
    assert_eq!(alarms(&required), [(26, "super-admin.conf")]);
}

#[test]
fn one_bad_file_stops_no_other_from_being_renewed() {
    let broken = unreadable("scheduler.conf", Problem::NotACertificate("the file is empty".into()));
    let decision = Case::new(vec![certificate("apiserver", 3), broken]).decide();
    assert_eq!(names(&decision.renew), ["apiserver"]);
    assert_eq!(alarms(&decision), [(26, "scheduler.conf")]);
}

#[test]
fn a_torn_pair_is_renewed_whatever_its_dates() {
    let torn = Certificate { problems: vec![Problem::KeyMismatch], ..certificate("apiserver", 300) };
    assert_eq!(names(&Case::new(vec![torn]).decide().renew), ["apiserver"]);
}

#[test]
fn an_external_ca_is_told_and_nothing_else_is_done() {
    let external = Certificate {
        externally_managed: true,
        not_renewable: Some(NotRenewable::ExternalCa { ca: "ca".into() }),
        ..certificate("apiserver", 3)
    };
    let mut case = Case::new(vec![external.clone()]);
    case.copies = vec![CopyFact { path: "/root/.kube/config".into(), standing: Standing::Current }];
    let decision = case.decide();
    assert!(decision.is_skip(), "{decision:?}");
    assert_eq!(alarms(&decision), [(25, "apiserver")]);
    let far = Certificate { leaf: Some(leaf(300)), ..external };
    assert_eq!(alarms(&Case::new(vec![far]).decide()), []);
}

#[test]
fn what_another_ca_signed_is_never_overwritten() {
    let foreign = |left| Certificate {
        problems: vec![Problem::NotSignedByCa { ca: "ca".into() }],
        ..certificate("apiserver", left)
    };
    let decision = Case::new(vec![foreign(300), certificate("scheduler.conf", 3)]).decide();
    assert_eq!(names(&decision.renew), ["scheduler.conf"]);
    assert!(!decision.renew_all, "kubeadm certs renew all would overwrite it");
    assert_eq!(alarms(&decision), [(25, "apiserver")]);
    assert_eq!(names(&Case::new(vec![foreign(3)]).decide().renew), Vec::<&str>::new());
}

#[test]
fn a_leaf_that_ends_with_its_ca_is_no_renewal_at_every_run() {
    let decision = Case::with_ca(vec![certificate("apiserver", 20)], ca(20)).decide();
    assert!(decision.is_skip(), "{decision:?}");
    assert_eq!(alarms(&decision), [(25, "apiserver"), (25, "ca")]);
}

#[test]
fn a_ca_that_ends_before_the_threshold_is_an_alarm_beside_whatever_is_done() {
    assert_eq!(alarms(&Case::with_ca(vec![certificate("apiserver", 300)], ca(20)).decide()), [(25, "ca")]);
    let due = Case::with_ca(vec![certificate("apiserver", 3)], ca(20)).decide();
    assert_eq!(names(&due.renew), ["apiserver"]);
    assert_eq!(alarms(&due), [(25, "ca")]);
}

#[test]
fn a_timer_that_never_fires_again_renews_now_unless_all_is_fresh() {
    let mut case = Case::new(vec![certificate("apiserver", 300)]);
    case.threshold = Threshold { next_firing: None, latest_start: None, days_buffer: 7 };
    assert_eq!(names(&case.decide().renew), ["apiserver"]);
    case.inventory.certificates = vec![certificate("apiserver", 340)];
    assert!(case.decide().is_skip());
    // kubeadm up to 1.30: NotBefore is the CA's, years ago
    case.inventory.certificates[0].leaf.as_mut().unwrap().not_before = now() - days(2000);
    assert!(case.decide().is_skip());
    // ten years of validity: far from its end
    case.inventory.certificates = vec![certificate("apiserver", 3000)];
    assert!(case.decide().is_skip());
}

#[test]
fn force_renews_whatever_the_dates_say() {
    let mut case = Case::new(vec![certificate("apiserver", 300), certificate("scheduler.conf", 300)]);
    case.force = true;
    let decision = case.decide();
    assert_eq!(names(&decision.renew), ["apiserver", "scheduler.conf"]);
    assert_eq!(decision.renew[0].reason, "forced");
}

#[test]
fn a_clock_before_the_certificates_is_refused_and_force_overrides() {
    let early = certificate("apiserver", 300 + 365);
    let mut case = Case::new(vec![early]);
    let refused = case.decide();
    assert!(refused.refused.as_ref().is_some_and(|why| why.contains("'apiserver' is not valid before")), "{refused:?}");
    assert!(refused.is_skip());
    case.force = true;
    assert_eq!(case.decide().refused, None);
    let mut future = ca(3000);
    future.leaf.as_mut().unwrap().not_before = now() + days(1);
    assert!(Case::with_ca(vec![certificate("apiserver", 300)], future).decide().refused.is_some());
}

#[test]
fn a_restart_that_an_earlier_run_owes_is_made_up_for() {
    let mut case = Case::new(vec![certificate("scheduler.conf", 300)]);
    case.owed = vec!["kube-scheduler".into()];
    let decision = case.decide();
    assert!(decision.renew.is_empty());
    assert_eq!(restarts(&decision), [("kube-scheduler", Cause::Owed)]);
    case.evidence.components = vec![seen("kube-scheduler", Verdict::Unknown)];
    assert_eq!(restarts(&case.decide()), [("kube-scheduler", Cause::Owed)]);
    case.evidence.components = vec![seen("kube-scheduler", Verdict::InUse)];
    assert!(case.decide().is_skip(), "what is proven to be in use is owed nothing");
}

#[test]
fn an_owed_kube_apiserver_is_restarted_though_it_serves_what_is_on_disk() {
    let mut case = Case::new(vec![certificate("apiserver", 300)]);
    case.owed = vec!["kube-apiserver".into()];
    // its clients' certificates cannot be seen from outside
    case.evidence.components = vec![seen("kube-apiserver", Verdict::InUse)];
    assert_eq!(restarts(&case.decide()), [("kube-apiserver", Cause::Owed)]);
}

#[test]
fn copies_follow_their_standing() {
    let copy = |standing| CopyFact { path: "/root/.kube/config".into(), standing };
    let decide = |left, standing| {
        let mut case = Case::new(vec![certificate("admin.conf", left)]);
        case.copies = vec![copy(standing)];
        case.decide()
    };
    let fresh = |standing| decide(300, standing);
    let due = |standing| decide(3, standing);
    let count = |decision: &Decision| decision.copy.len();
    assert_eq!((count(&fresh(Standing::Current)), count(&due(Standing::Current))), (0, 1));
    assert_eq!((count(&fresh(Standing::Outdated)), count(&due(Standing::Outdated))), (1, 1));
    assert_eq!((count(&fresh(Standing::Missing)), count(&due(Standing::Missing))), (0, 1));
    assert_eq!((count(&fresh(Standing::Same)), count(&due(Standing::Same))), (0, 0));
    // a run that was cut off may not have come to it
    let mut case = Case::new(vec![certificate("admin.conf", 300)]);
    (case.copies, case.cut_off) = (vec![copy(Standing::Missing)], true);
    assert_eq!(count(&case.decide()), 1);
    let foreign = due(Standing::Foreign("another cluster's".into()));
    assert!(foreign.copy.is_empty() && foreign.notes.iter().any(|note| note.contains("left alone")));
    let broken = fresh(Standing::Broken("it is a directory".into()));
    assert_eq!(alarms(&broken), [(Exit::CopyFailed.code(), "/root/.kube/config")]);
}

#[test]
fn certificates_of_others_never_make_a_run_renew() {
    let others = |manager, left| {
        let other = Certificate { manager, ca_name: None, ..certificate("other", left) };
        let decision = Case::new(vec![certificate("apiserver", 300), other]).decide();
        assert!(decision.is_skip(), "{decision:?}");
        alarms(&decision).iter().map(|(code, _)| *code).collect::<Vec<_>>()
    };
    assert_eq!(others(Manager::Etcd, 20), [25]);
    assert_eq!(others(Manager::External, 20), [25]);
    assert_eq!(others(Manager::Etcd, 300), Vec::<u8>::new());
    // kubelet rotates in time by itself, whatever the threshold
    assert_eq!(others(Manager::Kubelet, 1), Vec::<u8>::new());
}

#[test]
fn an_expired_kubelet_client_certificate_is_an_alarm_and_its_old_self_signed_one_is_not() {
    let kubelet = |ca: Option<&str>| {
        let expired = Certificate {
            manager: Manager::Kubelet,
            ca_name: ca.map(str::to_owned),
            problems: vec![Problem::Expired { at: now() - days(1) }],
            ..certificate("kubelet", -1)
        };
        Case::new(vec![certificate("apiserver", 300), expired]).decide()
    };
    assert_eq!(alarms(&kubelet(Some("ca"))), [(25, "kubelet")]);
    let own = kubelet(None);
    assert_eq!(alarms(&own), []);
    assert_eq!(own.notes.len(), 1);
}

#[test]
fn what_is_stale_is_restarted_without_a_renewal_and_what_is_unknown_is_not() {
    let mut case = Case::new(vec![certificate("scheduler.conf", 300), certificate("controller-manager.conf", 300)]);
    case.evidence.components =
        vec![seen("kube-controller-manager", Verdict::Unknown), seen("kube-scheduler", Verdict::Stale)];
    let decision = case.decide();
    assert!(decision.renew.is_empty());
    assert_eq!(restarts(&decision), [("kube-scheduler", Cause::Stale)]);
    case.restart = RestartPolicy::None;
    let none = case.decide();
    assert!(none.is_skip() && none.notes.iter().any(|note| note.contains("--restart none")), "{none:?}");
    case.restart = RestartPolicy::All;
    let all = case.decide();
    let expected = [
        ("kube-apiserver", Cause::Asked),
        ("kube-controller-manager", Cause::Asked),
        ("kube-scheduler", Cause::Stale),
        ("kube-vip", Cause::Asked),
        ("etcd", Cause::Asked),
    ];
    assert_eq!(restarts(&all), expected);
}

#[test]
fn a_restart_that_did_not_help_is_an_alarm_and_not_repeated() {
    let mut case = Case::new(vec![certificate("scheduler.conf", 300)]);
    case.evidence.components = vec![seen("kube-scheduler", Verdict::Stale)];
    case.tried = vec!["kube-scheduler".into()];
    let decision = case.decide();
    assert!(decision.is_skip());
    assert_eq!(alarms(&decision), [(21, "kube-scheduler")]);
    // new certificates are another matter
    case.inventory.certificates = vec![certificate("scheduler.conf", 3)];
    let due = case.decide();
    assert_eq!(restarts(&due), [("kube-scheduler", Cause::Renewed)]);
    // should the renewal fail, it is still stale
    assert_eq!(due.restart[0].otherwise, Some(Cause::Stale));
}

#[test]
fn a_stale_etcd_of_the_host_is_told_and_left_to_a_person_and_a_static_pod_is_restarted() {
    let mut case = Case::new(vec![certificate("etcd-server", 300)]);
    case.evidence.components = vec![seen("etcd", Verdict::Stale)];
    assert_eq!(restarts(&case.decide()), [("etcd", Cause::Stale)]);
    case.readers.retain(|reader| reader.component != "etcd");
    for (restart, expected) in
        [(RestartPolicy::Stale, &[(21, "etcd")][..]), (RestartPolicy::All, &[(21, "etcd")]), (RestartPolicy::None, &[])]
    {
        case.restart = restart;
        let decision = case.decide();
        assert!(!decision.restarts("etcd"), "{restart:?}");
        assert_eq!(alarms(&decision), expected, "{restart:?}");
        let told = decision.alarms.iter().map(|alarm| &alarm.message).chain(&decision.notes);
        assert!(told.into_iter().any(|words| words.contains("systemctl restart etcd")), "{restart:?}");
    }
    case.evidence.components = vec![seen("etcd", Verdict::Unknown)];
    assert_eq!(alarms(&case.decide()), []);
}

#[test]
fn an_etcd_whose_restart_is_asked_for_is_given_no_time_also_where_it_is_renewed_for() {
    let mut case = Case::new(vec![certificate("etcd-server", 3)]);
    case.restart = RestartPolicy::All;
    case.tried = vec!["etcd".into()];
    assert!(restarts(&case.decide()).contains(&("etcd", Cause::Asked)));
}

#[test]
fn the_certificate_in_kube_apiservers_memory_counts_like_one_on_disk() {
    let mut case = Case::new(vec![certificate("apiserver", 300)]);
    let ending = |left| Loopback { serial: "2".into(), not_before: now() - days(330), not_after: now() + days(left) };
    case.evidence.loopback = Some(ending(43));
    assert!(case.decide().is_skip());
    case.evidence.loopback = Some(ending(42));
    let decision = case.decide();
    assert!(decision.renew.is_empty());
    assert_eq!(restarts(&decision), [("kube-apiserver", Cause::Loopback)]);
}

#[test]
fn two_pods_of_one_label_are_one_restart() {
    let mut case = Case::new(vec![certificate("scheduler.conf", 3)]);
    let twin = case.readers.iter().find(|reader| reader.component == "kube-scheduler").unwrap().clone();
    case.readers.insert(0, twin);
    assert_eq!(restarts(&case.decide()), [("kube-scheduler", Cause::Renewed)]);
}
