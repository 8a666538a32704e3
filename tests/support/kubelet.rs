//! What the kubelet and the runtime would do: sandboxes and containers of the node's static pods, and their processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use k8s_certs_renew::node::yaml;
use serde::{Deserialize, Serialize};

use super::faults::{Faults, Removal, Return, at};
use super::world::Setup;

/// The pause container's image.
pub const PAUSE: &str = "registry.k8s.io/pause:3.9";
const KUBELET_PID: u32 = 700;

/// Everything that runs, and how often what was called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Whether the node runs already: what starts from then on has started after its files were made.
    pub booted: bool,
    /// Things made so far; the source of ids, times and process ids.
    pub made: u64,
    /// The moment of the first thing, nanoseconds since 1970; each next one is a second later.
    pub base_ns: i64,
    /// Calls of `kubeadm certs renew`.
    pub renewals: usize,
    /// Removals of sandboxes.
    pub removals: usize,
    /// Sandboxes, oldest first.
    pub sandboxes: Vec<Sandbox>,
    /// Containers, oldest first.
    pub containers: Vec<Container>,
    /// Images that the runtime has.
    pub images: Vec<String>,
    /// Readable names of ids, for the log.
    pub names: BTreeMap<String, String>,
}

/// A pod sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Pod name: `kube-apiserver-node1`.
    pub pod: String,
    /// Namespace.
    pub namespace: String,
    /// Pod uid: of a static pod a hash, which no restart changes.
    pub uid: String,
    /// Counted up only while an earlier sandbox of the pod is still listed.
    pub attempt: u32,
    /// Label `component`.
    pub component: Option<String>,
    /// Whether it comes from a manifest file.
    pub from_file: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Nanoseconds since 1970.
    pub created_ns: i64,
    /// Listings that do not show it yet.
    pub hidden_for: u32,
    /// Containers that the pod is to have: name, image, command line.
    pub template: Vec<(String, String, Vec<String>)>,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Container name: `kube-apiserver`.
    pub name: String,
    /// Its sandbox.
    pub sandbox: String,
    /// Its pod's name, namespace and uid, which outlive the sandbox where docker keeps the container.
    pub owner: [String; 3],
    /// Whether it runs.
    pub running: bool,
    /// Counted up while an earlier container is still listed.
    pub attempt: u32,
    /// Image.
    pub image: String,
    /// Nanoseconds since 1970.
    pub created_ns: i64,
    /// Its process.
    pub pid: u32,
}

impl State {
    /// The newest sandbox of a component that is listed by now.
    pub fn newest(&self, component: &str) -> Option<&Sandbox> {
        let of_it =
            |one: &&Sandbox| one.from_file && one.component.as_deref() == Some(component) && one.hidden_for == 0;
        self.sandboxes.iter().filter(of_it).max_by_key(|one| one.created_ns)
    }

    /// The sandbox of this id or unambiguous beginning of one.
    pub fn sandbox_at(&self, id: &str) -> Option<Sandbox> {
        self.sandboxes.iter().find(|one| !id.is_empty() && one.id.starts_with(id)).cloned()
    }

    /// The container of this id or beginning of one.
    pub fn container_at(&self, id: &str) -> Option<Container> {
        self.containers.iter().find(|one| !id.is_empty() && one.id.starts_with(id)).cloned()
    }

    /// Counts a listing: what was hidden comes nearer.
    pub fn listed(&mut self) -> Vec<Sandbox> {
        let seen = self.sandboxes.iter().filter(|one| one.hidden_for == 0).cloned().rev().collect();
        for one in &mut self.sandboxes {
            one.hidden_for = one.hidden_for.saturating_sub(1);
        }
        seen
    }

    /// Removes a sandbox with its containers, and lets the kubelet answer. Docker knows no sandboxes: there the containers
    /// only end (`with_containers` is false).
    pub fn remove(&mut self, id: &str, with_containers: bool, setup: &Setup, faults: &Faults) -> Removal {
        let removal = at(&faults.removals, self.removals);
        self.removals += 1;
        if matches!(removal, Removal::Ordinary | Removal::DeadlineExceededYetDone) {
            self.end_containers(id, setup);
            if with_containers {
                self.containers.retain(|one| one.sandbox != id);
            }
            if let Some(place) = self.sandboxes.iter().position(|one| one.id == id) {
                let old = self.sandboxes.remove(place);
                self.bring_back(&old, 0, setup, faults);
            }
        }
        removal
    }

    /// Stops a container where that works.
    pub fn stop_if_told(&mut self, id: &str, setup: &Setup, faults: &Faults) -> Removal {
        let stop = at(&faults.removals, self.removals);
        self.removals += 1;
        if matches!(stop, Removal::Ordinary | Removal::DeadlineExceededYetDone) {
            self.stop(id, setup, faults);
        }
        stop
    }

