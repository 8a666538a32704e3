//! The other control-plane nodes: who they are, and whether their API servers carry the load.
//!
//! Two sources together: the endpoints of the service `default/kubernetes`, which an API server leaves some 15 s after it has ceased to
//! renew its lease there (kube-apiserver, lease reconciler), and kubelet's mirror pods, which stay as long as their node does. By the
//! endpoints alone an API server that is broken would count as none.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use super::door::{Door, Key, advertised, is_ready};
use super::taking::Reply;
use crate::node::{Manifest, flags::flag};

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
/// Where Endpoints are not served any more.
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const PODS: &str = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-apiserver&limit=200";
/// kubeadm's annotation with the address that an API server advertises (kubeadm `staticpod`, from 1.17 on).
const ADVERTISED: &str = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint";
/// No cluster has more control-plane nodes; what a hostile list has is not asked.
const MOST: usize = 64;
const NAME: usize = 253;

/// Another API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its node, where that is known.
    pub node: Option<String>,
    /// Where it serves; none where its pod does not tell.
    pub addr: Option<SocketAddr>,
}

/// The other API servers, as they were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// Each of them, and why it is not ready, if it is not.
    pub seen: Vec<(Peer, Option<String>)>,
}

/// How many of the other API servers are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// So many are.
    pub ready: usize,
    /// Of so many.
    pub of: usize,
}

impl Others {
    /// How many are ready.
    pub fn tally(&self) -> Tally {
        Tally { ready: self.seen.iter().filter(|(_, fault)| fault.is_none()).count(), of: self.seen.len() }
    }

    /// The ones that are not ready, in words; none where all are.
    pub fn down(&self) -> Option<String> {
        let down: Vec<String> = self
            .seen
            .iter()
            .filter_map(|(peer, fault)| Some(format!("{} is not ready ({})", peer.label(), fault.as_ref()?)))
            .collect();
        (!down.is_empty()).then(|| down.join(", "))
    }
}

impl Peer {
    fn label(&self) -> String {
        match (&self.node, self.addr) {
            (Some(node), _) => format!("kube-apiserver of node '{node}'"),
            (None, Some(addr)) => format!("kube-apiserver at {addr}"),
            (None, None) => "a kube-apiserver without an address".to_owned(),
        }
    }
}

/// Who the others are; their addresses are kept for the next question.
///
/// # Errors
/// That cannot be told: what the API says instead, never an object.
pub fn who(door: &mut Door<'_>, own: Option<&Manifest>, node_name: &str) -> Result<Vec<Peer>, Reply> {
    let endpoints = match door.get(ENDPOINTS) {
        Reply::Absent => door.get(SLICE),
        reply => reply,
    };
    let endpoints = match endpoints {
        Reply::Object(object) => object,
        // none may be wanted (kube-apiserver's `--endpoint-reconciler-type=none`)
        Reply::Absent => Value::Null,
        reply => return Err(reply),
    };
    let pods = match door.get(PODS) {
        Reply::Object(object) => object,
        Reply::Absent => return Err(Reply::Lost("pods of 'kube-system' cannot be listed (404)".to_owned())),
        reply => return Err(reply),
    };
    if endpoints.is_null() && list(&pods, "items").is_empty() {
        let why = "there are neither endpoints of the service 'default/kubernetes' nor pods of kube-apiserver";
        return Err(Reply::Lost(why.to_owned()));
    }
    let own = own.map(advertised).unwrap_or_default();
    let peers = merge(&own, node_name, &endpoints, &pods);
    door.peers = peers.iter().filter_map(|peer| peer.addr).collect();
    Ok(peers)
}

/// Looks at each, all at once.
pub fn look(door: &Door<'_>, peers: Vec<Peer>) -> Others {
    let (key, now, deadline) = (&door.key(), door.now(), door.deadline());
    let seen = std::thread::scope(|scope| {
        let asked: Vec<_> = peers
            .into_iter()
            .map(|peer| {
                let addr = peer.addr;
                (peer, scope.spawn(move || fault(addr, key, now, deadline)))
            })
            .collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Option<String>>| {
            thread.join().unwrap_or_else(|_| Some("cannot be asked".to_owned()))
        };
        asked.into_iter().map(|(peer, thread)| (peer, ended(thread))).collect()
    });
    Others { seen }
}

fn fault(
    addr: Option<SocketAddr>,
    key: &Key,
    now: chrono::DateTime<chrono::Utc>,
    deadline: Duration,
) -> Option<String> {
    let Some(addr) = addr else { return Some("its pod tells no address".to_owned()) };
    is_ready(addr, key, now, deadline).err().map(|why| format!("{addr}{why}"))
}

/// The others of both sources, sorted by address, the node's own left out.
fn merge(own: &[SocketAddr], node_name: &str, endpoints: &Value, pods: &Value) -> Vec<Peer> {
    let mut own = own.to_vec();
    let mut others: BTreeMap<SocketAddr, Option<String>> =
        addresses(endpoints).into_iter().map(|addr| (addr, None)).collect();
    let mut lost = Vec::new();
    for pod in list(pods, "items") {
        let node = pod["spec"]["nodeName"].as_str().map(|name| name.chars().take(NAME).collect::<String>());
        let is_own = node.as_deref().is_some_and(|node| node.eq_ignore_ascii_case(node_name));
        match (address(pod), is_own) {
            (Some(addr), true) => own.push(addr),
            (None, true) => {}
            (Some(addr), false) => {
                others.insert(addr, node);
            }
            (None, false) => lost.push(Peer { node, addr: None }),
        }
    }
    let told =
        others.into_iter().filter(|(addr, _)| !own.contains(addr)).map(|(addr, node)| Peer { node, addr: Some(addr) });
    told.chain(lost).take(MOST).collect()
}

