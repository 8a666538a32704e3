//! Who is asked, who is kept out, and what is left when a restore is cut off or fails.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::lock::Lock;
use k8s_certs_renew::run::LOCK;

use super::cut_off::{OnWords, call_with};
use super::{ALL, DIR, FIRST, RESTARTS, finishes, ids, now, renewed, restore, restore_at};
use crate::run::binary;
use crate::run::seen::{changed, files, owed};
use crate::support::clock::StillClock;
use crate::support::site::Site;

/// A terminal at which this is typed.
fn typed(answer: k8s_certs_renew::host::ask::Answer) -> Terminal {
    Terminal { answer: Some(answer), ..Terminal::default() }
}

/// Asserts that nothing but the lock came of it.
fn nothing_came_of_it(site: &Site, act: impl FnOnce()) {
    let before = files(site);
    act();
    assert_eq!(changed(&before, &files(site)), Vec::<String>::new());
    assert_eq!((ids(site).len(), owed(site)), (1, None));
}

#[test]
fn whoever_is_at_the_terminal_is_asked() {
    for answer in [|_: &Signals| Ok(Some("y".to_owned())), |_: &Signals| Ok(Some(" YES ".to_owned()))] {
        let (site, before) = renewed();
        let ran = restore_at(typed(answer), &site, &[FIRST], &Signals::none());
        assert_eq!((ran.code, ran.err.as_str()), (0, "Put these 7 back? [y/N] "), "{}", ran.out);
        assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    }
    let (site, _) = renewed();
    for answer in [
        |_: &Signals| Ok(Some(String::new())),
        |_: &Signals| Ok(Some("n".to_owned())),
        |_: &Signals| Ok(Some("yy".to_owned())),
        |_: &Signals| Ok(None),
    ] {
        nothing_came_of_it(&site, || {
            let ran = restore_at(typed(answer), &site, &[FIRST], &Signals::none());
            assert_eq!(ran.code, 0, "{}", ran.text());
            assert!(ran.out.ends_with("Nothing was changed\n"), "{}", ran.out);
        });
    }
    nothing_came_of_it(&site, || {
        let ran = restore_at(typed(|_| Err(io::ErrorKind::Other.into())), &site, &[FIRST], &Signals::none());
        assert_eq!(ran.code, 64, "{}", ran.text());
    });
}

#[test]
fn a_signal_at_the_question_ends_it_with_nothing_changed() {
    let (site, _) = renewed();
    let interrupted = |signals: &Signals| {
        signals.note(2);
        Ok(None)
    };
    nothing_came_of_it(&site, || {
        let ran = restore_at(typed(interrupted), &site, &[FIRST], &Signals::none());
        assert_eq!(ran.code, 130, "{}", ran.text());
        assert!(ran.err.contains("ended by signal 2 with nothing changed"), "{}", ran.err);
    });
}

#[test]
fn where_nobody_can_be_asked_it_is_refused() {
    let (site, _) = renewed();
    nothing_came_of_it(&site, || {
        let ran = restore(&site, &[FIRST]);
        assert_eq!((ran.code, ran.out.as_str()), (64, ""));
        assert!(ran.err.contains("nobody can be asked here: add --yes, or look with --dry-run"), "{}", ran.err);
    });
}