    /// Stops a container; the kubelet starts it again in the same sandbox, attempt counted up.
    pub fn stop(&mut self, id: &str, setup: &Setup, faults: &Faults) {
        let Some(old) = self.containers.iter_mut().find(|one| one.id == id && one.running) else { return };
        old.running = false;
        let old = old.clone();
        end_process(setup, old.pid);
        let Some(sandbox) = self.sandboxes.iter().find(|one| one.id == old.sandbox && one.ready).cloned() else {
            return;
        };
        let how = faults.returns.get(sandbox.component.as_deref().unwrap_or_default()).copied().unwrap_or_default();
        if !faults.kubelet_down
            && how != Return::Never
            && let Some(template) = sandbox.template.iter().find(|(name, ..)| *name == old.name)
        {
            self.start(setup, &sandbox, template, old.attempt + 1, how != Return::Crashes);
        }
    }

    /// Stops a sandbox, as `crictl stopp` does; the kubelet makes another one beside it.
    pub fn stop_sandbox(&mut self, id: &str, setup: &Setup, faults: &Faults) {
        let Some(sandbox) = self.sandboxes.iter_mut().find(|one| one.id == id) else { return };
        sandbox.ready = false;
        let old = sandbox.clone();
        self.end_containers(id, setup);
        self.bring_back(&old, old.attempt + 1, setup, faults);
    }

    /// A pod that is no static pod.
    pub fn add_other(&mut self, name: &str, namespace: &str, component: Option<&str>) {
        let (id, created_ns) = self.make(name);
        self.sandboxes.push(Sandbox {
            id,
            pod: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: format!("uid-of-{name}"),
            attempt: 0,
            component: component.map(str::to_owned),
            from_file: false,
            ready: true,
            created_ns,
            hidden_for: 0,
            template: Vec::new(),
        });
    }

    fn end_containers(&mut self, sandbox: &str, setup: &Setup) {
        for container in self.containers.iter_mut().filter(|one| one.sandbox == sandbox) {
            container.running = false;
            end_process(setup, container.pid);
        }
    }

    fn bring_back(&mut self, old: &Sandbox, attempt: u32, setup: &Setup, faults: &Faults) {
        let another_runs = self.sandboxes.iter().any(|one| one.uid == old.uid && one.ready);
        let how = faults.returns.get(old.component.as_deref().unwrap_or_default()).copied().unwrap_or_default();
        if faults.kubelet_down || !old.from_file || another_runs || how == Return::Never {
            return;
        }
        if how == Return::Twice {
            self.sandbox_like(old, attempt, setup, Return::NotReady);
        }
        self.sandbox_like(old, if how == Return::Twice { attempt + 1 } else { attempt }, setup, how);
    }

    fn sandbox_like(&mut self, old: &Sandbox, attempt: u32, setup: &Setup, how: Return) {
        let (id, created_ns) = self.make(old.component.as_deref().unwrap_or(&old.pod));
        let hidden_for = if let Return::After(listings) = how { listings } else { 0 };
        let ready = how != Return::NotReady;
        let new = Sandbox { id, attempt, ready, created_ns, hidden_for, ..old.clone() };
        self.sandboxes.push(new.clone());
        for template in new.template.iter().filter(|_| ready) {
            self.start(setup, &new, template, 0, how != Return::Crashes);
        }
    }

    fn start(
        &mut self,
        setup: &Setup,
        sandbox: &Sandbox,
        (name, image, argv): &(String, String, Vec<String>),
        attempt: u32,
        running: bool,
    ) {
        let place = self.names.get(&sandbox.id).cloned().unwrap_or_default();
        self.made += 1;
        let id = id_of(self.made);
        self.names.insert(id.clone(), format!("{place}/{name}.{attempt}"));
        let pid = 1000 + u32::try_from(self.made).unwrap();
        if running {
            let ticks = match (setup.real_uptime, self.booted) {
                (false, false) => FIRST + self.made * 100,
                (false, true) => LATER + self.made * 100,
                (true, false) => uptime_ticks() + AHEAD,
                (true, true) => uptime_ticks(),
            };
            start_process(setup, pid, argv, ticks);
        }
        let created_ns = self.base_ns + i64::try_from(self.made).unwrap() * 1_000_000_000;
        self.containers.push(Container {
            id,
            name: name.clone(),
            sandbox: sandbox.id.clone(),
            owner: [&sandbox.pod, &sandbox.namespace, &sandbox.uid].map(Clone::clone),
            running,
            attempt,
            image: image.clone(),
            created_ns,
            pid,
        });
    }

