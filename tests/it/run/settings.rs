//! What is typed or set wrong, and which of several settings counts.

use std::ffi::OsString;

use k8s_certs_renew::host::Signals;

use super::{Ran, files, refused, run_with, site, start, untouched};

const FILE: &str = "/etc/default/k8s-certs-renew";

/// Runs the program with exactly this command line.
fn typed(args: &[&str]) -> Ran {
    let argv: Vec<OsString> = ["k8s-certs-renew"].iter().chain(args).map(OsString::from).collect();
    start(argv, &[], &Signals::none())
}

#[test]
fn what_is_typed_wrong_ends_with_64_names_the_option_and_changes_nothing() {
    let site = site(5);
    let wrong: [(&[&str], &str); 20] = [
        (&["--days-buffer", "soon"], "--days-buffer"),
        (&["--days-buffer", "-1"], "-1"),
        (&["--days-buffer", "3651"], "--days-buffer"),
        (&["--keep-backups", "0"], "--keep-backups"),
        (&["--ready-timeout", "infinity"], "it has to end"),
        (&["--ready-timeout", "5 fortnights"], "--ready-timeout"),
        (&["--output", "yaml"], "--output"),
        (&["--runtime", "podman"], "--runtime"),
        (&["--color", "blue"], "--color"),
        (&["--at", "yesterday"], "--at"),
        (&["--at", "2026-03-02"], "--at"),
        (&["--frobnicate"], "--frobnicate"),
        (&["now"], "now"),
        (&["--on-calendar"], "--on-calendar"),
        (&["--kubernetes-dir", "etc/kubernetes"], "'etc/kubernetes' is not an absolute path"),
        (&["--cert-dir", "ssl"], "'ssl' is not an absolute path"),
        (&["--etcd-cert-dir", "ssl"], "'ssl' is not an absolute path"),
        (&["--backup-dir", "b"], "'b' is not an absolute path"),
        (&["--kubeconfig-copy", ".kube/config"], "'.kube/config' is not an absolute path"),
        (&["--kubeadm-config", "k.yaml"], "'k.yaml' is not an absolute path"),
    ];
    for (args, words) in wrong {
        let ran = refused(&site, args, 64, words);
        assert_eq!(ran.out, "", "{args:?}");
    }
    assert!(!site.tree.on_host("/var/lib/k8s-certs-renew").exists());
}

#[test]
fn a_root_that_is_none_and_tools_that_are_not_named_are_usage_errors() {
    let site = site(5);
    let before = files(&site);
    let root = site.tree.dir().to_str().unwrap();
    let conf = site.tree.on_host("/etc/kubernetes/admin.conf");
    let (kubeadm, crictl) = (site.world.tool("kubeadm"), site.world.tool("crictl"));
    let (kubeadm, crictl) = (kubeadm.to_str().unwrap(), crictl.to_str().unwrap());
    let wrong: [(&[&str], &str); 8] = [
        (&["--root", "/nonexistent"], "cannot use '/nonexistent' as the root"),
        (&["--root", conf.to_str().unwrap()], "as the root"),
        (&["--root", root], "--kubeadm and --crictl or --docker"),
        (&["--root", root, "--kubeadm", kubeadm], "--kubeadm and --crictl or --docker"),
        (&["--root", root, "--crictl", crictl], "--kubeadm and --crictl or --docker"),
        (&["run", "--root", root, "--force"], "--kubeadm and --crictl or --docker"),
        (&["--kubernetes-dir", "/srv/kubernetes"], "--kubeadm and --crictl or --docker"),
        // the machine's own root is judged as of now
        (&["run", "--at", "2026-03-02T03:10:00Z"], "--at judges as of another instant"),
    ];
    for (args, words) in wrong {
        let ran = typed(args);
        assert_eq!((ran.code, ran.out.as_str()), (64, ""), "{args:?}: {}", ran.text());
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
        untouched(&site, &before);
    }
    assert_eq!(typed(&["--root", root, "--kubeadm", kubeadm, "--crictl", crictl, "--dry-run"]).code, 0);
}

#[test]
fn another_instant_judges_below_another_root_and_in_a_dry_run() {
    let site = site(100);
    for (at, code) in [("2026-03-02T03:10:00Z", 0), ("2026-06-01T05:10:00+02:00", 11)] {
        let ran = run_with(&site, &["--at", at, "--dry-run", "--detailed-exitcode"], &[], &Signals::none());
        assert_eq!(ran.code, code, "{at}: {}", ran.text());
    }
    let before = site.serials();
    let ran = run_with(&site, &["--at", "2026-06-01T03:10:00Z", "--detailed-exitcode"], &[], &Signals::none());
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
}

