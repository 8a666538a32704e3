//! Copies of admin.conf that cannot be judged or written: said, left alone, and the last thing that a run fails for.

use k8s_certs_renew::host::Signals;

use super::seen::{
    APISERVER, CONTROLLER_MANAGER, RENEW_ALL, RENEWED, SCHEDULER, changed, files, owed, run_impatiently,
};
use super::{now, run, run_by, site};
use crate::support::clock::StillClock;
use crate::support::faults::{Renewal, Return, Runtime};
use crate::support::site::Site;

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const COPY: &str = "/root/.kube/config";

/// Puts something broken where the copy is.
type Break = fn(&Site);

const BROKEN: [(&str, Break, &str); 6] = [
    (
        "html",
        |site| {
            let escaped = "client-certificate-data: L&#43;";
            site.tree.edit(COPY, |text| text.replacen("client-certificate-data: L", escaped, 1));
        },
        "client-certificate-data",
    ),
    ("cut off", |site| site.tree.edit(COPY, |text| text[..text.len() / 2].to_owned() + "\n  -x: ["), ""),
    ("empty", |site| site.tree.write(COPY, ""), "it is empty"),
    (
        "a directory",
        |site| {
            site.tree.remove(COPY);
            std::fs::create_dir(site.tree.on_host(COPY)).unwrap();
        },
        "it is a directory",
    ),
    ("a dangling link", |site| site.tree.link("/gone/config", COPY), "'/gone/config'"),
    (
        "a file for a directory",
        |site| {
            std::fs::remove_dir_all(site.tree.on_host("/root/.kube")).unwrap();
            site.tree.write("/root/.kube", "x");
        },
        "'/root/.kube'",
    ),
];

#[test]
fn a_broken_copy_is_named_left_alone_and_ends_a_good_run_with_24() {
    for (name, break_it, words) in BROKEN {
        for days in [5, 300] {
            let site = site(days);
            break_it(&site);
            let before = files(&site);
            let ran = run(&site, &["--detailed-exitcode"]);
            assert_eq!(ran.code, 24, "{name}: {}", ran.text());
            let said = ran.err.lines().find(|line| line.contains("/root/.kube/config")).unwrap_or_default();
            assert!(said.starts_with("warning: /root/.kube/config: ") && said.contains(words), "{name}: {}", ran.err);
            let expected: &[&str] = if days == 5 { &RENEWED } else { &[] };
            assert_eq!(changed(&before, &files(&site)), expected, "{name}");
            let acts: &[&str] = if days == 5 { &[RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER] } else { &[] };
            assert_eq!(site.world.acts(), acts, "{name}");
            assert!(!ran.text().contains("&#43;"), "{name}: content is never shown");
            // the others are judged all the same
            assert!(ran.out.lines().any(|line| line.starts_with("scheduler.conf ")), "{name}: {}", ran.out);
        }
    }
}

#[test]
fn a_broken_copy_keeps_the_others_from_nothing() {
    let site = site(5);
    site.tree.write("/srv/bad", "kind: [");
    let copies = ["/srv/bad", COPY, "/srv/new"].map(|path| ["--kubeconfig-copy", path]).concat();
    let ran = run(&site, &copies);
    assert_eq!(ran.code, 24, "{}", ran.text());
    for path in [COPY, "/srv/new"] {
        assert_eq!(site.tree.read(path), site.tree.read(ADMIN), "{path}");
    }
    assert_eq!(site.tree.read("/srv/bad"), "kind: [");
}

#[test]
fn a_broken_copy_beside_a_worse_failure_is_not_what_is_reported() {
    let site = site(5);
    site.tree.write(COPY, "");
    site.world.fault(|faults| faults.runtime = Runtime::Down);
    assert_eq!(run_impatiently(&site, &[]).code, 23);
    let site = super::site(5);
    site.tree.write(COPY, "");
    site.world.fault(|faults| faults.renewals = vec![Renewal::StopsAt("scheduler.conf".to_owned())]);
    assert_eq!(run(&site, &[]).code, 20);
}

#[test]
fn a_copy_that_cannot_be_written_when_its_turn_comes_is_24_and_the_renewal_stands() {
    let site = site(5);
    let before = site.serials();
    site.world.fault(|faults| {
        faults.returns.insert("kube-apiserver".to_owned(), Return::After(1));
    });
    let dir = site.tree.on_host("/root/.kube");
    let clock = StillClock::at(now()).meanwhile(move |_| {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::write(&dir, "x").unwrap();
    });
    let ran = run_by(&clock, &site, &["--detailed-exitcode"], &Signals::none());
    assert_eq!(ran.code, 24, "{}", ran.text());
    let said = "error: cannot update the kubeconfig copy '/root/.kube/config': '/root/.kube' is not a directory";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    assert_eq!(ran.headlines().last(), Some(&"Expiration after renewal"));
    assert_eq!(owed(&site), None);
}
