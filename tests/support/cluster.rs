//! What a cluster's API servers keep, as far as turns need it: the Lease, the endpoints of the API servers, and their mirror pods.
//! Writes are decided by `resourceVersion`, as a real API server does (kube-apiserver 1.20 and 1.36: 409 with a `Status`).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Where the Lease is.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/k8s-certs-renew";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const EVENTS: &str = "/api/v1/namespaces/kube-system/events";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// The objects, the same for all who have it.
#[derive(Debug, Clone, Default)]
pub struct Cluster(Arc<Mutex<Arc<Mutex<Objects>>>>);

/// The objects, and what goes wrong.
#[derive(Debug, Default)]
pub struct Objects {
    revision: u64,
    /// The Lease, if there is one.
    pub lease: Option<Value>,
    /// Node and port of each API server that is in the endpoints.
    pub endpoints: Vec<u16>,
    /// Node and port of each mirror pod of an API server.
    pub pods: Vec<(String, u16)>,
    /// In place of every answer about the Lease: status and body.
    pub lease_says: Option<(u16, String)>,
    /// For the next writes, the last first: whether it is done before the connection breaks off.
    pub lose: Vec<bool>,
    /// Every Event that was created.
    pub events: Vec<Value>,
    /// In place of every answer about Events: this status.
    pub events_say: Option<u16>,
    /// What begins so is answered by nothing at all: `POST /api/v1/namespaces/kube-system/events`, or `GET`.
    pub hangs: Option<&'static str>,
    /// In place of every answer but health: this status.
    pub refuses: Option<u16>,
    /// Who had the Lease, one after another; empty where it was given back.
    pub holders: Vec<String>,
    /// Each request: method and path.
    pub asked: Vec<String>,
}

impl Cluster {
    /// Adds a control-plane node whose API server is at this port of loopback.
    pub fn add_node(&self, node: &str, port: u16) {
        self.edit(|objects| {
            objects.endpoints.push(port);
            objects.pods.push((node.to_owned(), port));
        });
    }

    /// Changes what there is, or what goes wrong; or looks at it.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let objects = self.0.lock().unwrap().clone();
        change(&mut objects.lock().unwrap())
    }

    /// From now on this is that cluster: its API servers keep the same objects.
    pub fn join(&self, other: &Self) {
        let objects = other.0.lock().unwrap().clone();
        *self.0.lock().unwrap() = objects;
    }

    /// Gives the Lease to this holder, as another node's run does it.
    pub fn hold(&self, holder: &str, seconds: i64) {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": seconds });
        self.edit(|objects| objects.put(json!({ "metadata": { "name": "k8s-certs-renew" }, "spec": spec })));
    }

    /// Who has the Lease now.
    pub fn holder(&self) -> Option<String> {
        self.edit(|objects| Some(objects.lease.as_ref()?["spec"]["holderIdentity"].as_str()?.to_owned()))
    }

    /// The answer to a request; no body where the connection breaks off. None for a page that it does not know.
    pub fn answer(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, Option<String>)> {
        let bare = path.split('?').next().unwrap_or_default();
        let known = [LEASE, LEASES, ENDPOINTS, PODS, EVENTS].contains(&bare);
        if !known {
            return None;
        }
        let asked = format!("{method} {bare}");
        let hangs = self.edit(|objects| {
            objects.asked.push(asked.clone());
            objects.hangs.is_some_and(|what| asked.starts_with(what))
        });
        if hangs {
            // longer than anybody waits
            std::thread::sleep(std::time::Duration::from_secs(10));
            return Some((0, None));
        }
        Some(self.edit(|objects| objects.answer(method, bare, body)))
    }
}

impl Objects {
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Option<String>) {
        if let Some(status) = self.refuses {
            return status_object(status);
        }
        if let (Some((status, body)), true) = (&self.lease_says, [LEASE, LEASES].contains(&path)) {
            return (*status, Some(body.clone()));
        }
        match (method, path) {
            ("GET", LEASE) => match &self.lease {
                Some(lease) => (200, Some(lease.to_string())),
                None => status_object(404),
            },
            ("GET", ENDPOINTS) => {
                let subset = |port: &u16| json!({ "addresses": [{ "ip": "127.0.0.1" }], "ports": [{ "name": "https", "port": port }] });
                let subsets: Vec<Value> = self.endpoints.iter().map(subset).collect();
                (200, Some(json!({ "kind": "Endpoints", "subsets": subsets }).to_string()))
            }
            ("GET", PODS) => {
                let pod = |(node, port): &(String, u16)| {
                    json!({ "metadata": { "name": format!("kube-apiserver-{node}"), "annotations": {
                            "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("127.0.0.1:{port}") } },
                        "spec": { "nodeName": node }, "status": { "hostIP": "127.0.0.1" } })
                };
                let items: Vec<Value> = self.pods.iter().map(pod).collect();
                (200, Some(json!({ "kind": "PodList", "metadata": {}, "items": items }).to_string()))
            }
            ("POST", EVENTS) => self.create_event(&serde_json::from_slice(body).unwrap()),
            ("POST", LEASES) | ("PUT", LEASE) => self.write(method == "POST", serde_json::from_slice(body).unwrap()),
            _ => status_object(405),
        }
    }

    /// As a real API server judges it (kube-apiserver 1.20 and 1.36, `legacyValidateEvent`).
    fn create_event(&mut self, event: &Value) -> (u16, Option<String>) {
        if let Some(status) = self.events_say {
            return status_object(status);
        }
        let said = |key: &str| event[key].as_str().is_some_and(|text| !text.is_empty());
        let is_whole =
            ["eventTime", "reportingComponent", "reportingInstance", "action", "reason"].into_iter().all(said);
        let fits = event["message"].as_str().is_some_and(|text| text.len() <= 1024);
        if !is_whole || !fits || event["metadata"]["namespace"] != "kube-system" {
            return status_object(422);
        }
        if self.events.iter().any(|other| other["metadata"]["name"] == event["metadata"]["name"]) {
            return status_object(409);
        }
        self.events.push(event.clone());
        (201, Some(event.to_string()))
    }

    fn write(&mut self, create: bool, object: Value) -> (u16, Option<String>) {
        let version = object["metadata"]["resourceVersion"].clone();
        let is_current = match &self.lease {
            None => create && version.is_null(),
            Some(lease) => !create && lease["metadata"]["resourceVersion"] == version,
        };
        if !is_current {
            return status_object(409);
        }
        match self.lose.pop() {
            Some(done) => {
                if done {
                    self.put(object);
                }
                (0, None)
            }
            None => (if create { 201 } else { 200 }, Some(self.put(object).to_string())),
        }
    }

    fn put(&mut self, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.holders.push(object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
        self.lease = Some(object.clone());
        object
    }
}

fn status_object(code: u16) -> (u16, Option<String>) {
    let status =
        json!({ "kind": "Status", "status": "Failure", "message": format!("refused with {code}"), "code": code });
    (code, Some(status.to_string()))
}
