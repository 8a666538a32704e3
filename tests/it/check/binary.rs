//! The program itself, started by somebody who is not root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::states;

const NOBODY: u32 = 65_534;

// X06
#[test]
fn what_may_not_be_read_is_unknown_and_everything_else_is_judged() {
    let state = states::fresh();
    let tree = &state.site.tree;
    let dir = tree.dir();
    // Where everybody may start it from. Copied by another process: a file that this one has written may still be open in a child
    // that another test is just starting, and then it cannot be executed.
    let program = dir.join("k8s-certs-renew");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_k8s-certs-renew")).arg(&program).status().unwrap();
    assert!(copied.success());
    for path in [dir, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    for name in ["member-node1.pem", "admin-node1.pem", "node-node1.pem"] {
        tree.chmod(&format!("/etc/ssl/etcd/ssl/{name}"), 0o600);
    }
    tree.chmod("/root/.kube/config", 0o644);
    tree.chmod("/etc/kubernetes/admin.conf", 0o644);
    std::fs::remove_dir_all(tree.on_host("/proc")).unwrap();
    let mut command = Command::new(&program);
    command.args(["check", "--at", states::NOW, "--root"]).arg(dir).current_dir("/").env_clear();
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let checked = super::Checked { code: 3, out, err };
    for name in ["member-node1.pem", "admin-node1.pem", "node-node1.pem"] {
        assert!(checked.row(name).ends_with("unreadable"), "{}", checked.row(name));
        checked.expect("unknown", name, "look as root");
    }
    assert!(checked.row("apiserver").ends_with("ok"), "{}", checked.row("apiserver"));
    assert!(checked.row("ca").ends_with("ok"), "{}", checked.out);
}
