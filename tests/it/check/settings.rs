//! How a check is asked for.

use super::states::{self, State};
use super::{Checked, check, command_line, run};

fn with(state: &State, environment: &[(&str, &str)], args: &[&str]) -> Checked {
    run(&state.clock, command_line(&state.site, args), environment, None, true)
}

#[test]
fn relative_paths_are_refused_as_a_run_refuses_them() {
    let state = states::fresh();
    for args in [
        ["--also", "tls/*.pem"],
        ["--kubernetes-dir", "etc"],
        ["--cert-dir", "ssl"],
        ["--etcd-cert-dir", "etcd"],
        ["--kubeconfig-copy", "config"],
        ["--backup-dir", "backups"],
    ] {
        let checked = check(&state, &args);
        assert_eq!(checked.code, 3, "{args:?}: {}", checked.out);
        assert!(checked.err.contains(&format!("'{}' is not an absolute path", args[1])), "{args:?}: {}", checked.err);
    }
    assert_eq!(check(&state, &["--critical", "40d"]).code, 3);
    assert_eq!(check(&state, &["--no-such-option"]).code, 3);
}

#[test]
fn settings_come_from_the_environment_and_the_file_and_those_of_other_commands_are_passed_over() {
    let state = states::fresh();
    let tree = &state.site.tree;
    tree.write("/srv/a.pem", tree.read(&tree.pki("apiserver.crt")));
    tree.write("/srv/b.pem", tree.read(&tree.pki("apiserver.crt")));
    let checked = with(&state, &[("K8S_CERTS_RENEW_ALSO", "/srv/a.pem\n/srv/b.pem")], &[]);
    assert!(checked.row("/srv/a.pem").ends_with("ok") && checked.row("/srv/b.pem").ends_with("ok"), "{}", checked.out);
    // what is typed replaces it
    let checked = with(&state, &[("K8S_CERTS_RENEW_ALSO", "/srv/a.pem")], &["--also", "/srv/b.pem"]);
    assert!(!checked.out.contains("/srv/a.pem"), "{}", checked.out);
    let file = "K8S_CERTS_RENEW_READY_TIMEOUT=10m\nK8S_CERTS_RENEW_KEEP_BACKUPS=9\nK8S_CERTS_RENEW_OUTPUT=text\nK8S_CERTS_RENEW_WARNING=400d\n";
    tree.write("/etc/default/k8s-certs-renew", file);
    let checked = check(&state, &[]);
    assert_eq!((checked.code, checked.err.as_str()), (1, ""), "{}", checked.out);
    checked.expect("warning", "member-node1.pem", "ends on");
    for (name, value) in
        [("K8S_CERTS_RENEW_ALLSO", "/x"), ("K8S_CERTS_RENEW_WARNING", "soon"), ("K8S_CERTS_RENEW_OUTPUT", "yaml")]
    {
        let checked = with(&state, &[(name, value)], &[]);
        assert_eq!(checked.code, 3, "{name}: {}", checked.out);
        assert!(checked.err.contains(name), "{name}: {}", checked.err);
    }
}