    fn make(&mut self, name: &str) -> (String, i64) {
        self.made += 1;
        let id = id_of(self.made);
        let number = 1 + self
            .names
            .values()
            .filter(|known| known.rsplit_once('@').is_some_and(|(of, rest)| of == name && !rest.contains('/')))
            .count();
        self.names.insert(id.clone(), format!("{name}@{number}"));
        (id, self.base_ns + i64::try_from(self.made).unwrap() * 1_000_000_000)
    }
}

/// The node as it runs before anything is done: a sandbox and its containers for every manifest that is a pod, and the kubelet.
pub fn boot(setup: &Setup) -> State {
    // a day before: nothing that runs was started after the certificates that are on disk
    let base_ns = (setup.now - chrono::Duration::days(1)).timestamp() * 1_000_000_000;
    let mut state = State { base_ns, images: vec![PAUSE.to_owned()], ..State::default() };
    let proc = setup.root.join("proc");
    fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
    fs::write(proc.join("sys/kernel/random/boot_id"), "5f0c1c7e-8f8b-4d6e-9a53-1f8f4a3d2b10\n").unwrap();
    start_process(setup, KUBELET_PID, &setup.kubelet, 1000);
    let manifests = setup.root.join("etc/kubernetes/manifests");
    let mut paths: Vec<_> = fs::read_dir(manifests).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let Some(pod) = fs::read(&path).ok().and_then(|text| yaml::parse_all(&text).ok()?.into_iter().next()) else {
            continue;
        };
        let Some(name) = yaml::text_at(&pod, &["metadata", "name"]) else { continue };
        let words = |container: &serde_json::Value, field: &str| -> Vec<String> {
            yaml::list_at(container, &[field]).iter().filter_map(yaml::scalar).collect()
        };
        let template: Vec<_> = yaml::list_at(&pod, &["spec", "containers"])
            .iter()
            .map(|container| {
                let argv = [words(container, "command"), words(container, "args")].concat();
                let text = |field: &str| yaml::text_at(container, &[field]).unwrap_or_default();
                (text("name"), text("image"), argv)
            })
            .collect();
        state.images.extend(template.iter().map(|(_, image, _)| image.clone()));
        let before = yaml::list_at(&pod, &["spec", "initContainers"]).iter();
        state.images.extend(before.filter_map(|one| yaml::text_at(one, &["image"])));
        let first = Sandbox {
            id: String::new(),
            pod: format!("{name}-{}", setup.node),
            namespace: yaml::text_at(&pod, &["metadata", "namespace"]).unwrap_or_else(|| "default".to_owned()),
            uid: format!(
                "{:0>32}",
                name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().get(..24).unwrap_or("0")
            ),
            attempt: 0,
            component: yaml::text_at(&pod, &["metadata", "labels", "component"]),
            from_file: true,
            ready: true,
            created_ns: 0,
            hidden_for: 0,
            template,
        };
        state.sandbox_like(&first, 0, setup, Return::Ordinary);
    }
    state.booted = true;
    state
}

/// Ends the kubelet's process.
pub fn stop(setup: &Setup) {
    end_process(setup, KUBELET_PID);
}

fn start_process(setup: &Setup, pid: u32, argv: &[String], ticks: u64) {
    let dir = setup.root.join(format!("proc/{pid}"));
    fs::create_dir_all(&dir).unwrap();
    let program = argv.first().map_or("", |path| Path::new(path).file_name().unwrap().to_str().unwrap());
    let comm: String = program.chars().take(15).collect();
    let stat = format!("{pid} ({comm}) S 1 {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 {ticks} 0 0\n");
    fs::write(dir.join("stat"), stat).unwrap();
    fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
    fs::write(dir.join("cmdline"), argv.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>())
        .unwrap();
}

fn end_process(setup: &Setup, pid: u32) {
    let _ = fs::remove_dir_all(setup.root.join(format!("proc/{pid}")));
}

/// Ticks since boot at which what the node began with had started: a few seconds after one another.
const FIRST: u64 = 1000;
/// Ticks since boot after which everything else starts where time stands still: later than any test's clock.
const LATER: u64 = 20_000_000_000;

/// By how many ticks what a node begins with starts after its files were written, by the real clock: more than a file's time may
/// be off, so that nothing is stale from the beginning.
const AHEAD: u64 = 500;

/// The machine's time since boot in hundredths of a second, as `/proc/<pid>/stat` counts it.
fn uptime_ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 100 + u64::try_from(time.tv_nsec).unwrap() / 10_000_000
}

/// 64 hexadecimal digits that look like a runtime's, the same for the same number.
fn id_of(number: u64) -> String {
    let mut seed = number;
    let mut next = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..4).map(|_| format!("{:016x}", next())).collect()
}
