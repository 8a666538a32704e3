//! Control planes that run everything as plain services of the machine, as older guides set them up.

use super::{expect, findings};
use crate::check::states::{self, State};

const TOKEN: &str = "6df3c701f979cee17732c30958745947";

/// Replaces the static pods by services: kube-apiserver and kube-controller-manager as processes without manifests.
fn services(apiserver: &[&str], manager: &[&str]) -> State {
    let state = states::fresh();
    let tree = &state.site.tree;
    for name in ["kube-controller-manager", "kube-apiserver", "kube-scheduler"] {
        tree.remove(&format!("/etc/kubernetes/manifests/{name}.yaml"));
    }
    for pid in std::fs::read_dir(tree.on_host("/proc")).unwrap() {
        let dir = pid.unwrap().path();
        if std::fs::read_to_string(dir.join("cmdline")).unwrap_or_default().contains("kube-") && !dir.ends_with("700") {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
    let process = |pid: u32, name: &str, flags: &[&str]| {
        let argv: String = std::iter::once(&format!("/usr/local/bin/{name}").as_str())
            .chain(flags)
            .map(|word| format!("{word}\0"))
            .collect();
        tree.write(&format!("/proc/{pid}/cmdline"), argv);
        tree.write(
            &format!("/proc/{pid}/stat"),
            format!(
                "{pid} ({}) S 1 {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 900 0 0\n",
                &name[..name.len().min(15)]
            ),
        );
    };
    process(801, "kube-apiserver", apiserver);
    process(802, "kube-controller-manager", manager);
    state.make_old();
    state
}

fn bootstrap(state: &State, token: &str) {
    state.site.tree.write(
        "/etc/kubernetes/bootstrap.kubeconfig",
        format!("kind: Config\ncurrent-context: default\ncontexts: [{{name: default, context: {{cluster: k, user: b}}}}]\nclusters: [{{name: k, cluster: {{server: 'https://192.0.2.10:6443'}}}}]\nusers: [{{name: b, user: {{token: '{token}'}}}}]\n"),
    );
}

#[test]
fn flags_are_read_from_processes_and_unit_files() {
    let signing = [
        "--cluster-signing-cert-file=/etc/kubernetes/ssl/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/ssl/ca.key",
        "--experimental-cluster-signing-duration=87600h0m0s",
    ];
    let state = services(&[], &signing);
    expect(&state, "signing-files", "ok", &["ca.crt"]);
    expect(&state, "signing-duration", "ok", &["--experimental-cluster-signing-duration=87600h0m0s"]);
    let state = services(&[], &signing[..1]);
    expect(&state, "signing-files", "critical", &["kube-controller-manager"]);
    // it is down, and its unit says what it would be started with
    let tree = &state.site.tree;
    std::fs::remove_dir_all(tree.on_host("/proc/802")).unwrap();
    tree.write("/etc/kubernetes/controller-manager", "KUBE_CONTROLLER_MANAGER_ARGS=\"--address=0.0.0.0 \\\n  --cluster-signing-cert-file=/etc/kubernetes/ssl/k8s-root-ca.pem \\\n  --cluster-signing-key-file=/etc/kubernetes/ssl/k8s-root-ca-key.pem\"\n");
    tree.write("/usr/lib/systemd/system/kube-controller-manager.service", "[Service]\nEnvironmentFile=-/etc/kubernetes/controller-manager\nExecStart=/usr/local/bin/kube-controller-manager $KUBE_CONTROLLER_MANAGER_ARGS\n");
    expect(
        &state,
        "signing-files",
        "critical",
        &["'/etc/kubernetes/ssl/k8s-root-ca.pem' is missing", "systemctl daemon-reload"],
    );
    expect(&state, "csr-controllers", "critical", &["does not run on this node"]);
}

#[test]
fn the_two_lines_of_the_guides_are_told_apart() {
    let state = services(&["--token-auth-file=/etc/kubernetes/token.csv"], &[]);
    let tree = &state.site.tree;
    bootstrap(&state, TOKEN);
    tree.write("/etc/kubernetes/token.csv", format!("{TOKEN},kubelet-bootstrap,10001,\"system:bootstrappers\"\n"));
    expect(&state, "bootstrap-kubeconfig", "ok", &["user 'kubelet-bootstrap'", "'system:bootstrappers'"]);
    tree.write("/etc/kubernetes/token.csv", format!("{TOKEN},kubelet-bootstrap,10001,\"system:kubelet-bootstrap\"\n"));
    expect(
        &state,
        "bootstrap-kubeconfig",
        "warning",
        &["'system:kubelet-bootstrap'", "does not cover it", "--user=kubelet-bootstrap"],
    );
    tree.write("/etc/kubernetes/token.csv", "another,kubelet-bootstrap,10001\n");
    expect(&state, "bootstrap-kubeconfig", "warning", &["not in '/etc/kubernetes/token.csv'", "401"]);
    // no token is ever shown
    assert!(!super::check(&state, &["-o", "json"]).out.contains(TOKEN));
}

#[test]
fn a_bootstrap_token_needs_a_kube_apiserver_that_takes_them() {
    let state = services(&["--enable-bootstrap-token-auth=true"], &[]);
    bootstrap(&state, "abcdef.0123456789abcdef");
    expect(&state, "bootstrap-kubeconfig", "ok", &["the bootstrap token 'abcdef'"]);
    assert!(!super::check(&state, &[]).out.contains("0123456789abcdef"));
    let state = services(&[], &[]);
    bootstrap(&state, "abcdef.0123456789abcdef");
    expect(&state, "bootstrap-kubeconfig", "warning", &["--enable-bootstrap-token-auth=true"]);
}

#[test]
fn kubelet_with_the_flags_of_an_older_guide_is_understood() {
    let state = services(&[], &[]);
    let tree = &state.site.tree;
    let argv = [
        "/usr/local/bin/kubelet",
        "--experimental-bootstrap-kubeconfig=/etc/kubernetes/bootstrap.kubeconfig",
        "--feature-gates=RotateKubeletClientCertificate=true,RotateKubeletServerCertificate=true",
        "--rotate-certificates",
        "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
        "--cert-dir=/etc/kubernetes/ssl",
    ];
    tree.write("/proc/700/cmdline", argv.map(|word| format!("{word}\0")).concat());
    let current = "/etc/kubernetes/ssl/kubelet-client-current.pem";
    let pem = tree.read("/var/lib/kubelet/pki/kubelet-client-current.pem");
    tree.write("/etc/kubernetes/ssl/kubelet-client-2019-05-10-09-57-21.pem", pem);
    tree.link("/etc/kubernetes/ssl/kubelet-client-2019-05-10-09-57-21.pem", current);
    tree.write("/etc/kubernetes/kubelet.kubeconfig", tree.kubelet_conf(current));
    expect(&state, "rotate-certificates", "ok", &["--rotate-certificates"]);
    expect(&state, "client-certificate", "ok", &[current]);
    expect(&state, "client-identity", "ok", &[]);
    expect(&state, "kubelet-conf", "ok", &["/etc/kubernetes/kubelet.kubeconfig"]);
    assert_eq!(findings(&state, "client-newest"), Vec::<String>::new());
}

// the same directory serves, too
#[test]
fn what_is_served_is_looked_for_where_cert_dir_says() {
    let state = states::fresh();
    let tree = &state.site.tree;
    for file in ["kubelet.crt", "kubelet.key"] {
        tree.write(&format!("/etc/kubernetes/ssl/{file}"), tree.read(&format!("{}/{file}", super::PKI)));
    }
    let argv = ["kubelet", &format!("--config={}", super::CONFIG), "--cert-dir=/etc/kubernetes/ssl"];
    tree.write("/proc/700/cmdline", argv.map(|word| format!("{word}\0")).concat());
    state.make_old();
    expect(&state, "serving-in-use", "ok", &["serves the certificate on disk"]);
    expect(&state, "serving-certificate", "ok", &["ends on"]);
}

#[test]
fn an_old_controller_manager_approves_serving_requests_by_its_gate_only() {
    let of = |version: &str, gate: bool| {
        let state = states::fresh();
        let tree = &state.site.tree;
        tree.edit(super::CONFIG, |text| format!("{text}serverTLSBootstrap: true\n"));
        state.make_old();
        tree.edit("/etc/kubernetes/manifests/kube-controller-manager.yaml", |text| {
            let flag = "    - --feature-gates=RotateKubeletServerCertificate=true\n";
            let text = text.replace(":v1.20.2", &format!(":{version}"));
            if gate { text.replacen("    - --leader-elect", &format!("{flag}    - --leader-elect"), 1) } else { text }
        });
        super::finding(&state, "csr-controllers")
    };
    assert!(of("v1.10.4", false).starts_with("warning: kube-controller-manager: runs without --feature-gates"));
    assert!(of("v1.10.4", true).starts_with("ok: "));
    assert!(of("v1.11.0", false).starts_with("ok: "));
}
