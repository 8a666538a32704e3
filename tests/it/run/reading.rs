//! What is on disk, and what a run makes of it.

use std::fs;

use super::seen::run_impatiently;
use super::{DONE, RESTARTS, SKIP, acts, by_config, by_dir, files, now, plan, refused, run, site, stacked, untouched};
use crate::support::faults::Renewal;
use crate::support::pki::{Algorithm, Ca, days};
use crate::support::site::Site;
use crate::support::world::demo;

const CONF: &str = "/etc/kubernetes";

/// A run that has to leave a node with time left alone, and to end so.
fn left_alone(site: &Site, code: u8) -> super::Ran {
    let before = files(site);
    let ran = run(site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.headlines().last()), (code, Some(&SKIP)), "{}", ran.text());
    untouched(site, &before);
    ran
}

// D01: only where `kubeadm init` ran is there a super-admin.conf
#[test]
fn a_missing_super_admin_conf_is_no_reason_for_anything() {
    let site = stacked(300);
    site.tree.remove("/etc/kubernetes/super-admin.conf");
    let ran = left_alone(&site, 0);
    assert!(!ran.text().contains("super-admin"), "{}", ran.text());

    let site = stacked(5);
    site.tree.remove("/etc/kubernetes/super-admin.conf");
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    let renewed: Vec<_> =
        site.tree.renewed_by_kubeadm().into_iter().filter(|name| *name != "super-admin.conf").collect();
    assert_eq!(site.renewed_since(&before), renewed);
}

// D01, X02: there and of no use is not missing
#[test]
fn a_kubeconfig_that_cannot_be_read_is_told_with_its_path_and_stops_nobody_else() {
    for (text, why) in
        [("", "super-admin.conf"), ("users: [", "super-admin.conf"), ("kind: Config\n", "super-admin.conf")]
    {
        let site = stacked(300);
        site.tree.write("/etc/kubernetes/super-admin.conf", text);
        let ran = left_alone(&site, 26);
        assert!(
            ran.err.contains(&format!("warning: {why}: ")) && ran.err.contains("'/etc/kubernetes/super-admin.conf'"),
            "{}",
            ran.err
        );

        let site = stacked(5);
        site.tree.write("/etc/kubernetes/super-admin.conf", text);
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 20, "{}", ran.text());
        assert_eq!(site.renewed_since(&before).len(), site.tree.renewed_by_kubeadm().len() - 1);
        assert_eq!(site.tree.read("/etc/kubernetes/super-admin.conf"), text);
    }
}

// D01, X02
#[test]
fn a_required_certificate_that_is_missing_or_empty_is_an_error_and_no_skip_like_any_other() {
    for (damage, word) in [(None, "missing"), (Some(""), "empty"), (Some("-----BEGIN CERT"), "certificate")] {
        let damaged = |left| {
            let site = site(left);
            match damage {
                None => site.tree.remove("/etc/kubernetes/ssl/apiserver-kubelet-client.crt"),
                Some(text) => site.tree.write("/etc/kubernetes/ssl/apiserver-kubelet-client.crt", text),
            }
            site
        };
        let ran = left_alone(&damaged(300), 26);
        let line = ran.err.lines().find(|line| line.contains("apiserver-kubelet-client:")).unwrap_or_default();
        assert!(
            line.contains(word) && line.contains("/etc/kubernetes/ssl/apiserver-kubelet-client.crt"),
            "{}",
            ran.err
        );

        let site = damaged(5);
        let before = site.serials();
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 20, "{}", ran.text());
        let renewed = ["admin.conf", "apiserver", "controller-manager.conf", "front-proxy-client", "scheduler.conf"];
        assert_eq!(site.renewed_since(&before), renewed);
    }
}

// D02, X03
#[test]
fn with_etcd_on_the_host_nothing_of_a_stacked_etcd_is_missed() {
    let ran = left_alone(&site(300), 0);
    for name in ["member-node1.pem", "admin-node1.pem", "node-node1.pem", "ca.pem"] {
        assert!(ran.out.contains(name), "{}", ran.out);
    }
    for name in ["apiserver-etcd-client", "etcd-server", "missing"] {
        assert!(!ran.text().contains(name), "{}", ran.text());
    }
}

// D02, D03: the API is dead and there is no configuration file, so kubeadm takes etcd to be stacked, and stops at what is not there
#[test]
fn a_kubeadm_that_misses_stacked_etcd_is_told_the_rest_by_name() {
    let site = site(5);
    site.tree.remove("/etc/kubernetes/kubeadm-config.yaml");
    site.world.fault(|faults| {
        faults.cluster_config_unreachable = true;
        faults.renewals = vec![Renewal::StopsAt("apiserver-etcd-client".into()), Renewal::Ordinary];
    });
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{}", ran.text());
    let calls = ["all", "apiserver-kubelet-client", "controller-manager.conf", "front-proxy-client", "scheduler.conf"];
    assert_eq!(site.world.acts(), acts(&calls.map(by_dir), &RESTARTS));
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
}

