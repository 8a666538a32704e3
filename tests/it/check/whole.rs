//! Whole nodes by kind of trouble: what is shown, and what is to be done.

use crate::support::pki::{Algorithm, Ca, Spec, days};
use crate::support::servers::apiserver;
use crate::support::tls_server::TlsServer;
use crate::support::tree::kubeconfig;

use super::check;
use super::states::{self, RENEWED, State, now, plan};

// L16
#[test]
fn everything_on_the_node_is_a_line_and_what_could_not_be_seen_is_named() {
    let checked = check(&states::fresh(), &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    let others = [
        "/root/.kube/config",
        "admin-node1.pem",
        "ca",
        "ca.pem",
        "front-proxy-ca",
        "kube-apiserver (loopback)",
        "kube-controller-manager (serving)",
        "kube-scheduler (serving)",
        "kubelet-client-current.pem",
        "kubelet.conf",
        "kubelet.crt",
        "member-node1.pem",
        "node-node1.pem",
    ];
    for name in RENEWED.into_iter().chain(others) {
        assert!(checked.row(name).ends_with("ok"), "{}", checked.row(name));
    }
    assert!(checked.out.contains("\n  certificates  19 ok\n"), "{}", checked.out);
    for unseen in ["which client certificate kubelet uses", "copies of admin.conf elsewhere", "kept in the cluster"] {
        assert!(checked.out.contains(unseen), "'{unseen}' is not in: {}", checked.out);
    }
}

#[test]
fn a_leaf_within_the_days_buffer_means_that_the_job_has_not_done_its_work() {
    for (left, code, weight, words) in
        [(20, 1, "warning", "the next run renews it"), (5, 2, "critical", "the job has not done its work in time")]
    {
        let checked = check(&State::new(plan(left)), &[]);
        assert_eq!(checked.code, code, "{left}: {}", checked.out);
        checked.expect(weight, "apiserver", words);
    }
    let checked = check(&State::new(plan(5)), &["--days-buffer", "3"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
}

#[test]
fn what_the_next_run_will_renew_is_told_before_it_is_due() {
    // ends after the threshold of this firing, and before that of the one after it
    let checked = check(&State::new(plan(50)), &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(checked.out.contains("will renew 6 (admin.conf, apiserver, "), "{}", checked.out);
    assert!(checked.out.contains("a run now     would skip: nothing is due"), "{}", checked.out);
}

// D12
#[test]
fn a_certificate_in_memory_that_ends_is_shown_though_every_file_is_good() {
    for (left, code, weight, words) in [
        (20, 1, "warning", "the next run restarts kube-apiserver"),
        (-1, 2, "critical", "expired in the memory of kube-apiserver"),
    ] {
        let state = states::fresh();
        let tree = &state.site.tree;
        let file = |name: &str| tree.pki(name).into();
        let mut role = apiserver(&state.site.world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
        role.loopback_ends = Some(now() + days(left));
        let server = TlsServer::start(&state.site.world, None, role);
        let (from, to) = (state.site.servers.apiserver.port(), server.port());
        tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
            text.replace(&format!("--secure-port={from}"), &format!("--secure-port={to}"))
        });
        let checked = check(&state, &[]);
        assert_eq!(checked.code, code, "{}", checked.out);
        checked.expect(weight, "kube-apiserver (loopback)", words);
        assert!(checked.out.contains("will restart kube-apiserver"), "{}", checked.out);
        assert!(checked.row("apiserver").ends_with("in use ok"));
    }
}

// D17
#[test]
fn a_kubeconfig_that_points_elsewhere_is_judged_and_its_address_told() {
    let state = states::fresh();
    let tree = &state.site.tree;
    tree.edit("/etc/kubernetes/admin.conf", |text| text.replace(&tree.server(), "https://old-vip.example:8443"));
    state.make_old();
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(checked.row("admin.conf").ends_with("300d kubeadm - ok"));
    checked.expect("note", "admin.conf", "its server 'old-vip.example' is not among the names");
}

#[test]
fn an_old_copy_of_admin_conf_is_said_to_be_one_and_another_clusters_is_left_alone() {
    let checked = check(&states::stale(), &[]);
    checked.expect("warning", "/root/.kube/config", "an old copy");
    assert!(checked.row("/root/.kube/config").ends_with("outdated"));

    let state = states::fresh();
    let lab = Ca::new("lab", Algorithm::P256, now() - days(30), now() + days(900));
    let user = lab.issue(&Spec::client("lab", &["system:masters"], now() - days(9), now() - days(1)));
    let text = kubeconfig("https://192.0.2.9:6443", "lab", &lab.pair.cert, &user.cert, &user.key);
    state.site.tree.write("/root/.kube/config", text);
    state.make_old();
    let checked = check(&state, &[]);
    // kubectl on this node, and nothing of the cluster
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.row("/root/.kube/config").ends_with("expired"), "{}", checked.row("/root/.kube/config"));
}

#[test]
fn what_kube_apiserver_reads_again_by_itself_is_neither_stale_nor_an_alarm() {
    let checked = check(&states::stale(), &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    for name in ["apiserver-kubelet-client", "front-proxy-client"] {
        assert!(checked.row(name).ends_with("kubeadm re-read ok"), "{}", checked.row(name));
    }
    for name in ["kube-controller-manager", "kube-scheduler"] {
        checked.expect("warning", name, "stale: reads");
    }
    assert!(
        checked.out.contains("whether kube-apiserver uses apiserver-kubelet-client, front-proxy-client"),
        "{}",
        checked.out
    );
}

#[test]
fn a_kube_apiserver_that_is_about_to_read_new_files_is_no_alarm() {
    let state = states::fresh();
    let tree = &state.site.tree;
    // frozen for now, and renewed a minute ago
    let file = |name: &str| tree.pki(name).into();
    let mut role = apiserver(&state.site.world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
    if let crate::support::tls_server::Shows::Files { reloads, .. } = &mut role.shows {
        *reloads = false;
    }
    let server = TlsServer::start(&state.site.world, None, role);
    let (from, to) = (state.site.servers.apiserver.port(), server.port());
    tree.edit("/etc/kubernetes/manifests/kube-apiserver.yaml", |text| {
        text.replace(&format!("--secure-port={from}"), &format!("--secure-port={to}"))
    });
    let mut journal = state.journal();
    tree.issue("apiserver", now() + days(364));
    state.make_old();
    for (second, code) in [(86_370, 0), (80_000, 1)] {
        let mut journal = journal.clone();
        state.note(&mut journal, second);
        state.write(&journal);
        let checked = check(&state, &[]);
        assert_eq!(checked.code, code, "{}", checked.out);
    }
    journal.open = None;
}

#[test]
fn an_expired_node_says_what_a_run_does_about_it() {
    let checked = check(&states::expired(), &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    checked.expect("critical", "apiserver", "k8s-certs-renew run renews it, and restarts what uses it");
    assert!(checked.out.contains("could renew   yes"), "{}", checked.out);
}

#[test]
fn what_a_run_now_would_end_with_is_what_one_ends_with() {
    let ca_ends = || State::new(crate::support::tree::Plan { authorities_end: now() + days(10), ..plan(300) });
    type Make = fn() -> State;
    let makes: [(Make, u8, &str); 3] = [
        (states::fresh, 0, "would skip: nothing is due\n"),
        (states::half_readable, 26, ", and end with 26 ("),
        (ca_ends, 25, "would change nothing, and end with 25 (ca, "),
    ];
    for (make, code, words) in makes {
        let state = make();
        let mut argv: Vec<std::ffi::OsString> = ["k8s-certs-renew", "run", "--dry-run"].map(Into::into).to_vec();
        argv.extend(state.site.options());
        let ran = super::run(&state.clock, argv, &[], None, true);
        let checked = check(&state, &[]);
        assert_eq!(ran.code, code, "{}{}{}", ran.out, ran.err, checked.out);
        let line = checked.out.lines().find(|line| line.starts_with("  a run now")).unwrap();
        assert!(format!("{line}\n").contains(words), "{line}");
    }
}

#[test]
fn a_renewal_that_could_not_be_done_now_is_told_before_it_is_needed() {
    let state = states::fresh();
    state.site.world.fault(|faults| faults.runtime = crate::support::faults::Runtime::Empty);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.out.contains("could renew   no: "), "{}", checked.out);
    checked.expect("warning", "renewal", "could not be done now");
}

#[test]
fn a_clients_certificate_in_the_place_of_kube_apiservers_own_is_critical() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let (ca, spec) = tree.spec("apiserver-kubelet-client", now() + days(300));
    tree.put("apiserver", &ca.issue(&spec));
    state.make_old();
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.row("apiserver").ends_with("damaged"), "{}", checked.row("apiserver"));
    checked.expect("critical", "apiserver", "its extended key usages lack serverAuth");
    checked.expect("critical", "apiserver", "kubeadm init phase certs");
    assert!(checked.out.contains("would change nothing, and end with 25 (apiserver)"), "{}", checked.out);
}
