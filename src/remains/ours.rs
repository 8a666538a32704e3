//! What this program and its installation leave on a machine. The one list of it: `check` shows it, `uninstall --purge` goes by it.

use std::path::{Path, PathBuf};

use crate::files::Root;
use crate::journal;
use crate::lock;
use crate::node::unit_files::{DIRECTORIES, wanted_by};
use crate::settings::layers;
use crate::settings::timer::DEFAULT_TIMER;
use crate::steps::backup::Backup;

/// The service that the timer starts.
pub const SERVICE: &str = "k8s-certs-renew.service";
/// Where a timer with `Persistent=` keeps when it last fired (systemd.timer(5)).
pub const STAMP: &str = "/var/lib/systemd/timers/stamp-k8s-certs-renew.timer";
/// Where the program is: put there by hand or by `install`, the last one by a package.
pub const PROGRAMS: [&str; 3] =
    ["/usr/local/bin/k8s-certs-renew", "/opt/bin/k8s-certs-renew", "/usr/bin/k8s-certs-renew"];
/// The names of our own drop-ins; others below the same directories are an operator's.
pub const DROP_INS: [&str; 2] = ["50-k8s-certs-renew.conf", "60-k8s-certs-renew-paths.conf"];

/// Places that settings name.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Where backups are (`--backup-dir`).
    pub backup_dir: &'a Path,
    /// Where metrics are written (`--textfile`).
    pub textfile: Option<&'a Path>,
}

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A unit file of the service or the timer, with our text: `ExecStart=` runs this program, or the description is ours.
    Unit,
    /// A drop-in of ours for one of the two.
    DropIn,
    /// A link by which a target starts the timer or the service at boot, whosever the unit is that it leads to.
    Link,
    /// The program.
    Program,
    /// `/etc/default/k8s-certs-renew`.
    Settings,
    /// Our directory: journal, record of the installation, and the backups where no other place is set.
    State,
    /// A backup, whole or half-made, with private keys inside: a directory that has the name of one (whether it has the index of one is for whoever
    /// removes it to see). Others' files may stand beside it.
    Backup,
    /// The lock.
    Lock,
    /// The file of metrics; only one that holds ours and no others.
    Metrics,
    /// systemd's own note of when the timer last fired. Another's timer of the same name has it too.
    Stamp,
}

/// Something of ours that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ours {
    /// What kind of thing it is.
    pub part: Part,
    /// Where, as a path of the node. Links are not followed: it is the link where one stands there.
    pub path: PathBuf,
}

/// Everything of ours below the root, sorted by kind and path. Never fails: what cannot be looked at is passed over, but for unit
/// directories and backup directories it is then not known what is in them.
pub fn ours(root: &Root, places: &Places<'_>) -> Vec<Ours> {
    let mut found = Vec::new();
    let mut there = |part, path: PathBuf| {
        if root.symlink_metadata(&path).is_ok() && !found.contains(&Ours { part, path: path.clone() }) {
            found.push(Ours { part, path });
        }
    };
    let mut directories: Vec<PathBuf> = Vec::new();
    for dir in DIRECTORIES.map(Path::new) {
        // /lib is often a link to /usr/lib
        match root.canonicalize(dir) {
            Ok(real) if !directories.contains(&real) => directories.push(real),
            _ => continue,
        }
        for unit in [SERVICE, DEFAULT_TIMER] {
            let path = dir.join(unit);
            if is_our_unit(root, &path) {
                there(Part::Unit, path);
            }
            for name in DROP_INS {
                there(Part::DropIn, dir.join(format!("{unit}.d")).join(name));
            }
        }
    }
    for unit in [SERVICE, DEFAULT_TIMER] {
        for link in wanted_by(root, unit).unwrap_or_default() {
            there(Part::Link, link);
        }
    }
    for program in PROGRAMS {
        there(Part::Program, PathBuf::from(program));
    }
    there(Part::Settings, PathBuf::from(layers::FILE));
    there(Part::State, PathBuf::from(journal::DIRECTORY));
    for id in Backup::ids(root, places.backup_dir).unwrap_or_default() {
        there(Part::Backup, places.backup_dir.join(id));
    }
    for path in Backup::half_made(root, places.backup_dir).unwrap_or_default() {
        there(Part::Backup, path);
    }
    there(Part::Lock, PathBuf::from(lock::FILE));
    if let Some(path) = places.textfile.filter(|path| holds_our_metrics(root, path)) {
        there(Part::Metrics, path.to_path_buf());
    }
    there(Part::Stamp, PathBuf::from(STAMP));
    found.sort_unstable();
    found
}

