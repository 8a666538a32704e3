//! Other jobs that renew this control plane's certificates: timers and cron tables.

use std::path::{Path, PathBuf};

use crate::files::{Root, is_absent};

use super::unit_files::{DIRECTORIES, Unit};

/// Where cron reads tables, each a line a job: the file itself, or every file of the directory (cron(8) of Debian, cronie).
const TABLES: [&str; 5] =
    ["/etc/crontab", "/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/cron/tabs"];
/// Where cron, or anacron, runs every program.
const PROGRAMS: [&str; 4] = ["/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"];

/// A job that renews certificates beside ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Competing {
    /// The file that starts it.
    pub file: PathBuf,
    /// The line in it, counted from 1.
    pub line: usize,
    /// What it runs, as it stands there.
    pub runs: String,
    /// How it is taken out of service.
    pub stop: String,
}

impl std::fmt::Display for Competing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, runs, stop } = self;
        write!(f, "another job renews certificates too: {}, line {line}: '{runs}'; to stop it: {stop}", file.display())
    }
}

/// The jobs below the root that run kubespray's `k8s-certs-renew.sh` or kubeadm's renewal: enabled timers but `own`, and cron's. What
/// cannot be read is passed over: somebody else's table is no reason to fail.
pub fn competing(root: &Root, own: &str) -> Vec<Competing> {
    let mut found = Vec::new();
    for timer in enabled_timers(root).into_iter().filter(|timer| timer != own) {
        found.extend(of_timer(root, &timer));
    }
    for place in TABLES.map(Path::new) {
        for file in files(root, place) {
            found.extend(of_cron(root, &file, "take the line out"));
        }
    }
    for place in PROGRAMS.map(Path::new) {
        for file in files(root, place) {
            let stop = format!("chmod -x {}", file.display());
            found.extend(of_cron(root, &file, &stop).into_iter().take(1));
        }
    }
    found
}

/// Whether a command line runs a renewal: kubespray's script, or kubeadm's `certs renew` and `alpha certs renew` (before 1.20), also within
/// a shell's `-c`.
pub fn is_renewal(command: &str) -> bool {
    let part = |c: char| !(c.is_alphanumeric() || "._/-=".contains(c));
    let words: Vec<&str> = command.split(part).filter(|word| !word.is_empty()).collect();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let kubeadm = words.iter().position(|word| name(word) == "kubeadm");
    let renews = |at: usize| words[at..].windows(2).any(|pair| pair == ["certs", "renew"]);
    words.iter().any(|word| name(word) == "k8s-certs-renew.sh") || kubeadm.is_some_and(renews)
}

/// Names of timers that a target starts.
fn enabled_timers(root: &Root) -> Vec<String> {
    let mut names = Vec::new();
    for dir in DIRECTORIES.map(Path::new) {
        for below in root.list(dir).unwrap_or_default() {
            if below.ends_with(".wants") || below.ends_with(".requires") {
                names.extend(root.list(&dir.join(below)).unwrap_or_default());
            }
        }
    }
    names.retain(|name| name.ends_with(".timer"));
    names.sort_unstable();
    names.dedup();
    names
}

fn of_timer(root: &Root, timer: &str) -> Option<Competing> {
    let unit = Unit::load(root, timer).ok().filter(|unit| unit.found && !unit.masked)?;
    let service = unit
        .last("Timer", "Unit")
        .map_or_else(|| format!("{}.service", timer.strip_suffix(".timer").unwrap_or(timer)), str::to_owned);
    let service = Unit::load(root, &service).ok().filter(|unit| !unit.masked)?;
    let in_force = service.values("Service", "ExecStart");
    let runs = service
        .assignments("Service")
        .find(|one| one.key == "ExecStart" && in_force.contains(&one.value.as_str()) && is_renewal(&one.value))?;
    Some(Competing {
        file: runs.file.clone(),
        line: runs.line,
        runs: runs.value.clone(),
        stop: format!("systemctl disable --now {timer}"),
    })
}

/// The file, or those in the directory, that cron would read.
fn files(root: &Root, place: &Path) -> Vec<PathBuf> {
    match root.metadata(place) {
        Ok(metadata) if metadata.is_dir() => {
            let mut names = root.list(place).unwrap_or_default();
            // as run-parts(8) and cronie pass over what editors and package managers leave behind
            names.retain(|name| {
                !name.starts_with('.') && !name.ends_with('~') && !name.contains(".dpkg-") && !name.contains(".rpm")
            });
            names.into_iter().map(|name| place.join(name)).collect()
        }
        Ok(_) => vec![place.to_path_buf()],
        Err(error) if is_absent(&error) => Vec::new(),
        Err(_) => Vec::new(),
    }
}

fn of_cron(root: &Root, file: &Path, stop: &str) -> Vec<Competing> {
    use std::os::unix::fs::PermissionsExt;
    let runs_as_a_whole = stop.starts_with("chmod");
    let executable =
        root.metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    let Ok(bytes) = root.read(file) else { return Vec::new() };
    if runs_as_a_whole && !executable {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#') && is_renewal(line));
    lines
        .map(|(index, line)| Competing {
            file: file.to_path_buf(),
            line: index + 1,
            runs: line.trim().to_owned(),
            stop: stop.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::is_renewal;

    #[test]
    fn a_renewal_is_known_however_it_is_called() {
        for (command, expected) in [
            ("/usr/local/bin/k8s-certs-renew.sh", true),
            ("0 3 1 * * root /bin/sh -c 'kubeadm certs renew all && crictl rmp -fa'", true),
            ("/usr/bin/kubeadm alpha certs renew all", true),
            ("kubeadm --v=5 certs renew apiserver", true),
            ("kubeadm certs check-expiration", false),
            ("/usr/local/bin/k8s-certs-renew run", false),
            ("echo certs renew", false),
            ("/usr/bin/certbot renew", false),
        ] {
            assert_eq!(is_renewal(command), expected, "{command}");
        }
    }
}
