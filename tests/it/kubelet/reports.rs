//! What other reports tell of kubelet.

use crate::check::check;
use crate::check::states::{self, State, now, plan};
use crate::support::pki::days;

use super::CONFIG;

fn rotation_off(state: &State) {
    state.site.tree.edit(CONFIG, |text| text.replace("rotateCertificates: true", "rotateCertificates: false"));
    state.make_old();
}

#[test]
fn a_check_tells_what_is_to_be_mended_once() {
    let state = states::fresh();
    assert!(!check(&state, &[]).out.contains("rotateCertificates"));
    rotation_off(&state);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "kubelet", "its client certificate does not rotate");
    // what is said of a file already is not said again
    let state = State::new(plan(300).ends("kubelet-client-current.pem", now() - days(2)));
    let checked = check(&state, &[]);
    assert_eq!(checked.out.matches("kubelet check says what to type").count(), 1, "{}", checked.out);
}

#[test]
fn a_check_where_no_kubelet_shows_says_nothing_of_it() {
    let state = states::fresh();
    let tree = &state.site.tree;
    std::fs::remove_dir_all(tree.on_host("/proc")).unwrap();
    std::fs::remove_dir_all(tree.on_host("/var/lib/kubelet")).unwrap();
    for file in [CONFIG, "/etc/kubernetes/kubelet.conf"] {
        tree.remove(file);
    }
    let checked = check(&state, &["-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!(report["kubelet"], serde_json::json!([]));
}

#[test]
fn metrics_have_each_thing_by_name() {
    let state = states::fresh();
    rotation_off(&state);
    let text = check(&state, &["-o", "prometheus"]).out;
    assert!(text.contains("k8s_certs_renew_kubelet_finding_status{finding=\"rotate-certificates\"} 1\n"), "{text}");
    assert!(text.contains("k8s_certs_renew_kubelet_finding_status{finding=\"signing-files\"} 0\n"), "{text}");
}

#[test]
fn a_run_tells_it_in_a_line_and_does_nothing_about_it() {
    for (left, headline) in [(300, crate::run::SKIP), (5, "Expiration after renewal")] {
        let site = crate::run::site(left);
        let plain = crate::run::run(&site, &["--dry-run", "--detailed-exitcode"]);
        assert!(!plain.out.contains("kubelet check"), "{}", plain.out);
        site.tree.edit(CONFIG, |text| text.replace("rotateCertificates: true", "rotateCertificates: false"));
        site.tree.issue("kubelet.conf", crate::run::now() + days(300));
        let dry = crate::run::run(&site, &["--dry-run", "--detailed-exitcode"]);
        assert_eq!(dry.code, plain.code);
        let ran = crate::run::run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(ran.headlines().contains(&headline));
        let lines: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("kubelet       ")).collect();
        assert_eq!(lines.len(), 1, "{}", ran.out);
        assert!(
            lines[0].contains("does not rotate") && lines[0].contains("k8s-certs-renew kubelet check"),
            "{lines:?}"
        );
    }
}
