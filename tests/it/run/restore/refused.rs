//! Backups that are not put back, and the words for it.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{DIR, FIRST, ids, renewed, restore};
use crate::run::seen::{changed, files, owed};
use crate::support::site::Site;

/// Asserts that the backup is refused so, dry or not, and that nothing was changed or kept.
fn is_refused(site: &Site, args: &[&str], code: u8, words: &[&str]) {
    let before = files(site);
    let backups = ids_if_any(site);
    for how in ["--yes", "--dry-run"] {
        let ran = restore(site, &[args, &[how]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?} {how}: {}", ran.err);
        for words in words {
            assert!(ran.err.contains(words), "{how}: '{words}' is not in: {}", ran.err);
        }
        assert_eq!(changed(&before, &files(site)), Vec::<String>::new());
        assert_eq!(ids_if_any(site), backups);
        assert_eq!(owed(site), None);
    }
}

fn ids_if_any(site: &Site) -> Vec<String> {
    if fs::metadata(site.tree.on_host(DIR)).is_ok() { ids(site) } else { Vec::new() }
}

fn index(id: &str) -> String {
    format!("{DIR}/{id}/manifest.json")
}

/// Changes the index of the first backup.
fn edit(site: &Site, change: impl FnOnce(&mut Value)) {
    site.tree.edit(&index(FIRST), |text| {
        let mut value = serde_json::from_str(&text).unwrap();
        change(&mut value);
        value.to_string()
    });
}

/// The entry of a file in an index.
fn entry<'a>(index: &'a mut Value, path: &str) -> &'a mut Value {
    index["files"].as_array_mut().unwrap().iter_mut().find(|file| file["path"] == path).unwrap()
}

#[test]
fn a_backup_with_a_damaged_or_missing_file_is_refused() {
    let (site, _) = renewed();
    let saved = format!("{DIR}/{FIRST}/etc/kubernetes/ssl/apiserver.key");
    let text = site.tree.read(&saved);
    site.tree.write(&saved, text.replacen('A', "B", 1));
    is_refused(&site, &[FIRST], 78, &["'/etc/kubernetes/ssl/apiserver.key' does not have its hash"]);
    site.tree.remove(&saved);
    is_refused(&site, &[FIRST], 78, &["is damaged: '/etc/kubernetes/ssl/apiserver.key'"]);
}

#[test]
fn a_backup_with_a_damaged_index_is_refused() {
    let (site, _) = renewed();
    edit(&site, |index| index["version"] = 2.into());
    is_refused(&site, &[FIRST], 78, &["is of version 2, and this program knows 1"]);
    site.tree.edit(&index(FIRST), |text| text[..text.len() / 2].to_owned());
    is_refused(&site, &[FIRST], 78, &["is damaged: 'manifest.json': line 1"]);
    site.tree.remove(&index(FIRST));
    is_refused(&site, &[FIRST], 78, &["is damaged: 'manifest.json'"]);
}

// root writes what the index says
#[test]
fn an_index_that_names_other_files_is_refused() {
    let hostile = [
        ("/etc/shadow", "holds '/etc/shadow', which no run backs up on this node"),
        ("/etc/kubernetes/ssl/ca.crt", "holds '/etc/kubernetes/ssl/ca.crt', which no run"),
        ("/etc/kubernetes/ssl/ca.key", "holds '/etc/kubernetes/ssl/ca.key', which no run"),
        ("/etc/kubernetes/ssl/sa.key", "holds '/etc/kubernetes/ssl/sa.key', which no run"),
        ("/etc/kubernetes/manifests/evil.yaml", "holds '/etc/kubernetes/manifests/evil.yaml', which no run"),
        ("/etc/kubernetes/kubelet.conf", "holds '/etc/kubernetes/kubelet.conf', which no run"),
        ("/home/ops/.kube/config", "holds '/home/ops/.kube/config', which no run"),
        // the same file by another name
        ("/etc/kubernetes/pki/apiserver.crt", "holds '/etc/kubernetes/pki/apiserver.crt', which no run"),
        ("/etc/kubernetes/../shadow", "is damaged: 'manifest.json': path '/etc/kubernetes/../shadow'"),
        ("etc/shadow", "is damaged: 'manifest.json': path 'etc/shadow'"),
    ];
    let (site, _) = renewed();
    site.tree.write("/etc/shadow", "root:*\n");
    let saved = site.tree.read(&format!("{DIR}/{FIRST}/etc/kubernetes/admin.conf"));
    let all = site.tree.read(&index(FIRST));
    for (path, words) in hostile {
        let inside = path.replace("/..", "");
        site.tree.write(&format!("{DIR}/{FIRST}/{}", inside.trim_start_matches('/')), &saved);
        site.tree.write(&index(FIRST), &all);
        edit(&site, |index| {
            let mut another = entry(index, "/etc/kubernetes/admin.conf").clone();
            another["path"] = path.into();
            index["files"].as_array_mut().unwrap().push(another);
        });
        is_refused(&site, &[FIRST], 78, &[words]);
    }
}

#[test]
fn an_index_that_names_a_file_twice_is_refused() {
    let (site, _) = renewed();
    edit(&site, |index| {
        let again = entry(index, "/etc/kubernetes/admin.conf").clone();
        index["files"].as_array_mut().unwrap().push(again);
    });
    is_refused(&site, &[FIRST], 78, &["is damaged: it holds '/etc/kubernetes/admin.conf' twice"]);
}

