//! Copies of admin.conf: which are ours, what is written, and what is never touched.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use base64::Engine;
use k8s_certs_renew::files::Root;
use k8s_certs_renew::steps::kubeconfig::{CopyState, Written, judge, write};

use crate::support::pki::{Algorithm, Ca, Pair, Spec, at, days};

const SOURCE: &str = "/etc/kubernetes/admin.conf";
const COPY: &str = "/root/.kube/config";

/// A node whose admin.conf was renewed: `old` is the credential before, `new` the one in it.
struct Node {
    dir: tempfile::TempDir,
    root: Root,
    ca: Ca,
    old: Pair,
    new: Pair,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for below in ["etc/kubernetes", "root/.kube"] {
            std::fs::create_dir_all(dir.path().join(below)).unwrap();
        }
        let ca = new_ca();
        let (old, new) = (admin(&ca), admin(&ca));
        let node = Self { root: Root::new(dir.path()).unwrap(), dir, ca, old, new };
        node.put(SOURCE, &kubeconfig(&node.ca, &node.new));
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn judge(&self) -> CopyState {
        judge(&self.root, Path::new(SOURCE), Path::new(COPY), std::slice::from_ref(&self.ca.pair.der))
    }

    fn write(&self) -> Result<Written, String> {
        write(&self.root, Path::new(SOURCE), Path::new(COPY), std::slice::from_ref(&self.ca.pair.der)).map_err(
            |error| {
                let shown = format!("{error} {error:?}");
                self.assert_no_secret(&shown);
                error.to_string()
            },
        )
    }

    /// The copy's text with the new credential in place of the old.
    fn renewed(&self, text: &str) -> String {
        text.replace(&b64(&self.old.cert), &b64(&self.new.cert)).replace(&b64(&self.old.key), &b64(&self.new.key))
    }

    fn assert_updates(&self, name: &str, copy: &str, user: &str) {
        self.put(COPY, copy);
        assert_eq!(self.judge(), CopyState::Outdated { user: user.to_owned() }, "{name}");
        assert_eq!(self.write(), Ok(Written::Updated { user: user.to_owned() }), "{name}");
        assert_ne!(self.text(COPY), copy, "{name}");
        assert_eq!(self.text(COPY), self.renewed(copy), "{name}");
        assert_eq!(self.judge(), CopyState::Current, "{name}");
        assert_eq!(self.write(), Ok(Written::Unchanged), "{name}");
    }

    fn assert_no_secret(&self, shown: &str) {
        for secret in [&self.old.key, &self.new.key] {
            let line = secret.lines().nth(1).unwrap();
            assert!(!shown.contains(line) && !shown.contains(&b64(secret)[40..80]), "{shown}");
        }
    }

    /// The file at COPY is `text`, is judged as `state` says, and a write leaves it as it is.
    fn assert_untouched(&self, name: &str, copy: &str, state: fn(&str) -> CopyState, reason: &str) {
        self.put(COPY, copy);
        let judged = self.judge();
        self.assert_no_secret(&format!("{judged:?}"));
        assert_eq!(judged, state(reason), "{name}");
        match judged {
            CopyState::Foreign(_) => assert_eq!(self.write(), Ok(Written::LeftAlone(reason.to_owned())), "{name}"),
            _ => assert!(self.write().unwrap_err().ends_with(reason), "{name}"),
        }
        assert_eq!(self.text(COPY), copy, "{name}");
    }
}

fn foreign(reason: &str) -> CopyState {
    CopyState::Foreign(reason.to_owned())
}

fn broken(reason: &str) -> CopyState {
    CopyState::Broken(reason.to_owned())
}

fn new_ca() -> Ca {
    Ca::new("kubernetes", Algorithm::P256, at("2020-01-01T00:00:00Z"), at("2040-01-01T00:00:00Z"))
}

