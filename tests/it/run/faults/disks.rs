//! Disks that are full or read-only, and directories that root may not write to: before the run, and all of a sudden.

use std::os::unix::fs::chown;
use std::process::{Command, Output};
use std::time::Duration;

use super::super::NOW;
use super::super::crash::site::{ARGS, Killed, node};
use super::super::seen::text;
use super::{Left, judged};
use crate::support::events::{Act, Event, Point};
use crate::support::fake::say;
use crate::support::site::Site;
use crate::support::tls_server::Answer;

/// A cell of the table.
pub struct Cell {
    name: &'static str,
    hit: Hit,
    expected: (i32, Left),
}

enum Hit {
    /// This is done to the node's disks before the run.
    Before(&'static str),
    /// The first is done before the run, the second at this point of the call with these words and number.
    Between(&'static str, (&'static str, usize, At), &'static str),
    /// This is done while the run waits for `/readyz`.
    InTheWait(&'static str, &'static str),
    /// The directory belongs to another user, and root has lost the power to write to it all the same.
    Powerless(&'static str),
}

#[derive(Clone, Copy)]
enum At {
    Before,
    Emptied(&'static str),
    Written(&'static str),
    After,
}

const PREFLIGHT: (&str, usize, At) = ("crictl -t 60s pods", 0, At::After);
const KUBEADM: (&str, usize, At) = ("certs renew all", 0, At::Before);

const fn cell(name: &'static str, hit: Hit, code: i32, left: Left) -> Cell {
    Cell { name, hit, expected: (code, left) }
}

/// Step by step. The functions are those of [`PRELUDE`].
pub const TABLE: &[Cell] = &[
    cell("lock: full disk", Hit::Before("tiny /run && fill /run"), 74, Left::AsItWas),
    cell("lock: read-only", Hit::Before("ro /run"), 74, Left::AsItWas),
    cell("lock: no permission", Hit::Powerless("/run"), 74, Left::AsItWas),
    cell("backup: full disk", Hit::Before("tiny /var/lib/k8s-certs-renew"), 74, Left::AsItWas),
    cell("backup: read-only /var/lib", Hit::Before("ro /var/lib"), 74, Left::AsItWas),
    cell("backup: no permission", Hit::Powerless("/var/lib"), 74, Left::AsItWas),
    cell(
        "backup: the disk fills up after the preflight",
        Hit::Between("room /var/lib", PREFLIGHT, "fill /var/lib"),
        74,
        Left::AsItWas,
    ),
    cell(
        "backup: /var/lib turns read-only after the preflight",
        Hit::Between(":", PREFLIGHT, "ro /var/lib"),
        74,
        Left::AsItWas,
    ),
    cell(
        "journal: full disk",
        Hit::Before("tiny /var/lib/k8s-certs-renew && elsewhere && fill /var/lib/k8s-certs-renew"),
        74,
        Left::AsItWas,
    ),
    cell("journal: read-only", Hit::Before("elsewhere && ro /var/lib/k8s-certs-renew"), 74, Left::AsItWas),
    cell("renew: full disk", Hit::Before("room /etc/kubernetes/ssl && fill /etc/kubernetes/ssl"), 74, Left::AsItWas),
    cell("renew: read-only certificate directory", Hit::Before("ro /etc/kubernetes/ssl"), 74, Left::AsItWas),
    cell("renew: read-only /etc/kubernetes", Hit::Before("ro /etc/kubernetes"), 74, Left::AsItWas),
    cell("renew: no permission", Hit::Powerless("/etc/kubernetes/ssl"), 74, Left::AsItWas),
    cell(
        "renew: the certificate directory turns read-only before kubeadm writes",
        Hit::Between(":", KUBEADM, "ro /etc/kubernetes/ssl"),
        20,
        Left::InPart,
    ),
    cell(
        "renew: /etc/kubernetes turns read-only before kubeadm writes",
        Hit::Between(":", KUBEADM, "ro /etc/kubernetes"),
        20,
        Left::AsItWas,
    ),
    cell(
        "renew: the certificate directory turns read-only half-way",
        Hit::Between(":", ("certs renew all", 0, At::Written("apiserver.crt")), "ro /etc/kubernetes/ssl"),
        20,
        Left::InPart,
    ),
    cell(
        "renew: the certificate directory turns read-only within a pair",
        Hit::Between(":", ("certs renew all", 0, At::Written("apiserver.key")), "ro /etc/kubernetes/ssl"),
        20,
        Left::Told,
    ),
    cell(
        "renew: kubeadm dies within a kubeconfig, and /etc/kubernetes turns read-only",
        Hit::Between(":", ("certs renew all", 0, At::Emptied("scheduler.conf")), "ro /etc/kubernetes; kill -9 $PPID"),
        20,
        Left::Told,
    ),
    cell(
        "restart of kube-apiserver: /var/lib turns read-only",
        Hit::Between(":", ("rmp -f kube-apiserver", 0, At::Before), "ro /var/lib"),
        74,
        Left::Told,
    ),
    cell(
        "restart of kube-apiserver: the disk fills up",
        Hit::Between("room /var/lib", ("rmp -f kube-apiserver", 0, At::Before), "fill /var/lib"),
        74,
        Left::Told,
    ),
    cell(
        "restart of kube-controller-manager: /var/lib turns read-only",
        Hit::Between(":", ("rmp -f kube-controller-manager", 0, At::Before), "ro /var/lib"),
        74,
        Left::Told,
    ),
    cell(
        "restart of kube-scheduler: /var/lib turns read-only",
        Hit::Between(":", ("rmp -f kube-scheduler", 0, At::Before), "ro /var/lib"),
        74,
        Left::Told,
    ),
    cell("copy: read-only /root", Hit::Before("ro /root"), 24, Left::Finished),
    cell("copy: full /root", Hit::Before("room /root && fill /root"), 24, Left::Finished),
    cell("copy: no permission", Hit::Powerless("/root/.kube"), 24, Left::Finished),
    cell(
        "copy: /root turns read-only after the restarts",
        Hit::Between(":", ("rmp -f kube-scheduler", 0, At::After), "ro /root"),
        24,
        Left::Finished,
    ),
    cell("last write of the journal: read-only", Hit::InTheWait(":", "ro /var/lib"), 74, Left::Told),
    cell("last write of the journal: full disk", Hit::InTheWait("room /var/lib", "fill /var/lib"), 74, Left::Told),
];

/// What the scripts of the table are made of. `$R` is the node, `$W` a place for what is put aside.
const PRELUDE: &str = r#"
ro() { mkdir -p "$R$1"; mount --bind "$R$1" "$R$1"; mount -o remount,ro,bind "$R$1"; }
# a small disk of its own in place of the directory, with what is in it
disk() { mkdir -p "$R$1" "$W/disk"; cp -a "$R$1/." "$W/disk"; mount -t tmpfs -o "size=$2" tmpfs "$R$1"; cp -a "$W/disk/." "$R$1"; echo "$1" >>"$W/disks"; }
room() { disk "$1" 1m; }
tiny() { disk "$1" 32k; }
fill() { ! head -c 2000000 /dev/zero >"$R$1/fill" 2>/dev/null; }
elsewhere() { mkdir -p "$R/var/lib/k8s-certs-renew" "$R/run/backups"; mkdir "$R/var/lib/k8s-certs-renew/backups"; mount --bind "$R/run/backups" "$R/var/lib/k8s-certs-renew/backups"; }
"#;

/// The run, then what is on the small disks put back where they were.
const RUN: &str = r#"
code=0; "$@" || code=$?
if [ -e "$W/disks" ]; then
  while read -r dir; do
    rm -f "$R$dir/fill"; rm -rf "$W/disk"; cp -a "$R$dir/." "$W/disk"; umount -R "$R$dir"
    find "$R$dir" -mindepth 1 -delete; cp -a "$W/disk/." "$R$dir"
  done <"$W/disks"
fi
exit $code
"#;

fn shell(site: &Site, script: &str) -> String {
    let place = format!("R={}; W={}/aside; mkdir -p \"$W\"", text(site.tree.dir()), text(site.world.dir()));
    format!("set -e; {place}; {PRELUDE}\n{script}")
}

/// Runs the program where the fault hits it; `None` where this user can make no mounts.
fn hit(site: &Site, cell: &Cell) -> Option<Output> {
    let works = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|output| output.status.success());
    if !works {
        say("not tried, since this user can make no mounts");
        return None;
    }
    let mut power = Vec::new();
    let before = match &cell.hit {
        Hit::Before(script) | Hit::InTheWait(script, _) => script,
        Hit::Between(before, (call, number, at), script) => {
            let point = match at {
                At::Before => Point::Before,
                At::Emptied(file) => Point::Emptied((*file).to_owned()),
                At::Written(file) => Point::Written((*file).to_owned()),
                At::After => Point::After,
            };
            let act = Act::Runs(shell(site, script));
            let event = Event { call: (*call).to_owned(), number: *number, point, act };
            site.world.fault(|faults| faults.events = vec![event]);
            before
        }
        Hit::Powerless(dir) => {
            std::fs::create_dir_all(site.tree.on_host(dir)).unwrap();
            chown(site.tree.on_host(dir), Some(1), Some(1)).unwrap();
            power = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown"].to_vec();
            ":"
        }
    };
    let script = shell(site, &format!("({before}) || exit 99; {RUN}"));
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).args(power);
    command.args([env!("CARGO_BIN_EXE_k8s-certs-renew"), "run", "--at", NOW]).args(site.options());
    command.args(ARGS).args(["--ready-timeout", "3s"]);
    let Hit::InTheWait(_, script) = cell.hit else { return Some(command.output().unwrap()) };
    Some(std::thread::scope(|scope| {
        let apiserver = &site.servers.apiserver;
        apiserver.script(|answers| {
            answers.restarted = vec![Answer::Ready, Answer::Status(500)];
        });
        let run = scope.spawn(|| command.output().unwrap());
        let waits = || apiserver.requests().iter().any(|request| request.status == 500);
        (0..5000).take_while(|_| !waits()).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
        assert!(waits(), "{}", cell.name);
        let inside = script_in(site, script);
        assert!(inside.status.success(), "{}: {}", cell.name, String::from_utf8_lossy(&inside.stderr));
        apiserver.script(|answers| answers.restarted = vec![Answer::Ready]);
        run.join().unwrap()
    }))
}

/// Runs a script where the run is that has the lock, with its mounts.
fn script_in(site: &Site, script: &str) -> Output {
    let pid = site.tree.read("/run/k8s-certs-renew.lock");
    let command = ["nsenter", "-t", pid.trim(), "-m", "sh", "-c"];
    Command::new(command[0]).args(&command[1..]).arg(shell(site, script)).output().unwrap()
}

fn each(cells: &[Cell]) {
    for cell in cells {
        let site = node();
        let before = Killed::before(&site);
        let Some(output) = hit(&site, cell) else { return };
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if let Hit::Powerless(dir) = cell.hit {
            chown(site.tree.on_host(dir), Some(0), Some(0)).unwrap();
        }
        judged(&site, cell.name, &before, (output.status.code(), &said), cell.expected, |_| {});
    }
}

#[test]
fn a_disk_that_cannot_be_written_leaves_the_node_as_it_was() {
    each(&TABLE[..14]);
}

#[test]
fn a_disk_that_fails_in_the_middle_leaves_a_node_that_the_next_run_finishes() {
    each(&TABLE[14..]);
}