/// Whether a unit file is ours. kubespray writes its own under the very same names (its `k8s-certs-renew.service.j2`, v2.31), and
/// starts `k8s-certs-renew.sh`.
pub fn is_our_unit(root: &Root, path: &Path) -> bool {
    let Ok(text) = root.read_to_string(path) else { return false };
    let runs_us = |line: &str| {
        let command = line.strip_prefix("ExecStart=")?.trim_start_matches(['-', ':', '+', '!', '@', ' ']);
        let program = command.split_whitespace().next()?;
        Some(Path::new(program).file_name()? == "k8s-certs-renew")
    };
    let of_timer = include_str!("../../units/k8s-certs-renew.timer");
    let description = of_timer.lines().find(|line| line.starts_with("Description="));
    text.lines().map(str::trim).any(|line| runs_us(line) == Some(true) || Some(line) == description)
}

fn holds_our_metrics(root: &Root, path: &Path) -> bool {
    let Ok(text) = root.read_to_string(path) else { return false };
    let mut samples = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    samples.peek().is_some() && samples.all(|line| line.starts_with("k8s_certs_renew_"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Ours, Part, Places, ours};
    use crate::files::{Replace, Root};

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        for (path, text) in files {
            let path = Path::new(path);
            root.create_dir(path.parent().unwrap(), 0o755).unwrap();
            root.replace(path, text.as_bytes(), &Replace { durable: false, ..Replace::with_mode(0o600) }).unwrap();
        }
        (dir, root)
    }

    fn found(root: &Root) -> Vec<(Part, String)> {
        let places = Places { backup_dir: Path::new("/srv/backups"), textfile: Some(Path::new("/srv/node/k.prom")) };
        let path = |Ours { part, path }: Ours| (part, path.display().to_string());
        ours(root, &places).into_iter().map(path).collect()
    }

    #[test]
    fn what_is_ours_is_found_and_what_has_only_our_name_is_not() {
        let service = include_str!("../../units/k8s-certs-renew.service");
        let timer = include_str!("../../units/k8s-certs-renew.timer");
        let drop_in = "/etc/systemd/system/k8s-certs-renew.service.d";
        let (_dir, root) = root(&[
            ("/etc/systemd/system/k8s-certs-renew.service", "[Service]\nExecStart=/usr/local/bin/k8s-certs-renew.sh\n"),
            ("/usr/lib/systemd/system/k8s-certs-renew.service", service),
            ("/usr/lib/systemd/system/k8s-certs-renew.timer", timer),
            (&format!("{drop_in}/50-k8s-certs-renew.conf"), ""),
            (&format!("{drop_in}/90-mine.conf"), ""),
            ("/usr/local/bin/k8s-certs-renew", ""),
            ("/srv/backups/20260302T030000Z/manifest.json", ""),
            ("/srv/backups/.20260402T030000Z.partial/x", ""),
            ("/srv/backups/of-mine/x", ""),
            ("/srv/node/k.prom", "k8s_certs_renew_exit_code 0\n"),
        ]);
        let expected = [
            (Part::Unit, "/usr/lib/systemd/system/k8s-certs-renew.service"),
            (Part::Unit, "/usr/lib/systemd/system/k8s-certs-renew.timer"),
            (Part::DropIn, "/etc/systemd/system/k8s-certs-renew.service.d/50-k8s-certs-renew.conf"),
            (Part::Program, "/usr/local/bin/k8s-certs-renew"),
            (Part::Backup, "/srv/backups/.20260402T030000Z.partial"),
            (Part::Backup, "/srv/backups/20260302T030000Z"),
            (Part::Metrics, "/srv/node/k.prom"),
        ];
        assert_eq!(found(&root), expected.map(|(part, path)| (part, path.to_owned())));
    }

    #[test]
    fn metrics_among_which_are_others_are_not_ours_to_remove() {
        for (text, is_ours) in [
            ("# HELP k8s_certs_renew_done x\nk8s_certs_renew_done 1\n\nk8s_certs_renew_exit_code 0\n", true),
            ("node_x{by=\"k8s_certs_renew_\"} 1\n", false),
            ("k8s_certs_renew_done 1\nbackup_age_seconds 3\n", false),
            ("# k8s_certs_renew_done is written by another job\n", false),
        ] {
            let (_dir, root) = root(&[("/srv/node/k.prom", text)]);
            assert_eq!(found(&root).len(), usize::from(is_ours), "{text}");
        }
    }

    #[test]
    fn links_are_found_though_nothing_is_behind_them_and_metrics_of_others_are_not_ours() {
        let (dir, root) = root(&[
            ("/etc/systemd/system/multi-user.target.wants/x.service", ""),
            ("/srv/node/k.prom", "node_load1 1\n"),
        ]);
        let link = "/etc/systemd/system/multi-user.target.wants/k8s-certs-renew.timer";
        std::os::unix::fs::symlink("/etc/systemd/system/k8s-certs-renew.timer", dir.path().join(&link[1..])).unwrap();
        assert_eq!(found(&root), [(Part::Link, link.to_owned())]);
    }
}
