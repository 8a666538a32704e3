//! CRI runtimes, through crictl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::json::{count, number, text, texts};
use super::{Container, Image, Limits, NAMESPACE, RuntimeError, Sandbox, run, words};

/// crictl, the endpoint that it is to speak to, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cri {
    crictl: PathBuf,
    endpoint: Option<String>,
    pub(super) limits: Limits,
}

impl Cri {
    /// crictl at this path; without an endpoint it takes the one of its own configuration.
    pub fn new(crictl: &Path, endpoint: Option<String>, limits: Limits) -> Self {
        Self { crictl: crictl.to_path_buf(), endpoint, limits }
    }

    /// Where crictl is told to connect to.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Every sandbox that crictl lists for `kube-system`, static or not.
    ///
    /// `pods -o json` prints `{"items":[...]}` with the CRI's `PodSandbox` messages (cri-tools). `--namespace` is a regular expression
    /// there, applied by crictl; it only shortens the list.
    pub(super) fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let pattern = format!("^{NAMESPACE}$");
        let items = self.list(&["pods", "--namespace", &pattern, "-o", "json"], "items")?;
        Ok(items.iter().map(sandbox).filter(|sandbox| !sandbox.id.is_empty()).collect())
    }

    /// Every container that crictl lists.
    pub(super) fn containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let items = self.list(&["ps", "-a", "-o", "json"], "containers")?;
        Ok(items.iter().map(container).filter(|container| !container.id.is_empty()).collect())
    }

    /// `rmp -f` of one id: of several, crictl joins the errors. Without an id it would print its usage and call that success.
    pub(super) fn remove(&self, sandbox_id: &str) -> Result<(), RuntimeError> {
        self.call(&["rmp", "-f", sandbox_id], self.limits).map(|_| ())
    }

    pub(super) fn stop(&self, container_id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let limits = Limits { rpc: self.limits.rpc.max(grace), ..self.limits };
        self.call(&["stop", "-t", &grace.as_secs().to_string(), container_id], limits).map(|_| ())
    }

    /// Every image. `images -o json` prints `{"images":[...]}` with the CRI's `Image` messages.
    pub(super) fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        Ok(self.list(&["images", "-o", "json"], "images")?.iter().map(image).collect())
    }

    /// `sandboxImage` of the configuration that `info` shows, as containerd 1.x and CRI-O do; containerd 2 and cri-dockerd do not.
    pub(super) fn pause_image(&self) -> Option<String> {
        Some(text(&self.answer(&["info"]).ok()?, &["config", "sandboxImage"])).filter(|image| !image.is_empty())
    }

    /// `info.image` of `inspectp`, which containerd and CRI-O show.
    pub(super) fn image_of(&self, sandbox_id: &str) -> Option<String> {
        Some(text(&self.answer(&["inspectp", sandbox_id]).ok()?, &["info", "image"])).filter(|image| !image.is_empty())
    }

    fn list(&self, args: &[&str], key: &str) -> Result<Vec<Value>, RuntimeError> {
        let mut answer = self.answer(args)?;
        match answer.get_mut(key).map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            // a list without entries can be written as none
            None | Some(Value::Null) if answer.is_object() => Ok(Vec::new()),
            _ => Err(self.unreadable(args, format!("no list {key:?} in it"))),
        }
    }

    fn answer(&self, args: &[&str]) -> Result<Value, RuntimeError> {
        let stdout = self.call(args, self.limits)?;
        serde_json::from_slice(&stdout).map_err(|error| self.unreadable(args, error.to_string()))
    }

    fn unreadable(&self, args: &[&str], why: String) -> RuntimeError {
        RuntimeError::Output { call: words(&self.crictl, args), why }
    }

    /// Removes one container, stopped first if it runs.
    pub(super) fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(&["rm", "-f", id], self.limits).map(|_| ())
    }

    fn call(&self, args: &[&str], limits: Limits) -> Result<Vec<u8>, RuntimeError> {
        let timeout = format!("{}s", limits.rpc.as_secs());
        let mut all = vec!["-t", timeout.as_str()];
        if let Some(endpoint) = &self.endpoint {
            all.extend(["--runtime-endpoint", endpoint]);
            // /etc/crictl.yaml may name another one for images, which this runtime does not use
            if args.first() == Some(&"images") {
                all.extend(["--image-endpoint", endpoint]);
            }
        }
        all.extend(args);
        Ok(run(&self.crictl, &all, limits)?.stdout)
    }
}

