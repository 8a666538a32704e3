//! kubeconfigs: whose certificate counts, where it is kept, and the CA inside.

use base64::Engine;
use k8s_certs_renew::inventory::{Inventory, Kind, Manager, NotRenewable, Problem};

use super::{now, problems, problems_of};
use crate::support::pki::{Algorithm, Ca, Pair, days};
use crate::support::tree::{Tree, kubeconfig};

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const COPY: &str = "/root/.kube/config";

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// admin.conf with a second user and context.
fn two_users(tree: &Tree, other: &Pair, current: &str) -> String {
    format!(
        "{}- name: other\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        tree.kubeconfig("admin", &tree.issue("admin.conf", now() + days(3)))
            .replace("current-context: kubernetes-admin@kubernetes", &format!("current-context: {current}"))
            .replace(
                "contexts:\n",
                "contexts:\n- context: {cluster: kubernetes, user: other}\n  name: other@kubernetes\n"
            ),
        base64(&other.cert),
        base64(&other.key)
    )
}

#[test]
fn the_current_contexts_user_counts_and_the_other_is_somebody_elses() {
    let tree = Tree::kubeadm(now());
    let (ca, spec) = tree.spec("admin.conf", now() + days(90));
    let other = ca.issue(&spec);
    for (current, ours, theirs) in [("kubernetes-admin@kubernetes", 3, 90), ("other@kubernetes", 90, 3)] {
        tree.write(ADMIN, two_users(&tree, &other, current));
        let inventory = tree.inventory();
        assert_eq!(problems(&inventory), [], "{current}");
        assert_eq!(inventory.get("admin.conf").unwrap().not_after(), Some(now() + days(ours)));
        let name = if ours == 3 { "admin.conf/other" } else { "admin.conf/kubernetes-admin" };
        let other = inventory.get(name).unwrap();
        assert_eq!((other.not_after(), other.manager), (Some(now() + days(theirs)), Manager::External));
        assert!(other.renewable().is_err());
    }
}

#[test]
fn a_kubeconfig_without_a_usable_login_says_why_and_hides_no_other() {
    let tree = Tree::kubeadm(now());
    let usual = tree.read(ADMIN);
    let cases = [
        (
            usual.replace("current-context: kubernetes-admin@kubernetes", "current-context: gone"),
            "'gone' is not defined",
        ),
        (usual.replace("current-context: kubernetes-admin@kubernetes\n", ""), "current-context '' is not defined"),
        (usual.replace("user: kubernetes-admin\n  name", "user: nobody\n  name"), "user 'nobody'"),
        ("current-context: ''\nusers: []\n".to_owned(), "current-context"),
        (
            usual[..usual.find("users:").unwrap()].to_owned()
                + "users: [{name: kubernetes-admin, user: {token: abc}}]\n",
            "by token",
        ),
        (usual.replace("client-certificate-data: ", "client-certificate-data: '&#43;'"), "not valid YAML"),
        (
            usual.replace("client-certificate-data: LS0", "client-certificate-data: '&#43;'\n    other: LS0"),
            "'client-certificate-data' of 'kubernetes-admin' is not base64",
        ),
        (String::new(), "empty"),
        ("{".to_owned(), "not valid YAML"),
    ];
    for (text, expected) in cases {
        tree.write(ADMIN, text);
        let inventory = tree.inventory();
        let admin = inventory.get("admin.conf").unwrap();
        assert!(
            matches!(&admin.problems[..], [Problem::BadKubeconfig(why)] if why.contains(expected)),
            "{expected}: {:?}",
            admin.problems
        );
        assert!(admin.is_unreadable() && !admin.missing);
        assert_eq!(problems_of(&inventory, "scheduler.conf"), []);
        let shown = format!("{:?}", admin.problems);
        assert!(!shown.contains("abc") && !shown.contains("LS0"), "{shown}");
    }
}

#[test]
fn file_paths_are_followed_and_kubeadm_cannot_renew_them() {
    let tree = Tree::kubeadm(now());
    let pair = tree.issue("scheduler.conf", now() + days(3));
    tree.write("/etc/kubernetes/creds/s.crt", &pair.cert);
    tree.write("/etc/kubernetes/creds/s.key", &pair.key);
    let text = format!(
        "current-context: c\nclusters: [{{name: k, cluster: {{server: 'https://192.0.2.10:6443', certificate-authority: pki/ca.crt}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: s}}}}]\nusers: [{{name: s, user: {{client-certificate: creds/s.crt, client-key: {}/s.key}}}}]\n",
        "/etc/kubernetes/creds"
    );
    tree.write("/etc/kubernetes/scheduler.conf", text);
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), []);
    let scheduler = inventory.get("scheduler.conf").unwrap();
    assert_eq!(scheduler.not_after(), Some(now() + days(3)));
    assert_eq!(scheduler.renewable(), Err(NotRenewable::NotEmbedded));
    assert_eq!(scheduler.path_of_key().unwrap().to_str(), Some("/etc/kubernetes/creds/s.key"));
    assert_eq!(scheduler.files().len(), 3);
    tree.remove("/etc/kubernetes/creds/s.crt");
    let problem = problems_of(&tree.inventory(), "scheduler.conf")[0].to_string();
    assert!(problem.contains("client-certificate '/etc/kubernetes/creds/s.crt'"), "{problem}");
}