/// Of Endpoints (v1), or of an EndpointSlice (discovery.k8s.io/v1).
fn addresses(object: &Value) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    let port = |ports: &[Value]| {
        let https = ports.iter().find(|port| port["name"] == "https").or(ports.first());
        https.and_then(|port| u16::try_from(port["port"].as_u64()?).ok()).unwrap_or(6443)
    };
    let mut add = |text: &Value, port: u16| {
        let ip: Option<IpAddr> = text.as_str().and_then(|text| text.parse().ok());
        found.extend(ip.map(|ip| SocketAddr::new(ip, port)));
    };
    for subset in list(object, "subsets") {
        let port = port(list(subset, "ports"));
        for key in ["addresses", "notReadyAddresses"] {
            list(subset, key).iter().for_each(|address| add(&address["ip"], port));
        }
    }
    for endpoint in list(object, "endpoints") {
        let port = port(list(object, "ports"));
        list(endpoint, "addresses").iter().for_each(|address| add(address, port));
    }
    found
}

/// Where the API server of a mirror pod is known: by kubeadm's annotation, its flag, or its host.
fn address(pod: &Value) -> Option<SocketAddr> {
    if let Some(addr) = pod["metadata"]["annotations"][ADVERTISED].as_str().and_then(|addr| addr.parse().ok()) {
        return Some(addr);
    }
    let words = |container: &Value| -> Vec<String> {
        let both = list(container, "command").iter().chain(list(container, "args"));
        both.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let argv: Vec<String> = list(&pod["spec"], "containers").iter().flat_map(words).collect();
    let port = flag(&argv, "--secure-port").and_then(|port| port.parse().ok()).unwrap_or(6443);
    let advertised = flag(&argv, "--advertise-address").and_then(|ip| ip.parse().ok());
    let host = || pod["status"]["hostIP"].as_str().and_then(|ip| ip.parse().ok());
    advertised.or_else(host).map(|ip: IpAddr| SocketAddr::new(ip, port))
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;

    fn merged(endpoints: &Value, pods: &Value) -> Vec<String> {
        let own = ["192.0.2.1:6443".parse().unwrap()];
        let text = |peer: super::Peer| {
            format!("{} {}", peer.node.unwrap_or_default(), peer.addr.map(|addr| addr.to_string()).unwrap_or_default())
        };
        merge(&own, "node1", endpoints, pods).into_iter().map(text).collect()
    }

    fn pod(node: &str, annotation: Option<&str>, flags: &[&str], host: Option<&str>) -> Value {
        json!({ "metadata": { "annotations": { (super::ADVERTISED): annotation } },
            "spec": { "nodeName": node, "containers": [{ "command": flags }] }, "status": { "hostIP": host } })
    }

    #[test]
    fn the_others_are_those_of_the_endpoints_and_those_whose_pods_are_there() {
        let endpoints = json!({ "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }, { "ip": "192.0.2.2" }],
            "notReadyAddresses": [{ "ip": "192.0.2.5" }], "ports": [{ "name": "https", "port": 6443 }] }] });
        let slice = json!({ "endpoints": [{ "addresses": ["192.0.2.1"] }, { "addresses": ["192.0.2.2"] }, { "addresses": ["192.0.2.5"] }],
            "ports": [{ "name": "https", "port": 6443 }] });
        let pods = json!({ "items": [
            pod("NODE1", None, &[], Some("192.0.2.9")),
            pod("node2", Some("192.0.2.2:6443"), &[], Some("198.51.100.2")),
            // down, and no endpoint any more
            pod("node3", None, &["kube-apiserver", "--secure-port=7443", "--advertise-address=192.0.2.3"], Some("198.51.100.3")),
            pod("node4", None, &["kube-apiserver"], Some("192.0.2.4")),
            pod("node6", None, &[], None),
        ] });
        let expected =
            ["node2 192.0.2.2:6443", "node3 192.0.2.3:7443", "node4 192.0.2.4:6443", " 192.0.2.5:6443", "node6 "];
        for source in [&endpoints, &slice] {
            let mut found = merged(source, &pods);
            found.sort_unstable();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        assert_eq!(merged(&endpoints, &json!({ "items": [] })), [" 192.0.2.2:6443", " 192.0.2.5:6443"]);
    }

    #[test]
    fn a_single_node_has_no_others_whichever_way_it_is_known() {
        let endpoints = |ip: &str| json!({ "subsets": [{ "addresses": [{ "ip": ip }], "ports": [{ "port": 6443 }] }] });
        let by_flag = json!({ "items": [pod("node1", None, &["--advertise-address=192.0.2.1"], None)] });
        assert_eq!(merged(&endpoints("192.0.2.1"), &by_flag), Vec::<String>::new());
        // advertised as what its own pod says
        let by_pod = json!({ "items": [pod("node1", Some("192.0.2.7:6443"), &[], None)] });
        assert_eq!(merged(&endpoints("192.0.2.7"), &by_pod), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_list_has_nobody_in_it_and_one_without_end_is_cut_off() {
        for odd in [
            json!(null),
            json!([]),
            json!({ "subsets": {}, "endpoints": 5 }),
            json!({ "subsets": [1, { "addresses": [2, { "ip": "x" }] }] }),
        ] {
            assert_eq!(merged(&odd, &odd), Vec::<String>::new(), "{odd}");
        }
        let many: Vec<Value> = (0..3000).map(|at| json!({ "ip": format!("10.0.{}.{}", at / 250, at % 250) })).collect();
        let endpoints = json!({ "subsets": [{ "addresses": many }] });
        assert_eq!(merged(&endpoints, &json!({})).len(), 64);
    }
}
