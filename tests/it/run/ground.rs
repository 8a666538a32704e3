//! What has to be there before anything is changed, and who else may be at work.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::lock::Lock;
use k8s_certs_renew::run::LOCK;

use super::{Ran, files, now, refused, run, site, start, untouched};
use crate::support::clock::StillClock;
use crate::support::site::Site;

#[test]
fn while_another_run_holds_the_lock_nothing_is_done() {
    for left in [5, 300] {
        let site = site(left);
        let lock = Lock::take(&site.tree.root(), Path::new(LOCK)).unwrap();
        let ran = refused(&site, &[], 75, "another run is at work");
        assert_eq!(ran.slept, std::time::Duration::ZERO);
        assert!(!site.tree.on_host("/var/lib/k8s-certs-renew").exists());
        // a look needs no lock
        assert_eq!(run(&site, &["--dry-run"]).code, 0);
        drop(lock);
        // the file that a killed run leaves behind blocks nobody (T09)
        assert!(site.tree.on_host(LOCK).exists());
        assert_eq!(run(&site, &[]).code, 0);
    }
}

#[test]
fn while_somebody_elses_kubeadm_is_at_work_nothing_is_done() {
    let site = site(5);
    let stat = "4242 (kubeadm) S 1 4242 4242 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 5000 0 0\n";
    site.tree.write("/proc/4242/stat", stat);
    site.tree.write("/proc/4242/comm", "kubeadm\n");
    site.tree.write("/proc/4242/cmdline", "/usr/local/bin/kubeadm\0upgrade\0node\0");
    refused(&site, &[], 75, "kubeadm is at work on this node (pid 4242)");
    fs::remove_dir_all(site.tree.on_host("/proc/4242")).unwrap();
    // a program whose argument is called kubeadm is none
    site.tree.write("/proc/4243/stat", stat.replace("4242 (kubeadm)", "4243 (vi)"));
    site.tree.write("/proc/4243/cmdline", "vi\0kubeadm\0");
    assert_eq!(run(&site, &[]).code, 0);
}

/// A run on the machine's own root, by somebody who is not root.
fn as_user(args: &[&str]) -> Ran {
    let (clock, signals) = (StillClock::at(now()), Signals::none());
    let argv = ["k8s-certs-renew", "run"].iter().chain(args).map(OsString::from).collect();
    let process = Process {
        argv,
        environment: Vec::new(),
        terminal: Terminal::default(),
        is_root: false,
        clock: &clock,
        signals: &signals,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = main(&process, &mut out, &mut err).code();
    Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap(), slept: clock.slept() }
}

#[test]
fn who_is_not_root_is_refused_before_anything_is_looked_at() {
    for args in [&[][..], &["--force"], &["--detailed-exitcode"]] {
        let ran = as_user(args);
        assert_eq!((ran.code, ran.out.as_str()), (77, ""), "{}", ran.text());
        assert!(ran.err.contains("only root can renew certificates"), "{}", ran.err);
    }
}

/// A run with these tools instead of the world's.
fn with_tools(site: &Site, tools: &[(&str, PathBuf)], args: &[&str]) -> Ran {
    let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "run".into(), "--root".into(), site.tree.dir().into()];
    for (name, path) in tools {
        argv.extend([format!("--{name}").into(), path.into()]);
    }
    argv.extend(args.iter().map(OsString::from));
    start(argv, &[], &Signals::none())
}

// P14
#[test]
fn a_tool_that_cannot_be_run_is_told_before_anything_is_changed() {
    let site = site(5);
    let before = files(&site);
    let file = site.world.dir().join("a-file");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    let bad = [
        (PathBuf::from("/nonexistent/tool"), "not there"),
        (file, "not executable"),
        (site.world.dir().to_path_buf(), "not a regular file"),
    ];
    for (path, why) in bad {
        for (name, other) in [("kubeadm", "crictl"), ("crictl", "kubeadm")] {
            for args in [&[][..], &["--dry-run"]] {
                let ran = with_tools(&site, &[(name, path.clone()), (other, site.world.tool(other))], args);
                assert_eq!(ran.code, 69, "{name}: {}", ran.text());
                assert!(ran.err.contains(why) && ran.err.contains(&format!("--{name}")), "{}", ran.err);
                untouched(&site, &before);
                assert!(!site.tree.on_host("/var/lib/k8s-certs-renew/backups").exists());
            }
        }
    }
    // who has time left needs none of them
    let site = super::site(300);
    let nowhere = || PathBuf::from("/nonexistent/tool");
    assert_eq!(with_tools(&site, &[("kubeadm", nowhere()), ("crictl", nowhere())], &[]).code, 0);
}

// this machine's own docker would show this machine's pods
#[test]
fn below_another_root_only_the_tools_that_were_named_are_used() {
    let site = site(5);
    let bin = site.world.dir().join("bin");
    let mut argv: Vec<OsString> = vec!["k8s-certs-renew".into(), "run".into()];
    argv.extend(site.options());
    let ran = start(argv, &[("PATH", bin.to_str().unwrap())], &Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    let calls = site.world.calls();
    assert!(!calls.is_empty() && calls.iter().all(|call| !call.starts_with("docker")), "{calls:?}");
}

#[test]
fn state_or_lock_that_cannot_be_written_ends_with_74_and_nothing_changed() {
    for left in [5, 300] {
        let no_state = site(left);
        no_state.tree.write("/var/lib/k8s-certs-renew", "a file");
        refused(&no_state, &[], 74, "k8s-certs-renew");
        let no_lock = site(left);
        fs::create_dir_all(no_lock.tree.on_host(LOCK)).unwrap();
        refused(&no_lock, &[], 74, LOCK);
        let linked = site(left);
        linked.tree.write("/etc/target", "of somebody");
        linked.tree.link("/etc/target", LOCK);
        refused(&linked, &[], 74, LOCK);
    }
}

#[test]
fn a_damaged_journal_is_told_set_aside_and_holds_nothing_up() {
    for text in ["", "{", "[]", "{\"version\": 99}"] {
        let site = site(300);
        site.tree.write("/var/lib/k8s-certs-renew/state.json", text);
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(ran.err.contains("warning: the journal '/var/lib/k8s-certs-renew/state.json' is "), "{}", ran.err);
        assert_eq!(site.tree.read("/var/lib/k8s-certs-renew/state.json.damaged"), text);
        assert!(!run(&site, &[]).err.contains("journal"));
    }
}
