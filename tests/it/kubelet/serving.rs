//! The certificate that kubelet serves.

use super::{CONFIG, PKI, expect, findings, with_cluster};
use crate::check::states::{self, State, now};
use crate::support::pki::{Algorithm, Ca, Spec, days};

const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

fn checks_kubelet(state: &State) {
    let flag = format!("    - --kubelet-certificate-authority={}\n", state.site.tree.pki("ca.crt"));
    state.site.tree.edit(MANIFEST, |text| {
        text.replacen("    - --kubelet-client-key", &format!("{flag}    - --kubelet-client-key"), 1)
    });
}

/// kubelet's own certificate, which ends so many days from now.
fn made_itself(state: &State, left: i64) {
    let own = Ca::new("node1-ca@1", Algorithm::P256, now() - days(400), now() + days(1));
    let (_, mut spec) = state.site.tree.spec("kubelet.crt", now() + days(left));
    spec.not_before = now() - days(395);
    state.site.tree.put("kubelet.crt", &own.issue(&spec));
    state.make_old();
}

fn bootstraps(state: &State) {
    state.site.tree.edit(CONFIG, |text| format!("{text}serverTLSBootstrap: true\n"));
    state.make_old();
}

fn serve(state: &State, sans: &[&str], from: i64, to: i64) {
    let tree = &state.site.tree;
    let spec = Spec {
        orgs: vec!["system:nodes".into()],
        ..Spec::server("system:node:node1", sans, now() + days(from), now() + days(to))
    };
    let pair = tree.ca.issue(&spec);
    let file = format!("{PKI}/kubelet-server-2026-01-01-00-00-00.pem");
    tree.write(&file, format!("{}{}", pair.cert, pair.key));
    tree.link(&file, &format!("{PKI}/kubelet-server-current.pem"));
    state.make_old();
}

// L11
#[test]
fn one_that_kubelet_made_itself_and_that_expired_is_a_warning_and_critical_where_kube_apiserver_checks_it() {
    let state = states::fresh();
    made_itself(&state, -30);
    expect(
        &state,
        "serving-certificate",
        "warning",
        &["never replaces what it made itself", "kubelet.crt", "systemctl restart kubelet"],
    );
    made_itself(&state, 30);
    expect(&state, "serving-certificate", "ok", &["made by kubelet itself"]);
    checks_kubelet(&state);
    expect(&state, "serving-certificate", "critical", &["--kubelet-certificate-authority", "serverTLSBootstrap: true"]);
}

// L06, as far as the node shows it
#[test]
fn a_request_that_nobody_approves_shows_as_a_certificate_that_is_not_there() {
    let state = with_cluster(states::fresh());
    bootstraps(&state);
    expect(&state, "server-tls-bootstrap", "ok", &["serverTLSBootstrap in"]);
    expect(
        &state,
        "serving-certificate",
        "warning",
        &["waits for somebody to approve it", "k8s-certs-renew kubelet approve"],
    );
    // kubelet answers no handshake then
    state.site.tree.edit(CONFIG, |text| text.replace("\nport: ", "\nport: 1 #"));
    state.make_old();
    assert_eq!(findings(&state, "serving-in-use"), Vec::<String>::new());
    let ran = super::check(&state, &[]);
    assert_eq!(ran.code, 1, "{}", ran.out);
}

#[test]
fn the_rotated_one_is_judged_by_its_life_its_link_and_its_names() {
    let state = states::fresh();
    bootstraps(&state);
    serve(&state, &["node1", "192.0.2.10"], -60, 300);
    expect(&state, "serving-certificate", "ok", &["the next one is asked for between"]);
    serve(&state, &["node1"], -350, 10);
    expect(&state, "serving-certificate", "warning", &["its request waits for somebody to approve it, or was denied"]);
    serve(&state, &["node1"], -350, -1);
    expect(&state, "serving-certificate", "warning", &["expired on"]);
    checks_kubelet(&state);
    expect(&state, "serving-certificate", "critical", &["expired on"]);
    serve(&state, &["other"], -60, 300);
    expect(&state, "serving-names", "critical", &["'other'", "neither 'node1' nor an address"]);
    let current = format!("{PKI}/kubelet-server-current.pem");
    state.site.tree.link("/var/lib/kubelet/pki/gone.pem", &current);
    expect(&state, "serving-certificate", "warning", &["where nothing is"]);
    let text = state.site.tree.read(&format!("{PKI}/kubelet-server-2026-01-01-00-00-00.pem"));
    state.site.tree.remove(&current);
    state.site.tree.write(&current, text);
    expect(&state, "serving-link", "warning", &["a file where kubelet's rotation needs a link"]);
}

// L04
#[test]
fn what_10250_shows_counts_and_not_the_files() {
    let state = states::fresh();
    expect(&state, "serving-in-use", "ok", &["serves the certificate on disk"]);
    // a new file, long there, and a process that still shows the old one
    let mut journal = state.journal();
    bootstraps(&state);
    serve(&state, &["node1"], -60, 300);
    state.note(&mut journal, 100);
    state.write(&journal);
    expect(&state, "serving-in-use", "warning", &["systemctl restart kubelet"]);
}

#[test]
fn a_port_that_does_not_answer_is_unknown() {
    let state = states::fresh();
    state.site.tree.edit(CONFIG, |text| {
        text.lines().filter(|line| !line.starts_with("port: ")).map(|line| format!("{line}\n")).collect::<String>()
            + "port: 1\n"
    });
    state.make_old();
    expect(&state, "serving-in-use", "unknown", &["shows no certificate"]);
}

#[test]
fn a_pair_that_kubelet_is_given_is_nobodys_to_renew() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let (file, key) = ("/etc/kubernetes/ssl/kubelet-server.crt", "/etc/kubernetes/ssl/kubelet-server.key");
    tree.edit(CONFIG, |text| format!("{text}tlsCertFile: {file}\ntlsPrivateKeyFile: {key}\n"));
    expect(&state, "serving-certificate", "critical", &["is missing"]);
    for (left, status) in [(300, "ok"), (20, "warning"), (-1, "warning")] {
        let pair = tree.ca.issue(&Spec::server("node1", &["node1"], now() - days(60), now() + days(left)));
        tree.write(file, pair.cert);
        tree.write(key, pair.key);
        expect(&state, "serving-certificate", status, &["is given to kubelet"]);
    }
    assert_eq!(findings(&state, "serving-twice"), Vec::<String>::new());
    bootstraps(&state);
    expect(&state, "serving-twice", "warning", &["take tlsCertFile"]);
}
