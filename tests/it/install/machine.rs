//! A machine: a root, and a systemctl that logs its calls and keeps links as the real one does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::install::action::Action;
use k8s_certs_renew::install::systemctl::Systemctl;
use k8s_certs_renew::install::uninstall::{self, Purge, uninstall};
use k8s_certs_renew::install::{self, Job, Program, install};
use k8s_certs_renew::node::Overrides;
use k8s_certs_renew::node::unit_files::Unit;
use k8s_certs_renew::remains::ours::Places;
use k8s_certs_renew::report::{Console, Voice};

use crate::run::now;

pub const SERVICE: &str = "/etc/systemd/system/k8s-certs-renew.service";
pub const TIMER: &str = "/etc/systemd/system/k8s-certs-renew.timer";
pub const DROP_IN: &str = "/etc/systemd/system/k8s-certs-renew.service.d/50-k8s-certs-renew.conf";
pub const PATHS: &str = "/etc/systemd/system/k8s-certs-renew.service.d/60-k8s-certs-renew-paths.conf";
pub const PROGRAM: &str = "/usr/local/bin/k8s-certs-renew";
pub const SETTINGS: &str = "/etc/default/k8s-certs-renew";
pub const RECORD: &str = "/var/lib/k8s-certs-renew/install.json";
pub const LOCK: &str = "/run/k8s-certs-renew.lock";
pub const SCRIPT: &str = "/usr/local/bin/k8s-certs-renew.sh";

/// kubespray's templates, as its playbook writes them (roles/kubernetes/control-plane/templates, v2.31) for three nodes.
pub const KUBESPRAY_SERVICE: &str = "[Unit]\nDescription=Renew K8S control plane certificates\n\n[Service]\nType=oneshot\nExecStart=/usr/local/bin/k8s-certs-renew.sh\n";
pub const KUBESPRAY_TIMER: &str = "[Unit]\nDescription=Timer to renew K8S control plane certificates\n\n[Timer]\nOnCalendar=Mon *-*-1,2,3,4,5,6,7 03:30:00\nRandomizedDelaySec=30min\nFixedRandomDelay=yes\nPersistent=yes\n\n[Install]\nWantedBy=multi-user.target\n";

pub const PROGRAM_BYTES: &[u8] = b"\x7fELF, as it were";
/// As a package ships it too.
pub const CONFIGURATION: &str = "# settings\n#K8S_CERTS_RENEW_DAYS_BUFFER=7\n";

/// Links and flags below the machine's own directory; the root that `--root=` names, or this machine's.
const SYSTEMCTL: &str = r#"#!/bin/bash
here=$(dirname "$(dirname "$0")")
root=$here/root
echo "$*" >> "$here/log"
case $1 in --root=*) root=${1#--root=}; shift ;; esac
units=$root/etc/systemd/system
unit=${2##*/}
file=$(ls "$units/$unit" "$root/usr/lib/systemd/system/$unit" 2>/dev/null | head -1)
[ -e "$here/meanwhile" ] && { mv "$here/meanwhile" "$here/happened"; bash "$here/happened"; }
[ -e "$here/fails-$1" ] && { echo "Job for $unit failed." >&2; exit 1; }
case $1 in
--version) echo "systemd $(cat "$here/version") ($(cat "$here/version").1-1)"; echo "+PAM" ;;
is-active)
    state=inactive
    case $2 in *.timer) [ -e "$here/active" ] && state=active ;; *) state=$(cat "$here/failed" 2>/dev/null || echo inactive) ;; esac
    echo "$state"; [ "$state" = active ] ;;
show) echo "NeedDaemonReload=no"; [ -e "$here/stale" ] && echo "NeedDaemonReload=yes"; true ;;
daemon-reload) rm -f "$here/stale" ;;
reset-failed) rm -f "$here/failed" ;;
enable)
    target=$(sed -n 's/^WantedBy=//p' "$file")
    mkdir -p "$units/$target.wants" && ln -sf "${file#"$root"}" "$units/$target.wants/$unit" ;;