#[test]
fn a_kubeconfig_that_holds_another_ca_than_the_one_on_disk_is_a_mismatch() {
    let tree = Tree::kubeadm(now());
    let old = Ca::new("kubernetes", Algorithm::P256, now() - days(900), now() + days(10));
    tree.edit(ADMIN, |text| text.replace(&base64(&tree.ca.pair.cert), &base64(&old.pair.cert)));
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), [("admin.conf".to_owned(), vec![Problem::CaMismatch { ca: "ca".into() }])]);
    assert!(inventory.get("admin.conf").unwrap().is_damaged());
    // a bundle with ours in it is fine
    let bundle = base64(&format!("{}{}", old.pair.cert, tree.ca.pair.cert));
    tree.edit(ADMIN, |text| text.replace(&base64(&old.pair.cert), &bundle));
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn an_expired_ca_inside_a_kubeconfig_is_said() {
    let tree = Tree::kubeadm(now());
    let key = Algorithm::Rsa(1);
    let (old, new) = (
        Ca::new("kubernetes", key, now() - days(900), now() - days(1)),
        Ca::new("kubernetes", key, now() - days(2), now() + days(900)),
    );
    tree.write(&tree.pki("ca.crt"), &new.pair.cert);
    tree.write(&tree.pki("ca.key"), &new.pair.key);
    let (_, spec) = tree.spec("admin.conf", now() + days(300));
    let pair = new.issue(&spec);
    tree.write(ADMIN, kubeconfig(&tree.server(), "kubernetes-admin", &old.pair.cert, &pair.cert, &pair.key));
    let found = problems_of(&tree.inventory(), "admin.conf");
    assert!(
        matches!(&found[..], [Problem::CaInKubeconfig(why)] if why.starts_with("expired on 2026-03-01")),
        "{found:?}"
    );
}

#[test]
fn a_torn_kubeconfig_is_a_key_mismatch() {
    let tree = Tree::kubeadm(now());
    let (ca, spec) = tree.spec("admin.conf", now() + days(300));
    let (one, two) = (ca.issue(&spec), ca.issue(&spec));
    let torn = Pair { key: two.key, ..one };
    tree.put("admin.conf", &torn);
    assert_eq!(problems_of(&tree.inventory(), "admin.conf"), [Problem::KeyMismatch]);
}

#[test]
fn a_server_that_the_certificate_does_not_name_is_noted() {
    let tree = Tree::kubeadm(now());
    tree.edit(ADMIN, |text| text.replace("https://192.0.2.10:6443", "https://old-vip.example:6443"));
    let inventory = tree.inventory();
    let expected = Problem::ServerNotNamed { host: "old-vip.example".into() };
    assert_eq!(problems(&inventory), [("admin.conf".to_owned(), vec![expected])]);
    let admin = inventory.get("admin.conf").unwrap();
    assert!(admin.problems[0].is_note() && admin.renewable().is_ok());
    assert!(matches!(&admin.kind, Kind::Kubeconfig { server: Some(server), .. } if server.contains("old-vip")));
}

#[test]
fn in_a_copy_with_other_clusters_the_login_of_this_one_counts() {
    let tree = Tree::kubeadm(now());
    let lab = Ca::new("kubernetes", Algorithm::P256, now() - days(9), now() + days(900));
    let (ours, spec) = tree.spec("admin.conf", now() + days(42));
    let (theirs, ours) = (lab.issue(&spec), ours.issue(&spec));
    tree.write(
        COPY,
        format!(
            "current-context: lab\nclusters:\n- {{name: lab, cluster: {{server: 'https://lab:6443', certificate-authority-data: {}}}}}\n\
             - {{name: prod, cluster: {{server: 'https://192.0.2.10:6443', certificate-authority-data: {}}}}}\n\
             contexts:\n- {{name: lab, context: {{cluster: lab, user: lab}}}}\n- {{name: prod, context: {{cluster: prod, user: prod}}}}\n\
             users:\n- {{name: lab, user: {{client-certificate-data: {}, client-key-data: {}}}}}\n\
             - {{name: prod, user: {{client-certificate-data: {}, client-key-data: {}}}}}\n",
            base64(&lab.pair.cert),
            base64(&tree.ca.pair.cert),
            base64(&theirs.cert),
            base64(&theirs.key),
            base64(&ours.cert),
            base64(&ours.key)
        ),
    );
    let inventory = tree.inventory();
    assert_eq!(problems(&inventory), []);
    let copy = inventory.get(COPY).unwrap();
    assert_eq!((copy.not_after(), copy.ca_name.as_deref()), (Some(now() + days(42)), Some("ca")));
    assert_eq!(copy.manager, Manager::External);
}

#[test]
fn a_copy_of_another_cluster_is_not_ours_and_an_absent_one_is_normal() {
    let tree = Tree::kubeadm(now());
    let lab = Ca::new("kubernetes", Algorithm::P256, now() - days(9), now() + days(900));
    let (_, spec) = tree.spec("admin.conf", now() + days(42));
    let theirs = lab.issue(&spec);
    tree.write(COPY, kubeconfig("https://lab:6443", "lab", &lab.pair.cert, &theirs.cert, &theirs.key));
    let copy = |inventory: Inventory| inventory.get(COPY).unwrap().clone();
    let foreign = copy(tree.inventory());
    assert_eq!((foreign.problems, foreign.ca_name), (vec![], None));
    tree.remove(COPY);
    let absent = copy(tree.inventory());
    assert!(absent.missing && absent.problems.is_empty());
}
