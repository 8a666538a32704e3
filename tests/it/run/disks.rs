//! Disks that are full or cannot be written: mounts of the program's own, which only root can make.

use std::process::{Command, Output};

use super::seen::{APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files};
use super::{NOW, site};
use crate::support::fake::say;
use crate::support::site::Site;

const READ_ONLY: &str = "mount --bind $D $D && mount -o remount,ro,bind $D";
const FULL: &str =
    "cp -a $D $W && mount -t tmpfs -o size=256k tmpfs $D && cp -a $W/*/. $D && ! head -c 300000 /dev/zero > $D/fill";
const TINY: &str = "mkdir -p $D && mount -t tmpfs -o size=32k tmpfs $D";

/// Runs the program where this directory of the node is such a mount; `None` where this user can make none.
fn run_on(site: &Site, mount: &str, dir: &str) -> Option<Output> {
    let works = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|output| output.status.success());
    if !works {
        say("not tried, since this user can make no mounts");
        return None;
    }
    let stash = site.world.dir().join("stash");
    std::fs::create_dir_all(&stash).unwrap();
    let script = format!("({mount}) 2>/dev/null || exit 99; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_k8s-certs-renew"), "run", "--at", NOW]);
    command.args(site.options()).env("D", site.tree.on_host(dir)).env("W", stash);
    Some(command.output().unwrap())
}

#[test]
fn where_kubeadm_could_lose_a_key_or_the_backup_has_no_room_nothing_is_changed() {
    let cases = [
        (FULL, "/etc/kubernetes/ssl", "no room in '/etc/kubernetes/ssl'"),
        (READ_ONLY, "/etc/kubernetes/ssl", "cannot write to '/etc/kubernetes/ssl'"),
        (READ_ONLY, "/etc/kubernetes", "cannot write to '/etc/kubernetes'"),
        (TINY, "/var/lib/k8s-certs-renew/backups", "no room in '/var/lib/k8s-certs-renew/backups'"),
        (TINY, "/var/lib/k8s-certs-renew", "no room in '/var/lib/k8s-certs-renew/backups'"),
    ];
    for (mount, dir, said) in cases {
        let site = site(5);
        let before = files(&site);
        let Some(output) = run_on(&site, mount, dir) else { return };
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{dir}: {err}");
        assert!(err.contains(said), "{dir}: {err}");
        assert_eq!(changed(&before, &files(&site)), Vec::<String>::new(), "{dir}");
        assert_eq!(site.world.acts(), Vec::<String>::new(), "{dir}");
    }
}

// K02
#[test]
fn a_copy_on_a_read_only_disk_does_not_keep_the_node_from_its_renewal() {
    let site = site(5);
    let Some(output) = run_on(&site, READ_ONLY, "/root/.kube") else { return };
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(24), "{err}");
    assert!(err.contains("cannot update the kubeconfig copy '/root/.kube/config'"), "{err}");
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
}