// what is behind it may be the CA's key, and have the hash that the index says
#[test]
fn a_backup_in_which_a_link_leads_elsewhere_is_refused() {
    let (site, _) = renewed();
    let saved = format!("{DIR}/{FIRST}/etc/kubernetes/admin.conf");
    site.tree.write("/srv/admin.conf", site.tree.read(&saved));
    site.tree.link("/srv/admin.conf", &saved);
    is_refused(&site, &[FIRST], 78, &["'/etc/kubernetes/admin.conf' is behind a link"]);

    let (site, _) = renewed();
    let ssl = site.tree.on_host(&format!("{DIR}/{FIRST}/etc/kubernetes/ssl"));
    fs::rename(&ssl, site.tree.on_host("/srv")).unwrap();
    symlink("/srv", &ssl).unwrap();
    is_refused(&site, &[FIRST], 78, &["is behind a link"]);
}

#[test]
fn a_path_that_has_become_a_link_is_not_written_through() {
    let (site, _) = renewed();
    site.tree.write("/srv/precious", "precious");
    site.tree.link("/srv/precious", "/etc/kubernetes/scheduler.conf");
    let words = "'/etc/kubernetes/scheduler.conf' is a link to '/srv/precious' now";
    is_refused(&site, &[FIRST], 78, &["'scheduler.conf' cannot be put back", words]);
    site.tree.remove("/etc/kubernetes/scheduler.conf");
    fs::create_dir(site.tree.on_host("/etc/kubernetes/scheduler.conf")).unwrap();
    is_refused(&site, &[FIRST], 78, &["'/etc/kubernetes/scheduler.conf' is no regular file"]);
}

#[test]
fn a_backup_of_another_cluster_is_refused_and_the_ca_named() {
    let (site, _) = renewed();
    let (other, _) = renewed();
    // the node was reset and built anew
    for file in ["ca.crt", "ca.key"] {
        site.tree.write(&site.tree.pki(file), other.tree.read(&other.tree.pki(file)));
    }
    is_refused(&site, &[FIRST], 78, &["is of another cluster: 'ca' has another key there than on this node"]);
    site.tree.write(&site.tree.pki("front-proxy-ca.crt"), other.tree.read(&other.tree.pki("front-proxy-ca.crt")));
    is_refused(&site, &[FIRST], 78, &["'ca', 'front-proxy-ca' have other keys there"]);
    let ran = restore(&site, &[]);
    assert!(ran.out.contains("  other cluster  renewal"), "{}", ran.out);
}

#[test]
fn a_backup_that_cannot_be_told_to_be_of_this_cluster_is_refused() {
    let (site, _) = renewed();
    let all = site.tree.read(&index(FIRST));
    edit(&site, |index| index["caKeyHashes"] = serde_json::json!({}));
    is_refused(&site, &[FIRST], 78, &["cannot tell whether", "it names none"]);
    site.tree.write(&index(FIRST), all);
    edit(&site, |index| {
        index["caKeyHashes"].as_object_mut().unwrap().retain(|name, _| name == "ca");
    });
    site.tree.write(&site.tree.pki("ca.crt"), "");
    is_refused(&site, &[FIRST], 78, &["none of its CAs (ca) can be read on this node"]);
}

// a run that was to mend a torn pair has saved it so
#[test]
fn a_backup_that_would_break_a_pair_is_refused() {
    let (site, _) = renewed();
    let key = "/etc/kubernetes/ssl/apiserver.key";
    let all = site.tree.read(&index(FIRST));
    edit(&site, |index| index["files"].as_array_mut().unwrap().retain(|file| file["path"] != key));
    is_refused(&site, &[FIRST], 78, &["would break 'apiserver': '/etc/kubernetes/ssl/apiserver.key' is not in it"]);
    site.tree.write(&index(FIRST), all);
    let name = "/etc/kubernetes/ssl/front-proxy-client.key";
    let other = site.tree.read(&format!("{DIR}/{FIRST}{name}"));
    site.tree.write(&format!("{DIR}/{FIRST}{key}"), other);
    edit(&site, |index| {
        let hash = entry(index, name)["sha256"].clone();
        entry(index, key)["sha256"] = hash;
    });
    is_refused(&site, &[FIRST], 78, &["would break 'apiserver': there, the private key is another certificate's"]);
}

#[test]
fn an_id_that_is_none_or_is_not_there_is_refused_with_those_there_are() {
    let (site, _) = renewed();
    let there = format!("there are {FIRST}");
    for id in ["20200101T000000Z", "..", "../backups", "/etc", "notes", ""] {
        is_refused(&site, &[id], 64, &[&format!("there is no backup '{id}' in '{DIR}'"), &there]);
    }
    is_refused(&site, &[FIRST, "--backup-dir", "/srv"], 64, &["there are none"]);
    is_refused(&site, &[FIRST, "--backup-dir", "srv"], 64, &["'srv' is not an absolute path"]);
}

#[test]
fn a_backup_directory_that_cannot_be_read_is_said() {
    let (site, _) = renewed();
    site.tree.write("/srv/file", "");
    symlink("circle", site.tree.on_host("/srv/circle")).unwrap();
    for dir in ["/srv/file", "/srv/circle"] {
        is_refused(&site, &[FIRST, "--backup-dir", dir], 74, &[&format!("cannot read '{dir}': ")]);
        let ran = restore(&site, &["--backup-dir", dir]);
        assert_eq!((ran.code, ran.out.as_str()), (74, ""), "{}", ran.err);
    }
}