/// The real program, at a terminal of its own (util-linux' `script`), with this typed.
fn at_a_terminal(site: &Site, typed: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_k8s-certs-renew");
    let line = format!("{program} restore {FIRST} --root {}", site.tree.dir().display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_real_program_reads_the_answer_from_its_terminal() {
    let (site, before) = renewed();
    let (code, said) = at_a_terminal(&site, "n\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Put these 7 back? [y/N]") && said.contains("Nothing was changed"), "{said}");
    let (code, said) = at_a_terminal(&site, "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
}

#[test]
fn a_run_or_a_kubeadm_at_work_keeps_it_out_but_not_a_look() {
    let (site, _) = renewed();
    let lock = Lock::take(&site.tree.root(), Path::new(LOCK)).unwrap();
    nothing_came_of_it(&site, || {
        let ran = restore(&site, &[FIRST, "--yes"]);
        assert_eq!(ran.code, 75, "{}", ran.text());
        assert_eq!(restore(&site, &[FIRST, "--dry-run"]).code, 0);
        assert_eq!(restore(&site, &[]).code, 0);
    });
    drop(lock);
    site.tree.write("/proc/4242/cmdline", "kubeadm\0certs\0renew\0all\0");
    site.tree.write("/proc/4242/stat", "4242 (kubeadm) S 1 4242 4242 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 5 0\n");
    nothing_came_of_it(&site, || {
        let ran = restore(&site, &[FIRST, "--yes"]);
        assert_eq!(ran.code, 75, "{}", ran.text());
        assert!(ran.err.contains("kubeadm is at work on this node (pid 4242)"), "{}", ran.err);
    });
}

#[test]
fn what_has_changed_since_it_was_shown_is_not_overwritten() {
    let (site, _) = renewed();
    let argv = ["k8s-certs-renew", "restore", FIRST, "--yes", "--root", site.tree.dir().to_str().unwrap()];
    // a run that was at work meanwhile has written this; the table is out before the second look
    let path = site.tree.on_host("/etc/kubernetes/scheduler.conf");
    let mut out = OnWords { words: "CERTIFICATE", act: Box::new(move || std::fs::write(&path, "new").unwrap()) };
    let code = call_with(&argv, &mut out, &mut io::sink());
    assert_eq!(code, 75);
    assert_eq!(site.tree.read("/etc/kubernetes/scheduler.conf"), "new");
    assert_eq!(ids(&site), [FIRST]);
}

#[test]
fn a_backup_of_what_is_there_that_cannot_be_made_stops_it() {
    let (site, _) = renewed();
    let before = files(&site);
    site.tree.write("/etc/kubernetes/manifests/.keep", "");
    let moved = format!("/etc/kubernetes/manifests/{FIRST}");
    std::fs::rename(site.tree.on_host(&format!("{DIR}/{FIRST}")), site.tree.on_host(&moved)).unwrap();
    let ran = restore(&site, &[FIRST, "--yes", "--backup-dir", "/etc/kubernetes/manifests"]);
    assert_eq!(ran.code, 74, "{}", ran.text());
    assert!(ran.err.contains("nothing was changed, since what is there could not be backed up"), "{}", ran.err);
    let mut left = changed(&before, &files(&site));
    left.retain(|path| !path.starts_with("/etc/kubernetes/manifests/"));
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(owed(&site), None);
}

#[test]
fn a_copy_that_cannot_be_written_is_24_and_the_rest_is_put_back() {
    let (site, before) = renewed();
    std::fs::remove_dir_all(site.tree.on_host("/root/.kube")).unwrap();
    site.tree.write("/root/.kube", "a file");
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 24, "{}", ran.text());
    assert!(ran.err.contains("error: cannot put back '/root/.kube/config': "), "{}", ran.err);
    let mut left = changed(&before, &files(&site));
    left.retain(|path| !path.starts_with("/root/"));
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(owed(&site).unwrap(), ALL);
}

#[test]
fn manifests_that_were_moved_away_keep_no_backup_from_being_put_back() {
    let (site, before) = renewed();
    let [manifests, away] = ["/etc/kubernetes/manifests", "/srv"].map(|path| site.tree.on_host(path));
    std::fs::rename(&manifests, &away).unwrap();
    site.tree.remove("/etc/kubernetes/ssl/apiserver.crt");
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(owed(&site), None, "nothing runs");
    std::fs::rename(&away, &manifests).unwrap();
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    finishes(&site, &RESTARTS[1..]);
}

#[test]
fn only_root_puts_back_on_the_machine_itself() {
    let said = |args: &[&str]| {
        let process = Process {
            argv: ["k8s-certs-renew", "restore"].iter().chain(args).map(Into::into).collect(),
            environment: Vec::new(),
            terminal: Terminal::default(),
            is_root: false,
            clock: &StillClock::at(now()),
            signals: &Signals::none(),
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        (main(&process, &mut out, &mut err).code(), String::from_utf8(err).unwrap())
    };
    let (code, err) = said(&["20000101T000000Z", "--yes"]);
    assert_eq!(code, 77, "{err}");
    assert!(err.contains("only root can put a backup back"), "{err}");
    assert_eq!(said(&["20000101T000000Z", "--dry-run"]).0, 64);
}

#[test]
fn a_wrong_command_line_is_64() {
    for args in [&["restore", "--yes"][..], &["restore", "--dry-run"], &["restore", "x", "y"], &["restore", "--force"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_k8s-certs-renew")).args(args).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
    }
    // an option of the run's is one of another verb, wherever it is set
    let (site, _) = renewed();
    let mut program = binary::program(&site, &["--dry-run"]);
    program.env("K8S_CERTS_RENEW_BACKUP_DIR", "/srv");
    assert_eq!(program.output().unwrap().status.code(), Some(0));
}
