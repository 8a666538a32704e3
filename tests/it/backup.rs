//! Backups: what is in one, that it is whole or not there, and what it gives back.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use k8s_certs_renew::files::Root;
use k8s_certs_renew::steps::backup::{About, Backup, BackupError, prune, space_needed};

const DIR: &str = "/var/lib/k8s-certs-renew/backups";
const MANIFESTS: &str = "/etc/kubernetes/manifests";
const ID: &str = "20261130T030000Z";
const CERT: &str = "/etc/kubernetes/pki/apiserver.crt";
const KEY: &str = "/etc/kubernetes/pki/apiserver.key";

struct Node {
    dir: tempfile::TempDir,
    root: Root,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Self { root: Root::new(dir.path()).unwrap(), dir };
        std::fs::create_dir_all(node.path("/etc/kubernetes/pki/etcd")).unwrap();
        std::fs::create_dir_all(node.path(MANIFESTS)).unwrap();
        node.put(CERT, "certificate", 0o644);
        node.put(KEY, "hunter2", 0o600);
        node
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path.as_ref().strip_prefix("/").unwrap())
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        std::fs::write(self.path(path), text).unwrap();
        std::fs::set_permissions(self.path(path), PermissionsExt::from_mode(mode)).unwrap();
    }

    fn text(&self, path: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn mode(&self, path: impl AsRef<Path>) -> u32 {
        std::fs::metadata(self.path(path)).unwrap().mode() & 0o7777
    }

    fn make_at(&self, dir: &str, id: &str, files: &[&str]) -> Result<Backup, BackupError> {
        Backup::make(&self.root, Path::new(dir), Path::new(MANIFESTS), id, &paths(files), &about())
    }

    fn make(&self, files: &[&str]) -> Backup {
        self.make_at(DIR, ID, files).unwrap()
    }

    fn open(&self, id: &str) -> Result<Backup, BackupError> {
        Backup::open(&self.root, Path::new(DIR), id)
    }

    fn ids(&self) -> Vec<String> {
        let backups = Backup::list(&self.root, Path::new(DIR)).unwrap();
        backups.iter().map(|backup| backup.id().to_owned()).collect()
    }

    /// Everything in the backup directory, by name.
    fn names(&self) -> Vec<String> {
        self.root.list(Path::new(DIR)).unwrap()
    }
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

fn about() -> About {
    About {
        created: "2026-11-30T03:00:00Z".to_owned(),
        reason: "renewal".to_owned(),
        program: "0.1.0".to_owned(),
        ca_key_hashes: BTreeMap::from([("ca".to_owned(), "ab12".to_owned())]),
    }
}

#[test]
fn a_backup_holds_the_files_privately_and_tells_how_they_were() {
    let node = Node::new();
    let owned = chown(node.path(CERT), Some(1234), Some(4321)).is_ok();
    let made = node.make(&[KEY, CERT, CERT, "/etc/kubernetes/super-admin.conf"]);
    assert_eq!((made.id(), made.dir()), (ID, Path::new(DIR).join(ID).as_path()));
    assert_eq!(node.names(), [ID]);
    for (path, text) in [(CERT, "certificate"), (KEY, "hunter2")] {
        let saved = made.dir().join(path.trim_start_matches('/'));
        assert_eq!(node.text(&saved), text);
        assert_eq!(node.mode(&saved), 0o600);
        assert_eq!(node.mode(saved.parent().unwrap()), 0o700);
    }
    assert_eq!(
        (node.mode(DIR), node.mode(made.dir()), node.mode(made.dir().join("manifest.json"))),
        (0o700, 0o700, 0o600)
    );

    let opened = node.open(ID).unwrap();
    assert_eq!(opened, made);
    assert_eq!(opened.about(), &about());
    let saved = &opened.files()[0];
    assert_eq!((saved.path.as_path(), saved.mode, &saved.link), (Path::new(CERT), 0o644, &None));
    assert!(!owned || (saved.uid, saved.gid) == (1234, 4321));
    // printf certificate | sha256sum
    assert_eq!(saved.sha256, "03d66dd08835c1ca3f128cceacd1f31ac94163096b20f445ae84285bc0832d72");
    assert_eq!(opened.files().len(), 2);
    let index = node.text(made.dir().join("manifest.json"));
    assert!(!format!("{made:?}{index}").contains("hunter2"));
    assert!(index.contains(r#""caKeyHashes""#) && index.contains(r#""created": "2026-11-30T03:00:00Z""#), "{index}");
}

#[test]
fn the_keys_of_authorities_and_service_accounts_are_never_saved() {
    let node = Node::new();
    let secret = [
        "/etc/kubernetes/pki/ca.key",
        "/etc/kubernetes/pki/etcd/ca.key",
        "/etc/kubernetes/pki/front-proxy-ca.key",
        "/etc/kubernetes/pki/sa.key",
    ];
    for path in secret {
        node.put(path, "hunter2", 0o600);
    }
    symlink("ca.key", node.path("/etc/kubernetes/pki/linked.key")).unwrap();
    let mut files = vec![CERT, "/etc/kubernetes/pki/linked.key"];
    files.extend(secret);
    let backup = node.make(&files);
    assert_eq!(backup.files().iter().map(|saved| saved.path.to_str().unwrap()).collect::<Vec<_>>(), [CERT]);
    assert_eq!(node.root.list(&backup.dir().join("etc/kubernetes/pki")).unwrap(), ["apiserver.crt"]);
}

#[test]
fn a_torn_pair_is_put_back_with_mode_and_owner() {
    let node = Node::new();
    let owned = chown(node.path(KEY), Some(1234), Some(4321)).is_ok();
    let backup = node.make(&[CERT, KEY]);
    std::fs::remove_file(node.path(KEY)).unwrap();
    node.put(CERT, "", 0o600);
    backup.put_back(&node.root, &paths(&[KEY, CERT])).unwrap();
    assert_eq!((node.text(CERT), node.mode(CERT)), ("certificate".to_owned(), 0o644));
    assert_eq!((node.text(KEY), node.mode(KEY)), ("hunter2".to_owned(), 0o600));
    assert!(!owned || std::fs::metadata(node.path(KEY)).unwrap().uid() == 1234);
}

#[test]
fn only_what_was_asked_for_is_put_back() {
    let node = Node::new();
    let backup = node.make(&[CERT, KEY]);
    node.put(CERT, "new", 0o644);
    node.put(KEY, "new", 0o600);
    backup.put_back(&node.root, &paths(&[CERT])).unwrap();
    assert_eq!((node.text(CERT), node.text(KEY)), ("certificate".to_owned(), "new".to_owned()));
    let error = backup.put_back(&node.root, &paths(&[KEY, "/etc/kubernetes/admin.conf"])).unwrap_err();
    assert_eq!(error.to_string(), format!("backup '{ID}' does not hold '/etc/kubernetes/admin.conf'"));
    assert_eq!(node.text(KEY), "new");
}

#[test]
fn a_link_is_saved_by_what_is_behind_it_and_put_back_through_it() {
    let node = Node::new();
    std::fs::create_dir(node.path("/srv")).unwrap();
    std::fs::rename(node.path(CERT), node.path("/srv/real.crt")).unwrap();
    symlink("/srv/real.crt", node.path(CERT)).unwrap();
    let backup = node.make(&[CERT]);
    assert_eq!(backup.files()[0].link.as_deref(), Some(Path::new("/srv/real.crt")));
    assert_eq!(backup.files()[0].mode, 0o644);
    node.put("/srv/real.crt", "new", 0o644);
    backup.put_back(&node.root, &paths(&[CERT])).unwrap();
    assert_eq!(node.text("/srv/real.crt"), "certificate");
    assert!(std::fs::symlink_metadata(node.path(CERT)).unwrap().is_symlink());
}

#[test]
fn the_files_of_kubesprays_linked_directory_are_saved_under_the_name_they_were_asked_by() {
    let node = Node::new();
    std::fs::rename(node.path("/etc/kubernetes/pki"), node.path("/etc/kubernetes/ssl")).unwrap();
    symlink("/etc/kubernetes/ssl", node.path("/etc/kubernetes/pki")).unwrap();
    let backup = node.make(&[CERT]);
    node.put("/etc/kubernetes/ssl/apiserver.crt", "new", 0o644);
    backup.put_back(&node.root, &paths(&[CERT])).unwrap();
    assert_eq!(node.text("/etc/kubernetes/ssl/apiserver.crt"), "certificate");
    assert!(std::fs::symlink_metadata(node.path("/etc/kubernetes/pki")).unwrap().is_symlink());
}

#[test]
fn a_directory_in_a_files_place_does_not_stop_the_backup_of_the_others() {
    let node = Node::new();
    let backup = node.make(&[CERT, "/etc/kubernetes/pki/etcd"]);
    assert_eq!(backup.files().len(), 1);
    assert_eq!(backup.skipped()[0].path, Path::new("/etc/kubernetes/pki/etcd"));
    assert_eq!(node.open(ID).unwrap(), backup);
}

#[test]
fn a_backup_in_the_manifests_directory_is_refused_by_whatever_name() {
    let node = Node::new();
    symlink("/etc/kubernetes/manifests", node.path("/linked")).unwrap();
    for dir in [MANIFESTS, "/etc/kubernetes/manifests/new/backups", "/linked", "/linked/backups"] {
        let error = node.make_at(dir, ID, &[CERT]).unwrap_err();
        assert!(matches!(error, BackupError::InManifests { .. }), "{dir}: {error}");
    }
    assert_eq!(std::fs::read_dir(node.path(MANIFESTS)).unwrap().count(), 0);
    node.make_at("/etc/kubernetes/manifests-old", ID, &[CERT]).unwrap();
}

#[test]
fn a_backup_that_cannot_be_written_leaves_none_behind() {
    let node = Node::new();
    node.put("/var", "a file", 0o644);
    let error = node.make_at(DIR, ID, &[CERT]).unwrap_err();
    assert!(error.to_string().starts_with("cannot create '/var/lib/k8s-certs-renew/backups': "), "{error}");
}

#[test]
fn a_link_that_leads_in_a_circle_is_told_and_keeps_no_other_file_out() {
    let node = Node::new();
    symlink("circle.crt", node.path("/etc/kubernetes/pki/circle.crt")).unwrap();
    let backup = node.make_at(DIR, ID, &[CERT, "/etc/kubernetes/pki/circle.crt"]).unwrap();
    assert_eq!(backup.files().len(), 1);
    assert_eq!(backup.skipped()[0].path, Path::new("/etc/kubernetes/pki/circle.crt"));
}

#[test]
fn a_taken_id_gets_a_number_and_a_half_made_backup_is_never_taken_for_one() {
    let node = Node::new();
    let half_made = format!("{DIR}/.{ID}.partial");
    std::fs::create_dir_all(node.path(&half_made)).unwrap();
    std::fs::write(node.path(format!("{half_made}/old")), "x").unwrap();
    assert!(node.ids().is_empty());
    assert!(matches!(node.open(&format!(".{ID}.partial")), Err(BackupError::Id(_))));
    let ids: Vec<_> = (0..11).map(|_| node.make(&[CERT]).id().to_owned()).collect();
    assert_eq!((ids[0].as_str(), ids[1].as_str()), (ID, "20261130T030000Z-2"));
    assert_eq!(node.ids(), ids, "-10 is newer than -9");
    assert!(!node.path(format!("{DIR}/{ID}/old")).exists());
    assert!(!node.path(&half_made).exists());
}

#[test]
fn damage_is_found_and_named_and_nothing_of_it_is_put_back() {
    let node = Node::new();
    let backup = node.make(&[CERT, KEY]);
    let saved = format!("{DIR}/{ID}{KEY}");
    node.put(&saved, "hunter3", 0o600);
    assert_eq!(
        node.open(ID).unwrap_err().to_string(),
        format!("backup '{ID}' is damaged: '{KEY}' does not have its hash; use an older one")
    );
    node.put(CERT, "new", 0o644);
    assert!(backup.put_back(&node.root, &paths(&[CERT, KEY])).is_err());
    assert_eq!(node.text(CERT), "new");

    std::fs::remove_file(node.path(&saved)).unwrap();
    assert!(matches!(node.open(ID), Err(BackupError::Damaged { .. })));
    let index = format!("{DIR}/{ID}/manifest.json");
    node.put(&index, &node.text(&index).replace(CERT, "/etc/../../outside"), 0o600);
    assert!(node.open(ID).unwrap_err().to_string().contains("'/etc/../../outside'"));
    node.put(&index, "{", 0o600);
    assert!(node.open(ID).unwrap_err().to_string().contains("'manifest.json': line 1"));
}

#[test]
fn an_id_is_an_id_and_no_path() {
    let node = Node::new();
    for id in
        ["", "..", "../x", "/etc", "20261130T030000Z/..", "20261130T030000Z-1", "20261130T0300Z", "20261130T030000Z-x"]
    {
        assert!(matches!(node.open(id), Err(BackupError::Id(_))), "{id}");
        assert!(matches!(node.make_at(DIR, id, &[CERT]), Err(BackupError::Id(_))), "{id}");
    }
    assert!(matches!(node.open(ID), Err(BackupError::NotThere { .. })));
}

#[test]
fn the_oldest_backups_go_first_and_nothing_that_is_not_ours_goes() {
    let node = Node::new();
    let ids = ["20261201T030000Z", "20260901T030000Z", "20261001T030000Z", "20261101T030000Z"];
    for id in ids {
        node.make_at(DIR, id, &[CERT]).unwrap();
    }
    std::fs::create_dir_all(node.path(format!("{DIR}/20200101T000000Z"))).unwrap();
    std::fs::create_dir_all(node.path(format!("{DIR}/.20200101T000000Z.partial/etc"))).unwrap();
    std::fs::create_dir_all(node.path(format!("{DIR}/mine"))).unwrap();
    node.put(&format!("{DIR}/notes.txt"), "x", 0o644);
    symlink("20261201T030000Z", node.path(format!("{DIR}/20210101T000000Z"))).unwrap();

    let dir = Path::new(DIR);
    assert_eq!(prune(&node.root, dir, 2, None).unwrap(), ["20260901T030000Z", "20261001T030000Z"]);
    let left = ["20200101T000000Z", "20210101T000000Z", "20261101T030000Z", "20261201T030000Z", "mine", "notes.txt"];
    assert_eq!(node.names(), left);
    assert_eq!(prune(&node.root, dir, 2, None).unwrap(), [""; 0]);
    assert_eq!(prune(&node.root, dir, 0, None).unwrap(), ["20261101T030000Z"]);
    node.open("20261201T030000Z").unwrap();
    assert_eq!(prune(&node.root, Path::new("/nowhere"), 3, None).unwrap(), [""; 0]);
}

#[test]
fn the_space_that_is_asked_for_is_enough() {
    let node = Node::new();
    node.put(KEY, &"x".repeat(100_000), 0o600);
    let files = [CERT, KEY, "/etc/kubernetes/gone.conf"];
    let backup = node.make(&files);
    let used = std::process::Command::new("du").arg("-sB1").arg(node.path(backup.dir())).output().unwrap();
    let used: u64 = String::from_utf8(used.stdout).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let asked = space_needed(&node.root, &paths(&files));
    assert!(used <= asked && asked < 4 * used, "used {used}, asked for {asked}");
}
