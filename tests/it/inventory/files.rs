//! Files as people have them: every form that Kubernetes reads is read, and what it does not read is said.

use base64::Engine;
use chrono::Datelike;
use k8s_certs_renew::inventory::Problem;
use x509_parser::asn1_rs::{Any, FromDer};

use super::{now, problems, problems_of};
use crate::support::pki::{Algorithm, Spec, at, days};
use crate::support::tree::{Layout, Plan, Tree};

const CRT: &str = "/etc/kubernetes/pki/apiserver.crt";
const KEY: &str = "/etc/kubernetes/pki/apiserver.key";

#[test]
fn every_form_of_pem_is_read() {
    let tree = Tree::kubeadm(now());
    let (cert, key) = (tree.read(CRT), tree.read(KEY));
    let forms = [
        cert.replace('\n', "\r\n"),
        format!("\u{feff}{cert}"),
        format!("Bag Attributes\n    localKeyID: 01\nsubject=CN = kube-apiserver\n{cert}"),
        cert.trim_end().to_owned(),
        format!("{key}{cert}"),
        format!("{cert}{key}"),
        format!("{cert}{}", tree.ca.pair.cert),
    ];
    for form in forms {
        tree.write(CRT, &form);
        assert_eq!(problems(&tree.inventory()), [], "{form}");
    }
}