/// A kubespray node whose `pki` is an old copy of `ssl` that looks fresh.
fn with_old_copy(left: i64) -> Site {
    let site = Site::new(&demo(), plan(left));
    site.tree.remove("/etc/kubernetes/pki");
    for name in fs::read_dir(site.tree.on_host("/etc/kubernetes/ssl")).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        site.tree.write(&format!("/etc/kubernetes/pki/{name}"), site.tree.read(&format!("/etc/kubernetes/ssl/{name}")));
    }
    for name in ["apiserver", "apiserver-kubelet-client", "front-proxy-client"] {
        let (ca, spec) = site.tree.spec(name, now() + days(300));
        let pair = ca.issue(&spec);
        site.tree.write(&format!("/etc/kubernetes/pki/{name}.crt"), pair.cert);
        site.tree.write(&format!("/etc/kubernetes/pki/{name}.key"), pair.key);
    }
    site
}

fn in_pki(site: &Site) -> Vec<(String, Vec<u8>)> {
    let of_pki = files(site).into_iter().filter(|(path, _)| path.starts_with("etc/kubernetes/pki/"));
    of_pki.map(|(path, (_, bytes))| (path, bytes)).collect()
}

// D03
#[test]
fn the_directory_that_the_manifests_use_decides_and_not_an_old_copy() {
    let site = with_old_copy(3);
    let (before, copy) = (site.serials(), in_pki(&site));
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 10, "{}", ran.text());
    assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS));
    assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
    assert_eq!(in_pki(&site), copy);
}

// D03: kubeadm takes certificatesDir from the file and passes over --cert-dir without a word
#[test]
fn a_configuration_for_another_directory_is_not_used() {
    let usual = |site: &Site, from: &str, to: &str| {
        site.tree.edit("/etc/kubernetes/kubeadm-config.yaml", |text| text.replace(from, to));
    };
    let table = [
        ("/etc/kubernetes/ssl", "/etc/kubernetes/pki", "its certificatesDir is '/etc/kubernetes/pki'"),
        ("certificatesDir: /etc/kubernetes/ssl\n", "", "its certificatesDir is '/etc/kubernetes/pki'"),
        ("kind: ClusterConfiguration", "kind: Other", "it holds no ClusterConfiguration"),
        ("kubernetesVersion", "\t- : ][", "line 7"),
    ];
    for (from, to, why) in table {
        let site = with_old_copy(3);
        usual(&site, from, to);
        let copy = in_pki(&site);
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{}", ran.text());
        let warning =
            ran.err.lines().find(|line| line.contains("kubeadm-config.yaml' is not used")).unwrap_or_default();
        assert!(warning.contains(why), "{why}: {}", ran.err);
        assert_eq!(site.world.acts(), acts(&[by_dir("all")], &RESTARTS));
        assert_eq!(in_pki(&site), copy);
    }
    // where pki is a link to ssl, it is the same directory
    let site = site(3);
    usual(&site, "/etc/kubernetes/ssl", "/etc/kubernetes/pki");
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!((ran.code, ran.err.contains("is not used")), (10, false), "{}", ran.text());
    assert_eq!(site.world.acts(), acts(&[by_config("all")], &RESTARTS));
}