disable)
    for link in "$units"/*.wants/"$unit"; do rm -f "$link"; rmdir --ignore-fail-on-non-empty "$(dirname "$link")"; done ;;
start) touch "$here/active"; [ ! -e "$here/when-started" ] || bash "$here/when-started" ;;
stop) case $2 in *.timer) rm -f "$here/active" ;; *) rm -f "$here/failed" ;; esac ;;
*) exit 1 ;;
esac
"#;

/// The machine.
pub struct Machine {
    dir: tempfile::TempDir,
    live: bool,
    from: PathBuf,
    pub written: Vec<PathBuf>,
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: u8,
    pub out: String,
    pub err: String,
}

/// Everything below the root: kind, mode, content or target.
pub type Listing = BTreeMap<String, String>;

impl Machine {
    /// A machine with this systemd that runs, and nothing else; the program was downloaded.
    pub fn with_systemd(version: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Self { live: true, from: PathBuf::from("/root/k8s-certs-renew"), written: Vec::new(), dir };
        fs::create_dir_all(machine.dir.path().join("bin")).unwrap();
        for below in [
            "etc/systemd/system",
            "etc/default",
            "usr/local/bin",
            "usr/lib/systemd/system",
            "var/lib",
            "run/systemd/system",
        ] {
            fs::create_dir_all(machine.dir.path().join("root").join(below)).unwrap();
        }
        let systemctl = machine.dir.path().join("bin/systemctl");
        fs::write(&systemctl, SYSTEMCTL).unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(machine.dir.path().join("version"), version.to_string()).unwrap();
        machine
    }

    /// With the systemd of Debian 12.
    pub fn new() -> Self {
        Self::with_systemd(252)
    }

    /// The program runs from here.
    pub fn from(mut self, path: &str) -> Self {
        self.from = PathBuf::from(path);
        if path.starts_with("/usr/") {
            self.write(path, std::str::from_utf8(PROGRAM_BYTES).unwrap());
            self.chmod(path, 0o755);
        }
        self
    }

    /// An image: its systemd does not run.
    pub fn offline(mut self) -> Self {
        self.live = false;
        self
    }

    /// With what kubespray's playbook has put there, enabled and active.
    pub fn of_kubespray(self) -> Self {
        self.playbook();
        self.write(SCRIPT, "#!/bin/bash\nkubeadm certs renew all\n");
        self.chmod(SCRIPT, 0o755);
        self.link(TIMER, "/etc/systemd/system/multi-user.target.wants/k8s-certs-renew.timer");
        self.flag("active", true);
        self
    }

    /// kubespray's playbook writes its units.
    pub fn playbook(&self) {
        self.write(SERVICE, KUBESPRAY_SERVICE);
        self.write(TIMER, KUBESPRAY_TIMER);
    }

    pub fn root(&self) -> Root {
        Root::new(&self.on_host("/")).unwrap()
    }

    pub fn on_host(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.on_host(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.on_host(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.on_host(path).symlink_metadata().is_ok()
    }

    pub fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.on_host(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn link(&self, to: &str, at: &str) {
        let at = self.on_host(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(to, at).unwrap();
    }

    /// A state of systemd, `active`, `stale`, or a call that fails, `fails-start`.
    pub fn flag(&self, name: &str, set: bool) {
        let path = self.dir.path().join(name);
        if set { fs::write(path, "").unwrap() } else { fs::remove_file(path).unwrap() }
    }

    /// The state of the service: `failed`, or `activating` while it waits to be started again.
    pub fn service_is(&self, state: &str) {
        fs::write(self.dir.path().join("failed"), state).unwrap();
    }

    pub fn is(&self, flag: &str) -> bool {
        self.dir.path().join(flag).exists()
    }

    /// The calls of systemctl that change something, since the last time.
    pub fn acts(&self) -> Vec<String> {
        let log = self.dir.path().join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        let asks = |line: &str| {
            ["--version", "is-", "show"].iter().any(|word| {
                line.split_once("--root=")
                    .map_or(line, |(_, rest)| rest.split_once(' ').map_or("", |(_, words)| words))
                    .starts_with(word)
            })
        };
        text.lines().filter(|line| !asks(line)).map(str::to_owned).collect()
    }

    pub fn systemctl(&self) -> Systemctl {
        Systemctl::new(self.dir.path().join("bin/systemctl"), &self.root(), self.live)
    }

    pub fn job<'a>(&self, signals: &'a Signals, dry_run: bool) -> Job<'a> {
        let root = self.root();
        Job {
            systemctl: self.systemctl(),
            program: Program::place(&root, &self.from, None, PROGRAM_BYTES.to_vec()),
            root,
            configuration: CONFIGURATION,
            written: self.written.clone(),
            overrides: Overrides::default(),
            now: now(),
            is_root: true,
            dry_run,
            signals,
        }
    }

    pub fn install(&self) -> Ran {
        self.run(false, install)
    }

    pub fn install_dry(&self) -> Ran {
        self.run(true, install)
    }

    pub fn uninstall(&self) -> Ran {
        self.uninstall_as(Purge::No, false, None)
    }

    pub fn uninstall_as(&self, purge: Purge, dry_run: bool, textfile: Option<&str>) -> Ran {
        let textfile = textfile.map(Path::new);
        self.run(dry_run, |job, console| {
            uninstall(job, &Places { backup_dir: Path::new("/srv/backups"), textfile }, purge, console)
        })
    }

    fn run(
        &self,
        dry_run: bool,
        command: impl FnOnce(
            &Job<'_>,
            &mut Console<'_>,
        ) -> Result<k8s_certs_renew::exit::Exit, k8s_certs_renew::exit::Failure>,
    ) -> Ran {
        let signals = Signals::none();
        let job = self.job(&signals, dry_run);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let voice = Voice { text: true, quiet: false, verbose: false, color_out: false, color_err: false, width: None };
        let result = command(&job, &mut Console::new(&mut out, &mut err, voice));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(out), text(err));
        match result {
            Ok(exit) => Ran { code: exit.code(), out, err },
            Err(failure) => Ran { code: failure.exit.code(), out, err: format!("{err}error: {failure}\n") },
        }
    }

    /// What an installation would do, one after another.
    pub fn planned(&self) -> Vec<Action> {
        install::planned(&self.job(&Signals::none(), false)).unwrap().1
    }

    /// What an uninstallation would do.
    pub fn planned_undo(&self, purge: bool) -> Vec<Action> {
        let signals = Signals::none();
        let job = self.job(&signals, false);
        uninstall::planned(&job, &Places { backup_dir: Path::new("/srv/backups"), textfile: None }, purge)
            .unwrap()
            .actions
    }

    pub fn act(&self, action: &Action) {
        action.act(&self.root(), &self.systemctl(), PROGRAM_BYTES).unwrap();
    }

    /// The program that the service starts in the end.
    pub fn starts(&self) -> Vec<String> {
        let unit = Unit::load(&self.root(), "k8s-certs-renew.service").unwrap();
        unit.values("Service", "ExecStart").into_iter().map(str::to_owned).collect()
    }

    /// Every path and its mode, for where a program of a hundred megabytes is among them.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut dirs = vec![self.on_host("/")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                names.push(format!("{} {:o}", path.display(), metadata.permissions().mode()));
                if metadata.is_dir() {
                    dirs.push(path);
                }
            }
        }
        names.sort_unstable();
        names
    }

    /// All but the lock, which whoever comes makes, and which stays until the next boot or a purge.
    pub fn listing(&self) -> Listing {
        let mut listing = Listing::new();
        list(&self.on_host("/"), &self.on_host("/"), &mut listing);
        listing.remove(LOCK);
        listing
    }
}

fn list(root: &Path, dir: &Path, listing: &mut Listing) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let what = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if metadata.is_dir() {
            format!("dir {mode:o}")
        } else {
            format!("file {mode:o} {}", fs::read_to_string(&path).unwrap())
        };
        listing.insert(format!("/{}", path.strip_prefix(root).unwrap().display()), what);
        if metadata.is_dir() {
            list(root, &path, listing);
        }
    }
}

/// The paths that are in one listing only, or differ.
pub fn changed(before: &Listing, after: &Listing) -> Vec<String> {
    let mut paths: Vec<String> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).cloned().collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}
