//! Copies of admin.conf in a whole run: which are written, which are left alone, and what that is worth.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use base64::Engine;

use super::seen::{RENEWED, changed, files, renewed_and_copied};
use super::{SKIP, now, run, site};
use crate::support::faults::Renewal;
use crate::support::pki::{Algorithm, Ca, Pair, Spec, days};
use crate::support::site::Site;
use crate::support::tree::kubeconfig;

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const COPY: &str = "/root/.kube/config";

fn b64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// A client certificate of this CA that is good for long.
fn client(ca: &Ca, name: &str, groups: &[&str]) -> Pair {
    ca.issue(&Spec::client(name, groups, now() - days(60), now() + days(300)))
}

fn admin(site: &Site) -> Pair {
    client(&site.tree.ca, "kubernetes-admin", &["system:masters"])
}

/// Credentials of a user of this name, as YAML.
fn user(name: &str, pair: &Pair) -> String {
    format!(
        "- name: {name}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        b64(&pair.cert),
        b64(&pair.key)
    )
}

/// The value of a field of the first user.
fn value(text: &str, field: &str) -> String {
    text.split_once(&format!("{field}: ")).unwrap().1.lines().next().unwrap().to_owned()
}

#[test]
fn a_renewal_writes_every_copy_that_is_asked_for_and_no_other() {
    let (ops, root) = ("/home/ops/.kube/config", COPY);
    let cases: [(&[&str], &[&str]); 4] = [
        (&[], &[root]),
        (&["none"], &[]),
        (&[ops], &[ops]),
        (&[ops, root, "/srv/kube.conf"], &[ops, root, "/srv/kube.conf"]),
    ];
    for (asked, written) in cases {
        let site = site(5);
        let before = files(&site);
        let args: Vec<&str> = asked.iter().flat_map(|path| ["--kubeconfig-copy", path]).collect();
        let ran = run(&site, &args);
        assert_eq!(ran.code, 0, "{asked:?}: {}", ran.text());
        let mut expected: Vec<&str> = RENEWED.into_iter().chain(written.iter().copied()).collect();
        expected.sort_unstable();
        assert_eq!(changed(&before, &files(&site)), expected, "{asked:?}");
        let headlines =
            ran.headlines().into_iter().filter_map(|line| line.strip_prefix("Updating ")).collect::<Vec<_>>();
        assert_eq!(headlines, written, "{asked:?}");
        for path in written {
            assert_eq!(site.tree.read(path), site.tree.read(ADMIN), "{path}");
            let mode = |path: &str| std::fs::metadata(site.tree.on_host(path)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(path), 0o600, "{path}");
            if *path == ops {
                assert_eq!(mode("/home/ops/.kube"), 0o700);
            }
        }
    }
}

#[test]
fn a_copy_that_is_admin_conf_itself_is_neither_written_nor_cut_off() {
    for hard in [false, true] {
        let site = site(5);
        site.tree.remove(COPY);
        let (from, to) = (site.tree.on_host(ADMIN), site.tree.on_host(COPY));
        if hard {
            std::fs::hard_link(&from, &to).unwrap();
        } else {
            site.tree.link(ADMIN, COPY);
        }
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        if hard {
            // kubeadm writes in place, as client-go does
            assert_eq!(std::fs::metadata(from).unwrap().ino(), std::fs::metadata(to).unwrap().ino());
        } else {
            assert_eq!(std::fs::read_link(to).unwrap().to_str(), Some(ADMIN));
        }
        assert!(site.tree.read(ADMIN).contains("client-key-data"));
        assert!(!ran.out.contains("Updating"), "{}", ran.out);
    }
}

#[test]
fn a_link_to_another_file_stays_a_link_and_its_file_is_written() {
    let site = site(5);
    site.tree.write("/home/ops/config", site.tree.read(ADMIN));
    site.tree.chmod("/home/ops/config", 0o640);
    site.tree.link("/home/ops/config", COPY);
    let before = files(&site);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.tree.read("/home/ops/config"), site.tree.read(ADMIN));
    let after = files(&site);
    assert_eq!(changed(&before, &after).last().unwrap(), "/home/ops/config");
    assert_eq!(after["/home/ops/config"].0 & 0o7777, 0o640);
}

#[test]
fn in_a_merged_file_only_this_clusters_credential_changes() {
    let site = site(5);
    let lab = Ca::new("kubernetes", Algorithm::P256, now() - days(90), now() + days(900));
    let lab = user("lab", &client(&lab, "kubernetes-admin", &["system:masters"]));
    let old = site.tree.read(ADMIN);
    let merged = |admin: &str| {
        format!(
            "# mine\nkind: Config\ncurrent-context: prod # careful\ncontexts:\n- name: prod\n  context: {{cluster: prod, \
             user: prod, namespace: shop}}\n- {{name: lab, context: {{cluster: lab, user: lab}}}}\nclusters:\n\
             - {{name: prod, cluster: {{server: 'https://vip:8443'}}}}\n- {{name: lab, cluster: {{server: 'https://lab:6443'}}}}\n\
             users:\n{lab}- name: prod\n  user:\n    client-certificate-data: {}\n    client-key-data: \"{}\"\n- name: exec\n  \
             user: {{exec: {{command: aws}}}}\n",
            value(admin, "client-certificate-data"),
            value(admin, "client-key-data")
        )
    };
    site.tree.write(COPY, merged(&old));
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_ne!(site.tree.read(ADMIN), old);
    assert_eq!(site.tree.read(COPY), merged(&site.tree.read(ADMIN)));
}