// D03
#[test]
fn a_kubeadm_that_renews_another_directory_has_not_renewed() {
    let site = with_old_copy(3);
    site.world.fault(|faults| faults.renewals = vec![Renewal::RenewsDirectory("/etc/kubernetes/pki".into())]);
    let before = site.serials();
    let ran = run(&site, &["--detailed-exitcode"]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert_eq!(site.renewed_since(&before), ["admin.conf", "controller-manager.conf", "scheduler.conf"]);
    for name in ["apiserver", "apiserver-kubelet-client", "front-proxy-client"] {
        assert!(
            ran.err.contains(&format!("error: {name} is not renewed: unchanged: it has the serial that it had")),
            "{}",
            ran.err
        );
    }
    let one = |name| [by_config(name), by_dir(name)];
    let calls =
        [&[by_config("all")][..], &one("apiserver"), &one("apiserver-kubelet-client"), &one("front-proxy-client")]
            .concat();
    // kube-apiserver reads none of what was renewed
    assert_eq!(site.world.acts(), acts(&calls, &RESTARTS[1..]));
}

// D11: the CA was replaced, and admin.conf still trusts the old one
#[test]
fn an_admin_conf_with_another_ca_inside_is_told_and_not_handed_on() {
    for left in [300, 5] {
        let site = site(left);
        let old = Ca::new("kubernetes", Algorithm::P256, now() - days(900), now() + days(900));
        let conf = format!("{CONF}/admin.conf");
        let (now_inside, other) = (base64(&site.tree.ca.pair.cert), base64(&old.pair.cert));
        site.tree.edit(&conf, |text| text.replace(&now_inside, &other));
        let copy = site.tree.read("/root/.kube/config");
        let ran = run(&site, &["--detailed-exitcode"]);
        assert!(ran.err.contains("the CA inside is not the CA on disk"), "{}", ran.err);
        assert_eq!(site.tree.read("/root/.kube/config"), copy);
        if left == 300 {
            assert_eq!((ran.code, site.world.acts()), (25, vec![]), "{}", ran.text());
        } else {
            assert_eq!(ran.code, 20, "{}", ran.text());
            assert_eq!(site.world.acts().last().unwrap(), RESTARTS[2], "the others are renewed and in use");
        }
    }
}

fn base64(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

// R04
#[test]
fn a_server_that_the_certificate_does_not_name_is_a_warning_and_no_failure() {
    for (left, code) in [(300, 0), (5, 10)] {
        let site = site(left);
        let server = site.tree.server();
        for name in ["/etc/kubernetes/admin.conf", "/root/.kube/config"] {
            site.tree.edit(name, |text| text.replace(&server, "https://lb.example.com:6443"));
        }
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, code, "{}", ran.text());
        let expected =
            "'admin.conf': its server 'lb.example.com' is not among the names in kube-apiserver's certificate";
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}

// R07
#[test]
fn clusters_of_every_key_kind_run_through() {
    for algorithm in [Algorithm::Rsa(1), Algorithm::P384, Algorithm::Ed25519] {
        let mut plan = plan(5);
        plan.algorithm = algorithm;
        let site = Site::new(&demo(), plan);
        let before = site.serials();
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!((ran.code, ran.headlines().as_slice()), (10, DONE.as_slice()), "{algorithm:?}: {}", ran.text());
        assert_eq!(site.renewed_since(&before), site.tree.renewed_by_kubeadm());
        assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
    }
}

#[test]
fn a_manifests_directory_that_cannot_be_listed_is_not_no_control_plane() {
    let site = site(5);
    fs::remove_dir_all(site.tree.on_host("/etc/kubernetes/manifests")).unwrap();
    let ran = run(&site, &[]);
    assert!(ran.code == 0 && ran.out.contains("this is no control-plane node"), "{}", ran.text());
    site.tree.link("/etc/kubernetes/manifests", "/etc/kubernetes/manifests");
    refused(&site, &[], 26, "cannot tell whether this is a control-plane node: '/etc/kubernetes/manifests'");
}

#[test]
fn names_of_files_pods_and_nodes_neither_play_with_the_terminal_nor_forge_lines_of_the_log() {
    let site = site(5);
    let etcd = site.tree.on_host("/etc/ssl/etcd/ssl");
    for name in ["member-\u{1b}[31mred.pem", "member-a\n## Skip ##\nb.pem", "node-\u{202e}x.pem"] {
        fs::copy(etcd.join("member-node1.pem"), etcd.join(name)).unwrap();
    }
    site.tree.write("/etc/kubernetes/manifests/x\u{1b}]0;title\u{7}\n## Skip ##\n.yaml", "{");
    site.tree.write("/etc/hostname", "node1\u{1b}[1m\n");
    for args in [&["--dry-run"][..], &["--color", "always"], &["-o", "json"]] {
        let text = run_impatiently(&site, args).text();
        assert!(
            text.contains("member-") && text.contains("u{1b}[31mred.pem") || text.contains("u001b[31mred.pem"),
            "{text}"
        );
        assert!(!text.lines().any(|line| line == "## Skip ##"), "{args:?}: {text}");
        let colors = ["\u{1b}[0m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m"];
        let plain = colors.iter().fold(text.replace("\u{1b}[31mred", "RED"), |text, color| text.replace(color, ""));
        let wild: Vec<char> = plain.chars().filter(|one| one.is_control() && *one != '\n').collect();
        assert_eq!((wild, plain.contains("RED")), (vec![], false), "{args:?}");
    }
}

#[test]
fn where_nothing_can_be_read_nothing_is_said_to_be_beyond_the_threshold() {
    let site = site(5);
    for (path, (_, bytes)) in files(&site) {
        let ours = path.starts_with("etc/kubernetes/") && (path.ends_with(".crt") || path.ends_with(".conf"));
        if ours && !bytes.is_empty() {
            let _ = fs::write(site.tree.on_host(&format!("/{path}")), "");
        }
    }
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 26, "{}", ran.text());
    assert!(!ran.headlines().contains(&SKIP), "{}", ran.out);
    assert!(ran.out.contains("## Cannot judge: admin.conf, apiserver"), "{}", ran.out);
}
