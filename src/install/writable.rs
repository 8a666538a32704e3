//! Paths of the configuration that the hardening of the service would forbid to write.

use std::path::{Path, PathBuf};

use crate::files::Root;

/// Read-only by `ProtectSystem=true` (systemd.exec(5)).
const READ_ONLY: [&str; 3] = ["/usr", "/boot", "/efi"];
/// Another directory of the same name by `PrivateTmp=true`.
const PRIVATE: [&str; 2] = ["/tmp", "/var/tmp"];

/// The drop-in by which the job may write into these directories; `None` where nothing forbids it. Before 231 the setting had another
/// name.
pub fn drop_in(root: &Root, dirs: &[PathBuf], systemd: u32) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    for dir in dirs {
        // both names of it: hardening goes by what the links lead to, people by what they wrote
        let real = real(root, dir);
        let below = |places: &[&str]| places.iter().any(|place| real.starts_with(place) || dir.starts_with(place));
        if below(&READ_ONLY) {
            let key = if systemd < 231 { "ReadWriteDirectories" } else { "ReadWritePaths" };
            // what is not there is passed over, and made by nobody: see `missing`
            lines.push(format!("{key}={}", quoted(&real)));
        }
        if below(&PRIVATE) {
            lines.push("PrivateTmp=no".to_owned());
        }
    }
    lines.sort_unstable();
    lines.dedup();
    if lines.is_empty() {
        return None;
    }
    let head = "# Where the settings have the job write, and its hardening forbids it. Made anew by each `k8s-certs-renew install`.";
    Some(format!("{head}\n[Service]\n{}\n", lines.join("\n")))
}

/// The path with the links in what is there of it resolved.
fn real(root: &Root, path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|above| {
        let real = root.canonicalize(above).ok()?;
        Some(path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest)))
    });
    resolved.unwrap_or_else(|| path.to_path_buf())
}

fn quoted(path: &Path) -> String {
    let path = path.display().to_string().replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"-{path}\"")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::drop_in;
    use crate::files::Root;

    #[test]
    fn only_what_hardening_forbids_is_named_by_what_links_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        std::fs::create_dir_all(dir.path().join("usr/share/metrics")).unwrap();
        std::fs::create_dir_all(dir.path().join("srv")).unwrap();
        std::os::unix::fs::symlink("/usr/share/metrics", dir.path().join("srv/metrics")).unwrap();
        let lines = |paths: &[&str], systemd| {
            let text = drop_in(&root, &paths.iter().map(PathBuf::from).collect::<Vec<_>>(), systemd);
            text.map(|text| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(lines(&["/var/lib/x", "/root/.kube", "/usrlocal", "/tmpfs/x"], 252), None);
        assert_eq!(lines(&["/srv/metrics/a b"], 252).unwrap(), ["ReadWritePaths=\"-/usr/share/metrics/a b\""]);
        assert_eq!(lines(&["/usr/local/x%"], 219).unwrap(), ["ReadWriteDirectories=\"-/usr/local/x%%\""]);
        assert_eq!(
            lines(&["/tmp/b", "/var/tmp", "/boot"], 252).unwrap(),
            ["PrivateTmp=no", "ReadWritePaths=\"-/boot\""]
        );
    }
}
