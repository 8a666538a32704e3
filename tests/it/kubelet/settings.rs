//! Settings, from wherever kubelet would take them.

use super::{CONFIG, expect, findings};
use crate::check::states::{self, State};

const UNIT: &str = "/etc/systemd/system/kubelet.service";

/// kubelet's process, with these words more.
fn live(state: &State, more: &[&str]) {
    let mut argv = vec![
        "/usr/local/bin/kubelet".to_owned(),
        format!("--config={CONFIG}"),
        "--kubeconfig=/etc/kubernetes/kubelet.conf".to_owned(),
    ];
    argv.extend(more.iter().map(|&word| word.to_owned()));
    let cmdline: String = argv.iter().map(|word| format!("{word}\0")).collect();
    state.site.tree.write("/proc/700/cmdline", cmdline);
}

/// kubespray's unit with its file of variables.
fn unit(state: &State, arguments: &str) {
    state.site.tree.write(UNIT, "[Service]\nEnvironmentFile=-/etc/kubernetes/kubelet.env\nExecStart=/usr/local/bin/kubelet \\\n  $KUBELET_ARGS \\\n  $KUBELET_CUSTOM\n");
    state.site.tree.write(
        "/etc/kubernetes/kubelet.env",
        format!("KUBELET_ARGS=\"--config={CONFIG} \\\n --kubeconfig=/etc/kubernetes/kubelet.conf \\\n {arguments}\"\n"),
    );
    state.make_old();
}

// L10
#[test]
fn what_turns_rotation_off_is_named_with_the_place_where_it_stands() {
    let state = states::fresh();
    expect(&state, "rotate-certificates", "ok", &[&format!("rotateCertificates in '{CONFIG}'")]);
    unit(&state, "--rotate-certificates=false");
    live(&state, &["--rotate-certificates=false"]);
    expect(&state, "rotate-certificates", "warning", &["--rotate-certificates in '/etc/kubernetes/kubelet.env'"]);
    // a drop-in of later name than the rest
    unit(&state, "");
    state
        .site
        .tree
        .write(&format!("{UNIT}.d/20-own.conf"), "[Service]\nEnvironment=KUBELET_CUSTOM=--rotate-certificates=false\n");
    expect(&state, "rotate-certificates", "warning", &[&format!("'{UNIT}.d/20-own.conf'")]);
    live(&state, &["--feature-gates=RotateKubeletClientCertificate=false"]);
    expect(&state, "rotate-certificates", "warning", &["RotateKubeletClientCertificate=false of --feature-gates"]);
    live(&state, &[]);
    state.site.tree.edit(CONFIG, |text| text.replace("rotateCertificates", "RotateCertificates"));
    state.make_old();
    expect(&state, "rotate-certificates", "warning", &["kubelet's default"]);
    expect(&state, "kubelet-config", "warning", &["'RotateCertificates'", "the field is 'rotateCertificates'"]);
}

#[test]
fn a_next_start_with_other_settings_is_told() {
    let state = states::fresh();
    assert_eq!(findings(&state, "next-start"), Vec::<String>::new());
    unit(&state, "");
    expect(&state, "next-start", "ok", &[]);
    unit(&state, "--rotate-certificates=false");
    expect(&state, "next-start", "warning", &["rotation of the client certificate: off", "kubelet.env"]);
    unit(&state, "--cert-dir=/var/run/kubernetes");
    expect(&state, "next-start", "warning", &["--cert-dir: '/var/run/kubernetes', now '/var/lib/kubelet/pki'"]);
}

#[test]
fn without_a_process_the_next_start_is_judged() {
    let state = states::fresh();
    state.site.world.fault(|faults| faults.kubelet_down = true);
    expect(&state, "kubelet-process", "critical", &["systemctl status kubelet"]);
    expect(&state, "rotate-certificates", "ok", &[CONFIG]);
    let tree = &state.site.tree;
    // kubeadm's own: the package's drop-in, its flags, its configuration
    tree.remove(CONFIG);
    tree.write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nrotateCertificates: true\n");
    expect(&state, "rotate-certificates", "ok", &["'/var/lib/kubelet/config.yaml'"]);
    tree.write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--rotate-certificates=false\"\n");
    expect(&state, "rotate-certificates", "warning", &["'/var/lib/kubelet/kubeadm-flags.env'"]);
    tree.remove("/var/lib/kubelet/config.yaml");
    tree.remove("/var/lib/kubelet/kubeadm-flags.env");
    expect(&state, "rotate-certificates", "unknown", &["its settings cannot be told"]);
}

#[test]
fn a_configuration_that_is_not_there_or_newer_than_the_process_is_told() {
    let state = states::fresh();
    // between the process' start and now, by the clock of the test
    let file = std::fs::File::open(state.site.tree.on_host(CONFIG)).unwrap();
    let at = |seconds: i64| {
        let at = u64::try_from((state.clock.now - chrono::Duration::seconds(seconds)).timestamp()).unwrap();
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at)
    };
    file.set_modified(at(600)).unwrap();
    expect(&state, "kubelet-config", "warning", &["was written after kubelet's start"]);
    file.set_modified(at(90_000)).unwrap();
    expect(&state, "kubelet-config", "ok", &[]);
    state.site.tree.remove(CONFIG);
    expect(&state, "kubelet-config", "critical", &["kubelet does not start without the file"]);
}

#[test]
fn a_directory_of_configurations_goes_over_the_file() {
    let state = states::fresh();
    state.site.tree.write("/etc/kubernetes/kubelet.conf.d/10-a.conf", "rotateCertificates: false\n");
    live(&state, &["--config-dir=/etc/kubernetes/kubelet.conf.d"]);
    expect(&state, "rotate-certificates", "warning", &["rotateCertificates in"]);
}
