//! Docker under the kubelet's dockershim, through the docker command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::DateTime;
use serde_json::Value;

use super::json::text;
use super::{Container, Image, Limits, RuntimeError, Sandbox, run, words};

/// docker and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    docker: PathBuf,
    pub(super) limits: Limits,
}

/// A container of the kubelet's, by the name that dockershim gave it.
#[derive(Debug)]
struct Entry {
    id: String,
    name: Name,
    running: bool,
    image: String,
    labels: String,
    created_at_ns: i64,
}

/// `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`, container `POD` being the sandbox; after a conflict of names a random word
/// follows (dockershim/naming.go, Kubernetes 1.20; cri-dockerd has the same). No part has an underscore in it.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    container: String,
    pod: String,
    namespace: String,
    uid: String,
    attempt: u32,
}

impl Docker {
    /// docker at this path.
    pub fn new(docker: &Path, limits: Limits) -> Self {
        Self { docker: docker.to_path_buf(), limits }
    }

    /// Every sandbox of the kubelet's, static or not.
    pub(super) fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let entries = self.entries()?;
        Ok(entries.into_iter().filter(|entry| entry.name.is_sandbox()).map(Entry::into_sandbox).collect())
    }

    /// Every container of the kubelet's that is in a sandbox.
    pub(super) fn containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let entries = self.entries()?;
        Ok(entries
            .iter()
            .filter(|entry| !entry.name.is_sandbox())
            .map(|entry| Container {
                id: entry.id.clone(),
                name: entry.name.container.clone(),
                sandbox_id: sandbox_of(entry, &entries).unwrap_or_default(),
                running: entry.running,
                attempt: entry.name.attempt,
                image: entry.image.clone(),
                created_at_ns: entry.created_at_ns,
            })
            .collect())
    }

    /// The sandbox first: a container that went before it would be started again in it.
    pub(super) fn remove(&self, sandbox_id: &str) -> Result<(), RuntimeError> {
        let containers = self.containers()?.into_iter().filter(|container| container.sandbox_id == sandbox_id);
        let ids: Vec<String> = std::iter::once(sandbox_id.to_owned()).chain(containers.map(|c| c.id)).collect();
        // each is tried, as the first can be gone already
        let results: Vec<_> = ids.iter().map(|id| run(&self.docker, &["rm", "-f", id], self.limits)).collect();
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    pub(super) fn stop(&self, container_id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let limits = Limits { rpc: self.limits.rpc.max(grace), ..self.limits };
        run(&self.docker, &["stop", "-t", &grace.as_secs().to_string(), container_id], limits).map(|_| ())
    }

    pub(super) fn is_gone(&self, sandbox_id: &str) -> bool {
        self.entries().is_ok_and(|entries| {
            entries.iter().all(|entry| entry.id != sandbox_id && label(entry, SANDBOX_LABEL) != Some(sandbox_id))
        })
    }

    /// Every image: `docker images` has a line for each of its names.
    pub(super) fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        let items = self.items(&["images", "--no-trunc", "--digests", "--format", "{{json .}}"])?;
        Ok(items.iter().map(image).collect())
    }

    /// The image that a sandbox was made of.
    pub(super) fn image_of(&self, sandbox_id: &str) -> Option<String> {
        let entry = self.entries().ok()?.into_iter().find(|entry| entry.id == sandbox_id)?;
        Some(entry.image).filter(|image| !image.is_empty())
    }

    /// `docker ps` with its containers; its name filter matches any part of a name, so it only shortens the list.
    fn entries(&self) -> Result<Vec<Entry>, RuntimeError> {
        let items = self.items(&["ps", "-a", "--no-trunc", "--filter", "name=k8s_", "--format", "{{json .}}"])?;
        Ok(items.iter().filter_map(entry).collect())
    }

    /// What a command prints with a line of JSON for each thing.
    fn items(&self, args: &[&str]) -> Result<Vec<Value>, RuntimeError> {
        let output = run(&self.docker, args, self.limits)?;
        let unreadable = |why: String| RuntimeError::Output { call: words(&self.docker, args), why };
        let lines = output.stdout_text();
        let lines = lines.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))).collect()
    }
}

const SANDBOX_LABEL: &str = "io.kubernetes.sandbox.id";
/// What docker prints for what is not there.
const NONE: &str = "<none>";