#[test]
fn what_is_no_certificate_is_said_so_and_hides_no_other() {
    let tree = Tree::kubeadm(now());
    let cert = tree.read(CRT);
    let der = base64::engine::general_purpose::STANDARD
        .decode(cert.lines().filter(|line| !line.starts_with('-')).collect::<String>())
        .unwrap();
    let cases: [(&[u8], &str); 6] = [
        (b"", "not a certificate: the file is empty"),
        (&cert.as_bytes()[..200], "not a certificate: a PEM block is damaged or cut off"),
        (&der, "not a certificate: DER, not PEM"),
        (b"hello\n", "not a certificate: no 'CERTIFICATE' block in it"),
        (
            &cert.replace("CERTIFICATE", "TRUSTED CERTIFICATE").into_bytes(),
            "not a certificate: a 'TRUSTED CERTIFICATE' block",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
            "not a certificate: the PEM block holds no X.509",
        ),
    ];
    for (bytes, expected) in cases {
        tree.write(CRT, bytes);
        let inventory = tree.inventory();
        let apiserver = inventory.get("apiserver").unwrap();
        assert!(apiserver.problems[0].to_string().starts_with(expected), "{:?}", apiserver.problems);
        assert!(apiserver.is_unreadable() && !apiserver.missing && apiserver.leaf.is_none());
        assert!(apiserver.renewable().is_err());
        assert_eq!(problems(&inventory).len(), 1, "the others are fine");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_missing() {
    let tree = Tree::kubespray(now());
    let member = "/etc/ssl/etcd/ssl/member-node1.pem";
    tree.remove(member);
    std::fs::create_dir(tree.on_host(member)).unwrap();
    tree.link("/etc/kubernetes/ssl/apiserver.key", "/etc/kubernetes/ssl/apiserver.key");
    let inventory = tree.inventory();
    assert!(matches!(problems_of(&inventory, "member-node1.pem")[..], [Problem::Unreadable(_)]));
    assert!(matches!(problems_of(&inventory, "apiserver")[..], [Problem::KeyUnreadable(_)]));
    assert!(!inventory.get("member-node1.pem").unwrap().missing);
    assert_eq!(problems(&inventory).len(), 2);
}

#[test]
fn a_link_that_leads_nowhere_names_where_it_leads() {
    let tree = Tree::kubeadm(now());
    tree.link("/gone/apiserver.crt", CRT);
    let problem = &problems_of(&tree.inventory(), "apiserver")[0];
    assert_eq!(problem, &Problem::DanglingLink { target: "/gone/apiserver.crt".into() });
}

#[test]
fn dates_past_2050_and_at_the_end_of_time_are_dates() {
    let tree = Tree::kubeadm(now());
    for (end, year) in [("2051-01-01T00:00:00Z", 2051), ("9999-12-31T23:59:59Z", 9999), ("2049-12-31T23:59:59Z", 2049)]
    {
        tree.issue("front-proxy-client", at(end));
        let inventory = tree.inventory();
        let certificate = inventory.get("front-proxy-client").unwrap();
        assert_eq!(certificate.not_after(), Some(at(end)));
        assert_eq!(certificate.not_after().unwrap().year(), year);
        assert!(matches!(certificate.problems[..], [Problem::OutlivesCa { .. }]), "{:?}", certificate.problems);
    }
}

#[test]
fn expired_and_not_yet_valid_are_told_apart() {
    let plan = Plan::new(Layout::Kubeadm, now()).ends("scheduler.conf", now() - days(1));
    let tree = plan.build();
    let (ca, mut spec) = tree.spec("apiserver", now() + days(300));
    spec.not_before = now() + days(1);
    tree.put("apiserver", &ca.issue(&spec));
    let inventory = tree.inventory();
    assert_eq!(problems_of(&inventory, "apiserver"), [Problem::NotYetValid { from: now() + days(1) }]);
    assert_eq!(problems_of(&inventory, "scheduler.conf"), [Problem::Expired { at: now() - days(1) }]);
    assert!(!inventory.get("scheduler.conf").unwrap().is_unreadable());
}

#[test]
fn keys_of_every_algorithm_match_their_certificates_and_no_others() {
    let algorithms = [Algorithm::Rsa(1), Algorithm::P256, Algorithm::P384, Algorithm::Ed25519];
    let words = ["RSA 2048", "ECDSA P-256", "ECDSA P-384", "Ed25519"];
    for (index, algorithm) in algorithms.into_iter().enumerate() {
        let mut plan = Plan::new(Layout::Kubeadm, now());
        plan.algorithm = algorithm;
        let tree = plan.build();
        let inventory = tree.inventory();
        assert_eq!(problems(&inventory), [], "{algorithm:?}");
        assert_eq!(inventory.get("apiserver").unwrap().leaf.as_ref().unwrap().key_algorithm, words[index]);
        for other in [Algorithm::Rsa(2), Algorithm::P256, Algorithm::P384, Algorithm::Ed25519] {
            tree.write(KEY, other.key().serialize_pem());
            assert_eq!(problems_of(&tree.inventory(), "apiserver"), [Problem::KeyMismatch], "{algorithm:?} {other:?}");
        }
    }
}

#[test]
fn ca_and_leaves_may_have_keys_of_different_kinds() {
    let mut plan = Plan::new(Layout::Kubeadm, now());
    plan.algorithm = Algorithm::P384;
    let tree = plan.build();
    for (name, algorithm) in
        [("apiserver", Algorithm::Rsa(1)), ("admin.conf", Algorithm::P256), ("front-proxy-client", Algorithm::Ed25519)]
    {
        let (ca, spec) = tree.spec(name, now() + days(300));
        tree.put(name, &ca.issue(&spec.algorithm(algorithm)));
    }
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn keys_in_every_wrapping_match() {
    let tree = Tree::kubeadm(now());
    for (algorithm, label, before) in [
        (Algorithm::Rsa(1), "RSA PRIVATE KEY", ""),
        (Algorithm::P256, "EC PRIVATE KEY", ""),
        (
            Algorithm::P384,
            "EC PRIVATE KEY",
            "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n",
        ),
    ] {
        let (ca, spec) = tree.spec("apiserver", now() + days(300));
        let pair = ca.issue(&spec.algorithm(algorithm));
        tree.put("apiserver", &pair);
        tree.write(KEY, format!("{before}{}", unwrapped(&pair.key, label)));
        assert_eq!(problems(&tree.inventory()), [], "{label}");
        let other = if label.starts_with("RSA") { Algorithm::Rsa(2) } else { algorithm };
        tree.write(KEY, unwrapped(&other.key().serialize_pem(), label));
        assert_eq!(problems_of(&tree.inventory(), "apiserver"), [Problem::KeyMismatch], "{label}");
    }
}

#[test]
fn a_key_that_is_gone_damaged_or_encrypted_is_said_so() {
    let tree = Tree::kubeadm(now());
    tree.write(KEY, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAMCAQE=\n-----END ENCRYPTED PRIVATE KEY-----\n");
    assert!(problems_of(&tree.inventory(), "apiserver")[0].to_string().contains("encrypted"));
    tree.write(KEY, "");
    assert!(matches!(problems_of(&tree.inventory(), "apiserver")[..], [Problem::KeyUnreadable(_)]));
    tree.write(KEY, "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n");
    assert!(matches!(problems_of(&tree.inventory(), "apiserver")[..], [Problem::CannotBeJudged(_)]));
    tree.remove(KEY);
    assert_eq!(problems_of(&tree.inventory(), "apiserver"), [Problem::KeyMissing]);
}

#[test]
fn a_chain_in_the_wrong_order_is_read_and_said() {
    let tree = Tree::kubeadm(now());
    let cert = tree.read(CRT);
    tree.write(CRT, format!("{}{cert}", tree.ca.pair.cert));
    let inventory = tree.inventory();
    let apiserver = inventory.get("apiserver").unwrap();
    assert_eq!(apiserver.problems, [Problem::NotFirst]);
    assert_eq!(apiserver.leaf.as_ref().unwrap().common_name, "kube-apiserver");
}

#[test]
fn a_leaf_reaches_its_ca_by_an_intermediate_in_its_file() {
    let tree = Tree::kubeadm(now());
    let between = tree.ca.intermediate("between", now() - days(1), now() + days(900));
    let (_, spec) = tree.spec("apiserver", now() + days(300));
    let pair = between.issue(&spec);
    tree.put("apiserver", &pair);
    assert_eq!(problems_of(&tree.inventory(), "apiserver"), [Problem::NotSignedByCa { ca: "ca".into() }]);
    tree.write(CRT, format!("{}{}", pair.cert, between.pair.cert));
    assert_eq!(problems(&tree.inventory()), []);
}

#[test]
fn a_renewal_keeps_the_identity_and_changes_the_serial() {
    let tree = Tree::kubeadm(now());
    let leaf = |tree: &Tree| tree.inventory().get("apiserver").unwrap().leaf.clone().unwrap();
    let before = leaf(&tree);
    tree.issue("apiserver", now() + days(365));
    let after = leaf(&tree);
    assert_eq!(before.identity(), after.identity());
    assert_ne!(before.serial, after.serial);
    let (ca, mut spec) = tree.spec("apiserver", now() + days(365));
    spec.sans.reverse();
    tree.put("apiserver", &ca.issue(&spec));
    assert_eq!(before.identity(), leaf(&tree).identity(), "order does not matter");
    spec.sans.pop();
    tree.put("apiserver", &ca.issue(&spec));
    assert_ne!(before.identity(), leaf(&tree).identity());
}

#[test]
fn what_a_certificate_says_is_read_whole() {
    let tree = Tree::kubeadm(now());
    let mut spec = Spec::client("kubernetes-admin", &["system:masters"], now() - days(1), now() + days(9));
    spec.sans = vec!["a.example".into(), "192.0.2.1".into(), "2001:db8::1".into()];
    spec.serial = Some(0x0abc);
    tree.put("admin.conf", &tree.ca.issue(&spec));
    let inventory = tree.inventory();
    let leaf = inventory.get("admin.conf").unwrap().leaf.as_ref().unwrap();
    assert_eq!(leaf.common_name, "kubernetes-admin");
    assert_eq!(leaf.issuer, "CN=kubernetes");
    assert_eq!(leaf.sans, ["a.example", "192.0.2.1", "2001:db8::1"]);
    assert_eq!(leaf.usages, ["clientAuth"]);
    assert_eq!(leaf.serial, "abc");
    assert_eq!(leaf.not_before, now() - days(1));
    assert!(!leaf.is_ca && inventory.authority("ca").unwrap().leaf.as_ref().unwrap().is_ca);
    assert_eq!(leaf.subject, "O=system:masters, CN=kubernetes-admin");
    assert_eq!(leaf.organizations, ["system:masters"]);
}

/// A PKCS#8 key in the wrapping of its own algorithm.
fn unwrapped(pkcs8: &str, label: &str) -> String {
    let base64 = base64::engine::general_purpose::STANDARD;
    let der = base64.decode(pkcs8.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let (_, sequence) = Any::from_der(&der).unwrap();
    let (rest, _version) = Any::from_der(sequence.data).unwrap();
    let (rest, _algorithm) = Any::from_der(rest).unwrap();
    let (_, inner) = Any::from_der(rest).unwrap();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64.encode(inner.data))
}