fn sandbox(item: &Value) -> Sandbox {
    Sandbox {
        id: text(item, &["id"]),
        pod: text(item, &["metadata", "name"]),
        namespace: text(item, &["metadata", "namespace"]),
        component: Some(text(item, &["labels", "component"])).filter(|label| !label.is_empty()),
        static_file: text(item, &["annotations", "kubernetes.io/config.source"]) == "file",
        ready: text(item, &["state"]) == "SANDBOX_READY",
        attempt: count(item, &["metadata", "attempt"]),
        created_at_ns: number(item, &["createdAt"]),
        uid: text(item, &["metadata", "uid"]),
    }
}

fn container(item: &Value) -> Container {
    let image = text(item, &["image", "image"]);
    Container {
        id: text(item, &["id"]),
        name: text(item, &["metadata", "name"]),
        sandbox_id: text(item, &["podSandboxId"]),
        running: text(item, &["state"]) == "CONTAINER_RUNNING",
        attempt: count(item, &["metadata", "attempt"]),
        image: if image.is_empty() { text(item, &["imageRef"]) } else { image },
        created_at_ns: number(item, &["createdAt"]),
    }
}

fn image(item: &Value) -> Image {
    Image { id: text(item, &["id"]), names: [texts(item, "repoTags"), texts(item, "repoDigests")].concat() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{container, image, sandbox};

    #[test]
    fn an_image_is_known_by_its_tags_its_digests_and_its_id() {
        let (id, digest) = ("1".repeat(64), format!("sha256:{}", "2".repeat(64)));
        let item = json!({"id": format!("sha256:{id}"), "repoTags": ["registry.k8s.io/pause:3.9"],
            "repoDigests": [format!("registry.k8s.io/pause@{digest}")], "size": "1", "pinned": true});
        let read = image(&item);
        let names = ["registry.k8s.io/pause:3.9", &format!("registry.k8s.io/pause:3.9@{digest}"), &id];
        assert!(names.iter().all(|name| read.is(name)), "{read:?}");
        assert!(!read.is("registry.k8s.io/pause:3.8") && !read.is(&"2".repeat(64)), "{read:?}");
        assert_eq!(image(&json!({"id": "x", "repoTags": null})).names, Vec::<String>::new());
    }

    #[test]
    fn a_sandbox_is_read_whatever_the_printer() {
        let full = json!({"id": "a1", "metadata": {"name": "etcd-n", "uid": "u", "namespace": "kube-system", "attempt": 2},
            "state": "SANDBOX_READY", "createdAt": "1700000000123456789", "labels": {"component": "etcd"},
            "annotations": {"kubernetes.io/config.source": "file"}, "runtimeHandler": ""});
        let read = sandbox(&full);
        assert_eq!((read.attempt, read.created_at_ns), (2, 1_700_000_000_123_456_789));
        assert!(read.static_file && read.ready && read.component.as_deref() == Some("etcd"));

        let sparse =
            json!({"id": "a1", "metadata": {"attempt": "3"}, "createdAt": 5, "labels": null, "annotations": null});
        let read = sandbox(&sparse);
        assert_eq!((read.attempt, read.created_at_ns, read.component.as_deref()), (3, 5, None));
        assert!(!read.static_file && !read.ready);
    }

    #[test]
    fn a_container_is_read_with_its_image() {
        let item = json!({"id": "c", "podSandboxId": "a1", "metadata": {"name": "etcd", "attempt": 0},
            "image": {"image": "sha256:1"}, "imageRef": "ref", "state": "CONTAINER_EXITED", "createdAt": "7"});
        let read = container(&item);
        assert_eq!((read.image.as_str(), read.running, read.sandbox_id.as_str()), ("sha256:1", false, "a1"));
        assert_eq!(container(&json!({"imageRef": "ref"})).image, "ref");
    }
}
