//! What restore shows: the list, what would change, and the same for programs.

use serde_json::Value;

use k8s_certs_renew::cli::Terminal;
use k8s_certs_renew::host::Signals;

use super::{DIR, FIRST, SECOND, ids, now, renewed, restore, restore_at};
use crate::run::seen::{changed, files, owed};
use crate::run::{run, site};
use crate::support::site::Site;

/// At a terminal of so many columns, nobody there to ask.
fn at_width(site: &Site, args: &[&str], width: u16) -> String {
    let ran = restore_at(Terminal { width: Some(width), ..Terminal::default() }, site, args, &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    ran.out
}

#[test]
fn without_backups_the_list_says_so() {
    let site = site(300);
    let ran = restore(&site, &[]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, &*format!("there are no backups in '{DIR}'\n"), ""));
    let ran = restore(&site, &["-o", "json"]);
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&list["kind"], &list["backups"]), (&"BackupList".into(), &Value::Array(Vec::new())));
}

#[test]
fn the_list_has_the_newest_first_and_the_damaged_beside_the_good() {
    let site = site(300);
    for at in ["2026-03-01T03:10:00Z", "2026-02-28T03:10:00Z", "2026-03-02T03:10:00Z"] {
        assert_eq!(run(&site, &["--force", "--at", at]).code, 0);
    }
    assert_eq!(restore(&site, &["20260301T031000Z", "--yes"]).code, 0);
    site.tree.write(&format!("{DIR}/20260228T031000Z/etc/kubernetes/admin.conf"), "x");
    site.tree.write(&format!("{DIR}/20260101T000000Z/manifest.json"), "{");
    site.tree.write(&format!("{DIR}/notes.txt"), "no backup");
    site.tree.write(&format!("{DIR}/notes/x"), "no backup");
    let ran = restore(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        ran.out,
        "BACKUP              MADE (UTC)        FILES  STATE    WHY\n\
         20260302T031000Z-2  2026-03-02 03:10  10     good     before restore of 20260301T031000Z\n\
         20260302T031000Z    2026-03-02 03:10  10     good     renewal\n\
         20260301T031000Z    2026-03-01 03:10  10     good     renewal\n\
         20260228T031000Z    2026-02-28 03:10  10     damaged  renewal\n\
         20260101T000000Z    -                 0      damaged  -\n"
    );
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("warning: backup '2026")).count(), 2, "{}", ran.err);
    assert!(ran.err.contains("'/etc/kubernetes/admin.conf' does not have its hash"), "{}", ran.err);
    let narrow = at_width(&site, &[], 80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert_eq!(narrow.lines().count(), 7, "{narrow}");

    let list: Value = serde_json::from_str(&restore(&site, &["-o", "json"]).out).unwrap();
    assert_eq!(list["backups"][0]["id"], SECOND);
    assert_eq!(list["backups"][0]["reason"], "before restore of 20260301T031000Z");
    assert_eq!((&list["backups"][3]["state"], &list["backups"][3]["files"]), (&"damaged".into(), &10.into()));
    assert_eq!(list["backups"][4]["created"], Value::Null);
}

#[test]
fn a_dry_run_shows_what_would_change_and_changes_nothing() {
    let (site, _) = renewed();
    let new = site.tree.inventory().get("apiserver").unwrap().leaf.clone().unwrap();
    let before = files(&site);
    let ran = restore(&site, &[FIRST, "--dry-run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with(&format!("backup {FIRST}, made on 2026-03-02 03:10 UTC (renewal)\n")), "{}", ran.out);
    let line = ran.out.lines().find(|line| line.starts_with("apiserver ")).unwrap();
    let end = |days| (now() + chrono::Duration::days(days)).format("%Y-%m-%d %H:%M").to_string();
    assert!(line.contains(&new.serial) && line.ends_with(&end(300)) && line.contains(&end(365)), "{line}");
    assert_eq!(ran.out.lines().filter(|line| line.contains(&end(300))).count(), 7, "{}", ran.out);
    assert!(ran.out.ends_with("Dry run: nothing was changed\n"), "{}", ran.out);
    assert_eq!((changed(&before, &files(&site)), ids(&site).len()), (Vec::new(), 1));
    assert_eq!(owed(&site), None);
    let narrow = at_width(&site, &[FIRST, "--dry-run"], 80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn what_is_as_in_the_backup_is_named_and_a_text_that_differs_too() {
    let (site, _) = renewed();
    assert_eq!(restore(&site, &[FIRST, "--yes"]).code, 0);
    site.tree.edit("/etc/kubernetes/admin.conf", |text| format!("{text}# edited\n"));
    site.tree.remove("/etc/kubernetes/scheduler.conf");
    let ran = restore(&site, &[FIRST, "--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = |name: &str| ran.out.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("admin.conf").contains("  same  ") && line("admin.conf").ends_with("other text"), "{}", ran.out);
    assert!(line("scheduler.conf").contains("scheduler.conf  -  "), "{}", ran.out);
    assert!(line("as in the backup already: apiserver, apiserver-kubelet-client, controller").contains("/root/.kube"));
}

#[test]
fn a_copy_that_has_become_a_link_is_left_alone() {
    let (site, _) = renewed();
    site.tree.link("/etc/kubernetes/admin.conf", "/root/.kube/config");
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("warning: '/root/.kube/config' is left alone: '/root/.kube/config' is a link"),
        "{}",
        ran.err
    );
    let saved = site.tree.read(&format!("{DIR}/{FIRST}/etc/kubernetes/admin.conf"));
    assert_eq!(site.tree.read("/etc/kubernetes/admin.conf"), saved);
    assert!(site.tree.on_host("/root/.kube/config").is_symlink());
}

#[test]
fn the_report_for_programs() {
    let (site, _) = renewed();
    let report = |args: &[&str]| -> (u8, Value) {
        let ran = restore(&site, &[args, &["-o", "json"]].concat());
        (ran.code, serde_json::from_str(&ran.out).unwrap())
    };
    let (code, dry) = report(&[FIRST, "--dry-run"]);
    assert_eq!((code, &dry["result"], &dry["keptIn"]), (0, &"planned".into(), &Value::Null));
    // nobody can be asked about a document
    let (code, refused) = report(&[FIRST]);
    assert_eq!((code, &refused["exitCode"], &refused["result"]), (64, &64.into(), &"failed".into()));
    assert!(refused["error"].as_str().unwrap().contains("--yes"));
    let (code, done) = report(&[FIRST, "--yes"]);
    assert_eq!((code, &done["result"], &done["keptIn"]), (0, &"restored".into(), &SECOND.into()));
    assert_eq!(done["restart"], serde_json::json!(super::ALL));
    let change = done["changes"].as_array().unwrap().iter().find(|change| change["name"] == "apiserver").unwrap();
    assert_eq!(change["files"], serde_json::json!([site.tree.pki("apiserver.crt"), site.tree.pki("apiserver.key")]));
    assert_eq!(change["inBackup"]["serial"], site.serials()["apiserver"]);
    let (_, again) = report(&[FIRST, "--yes"]);
    assert_eq!(again["result"], "nothingToDo");
}

#[test]
fn no_output_holds_a_key_or_a_kubeconfig() {
    let (site, _) = renewed();
    let text = site.tree.read("/etc/kubernetes/admin.conf");
    let secret = text.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    for args in [&[][..], &[FIRST, "--dry-run", "-v"], &[FIRST, "--yes", "-v"], &[SECOND, "--yes", "-o", "json", "-v"]]
    {
        let ran = restore(&site, args);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(!ran.text().contains("PRIVATE KEY") && !ran.text().contains(secret));
    }
}
