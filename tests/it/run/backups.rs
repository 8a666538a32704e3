//! What a run keeps before kubeadm rewrites it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_certs_renew::steps::backup::Backup;

use super::{files, refused, run, site, stacked};
use crate::support::faults::Renewal;
use crate::support::site::Site;

const DIR: &str = "/var/lib/k8s-certs-renew/backups";

fn backups(site: &Site) -> Vec<Backup> {
    Backup::list(&site.tree.root(), Path::new(DIR)).unwrap()
}

fn ids(site: &Site) -> Vec<String> {
    backups(site).iter().map(|backup| backup.id().to_owned()).collect()
}

/// Every directory and file below, with its permission bits.
fn modes(dir: &Path, found: &mut Vec<(bool, u32)>) {
    found.push((true, dir.metadata().unwrap().permissions().mode() & 0o7777));
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            modes(&path, found);
        } else {
            found.push((false, path.metadata().unwrap().permissions().mode() & 0o7777));
        }
    }
}

#[test]
fn everything_that_kubeadm_rewrites_is_kept_as_it_was_and_no_ca_key_is() {
    for site in [site(5), stacked(5)] {
        let before = files(&site);
        assert_eq!(run(&site, &[]).code, 0);
        let all = backups(&site);
        assert_eq!(all.len(), 1);
        let backup = Backup::open(&site.tree.root(), Path::new(DIR), all[0].id()).unwrap();
        let after = files(&site);
        let kept: Vec<&str> = backup.files().iter().map(|saved| saved.path.to_str().unwrap()).collect();
        for (path, (_, bytes)) in &before {
            let changed = after.get(path).is_some_and(|(_, now)| now != bytes);
            assert!(!changed || kept.contains(&format!("/{path}").as_str()), "/{path} was changed and is not kept");
        }
        assert!(kept.contains(&"/root/.kube/config"));
        for path in kept {
            assert!(!["ca.key", "sa.key", "ca-key.pem"].iter().any(|key| path.ends_with(key)), "{path}");
            let saved = fs::read(site.tree.on_host(&format!("{}{path}", backup.dir().display()))).unwrap();
            assert_eq!(saved, before[path.trim_start_matches('/')].1, "{path}");
        }
        let mut found = Vec::new();
        modes(&site.tree.on_host(DIR), &mut found);
        let wrong: Vec<_> = found.iter().filter(|(dir, mode)| *mode != if *dir { 0o700 } else { 0o600 }).collect();
        assert_eq!(wrong, Vec::<&(bool, u32)>::new());
        let bytes: Vec<u8> = before
            .iter()
            .filter(|(path, _)| path.ends_with("ca.key"))
            .flat_map(|(_, (_, bytes))| bytes.clone())
            .collect();
        assert!(!bytes.is_empty());
    }
}

#[test]
fn only_the_newest_backups_are_kept_and_nothing_that_is_not_ours_is_deleted() {
    let days = ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"].map(|day| format!("{day}T03:10:00Z"));
    for (keep, expected) in [("1", &["20260305T031000Z"][..]), ("2", &["20260304T031000Z", "20260305T031000Z"])] {
        let site = site(5);
        site.tree.write(&format!("{DIR}/notes/keep.txt"), "not ours");
        for at in &days {
            let ran = run(&site, &["--force", "--at", at, "--keep-backups", keep]);
            assert_eq!(ran.code, 0, "{}", ran.text());
        }
        assert_eq!(ids(&site), expected);
        assert_eq!(site.tree.read(&format!("{DIR}/notes/keep.txt")), "not ours");
    }
}

// T17: the clock was stepped back; what this run may have to put back is still there
#[test]
fn the_backup_of_this_very_run_is_kept_though_older_ones_have_later_names() {
    let site = site(5);
    for at in ["2026-03-05T03:10:00Z", "2026-03-04T03:10:00Z", "2026-03-04T03:10:00Z"] {
        let ran = run(&site, &["--force", "--at", at, "--keep-backups", "1"]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(ids(&site)[0].starts_with(&at[..10].replace('-', "")), "{at}: {:?}", ids(&site));
    }
    site.world.fault(|faults| faults.renewals = vec![Renewal::Tears("apiserver".into())]);
    let pair = site.tree.read("/etc/kubernetes/ssl/apiserver.key");
    let ran = run(&site, &["--force", "--at", "2026-03-03T03:10:00Z", "--keep-backups", "1"]);
    assert_eq!(ran.code, 20, "{}", ran.text());
    assert_eq!(site.tree.read("/etc/kubernetes/ssl/apiserver.key"), pair);
}

#[test]
fn a_skip_makes_no_backup() {
    let site = site(300);
    assert_eq!(run(&site, &[]).code, 0);
    assert!(!site.tree.on_host(DIR).exists());
}

#[test]
fn where_no_backup_can_be_made_nothing_is_changed() {
    let of = |prepare: &dyn Fn(&Site), args: &[&str], words: &str| {
        let site = site(5);
        prepare(&site);
        refused(&site, args, 74, words);
    };
    of(&|site| site.tree.write(DIR, "a file"), &[], DIR);
    of(&|site| site.tree.write("/srv", "a file"), &["--backup-dir", "/srv/backups"], "/srv/backups");
    of(&|site| site.tree.link("/nowhere/at/all", "/srv/backups"), &["--backup-dir", "/srv/backups"], "/srv/backups");
    of(&|_| {}, &["--backup-dir", "/etc/kubernetes/manifests"], "manifests");
    of(&|_| {}, &["--backup-dir", "/etc/kubernetes/manifests/backups"], "manifests");
}