impl Name {
    fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.trim_start_matches('/').split('_').collect();
        match parts[..] {
            ["k8s", container, pod, namespace, uid, attempt] | ["k8s", container, pod, namespace, uid, attempt, _] => {
                Some(Self {
                    container: container.to_owned(),
                    pod: pod.to_owned(),
                    namespace: namespace.to_owned(),
                    uid: uid.to_owned(),
                    attempt: attempt.parse().ok()?,
                })
            }
            _ => None,
        }
    }

    fn is_sandbox(&self) -> bool {
        self.container == "POD"
    }

    /// The UID of a pod from a file is an MD5 sum, that of a pod from the API a UUID with dashes (pkg/kubelet/config/common.go).
    fn is_from_a_file(&self) -> bool {
        self.uid.len() == 32 && self.uid.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

impl Entry {
    fn into_sandbox(self) -> Sandbox {
        // dockershim keeps annotations as labels with this prefix
        let source = label(&self, "annotation.kubernetes.io/config.source");
        Sandbox {
            static_file: source.map_or_else(|| self.name.is_from_a_file(), |source| source == "file"),
            component: label(&self, "component").map(str::to_owned),
            id: self.id,
            pod: self.name.pod,
            namespace: self.name.namespace,
            ready: self.running,
            attempt: self.name.attempt,
            created_at_ns: self.created_at_ns,
            uid: self.name.uid,
        }
    }
}

fn entry(item: &Value) -> Option<Entry> {
    // a container that others link to has several names
    let names = text(item, &["Names"]);
    let name = names.split(',').find_map(Name::parse)?;
    let id = text(item, &["ID"]);
    if id.is_empty() {
        return None;
    }
    Some(Entry {
        id,
        name,
        // `.State` is there since docker 20.10 only; `Up 2 hours (Paused)` does not run
        running: Some(text(item, &["Status"]))
            .is_some_and(|status| status.starts_with("Up") && !status.contains("Paused")),
        image: text(item, &["Image"]),
        labels: text(item, &["Labels"]),
        created_at_ns: created(&text(item, &["CreatedAt"])),
    })
}

fn image(item: &Value) -> Image {
    let repository = text(item, &["Repository"]);
    let name = |sign: &str, what: &str| match text(item, &[what]) {
        value if value.is_empty() || value == NONE || repository == NONE => None,
        value => Some(format!("{repository}{sign}{value}")),
    };
    Image { id: text(item, &["ID"]), names: [name(":", "Tag"), name("@", "Digest")].into_iter().flatten().collect() }
}

/// The sandbox that a container is in: by dockershim's label, else the newest of the same pod.
fn sandbox_of(entry: &Entry, entries: &[Entry]) -> Option<String> {
    if let Some(id) = label(entry, SANDBOX_LABEL) {
        return Some(id.to_owned());
    }
    entries
        .iter()
        .filter(|other| {
            other.name.is_sandbox() && (&other.name.pod, &other.name.uid) == (&entry.name.pod, &entry.name.uid)
        })
        .max_by_key(|other| (other.created_at_ns, other.name.attempt))
        .map(|other| other.id.clone())
}

/// The value of a label in docker's `a=b,c=d`. Values with commas in them are not quoted there; none of those asked for has any.
fn label<'a>(entry: &'a Entry, name: &str) -> Option<&'a str> {
    entry
        .labels
        .split(',')
        .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
}

/// `2021-01-20 10:00:00 +0100 CET` to nanoseconds; docker tells whole seconds.
fn created(text: &str) -> i64 {
    let without_zone_name: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
    DateTime::parse_from_str(&without_zone_name.join(" "), "%Y-%m-%d %H:%M:%S %z")
        .ok()
        .and_then(|time| time.timestamp_nanos_opt())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Name, created, image};

    #[test]
    fn an_image_of_dockers_list_is_known_by_what_is_not_none() {
        let id = format!("sha256:{}", "1".repeat(64));
        let line = |repository: &str, tag: &str, digest: &str| {
            image(&json!({"ID": id, "Repository": repository, "Tag": tag, "Digest": digest, "Size": "1MB"}))
        };
        let pause = line("k8s.gcr.io/pause", "3.2", "<none>");
        assert_eq!((pause.names.as_slice(), pause.is(&id)), (&["k8s.gcr.io/pause:3.2".to_owned()][..], true));
        assert!(line("etcd", "3", "<none>").is("docker.io/library/etcd:3"));
        assert!(line("etcd", "<none>", "sha256:2").is("etcd:3@sha256:2"));
        assert_eq!(line("<none>", "<none>", "<none>").names, Vec::<String>::new());
    }

    #[test]
    fn names_are_taken_apart_as_dockershim_made_them() {
        let name = Name::parse("/k8s_POD_etcd-a.example.com_kube-system_0123456789abcdef0123456789abcdef_4").unwrap();
        assert_eq!(
            (name.pod.as_str(), name.namespace.as_str(), name.attempt),
            ("etcd-a.example.com", "kube-system", 4)
        );
        assert!(name.is_sandbox() && name.is_from_a_file());
        let name = Name::parse("k8s_etcd_etcd-n_kube-system_6f1c7a52-3d0b-4f0e-9f2c-0a1b2c3d4e5f_0_1a2b3c4d").unwrap();
        assert!(!name.is_sandbox() && !name.is_from_a_file());
        for other in
            ["etcd", "k8s_POD_etcd-n_kube-system", "k8s_POD_a_b_c_d_e_f", "my_k8s_POD_a_b_c_0", "k8s_POD_a_b_c_x"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn dockers_time_is_read_with_its_offset() {
        assert_eq!(created("2021-01-20 10:00:00 +0100 CET"), 1_611_133_200_000_000_000);
        assert_eq!(created("2021-01-20 09:00:00 +0000 UTC"), 1_611_133_200_000_000_000);
        assert_eq!(created("yesterday"), 0);
    }
}
