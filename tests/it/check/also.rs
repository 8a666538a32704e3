//! Further files: `--also`.

use crate::support::pki::{Algorithm, Ca, Pair, Spec, days};
use crate::support::tree::kubeconfig;

use super::check;
use super::states::{self, State, now};

fn web(left: i64) -> Pair {
    let ca = Ca::new("web-ca", Algorithm::P256, now() - days(400), now() + days(900));
    ca.issue(&Spec::server("www", &["www.example"], now() - days(30), now() + days(left)))
}

fn fill(state: &State, files: &[(&str, &str)]) {
    files.iter().for_each(|(path, text)| state.site.tree.write(path, text));
}

#[test]
fn files_and_patterns_are_judged_by_warning_and_critical() {
    let state = states::fresh();
    let (good, soon, late) = (web(90), web(20), web(3));
    fill(
        &state,
        &[
            ("/srv/tls/good.pem", &good.cert),
            ("/srv/tls/good-key.pem", &good.key),
            ("/srv/tls/soon.pem", &format!("{}{}", soon.cert, soon.key)),
            ("/srv/tls/.hidden.pem", &late.cert),
            ("/srv/tls/readme.txt", "not a certificate\n"),
            ("/srv/other/late.crt", &late.cert),
        ],
    );
    let checked = check(&state, &["--also", "/srv/tls/*"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.row("/srv/tls/good.pem").ends_with("90d external - ok"));
    assert!(checked.row("/srv/tls/soon.pem").ends_with("20d external - ends soon"));
    checked.expect("note", "--also", "2 of 4 files that match hold no certificate");
    assert!(!checked.out.contains("hidden"));
    let checked = check(&state, &["--also", "/srv/tls/*", "--also", "/srv/?ther/late.crt"]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    checked.expect("critical", "/srv/other/late.crt", "whoever issued it renews it");
    assert_eq!(check(&state, &["--also", "/srv/tls/*", "--warning", "10d"]).code, 0);
    assert_eq!(check(&state, &["--also", "/srv/other/late.crt", "--critical", "1d"]).code, 1);
}

#[test]
fn each_certificate_of_a_bundle_is_a_line() {
    let state = states::fresh();
    let (one, two, three) = (web(90), web(80), web(-5));
    fill(&state, &[("/srv/bundle.pem", &format!("{}{}{}", one.cert, two.cert, three.cert))]);
    let checked = check(&state, &["--also", "/srv/bundle.pem"]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(checked.row("/srv/bundle.pem").contains("90d"));
    assert!(checked.row("/srv/bundle.pem (2)").contains("80d"));
    assert!(checked.row("/srv/bundle.pem (3)").ends_with("expired"));
}

// R12
#[test]
fn a_copy_of_admin_conf_elsewhere_is_judged_where_it_is_named_and_said_not_to_be_where_it_is_not() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let (ca, mut spec) = tree.spec("admin.conf", now() - days(40));
    spec.not_before = now() - days(60);
    let old = ca.issue(&spec);
    let text = kubeconfig(&tree.server(), "kubernetes-admin", &tree.ca.pair.cert, &old.cert, &old.key);
    tree.write("/home/ops/.kube/config", text);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 0, "{}", checked.out);
    assert!(
        checked.out.contains("  - copies of admin.conf elsewhere than at /root/.kube/config: name them with --also"),
        "{}",
        checked.out
    );
    for pattern in ["/home/ops/.kube/config", "/home/*/.kube/config"] {
        let checked = check(&state, &["--also", pattern]);
        assert_eq!(checked.code, 2, "{}", checked.out);
        checked.expect("critical", "/home/ops/.kube/config", "whoever issued it renews it");
    }
}

#[test]
fn what_was_named_and_is_not_there_or_is_no_certificate_is_told() {
    let state = states::fresh();
    fill(
        &state,
        &[("/srv/empty.pem", ""), ("/srv/note.txt", "hello\n"), ("/srv/cut.pem", "-----BEGIN CERTIFICATE-----\nMII\n")],
    );
    let table = [
        ("/srv/gone.pem", 2, "critical", "missing ('/srv/gone.pem'); whoever put it there has to put it back"),
        ("/srv/empty.pem", 3, "unknown", "the file is empty"),
        ("/srv/cut.pem", 3, "unknown", "damaged or cut off"),
        ("/srv/note.txt", 3, "unknown", "no certificate is in it"),
        ("/srv", 3, "unknown", "no certificate is in it"),
        ("/srv/*.crt", 1, "warning", "matches nothing"),
        ("/srv/e*.pem", 3, "", ""),
    ];
    for (path, code, weight, words) in table {
        let checked = check(&state, &["--also", path]);
        assert_eq!(checked.code, code, "{path}: {}", checked.out);
        if !weight.is_empty() {
            checked.expect(weight, path, words);
        }
    }
}

#[test]
fn ten_thousand_certificates_are_a_line_each() {
    let state = states::fresh();
    let pairs: Vec<Pair> = (0..20).map(|_| web(90)).collect();
    for number in 0..10_000 {
        let dir = format!("/srv/{:02}", number / 500);
        if number % 500 == 0 {
            state.site.tree.write(&format!("{dir}/x"), "");
            state.site.tree.remove(&format!("{dir}/x"));
        }
        let host = state.site.tree.on_host(&format!("{dir}/{number}.pem"));
        std::fs::write(host, &pairs[number % pairs.len()].cert).unwrap();
    }
    let checked = check(&state, &["--also", "/srv/*/*.pem"]);
    assert_eq!(checked.code, 0, "{}", checked.all("unknown").join("\n"));
    assert_eq!(checked.out.lines().filter(|line| line.starts_with("/srv/")).count(), 10_000);
}