#[test]
fn a_setting_that_is_unknown_or_does_not_parse_ends_with_78_and_its_place_and_changes_nothing() {
    let site = site(5);
    let before = files(&site);
    let wrong = [
        ("K8S_CERTS_RENEW_DAYS_BUFER", "3", "unknown setting 'K8S_CERTS_RENEW_DAYS_BUFER'"),
        // options of a single call are no settings
        ("K8S_CERTS_RENEW_FORCE", "yes", "unknown setting"),
        ("K8S_CERTS_RENEW_DRY_RUN", "yes", "unknown setting"),
        ("K8S_CERTS_RENEW_ROOT", "/", "unknown setting"),
        ("K8S_CERTS_RENEW_AT", "2026-03-02T03:10:00Z", "unknown setting"),
        ("K8S_CERTS_RENEW_DAYS_BUFFER", "soon", "K8S_CERTS_RENEW_DAYS_BUFFER: "),
        ("K8S_CERTS_RENEW_QUIET", "perhaps", "expected yes, no"),
        ("K8S_CERTS_RENEW_READY_TIMEOUT", "infinity", "it has to end"),
        ("K8S_CERTS_RENEW_ON_CALENDAR", "dayly", "'dayly'"),
    ];
    for (name, value, words) in wrong {
        let ran = run_with(&site, &[], &[(name, value)], &Signals::none());
        assert_eq!(ran.code, 78, "{name}={value}: {}", ran.text());
        assert!(ran.err.contains(words), "{name}={value}: {}", ran.err);
        untouched(&site, &before);

        site.tree.write(FILE, format!("# settings\n{name}={value}\n"));
        let ran = run_with(&site, &[], &[], &Signals::none());
        assert_eq!(ran.code, 78, "{name}={value}: {}", ran.text());
        assert!(ran.err.contains(words), "{name}={value}: {}", ran.err);
        assert!(value == "dayly" || ran.err.contains(&format!("{FILE}, line 2")), "{}", ran.err);
        site.tree.remove(FILE);
        untouched(&site, &before);
    }
    site.tree.write(FILE, "DAYS\n");
    refused(&site, &[], 78, "line 1: expected NAME=VALUE");
    site.tree.write(FILE, [0xff, 0xfe, b'\n']);
    refused(&site, &[], 78, FILE);
}

#[test]
fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
    let site = site(300);
    site.tree.write(FILE, "K8S_CERTS_RENEW_DAYS_BUFFER=20\nK8S_CERTS_RENEW_ON_CALENDAR=daily; weekly\n");
    let environment = [("K8S_CERTS_RENEW_DAYS_BUFFER", "30"), ("K8S_CERTS_RENEW_ON_CALENDAR", "Mon 04:00\nTue 05:00")];
    let typed = ["--days-buffer", "40", "--on-calendar", "monthly"];
    // empty is unset
    let empty = [("K8S_CERTS_RENEW_DAYS_BUFFER", "")];
    let table = [
        (&[][..], &[][..], 20, "daily | weekly"),
        (&[], &environment, 30, "Mon 04:00 | Tue 05:00"),
        (&typed, &environment, 40, "monthly"),
        (&[], &empty, 20, "daily | weekly"),
    ];
    for (args, environment, days, expressions) in table {
        let ran = run_with(&site, args, environment, &Signals::none());
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(ran.out.contains(&format!("(latest start and {days} days)")), "{args:?}: {}", ran.out);
        assert!(ran.out.contains(&format!("(--on-calendar: {expressions})")), "{args:?}: {}", ran.out);
    }
}

#[test]
fn directories_that_are_given_are_the_ones_that_are_judged() {
    let site = site(5);
    let ran = refused(&site, &["--cert-dir", "/etc/kubernetes/nowhere", "--kubeconfig-copy", "none"], 26, "missing");
    assert!(ran.err.contains("'/etc/kubernetes/nowhere/ca.crt'"), "{}", ran.err);
}

#[test]
fn no_setting_however_long_fills_the_log() {
    let site = site(300);
    let long = "x".repeat(100_000);
    for name in
        ["ON_CALENDAR", "TIMEZONE", "TIMER", "DAYS_BUFFER", "BACKUP_DIR", "KUBECONFIG_COPY", "TEXTFILE", "RESTART"]
    {
        let name = format!("K8S_CERTS_RENEW_{name}");
        let ran = run_with(&site, &[], &[(&name, &long)], &Signals::none());
        assert!([64, 78].contains(&ran.code), "{name}: {} {:.300}", ran.code, ran.text());
        assert!(ran.text().len() < 600, "{name}: {:.700}", ran.text());
    }
}
