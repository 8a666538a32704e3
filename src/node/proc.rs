//! The node's processes, from `/proc` below the root.

use std::path::{Path, PathBuf};

use crate::files::Root;

/// Programs that run another one's text: a process of theirs that has a kubelet's name is a script around it.
const INTERPRETERS: [&str; 7] = ["sh", "bash", "dash", "ash", "busybox", "env", "timeout"];

/// The processes of the node at one moment.
///
/// Only their command lines are read at first; the rest is read for those that somebody asks for.
#[derive(Debug, Clone)]
pub struct Processes {
    root: Root,
    all: Vec<(u32, Vec<String>)>,
    /// Our own network namespace, on the machine's own root.
    network: Option<PathBuf>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of its parent.
    pub parent: u32,
    /// The kernel's name of it, at most 15 bytes.
    pub comm: String,
    /// Its command line.
    pub argv: Vec<String>,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`, see proc(5)): never steps with the wall clock.
    pub start_ticks: u64,
}

impl Processes {
    /// Lists the processes; `None` where the root has no `/proc` that shows any, so that nothing can be said.
    ///
    /// Kernel threads, and processes that have ended, have no command line and are left out.
    pub fn read(root: &Root) -> Option<Self> {
        let names = root.list(Path::new("/proc")).ok()?;
        let pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        if pids.is_empty() {
            return None;
        }
        let mut all: Vec<(u32, Vec<String>)> = pids
            .into_iter()
            .filter_map(|pid| {
                let argv = arguments(&root.read(&file(pid, "cmdline")).ok()?);
                (!argv.is_empty()).then_some((pid, argv))
            })
            .collect();
        all.sort_unstable_by_key(|(pid, _)| *pid);
        let network = if root.is_host() { root.read_link(Path::new("/proc/self/ns/net")).ok() } else { None };
        Some(Self { root: root.clone(), all, network })
    }

    /// The processes whose program (the last part of the first argument) has this name, by process id.
    ///
    /// On the machine's own root only those of our own network namespace count, where that can be seen: several nodes may
    /// share one machine, each with a control plane in host network that is not ours.
    pub fn find_named(&self, name: &str) -> Vec<Process> {
        self.all
            .iter()
            .filter(|(_, argv)| program(argv) == name)
            .filter_map(|(pid, argv)| self.details(*pid, argv))
            .collect()
    }

    /// The node's kubelet: by its program's name, else by the kernel's name for it, but no shell script around it.
    /// Of several the one that started first.
    pub fn find_kubelet(&self) -> Option<Process> {
        let first = |found: Vec<Process>| found.into_iter().min_by_key(|process| (process.start_ticks, process.pid));
        first(self.find_named("kubelet")).or_else(|| {
            let others = self.all.iter().filter(|(_, argv)| !INTERPRETERS.contains(&program(argv)));
            first(
                others
                    .filter_map(|(pid, argv)| self.details(*pid, argv))
                    .filter(|process| process.comm == "kubelet")
                    .collect(),
            )
        })
    }

    /// `None` where it has ended since, or is another node's.
    fn details(&self, pid: u32, argv: &[String]) -> Option<Process> {
        if let Some(ours) = &self.network
            && self.root.read_link(&file(pid, "ns/net")).is_ok_and(|its| its != *ours)
        {
            return None;
        }
        let stat = self.root.read(&file(pid, "stat")).ok()?;
        let (comm, parent, start_ticks) = parse_stat(&String::from_utf8_lossy(&stat))?;
        Some(Process { pid, parent, comm, argv: argv.to_vec(), start_ticks })
    }
}

/// The id that the kernel drew at boot; `None` where the root has no `/proc` that shows it.
pub fn boot_id(root: &Root) -> Option<String> {
    let text = root.read_to_string(Path::new("/proc/sys/kernel/random/boot_id")).ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

fn file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn arguments(cmdline: &[u8]) -> Vec<String> {
    let cmdline = cmdline.strip_suffix(&[0]).unwrap_or(cmdline);
    if cmdline.is_empty() {
        return Vec::new();
    }
    cmdline.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn program(argv: &[String]) -> &str {
    let first = argv.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or(first)
}

/// Name, parent and start from a `stat` line. The name stands in brackets and may itself hold brackets and blanks, so the
/// fields are counted after the last bracket: state is field 3, the parent 4, the start 22.
fn parse_stat(stat: &str) -> Option<(String, u32, u64)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, comm) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some((comm.to_owned(), fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Processes, boot_id, parse_stat};
    use crate::files::{Replace, Root};

    struct Tree {
        _dir: tempfile::TempDir,
        root: Root,
    }

    impl Tree {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new(dir.path()).unwrap();
            Self { _dir: dir, root }
        }

        fn process(&self, pid: u32, comm: &str, argv: &[&str], start: u64) {
            let dir = format!("/proc/{pid}");
            self.root.create_dir(Path::new(&dir), 0o755).unwrap();
            let cmdline: String = argv.iter().map(|word| format!("{word}\0")).collect();
            let stat =
                format!("{pid} ({comm}) S 1 {pid} {pid} 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1000 200\n");
            for (name, text) in [("cmdline", cmdline), ("stat", stat)] {
                let path = format!("{dir}/{name}");
                self.root.replace(Path::new(&path), text.as_bytes(), &Replace::with_mode(0o444)).unwrap();
            }
        }
    }

    #[test]
    fn start_and_parent_are_counted_after_the_last_bracket() {
        let line = "7 (a) b) (c) R 3 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2";
        assert_eq!(parse_stat(line), Some(("a) b) (c".to_owned(), 3, 4242)));
        assert_eq!(parse_stat("7 (a) R 3"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn without_proc_nothing_is_said() {
        let tree = Tree::new();
        assert!(Processes::read(&tree.root).is_none());
        tree.root.create_dir(Path::new("/proc"), 0o755).unwrap();
        assert!(Processes::read(&tree.root).is_none());
        assert_eq!(boot_id(&tree.root), None);
    }

    #[test]
    fn the_kubelet_is_the_program_and_not_a_script_around_it() {
        let tree = Tree::new();
        tree.process(10, "kubelet", &["/bin/sh", "/usr/local/bin/kubelet", "--config=/x"], 5);
        tree.process(11, "grep", &["grep", "kubelet"], 6);
        tree.process(12, "kubelet-csr-app", &["/kubelet-csr-approver"], 6);
        tree.process(13, "kworker/0:1", &[], 1);
        assert_eq!(Processes::read(&tree.root).unwrap().find_kubelet(), None);
        tree.process(30, "kubelet", &["/usr/local/bin/kubelet", "--config=/etc/k.yaml"], 900);
        let kubelet = Processes::read(&tree.root).unwrap().find_kubelet().unwrap();
        assert_eq!((kubelet.pid, kubelet.parent, kubelet.start_ticks), (30, 1, 900));
        assert_eq!(kubelet.argv[1], "--config=/etc/k.yaml");
        tree.process(40, "kubelet", &["kubelet"], 100);
        assert_eq!(Processes::read(&tree.root).unwrap().find_kubelet().unwrap().pid, 40);
    }

    #[test]
    fn a_kubelet_under_another_program_name_is_known_by_the_kernels() {
        let tree = Tree::new();
        tree.process(20, "kubelet", &["/opt/hyperkube", "--config=/x"], 5);
        assert_eq!(Processes::read(&tree.root).unwrap().find_kubelet().unwrap().pid, 20);
    }

    #[test]
    fn a_foreign_kubeadm_is_found_by_its_program_name_only() {
        let tree = Tree::new();
        tree.process(20, "kubeadm", &["/usr/bin/kubeadm", "certs", "renew", "all"], 5);
        tree.process(21, "less", &["less", "/usr/bin/kubeadm"], 5);
        let found = Processes::read(&tree.root).unwrap().find_named("kubeadm");
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [20]);
    }

    #[test]
    fn this_machine_shows_this_very_process() {
        let argv = Processes::read(&Root::host()).unwrap();
        let me = std::process::id();
        let (_, own) = argv.all.iter().find(|(pid, _)| *pid == me).unwrap();
        let named = argv.find_named(super::program(own));
        assert!(named.iter().any(|process| process.pid == me && process.start_ticks > 0));
        assert_eq!(boot_id(&Root::host()).unwrap().len(), 36);
    }
}
