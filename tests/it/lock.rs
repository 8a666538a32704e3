//! One run at a time, and no lock outlives its holders.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::Call;
use k8s_certs_renew::lock::{Lock, LockError};

const PATH: &str = "/run/k8s-certs-renew.lock";

fn tree() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path()).unwrap();
    (dir, root)
}

#[test]
fn a_second_run_is_told_who_holds_the_lock() {
    let (_dir, root) = tree();
    let lock = Lock::take(&root, Path::new(PATH)).unwrap();
    let error = Lock::take(&root, Path::new(PATH)).unwrap_err();
    assert!(matches!(error, LockError::Busy { pid: Some(pid), .. } if pid == std::process::id()), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("another run") && said.contains(&std::process::id().to_string()), "{said}");
    drop(lock);
    Lock::take(&root, Path::new(PATH)).unwrap();
}

#[test]
fn what_a_killed_run_left_behind_does_not_block() {
    let (dir, root) = tree();
    std::fs::create_dir(dir.path().join("run")).unwrap();
    std::fs::write(dir.path().join("run/k8s-certs-renew.lock"), "4194304 and some rubbish").unwrap();
    let lock = Lock::take(&root, Path::new(PATH)).unwrap();
    let text = std::fs::read_to_string(dir.path().join("run/k8s-certs-renew.lock")).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()));
    drop(lock);
}

#[test]
fn a_program_that_inherits_the_lock_holds_it_after_the_run_has_gone() {
    let (dir, root) = tree();
    let fifo = dir.path().join("fifo");
    let lock = Lock::take(&root, Path::new(PATH)).unwrap();
    // a shell takes stdin away from what it starts in the background, so that keeps a copy
    let script = format!("exec 3<&0; mkfifo {0}; (read line < {0}) >/dev/null 2>&1 & echo $!", fifo.display());
    let call = |script: &str| Call::new(Path::new("/bin/sh")).args(["-c", script]).deadline(Duration::from_secs(20));
    let output = call(&script).keep_open(lock.fd()).run().unwrap();
    assert!(output.success());
    drop(lock);
    assert!(matches!(Lock::take(&root, Path::new(PATH)), Err(LockError::Busy { .. })));
    call(&format!("kill -9 {}", output.stdout_text().trim())).run().unwrap();
    let free = (0..5000).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        Lock::take(&root, Path::new(PATH)).is_ok()
    });
    assert!(free);
}

#[test]
fn a_program_that_does_not_inherit_the_lock_does_not_hold_it() {
    let (_dir, root) = tree();
    let lock = Lock::take(&root, Path::new(PATH)).unwrap();
    let output = Call::new(Path::new("/bin/sh")).args(["-c", "ls -l /proc/self/fd"]).run().unwrap();
    assert!(!output.stdout_text().contains("k8s-certs-renew.lock"), "{}", output.stdout_text());
    drop(lock);
}

#[test]
fn the_lock_is_roots_alone_and_never_taken_through_a_link() {
    let (dir, root) = tree();
    drop(Lock::take(&root, Path::new(PATH)).unwrap());
    let path = dir.path().join("run/k8s-certs-renew.lock");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::rename(&path, dir.path().join("run/other")).unwrap();
    symlink("other", &path).unwrap();
    let error = Lock::take(&root, Path::new(PATH)).unwrap_err();
    assert!(matches!(error, LockError::Io { .. }), "{error:?}");
}
