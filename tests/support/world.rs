//! A world: the directory that the stand-in tools share, with what they log, what they may do wrong, and what "runs".
//!
//! `bin/` holds the tools (links to the demo, which acts as the tool that it is called as), `setup.json` what never changes,
//! `faults.json` what goes wrong, `state.json` sandboxes and containers, `calls.log` a line a call.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::faults::Faults;
use super::kubelet::{self, Sandbox, State};

/// The tools that can be stood in for.
pub const TOOLS: [&str; 3] = ["kubeadm", "crictl", "docker"];

/// What a world is made of; it does not change while it lasts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// The directory that holds the node.
    pub root: PathBuf,
    /// The moment at which kubeadm issues certificates.
    #[serde(with = "seconds")]
    pub now: DateTime<Utc>,
    /// The node's name, as it ends the names of static pods.
    pub node: String,
    /// kubeadm's version; it decides how NotBefore is set.
    pub kubeadm: String,
    /// The command line of the node's kubelet, shown below `proc`.
    pub kubelet: Vec<String>,
    /// Whether processes start by the machine's own uptime (`CLOCK_BOOTTIME`) or, for tests, a second after one another.
    pub real_uptime: bool,
}

impl Setup {
    /// A node of Kubernetes 1.20.2, as kubespray sets it up.
    pub fn new(root: &Path, now: DateTime<Utc>, node: &str) -> Self {
        let kubelet = [
            "/usr/local/bin/kubelet",
            "--config=/etc/kubernetes/kubelet-config.yaml",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        ];
        Self {
            root: fs::canonicalize(root).unwrap(),
            now,
            node: node.to_owned(),
            kubeadm: "v1.20.2".to_owned(),
            kubelet: kubelet.map(str::to_owned).to_vec(),
            real_uptime: false,
        }
    }
}

/// A world, gone with its value.
#[derive(Debug)]
pub struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// A world around the node of `setup`: its static pods run, read from its manifests. `demo` is the executable that acts
    /// as the tools; see [`demo`].
    pub fn new(demo: &Path, setup: &Setup) -> Self {
        let dir = tempfile::Builder::new().prefix("world-").tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        for tool in TOOLS {
            symlink(demo, dir.path().join("bin").join(tool)).unwrap();
        }
        write(dir.path(), "setup.json", setup);
        write(dir.path(), "faults.json", &Faults::default());
        write(dir.path(), "state.json", &kubelet::boot(setup));
        fs::write(dir.path().join("calls.log"), "").unwrap();
        Self { dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The absolute path of a tool.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.dir().join("bin").join(name)
    }

    /// What never changes.
    pub fn setup(&self) -> Setup {
        read(self.dir(), "setup.json")
    }

    /// Sets what goes wrong from now on. Counting of calls begins anew.
    pub fn fault(&self, set: impl FnOnce(&mut Faults)) {
        let mut faults = Faults::default();
        set(&mut faults);
        write(self.dir(), "faults.json", &faults);
        self.edit(|state| {
            state.renewals = 0;
            state.removals = 0;
        });
        if faults.kubelet_down {
            kubelet::stop(&self.setup());
        }
    }

    /// Changes what runs.
    pub fn edit<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        edit(self.dir(), change)
    }

    /// What runs.
    pub fn state(&self) -> State {
        read(self.dir(), "state.json")
    }

    /// The newest sandbox of a component, if there is one to be seen.
    pub fn sandbox(&self, component: &str) -> Option<Sandbox> {
        self.state().newest(component).cloned()
    }

    /// A pod that is no static pod of the control plane: what a loose name pattern would hit.
    pub fn add_pod(&self, name: &str, namespace: &str, component: Option<&str>) {
        self.edit(|state| state.add_other(name, namespace, component));
    }

    /// Each call so far. The node's root is taken off paths, the world's directory is `WORLD`, and ids are named after what
    /// they are: `kube-apiserver@1` is its first sandbox, `kube-apiserver@1/kube-apiserver.0` its first container there.
    pub fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.dir().join("calls.log")).unwrap().lines().map(str::to_owned).collect()
    }

    /// The calls that change something.
    pub fn acts(&self) -> Vec<String> {
        const VERBS: [&str; 10] = ["certs", "rmp", "stopp", "stop", "rm", "kill", "restart", "start", "pull", "rmi"];
        let is_act = |line: &String| line.split(' ').skip(1).any(|word| VERBS.contains(&word));
        self.calls().into_iter().filter(is_act).collect()
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        fs::write(self.dir().join("calls.log"), "").unwrap();
    }
}

/// The demo's executable, which acts as the tools: beside the running test, where `cargo test` has built it.
pub fn demo() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(find_demo).clone()
}

fn find_demo() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let demo = test.parent().and_then(Path::parent).unwrap().join("examples/demo");
    let help =
        "run `cargo test` without naming a target, or `cargo build --example demo` (with the same --release) first";
    assert!(demo.is_file(), "the stand-in tools are not built: '{}' is missing; {help}", demo.display());
    let answer = Command::new(&demo).arg(FINGERPRINT_OPTION).output().unwrap();
    let is_current = answer.stdout == fingerprint().as_bytes();
    assert!(is_current, "the stand-in tools in '{}' are older than the tests; {help}", demo.display());
    demo
}

/// The option by which the demo tells its [`fingerprint`].
pub const FINGERPRINT_OPTION: &str = "--fingerprint";

/// A sum over the sources of the stand-ins: `cargo test --test it` does not build the demo, and old stand-ins would make
/// tests fail for no reason that could be seen.
pub fn fingerprint() -> String {
    const SOURCES: [&str; 8] = [
        include_str!("events.rs"),
        include_str!("fake.rs"),
        include_str!("fake_crictl.rs"),
        include_str!("fake_docker.rs"),
        include_str!("fake_kubeadm.rs"),
        include_str!("fake_pki.rs"),
        include_str!("faults.rs"),
        include_str!("kubelet.rs"),
    ];
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Reads a file of a world.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> T {
    serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
}

/// Changes the state, alone: other processes and threads wait.
pub fn edit<T>(dir: &Path, change: impl FnOnce(&mut State) -> T) -> T {
    let lock = File::create(dir.join("state.lock")).unwrap();
    lock.lock().unwrap();
    let mut state: State = read(dir, "state.json");
    let result = change(&mut state);
    write(dir, "state.json", &state);
    result
}

/// Adds a line to the log, in one write, so that lines of calls at the same time stay whole; and gives it.
pub fn log(dir: &Path, setup: &Setup, words: &[String]) -> String {
    let state: State = read(dir, "state.json");
    let line: Vec<String> = words.iter().map(|word| plain(word, dir, setup, &state)).collect();
    let line = line.join(" ");
    let mut file = File::options().append(true).open(dir.join("calls.log")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
    line
}

fn plain(word: &str, dir: &Path, setup: &Setup, state: &State) -> String {
    let mut word = word.replace(&*dir.to_string_lossy(), "WORLD").replace(&*setup.root.to_string_lossy(), "");
    for (id, name) in &state.names {
        word = word.replace(id, name);
    }
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word }
}

fn write<T: Serialize>(dir: &Path, name: &str, value: &T) {
    let new = dir.join(format!("{name}.new"));
    fs::write(&new, serde_json::to_vec_pretty(value).unwrap()).unwrap();
    fs::rename(&new, dir.join(name)).unwrap();
}

/// A moment as seconds since 1970.
mod seconds {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(at.timestamp())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DateTime<Utc>, D::Error> {
        Ok(DateTime::from_timestamp(i64::deserialize(from)?, 0).unwrap())
    }
}