fn client(ca: &Ca, name: &str, groups: &[&str]) -> Pair {
    ca.issue(&Spec::client(name, groups, at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z") + days(365)))
}

fn admin(ca: &Ca) -> Pair {
    client(ca, "kubernetes-admin", &["kubeadm:cluster-admins"])
}

fn b64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// A kubeconfig as kubeadm writes it.
fn kubeconfig(ca: &Ca, pair: &Pair) -> String {
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: https://192.0.2.1:6443\n\
         \x20 name: kubernetes\ncontexts:\n- context:\n    cluster: kubernetes\n    user: kubernetes-admin\n\
         \x20 name: kubernetes-admin@kubernetes\ncurrent-context: kubernetes-admin@kubernetes\nkind: Config\nusers:\n\
         - name: kubernetes-admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        b64(&ca.pair.cert),
        b64(&pair.cert),
        b64(&pair.key)
    )
}

/// A kubeconfig of one user, written in flow style.
fn one_user(fields: &str) -> String {
    format!("kind: Config\nusers: [{{name: me, user: {{{fields}}}}}]\n")
}

fn fields(pair: &Pair) -> String {
    format!("client-certificate-data: {}, client-key-data: {}", b64(&pair.cert), b64(&pair.key))
}

/// Several clusters, with a namespace and comments, ours last.
fn merged(node: &Node) -> String {
    let lab = client(&new_ca(), "kubernetes-admin", &["system:masters"]);
    format!(
        "# prod and lab, merged by hand\napiVersion: v1\nkind: Config\npreferences: {{}}\n\
         current-context: lab   # careful\ncontexts:\n- name: lab\n  context: {{cluster: lab, user: lab-admin}}\n\
         - name: \"prod\"\n  context:\n    namespace: shop\n    user: 'prod admin'\n    cluster: prod\nclusters:\n\
         - name: lab\n  cluster: {{server: 'https://lab:6443', insecure-skip-tls-verify: true}}\n\
         - {{name: prod, cluster: {{server: \"https://vip:8443\"}}}}\nusers:\n- name: lab-admin\n  user:\n\
         \x20     client-certificate-data: {}\n      client-key-data: {}\n- name: exec\n  user: {{exec: {{command: aws}}}}\n\
         - user:\n    client-key-data: '{}'  # key first\n    client-certificate-data: \"{}\"\n  name: 'prod admin'\n# end",
        b64(&lab.cert),
        b64(&lab.key),
        b64(&node.old.key),
        b64(&node.old.cert),
    )
}

#[test]
fn a_missing_copy_becomes_admin_conf_and_its_directory_is_private() {
    let node = Node::new();
    assert_eq!(node.judge(), CopyState::Missing { directory: false });
    std::fs::remove_dir(node.path("/root/.kube")).unwrap();
    assert_eq!(node.judge(), CopyState::Missing { directory: true });
    assert_eq!(node.write(), Ok(Written::Created));
    assert_eq!(std::fs::read(node.path(COPY)).unwrap(), std::fs::read(node.path(SOURCE)).unwrap());
    let mode = |path| std::fs::metadata(node.path(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode(COPY), mode("/root/.kube")), (0o600, 0o700));
    assert_eq!(node.judge(), CopyState::Current);
}

#[test]
fn only_the_credential_of_this_clusters_admin_changes() {
    let node = Node::new();
    let plain = kubeconfig(&node.ca, &node.old);
    let merged = merged(&node);
    let json = serde_json::json!({"kind": "Config", "users": [
        {"name": "json", "user": {"client-certificate-data": b64(&node.old.cert), "client-key-data": b64(&node.old.key)}}
    ]});
    node.assert_updates("plain copy", &plain, "kubernetes-admin");
    assert_eq!(node.text(COPY), node.text(SOURCE));
    node.assert_updates("another server", &plain.replace("192.0.2.1:6443", "vip.example:8443"), "kubernetes-admin");
    node.assert_updates("merged", &merged, "prod admin");
    node.assert_updates("windows lines", &merged.replace('\n', "\r\n"), "prod admin");
    node.assert_updates("byte order mark", &format!("\u{feff}{merged}"), "prod admin");
    node.assert_updates("JSON", &json.to_string(), "json");
    node.assert_updates("flow", &one_user(&fields(&node.old)), "me");
}

#[test]
fn an_admin_of_every_kubeadm_is_ours_and_becomes_the_one_of_admin_conf() {
    for (name, groups) in [
        ("kubernetes-admin", vec!["system:masters"]),
        ("kubernetes-admin", vec!["kubeadm:cluster-admins"]),
        ("kubernetes-super-admin", vec!["system:masters"]),
        ("someone", vec!["system:masters"]),
    ] {
        let mut node = Node::new();
        node.old = client(&node.ca, name, &groups);
        node.assert_updates(name, &kubeconfig(&node.ca, &node.old), "kubernetes-admin");
    }
}

#[test]
fn a_copy_with_a_torn_pair_is_outdated() {
    let node = Node::new();
    let torn = Pair { cert: node.new.cert.clone(), ..node.old.clone() };
    node.put(COPY, &kubeconfig(&node.ca, &torn));
    assert_eq!(node.write(), Ok(Written::Updated { user: "kubernetes-admin".into() }));
    assert_eq!(node.text(COPY), node.text(SOURCE));
}

#[test]
fn of_several_admins_the_one_of_admin_confs_name_then_the_current_one_is_updated() {
    let node = Node::new();
    let other = client(&node.ca, "kubernetes-super-admin", &["system:masters"]);
    let users = |current: &str, second: &Pair| {
        format!(
            "current-context: {current}\ncontexts: [{{name: one, context: {{user: a}}}}, {{name: two, context: {{user: b}}}}]\n\
             users:\n- {{name: b, user: {{{}}}}}\n- {{name: a, user: {{{}}}}}\n",
            fields(second),
            fields(&node.old)
        )
    };
    node.assert_updates("by name", &users("two", &other), "a");
    node.assert_updates("by context", &users("one", &admin(&node.ca)), "a");
    let reason = "users 'b', 'a' are all admins of this cluster, and no one of them is the current context's";
    node.assert_untouched("neither", &users("gone", &admin(&node.ca)), broken, reason);
}

#[test]
fn what_is_not_ours_is_never_touched() {
    let node = Node::new();
    let foreign_admin = admin(&new_ca());
    let kubelet = client(&node.ca, "system:node:n1", &["system:nodes"]);
    let developer = client(&node.ca, "jane", &["developers"]);
    let cases = [
        ("other cluster", kubeconfig(&new_ca(), &foreign_admin), "user 'kubernetes-admin' is of another cluster"),
        ("node", one_user(&fields(&kubelet)), "user 'me' is 'system:node:n1', no admin"),
        ("developer", one_user(&fields(&developer)), "user 'me' is 'jane', no admin"),
        ("token", one_user("token: hunter2"), "user 'me' has no client certificate"),
        ("no users", "kind: Config\nusers: []\n".to_owned(), "it has no users"),
        (
            "certificate in a file",
            one_user("client-certificate: pki/a.crt, client-key: /a.key"),
            "user 'me' takes its certificate from the file '/root/.kube/pki/a.crt'",
        ),
        (
            "key in a file",
            one_user(&format!("client-certificate-data: {}, client-key: /a.key", b64(&node.old.cert))),
            "user 'me' takes its key from the file '/a.key'",
        ),
    ];
    for (name, copy, reason) in cases {
        node.assert_untouched(name, &copy, foreign, reason);
    }
}

#[test]
fn what_cannot_be_read_or_edited_safely_is_told_and_stays() {
    let node = Node::new();
    let plain = kubeconfig(&node.ca, &node.old);
    let (certificate, key) = (b64(&node.old.cert), b64(&node.old.key));
    let no_block = "only a plain or quoted value is edited (write the value on the line of its field)";
    let cases = [
        ("empty", String::new(), "it is empty (remove it, and the next run writes it)".to_owned()),
        ("cut off", one_user("name: {"), "not valid YAML at line 2, column 9".to_owned()),
        ("no mapping", "- a\n".to_owned(), "no kubeconfig: the file is empty or not a mapping".to_owned()),
        (
            "HTML in base64",
            plain.replace(&certificate, "'LS0t&#43;'"),
            "field 'client-certificate-data' of 'kubernetes-admin' is not base64".to_owned(),
        ),
        (
            "no certificate in it",
            plain.replace(&certificate, &b64("hello")),
            "client certificate of user 'kubernetes-admin': no certificate in it".to_owned(),
        ),
        (
            "cut-off certificate",
            plain.replace(&certificate, &b64(&node.old.cert[..80])),
            "client certificate of user 'kubernetes-admin': a PEM block is damaged or cut off".to_owned(),
        ),
        (
            "no key",
            one_user(&format!("client-certificate-data: {certificate}")),
            "user 'me' has a client certificate and no key".to_owned(),
        ),
        (
            "block scalar",
            plain.replace(&key, &format!("|\n      {key}")),
            format!(
                "user 'kubernetes-admin': field 'client-key-data' at line 19 is a block scalar, or has an anchor, a tag \
                 or a comment before it; {no_block}"
            ),
        ),
        (
            "alias",
            format!("x: &k {key}\n{}", plain.replace(&key, "*k")),
            format!(
                "user 'kubernetes-admin': field 'client-key-data' at line 19 is an alias, or comes from a merge key; \
                 {no_block}"
            ),
        ),
    ];
    for (name, copy, reason) in cases {
        node.assert_untouched(name, &copy, broken, &reason);
    }
}

#[test]
fn admin_conf_itself_is_left_alone_by_whatever_link_the_copy_is_it() {
    let node = Node::new();
    let before = node.text(SOURCE);
    for hard in [false, true] {
        match hard {
            false => symlink(SOURCE, node.path(COPY)).unwrap(),
            true => std::fs::hard_link(node.path(SOURCE), node.path(COPY)).unwrap(),
        }
        assert_eq!(node.judge(), CopyState::SameFile);
        assert_eq!(node.write(), Ok(Written::Unchanged));
        assert_eq!(node.text(SOURCE), before);
        assert_eq!(std::fs::symlink_metadata(node.path(COPY)).unwrap().is_symlink(), !hard);
        std::fs::remove_file(node.path(COPY)).unwrap();
    }
}

#[test]
fn a_link_to_another_file_stays_and_its_file_is_updated() {
    let node = Node::new();
    std::fs::create_dir(node.path("/srv")).unwrap();
    node.put("/srv/kube", &kubeconfig(&node.ca, &node.old));
    // absolute, so it resolves below the root
    symlink("/srv/kube", node.path(COPY)).unwrap();
    assert_eq!(node.write(), Ok(Written::Updated { user: "kubernetes-admin".into() }));
    assert_eq!(std::fs::read_link(node.path(COPY)).unwrap(), Path::new("/srv/kube"));
    assert_eq!(node.text("/srv/kube"), node.text(SOURCE));
}

#[test]
fn a_dangling_link_a_directory_and_a_file_for_a_directory_are_told() {
    let node = Node::new();
    symlink("/srv/gone", node.path(COPY)).unwrap();
    assert_eq!(node.judge(), broken("it is a link to '/srv/gone', which does not exist (remove the link)"));
    assert!(node.write().is_err());
    assert!(!node.path("/srv/gone").exists());

    std::fs::remove_file(node.path(COPY)).unwrap();
    symlink(COPY, node.path(COPY)).unwrap();
    assert!(matches!(node.judge(), CopyState::Broken(_)), "{:?}", node.judge());

    std::fs::remove_file(node.path(COPY)).unwrap();
    std::fs::create_dir(node.path(COPY)).unwrap();
    assert_eq!(node.judge(), broken("it is a directory"));
    assert_eq!(node.write(), Err("cannot update the kubeconfig copy '/root/.kube/config': it is a directory".into()));

    std::fs::remove_dir_all(node.path("/root/.kube")).unwrap();
    node.put("/root/.kube", "a file");
    assert_eq!(node.judge(), broken("'/root/.kube' is not a directory"));
    assert!(node.write().is_err());
    assert_eq!(node.text("/root/.kube"), "a file");

    std::fs::remove_file(node.path("/root/.kube")).unwrap();
    symlink("/srv/gone", node.path("/root/.kube")).unwrap();
    assert_eq!(node.judge(), broken("'/root/.kube' is not a directory"));
}

#[test]
fn an_updated_copy_keeps_its_mode_and_owner() {
    let node = Node::new();
    node.put(COPY, &kubeconfig(&node.ca, &node.old));
    std::fs::set_permissions(node.path(COPY), PermissionsExt::from_mode(0o640)).unwrap();
    // only root can give files away
    let owned = chown(node.path(COPY), Some(1234), Some(4321)).is_ok();
    let before = std::fs::metadata(node.path(COPY)).unwrap();
    assert!(matches!(node.write(), Ok(Written::Updated { .. })));
    let after = std::fs::metadata(node.path(COPY)).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(!owned || after.uid() == 1234);
    assert_eq!(std::fs::read_dir(node.path("/root/.kube")).unwrap().count(), 1, "a temporary file was left behind");
}

#[test]
fn an_immutable_copy_is_an_error_that_says_so_and_stays() {
    let node = Node::new();
    let copy = kubeconfig(&node.ca, &node.old);
    node.put(COPY, &copy);
    let chattr = |flag| {
        let done = std::process::Command::new("chattr").arg(flag).arg(node.path(COPY)).output();
        done.is_ok_and(|output| output.status.success())
    };
    if !chattr("+i") {
        eprintln!("not tested: chattr +i needs root, the program, and a file system with that flag");
        return;
    }
    let (judged, written) = (node.judge(), node.write());
    assert!(chattr("-i"));
    assert!(matches!(judged, CopyState::Outdated { .. }));
    let error = written.unwrap_err();
    assert!(error.starts_with("cannot update the kubeconfig copy '/root/.kube/config': "), "{error}");
    assert!(error.contains("chattr -i"), "{error}");
    assert_eq!(node.text(COPY), copy);
    assert_eq!(std::fs::read_dir(node.path("/root/.kube")).unwrap().count(), 1, "a temporary file was left behind");
}

#[test]
fn an_admin_conf_that_must_not_be_handed_on_is_refused() {
    let node = Node::new();
    let stale_ca = new_ca();
    let kubelet = client(&node.ca, "system:node:n1", &["system:nodes"]);
    let torn = Pair { key: node.old.key.clone(), ..node.new.clone() };
    let good = node.text(SOURCE);
    let cases = [
        ("node", kubeconfig(&node.ca, &kubelet), "its client certificate is a node's, 'system:node:n1'"),
        (
            "old CA data",
            kubeconfig(&stale_ca, &node.new),
            "its 'certificate-authority-data' is not the CA that signed its client certificate \
             (left from before a change of the CA?)",
        ),
        (
            "other CA",
            kubeconfig(&stale_ca, &admin(&stale_ca)),
            "its client certificate is signed by no CA of this cluster",
        ),
        ("torn", kubeconfig(&node.ca, &torn), "its client key does not match its client certificate"),
        ("no CA", good.replace("certificate-authority-data", "nothing"), "it holds no 'certificate-authority-data'"),
        (
            "unknown context",
            good.replace("current-context: kubernetes-admin", "current-context: gone"),
            "current-context 'gone@kubernetes' is not defined in it",
        ),
        (
            "in files",
            good.replace("client-certificate-data", "client-certificate: /a.crt\n    x"),
            "user 'kubernetes-admin' takes its certificate from the file '/a.crt'",
        ),
        ("empty", String::new(), "no kubeconfig: the file is empty or not a mapping"),
    ];
    for (name, source, reason) in cases {
        node.put(SOURCE, &source);
        let refused = format!("'/etc/kubernetes/admin.conf' is not handed on: {reason}");
        assert_eq!(node.judge(), CopyState::SourceRefused(refused.clone()), "{name}");
        assert_eq!(
            node.write(),
            Err(format!("cannot update the kubeconfig copy '/root/.kube/config': {refused}")),
            "{name}"
        );
        assert!(!node.path(COPY).exists(), "{name}");
    }
}

#[test]
fn a_ca_bundle_that_holds_the_signer_is_good_enough() {
    let node = Node::new();
    let bundle = format!("{}{}", new_ca().pair.cert, node.ca.pair.cert);
    node.put(SOURCE, &node.text(SOURCE).replace(&b64(&node.ca.pair.cert), &b64(&bundle)));
    assert_eq!(node.write(), Ok(Written::Created));
}

#[test]
fn keys_and_signatures_of_every_algorithm_are_judged() {
    let (from, to) = (at("2020-01-01T00:00:00Z"), at("2040-01-01T00:00:00Z"));
    for algorithm in [Algorithm::Rsa(1), Algorithm::P256, Algorithm::P384, Algorithm::Ed25519] {
        let mut node = Node::new();
        node.ca = Ca::new("kubernetes", algorithm, from, to);
        let spec = Spec::client("kubernetes-admin", &["system:masters"], from, to);
        node.old = node.ca.issue(&spec);
        node.new = node.ca.issue(&spec.algorithm(algorithm));
        node.put(SOURCE, &kubeconfig(&node.ca, &node.new));
        node.assert_updates(&format!("{algorithm:?}"), &kubeconfig(&node.ca, &node.old), "kubernetes-admin");
    }
}