/// What a copy that is not ours is, and its text.
type Foreign<'a> = (&'static str, &'a dyn Fn(&Site) -> String);

#[test]
fn a_copy_that_is_not_ours_is_left_alone_and_that_is_no_failure() {
    let other = Ca::new("kubernetes", Algorithm::P256, now() - days(90), now() + days(900));
    let pair = client(&other, "kubernetes-admin", &["system:masters"]);
    let table: [Foreign<'_>; 4] = [
        ("another cluster", &|_| {
            kubeconfig("https://192.0.2.9:6443", "kubernetes-admin", &other.pair.cert, &pair.cert, &pair.key)
        }),
        ("a token", &|_| "kind: Config\nusers:\n- {name: a, user: {token: abc}}\n".to_owned()),
        ("no users", &|_| "kind: Config\nusers: []\n".to_owned()),
        ("somebody else of this cluster", &|site| {
            format!("kind: Config\nusers:\n{}", user("me", &client(&site.tree.ca, "jane", &["devs"])))
        }),
    ];
    for days in [5, 300] {
        for (name, text) in &table {
            let site = site(days);
            site.tree.write(COPY, text(&site));
            let before = files(&site);
            let ran = run(&site, &[]);
            assert_eq!(ran.code, 0, "{name}: {}", ran.text());
            assert!(ran.err.contains("note: '/root/.kube/config' is left alone: "), "{name}: {}", ran.err);
            let expected: &[&str] = if days == 5 { &RENEWED } else { &[] };
            assert_eq!(changed(&before, &files(&site)), expected, "{name}");
        }
    }
}

#[test]
fn a_skip_run_refreshes_a_copy_that_holds_an_older_credential() {
    for days_left in [-3, 40] {
        let site = site(300);
        let old = site.tree.ca.issue(&Spec::client(
            "kubernetes-admin",
            &["system:masters"],
            now() - days(400),
            now() + days(days_left),
        ));
        site.tree.write(COPY, site.tree.kubeconfig("admin", &old));
        let before = files(&site);
        let dry = run(&site, &["--dry-run", "--detailed-exitcode"]);
        assert_eq!(dry.code, 11, "{}", dry.text());
        assert!(dry.out.contains("  1. update '/root/.kube/config': it holds an older credential"), "{}", dry.out);
        assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{}", ran.text());
        assert_eq!(ran.headlines(), ["Check Expiration before renewal", "Updating /root/.kube/config"]);
        assert_eq!(changed(&before, &files(&site)), [COPY]);
        assert_eq!(site.tree.read(COPY), site.tree.read(ADMIN));
        assert_eq!(site.world.calls(), Vec::<String>::new(), "no tool is needed for it");
        assert_eq!(run(&site, &["--detailed-exitcode"]).headlines().last(), Some(&SKIP));
    }
}

#[test]
fn a_missing_copy_is_made_by_a_renewing_run_only() {
    for whole_directory in [true, false] {
        let site = site(300);
        if whole_directory {
            std::fs::remove_dir_all(site.tree.on_host("/root")).unwrap();
        } else {
            site.tree.remove(COPY);
        }
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().last()), (0, Some(&SKIP)), "{}", ran.text());
        assert!(!site.tree.on_host(COPY).exists());
        let before = files(&site);
        let ran = run(&site, &["--force"]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
        assert_eq!(site.tree.read(COPY), site.tree.read(ADMIN));
    }
}

#[test]
fn where_admin_conf_is_not_renewed_no_copy_is_made_of_the_old_one() {
    let site = site(5);
    site.tree.remove(COPY);
    site.world.fault(|faults| faults.renewals = vec![Renewal::Refuses]);
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert!(!site.tree.on_host(COPY).exists());
}

#[test]
fn a_nodes_credential_in_admin_conf_is_never_handed_on() {
    for days_left in [5, 300] {
        for missing in [true, false] {
            let site = site(days_left);
            let node = site.tree.ca.issue(&Spec::client(
                "system:node:node1",
                &["system:nodes"],
                now() - days(60),
                now() + days(days_left),
            ));
            site.tree.write(ADMIN, site.tree.kubeconfig("kubelet", &node));
            if missing {
                site.tree.remove(COPY);
            }
            let before = files(&site);
            let ran = run(&site, &[]);
            assert_eq!(ran.code, 24, "{}", ran.text());
            assert!(
                ran.err.contains("is not handed on: its client certificate is a node's, 'system:node:node1'"),
                "{}",
                ran.err
            );
            let expected: &[&str] = if days_left == 5 { &RENEWED } else { &[] };
            assert_eq!(changed(&before, &files(&site)), expected);
        }
    }
}

#[test]
fn of_several_users_it_is_this_clusters_admin_that_is_kept_up_to_date() {
    let site = site(300);
    let admin_conf = site.tree.read(ADMIN);
    let old = admin(&site);
    let other = user("other", &client(&site.tree.ca, "jane", &["devs"]));
    let new = format!(
        "- name: a\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        value(&admin_conf, "client-certificate-data"),
        value(&admin_conf, "client-key-data")
    );
    for contexts in
        ["", "current-context: nowhere\n", "current-context: x\ncontexts: [{name: x, context: {user: other}}]\n"]
    {
        let text =
            |own: &str| format!("kind: Config\n{contexts}users:\n{other}{own}- {{name: t, user: {{token: x}}}}\n");
        site.tree.write(COPY, text(&user("a", &old)));
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{contexts}: {}", ran.text());
        assert_eq!(site.tree.read(COPY), text(&new), "{contexts}");
    }
}
