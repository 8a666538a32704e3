//! Components that are judged by what they serve.

use std::net::TcpListener;

use chrono::Duration;
use k8s_certs_renew::evidence::Verdict::{InUse, Stale, Unknown};

use super::{Node, frozen, now};
use crate::support::net::{listen, nobody};
use crate::support::servers::apiserver;
use crate::support::site::Site;
use crate::support::tls_server::{Role, TlsServer};
use crate::support::tree::{HOST_ETCD, Layout, Plan};
use crate::support::world::demo;

const APISERVER: &str = "kube-apiserver";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// Makes the manifest name this port in place of the site's own.
fn at_port(node: &Node, port: u16) {
    let old = format!("--secure-port={}", node.site.servers.apiserver.port());
    node.site.tree.edit(MANIFEST, |text| text.replace(&old, &format!("--secure-port={port}")));
}

/// This node's kube-apiserver, which never reads its files again, with a certificate in memory that ends in 300 days.
fn frozen_apiserver(node: &Node) -> TlsServer {
    let (certificate, key) = (node.site.tree.pki("apiserver.crt"), node.site.tree.pki("apiserver.key"));
    let role = Role { loopback_ends: Some(now() + Duration::days(300)), ..frozen(APISERVER, &certificate, &key) };
    let server = TlsServer::start(&node.site.world, None, role);
    at_port(node, server.port());
    server
}

/// Sets the clock so that the process of kube-apiserver started when its sandbox was made.
fn agree(node: &mut Node) {
    let created = node.site.world.sandbox(APISERVER).unwrap().created_ns;
    let process = node.component(APISERVER).process.unwrap();
    let up = std::time::Duration::from_secs(Node::UP) - process.started;
    node.now = chrono::DateTime::from_timestamp_nanos(created) + Duration::from_std(up).unwrap();
}

// P15: a container whose mount does not follow the host goes on serving what it was
#[test]
fn an_apiserver_that_still_shows_the_old_certificate_is_pending_then_stale() {
    let mut node = Node::new(Layout::Kubespray);
    let _server = frozen_apiserver(&node);
    agree(&mut node);
    assert_eq!(node.component(APISERVER).verdict, InUse);
    for (second, verdict) in [(9900, Stale), (9950, Unknown)] {
        node.renew(&["apiserver"], second);
        let component = node.component(APISERVER);
        assert_eq!(component.verdict, verdict, "{}", component.reason);
        assert_eq!(component.reason.starts_with("reload pending: "), verdict == Unknown, "{}", component.reason);
        assert_ne!(component.served.unwrap().serial, "");
    }
    // 1.16 never reads it again
    node.site.tree.edit(MANIFEST, |text| text.replace("v1.20.2", "v1.16.15"));
    assert_eq!(node.component(APISERVER).verdict, Stale);
}

#[test]
fn a_torn_pair_on_disk_does_not_make_the_apiserver_stale() {
    let mut node = Node::new(Layout::Kubespray);
    let _server = frozen_apiserver(&node);
    agree(&mut node);
    node.renew(&["apiserver"], 100);
    let other = node.site.tree.issue("front-proxy-client", now() + Duration::days(9));
    node.site.tree.write(&node.site.tree.pki("apiserver.key"), other.key);
    node.note(100);
    let component = node.component(APISERVER);
    assert_eq!(component.verdict, Unknown);
    assert!(component.reason.contains("another certificate's"), "{}", component.reason);
}

#[test]
fn an_apiserver_whose_client_certificates_are_read_at_start_only_is_stale_by_its_start() {
    let mut node = Node::new(Layout::Kubespray);
    node.renew(&["apiserver-kubelet-client"], 9000);
    assert_eq!(node.component(APISERVER).verdict, InUse);
    for image in ["kube-apiserver:v1.17.4", "kube-apiserver@sha256:abcd"] {
        let text = node.site.tree.read(MANIFEST);
        node.site.tree.edit(MANIFEST, |text| text.replace("kube-apiserver:v1.20.2", image));
        let component = node.component(APISERVER);
        assert_eq!(component.verdict, Stale, "{image}: {}", component.reason);
        node.site.tree.write(MANIFEST, text);
    }
}

#[test]
fn a_load_balancer_that_answers_for_another_node_is_not_taken_for_this_one() {
    let mut node = Node::new(Layout::Kubespray);
    agree(&mut node);
    // as in kubespray: the same names in the certificates of all nodes
    let other = Site::new(&demo(), Plan::new(Layout::Kubespray, now() + Duration::days(20)));
    at_port(&node, other.servers.apiserver.port());
    let evidence = node.look();
    let component = evidence.get(APISERVER).unwrap();
    assert_eq!(component.verdict, Unknown);
    assert!(component.reason.starts_with("another server answers at 127.0.0.1:"), "{}", component.reason);
    assert_eq!(evidence.loopback, None);
}

#[test]
fn the_loopback_certificate_is_read_from_memory() {
    let node = Node::new(Layout::Kubespray);
    let loopback = node.look().loopback.unwrap();
    assert_eq!(loopback.not_after, now() + Duration::days(300));
    let created = node.site.world.sandbox(APISERVER).unwrap().created_ns / 1_000_000_000;
    assert_eq!(loopback.not_before.timestamp(), created - 3600);
}

// D12
#[test]
fn a_loopback_certificate_that_ends_soon_is_seen_though_every_file_is_good() {
    let node = Node::new(Layout::Kubespray);
    let file = |name: &str| node.site.tree.pki(name).into();
    let role = Role {
        loopback_ends: Some(now() + Duration::days(5)),
        ..apiserver(&node.site.world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"))
    };
    let server = TlsServer::start(&node.site.world, None, role);
    at_port(&node, server.port());
    let evidence = node.look();
    assert_eq!(evidence.get(APISERVER).unwrap().verdict, InUse);
    assert_eq!(evidence.loopback.unwrap().not_after, now() + Duration::days(5));
}

#[test]
fn the_apiserver_is_found_wherever_its_manifest_says() {
    for (bind, listens) in
        [("127.0.0.2", "127.0.0.2:0"), ("::1", "[::1]:0"), ("::", "[::]:0"), ("0.0.0.0", "0.0.0.0:0")]
    {
        let node = Node::new(Layout::Kubespray);
        let file = |name: &str| node.site.tree.pki(name).into();
        let role = apiserver(&node.site.world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
        let server = TlsServer::start(&node.site.world, Some(TcpListener::bind(listens).unwrap()), role);
        at_port(&node, server.port());
        node.site.tree.edit(MANIFEST, |text| {
            text.replacen("    - --advertise", &format!("    - '--bind-address={bind}'\n    - --advertise"), 1)
        });
        let component = node.component(APISERVER);
        assert_eq!(component.verdict, InUse, "{bind}: {}", component.reason);
        assert_eq!(component.served.unwrap().addr.port(), server.port());
    }
}

#[test]
fn an_apiserver_that_does_not_answer_is_unknown() {
    let node = Node::new(Layout::Kubespray);
    at_port(&node, nobody());
    let component = node.component(APISERVER);
    assert_eq!(component.verdict, Unknown);
    assert!(component.reason.contains("connection refused"), "{}", component.reason);
}

#[test]
fn below_another_root_nobody_is_asked_whose_process_is_not_there() {
    let node = Node::new(Layout::Kubespray);
    node.end(APISERVER);
    let evidence = node.look();
    let component = evidence.get(APISERVER).unwrap();
    assert_eq!((component.verdict, &component.served), (Unknown, &None));
    assert_eq!(evidence.loopback, None);
}

/// A stacked etcd that asks for a client's certificate.
fn etcd(node: &Node, reloads: bool) -> TlsServer {
    let file = |name: &str| node.site.tree.pki(name);
    let mut role = frozen("etcd", &file("etcd/server.crt"), &file("etcd/server.key"));
    role.client_ca = Some(file("etcd/ca.crt").into());
    if let crate::support::tls_server::Shows::Files { reloads: again, .. } = &mut role.shows {
        *again = reloads;
    }
    let server = TlsServer::start(&node.site.world, None, role);
    let port = server.port();
    node.site.tree.edit("/etc/kubernetes/manifests/etcd.yaml", |text| {
        text.replace(&format!(":{}", node.site.tree.plan.shape.etcd), &format!(":{port}"))
    });
    server
}

#[test]
fn a_stacked_etcd_is_in_use_as_soon_as_it_shows_the_file() {
    for (reloads, verdict) in [(true, InUse), (false, Stale)] {
        let mut node = Node::new(Layout::Kubeadm);
        let _server = etcd(&node, reloads);
        assert_eq!(node.component("etcd").verdict, InUse);
        node.renew(&["etcd-server"], 9999);
        let component = node.component("etcd");
        assert_eq!(component.verdict, verdict, "{}", component.reason);
    }
}

#[test]
fn an_etcd_service_of_the_host_is_found_by_its_process() {
    let member = format!("{HOST_ETCD}/member-node1.pem");
    let key = format!("{HOST_ETCD}/member-node1-key.pem");
    for by_flags in [true, false] {
        let mut node = Node::new(Layout::Kubespray);
        let server = TlsServer::start(&node.site.world, None, frozen(APISERVER, &member, &key));
        let urls = format!("https://127.0.0.1:{}", server.port());
        if by_flags {
            let listens = format!("--listen-client-urls={urls}");
            node.process(555, &["/usr/local/bin/etcd", &listens, "--cert-file", &member], 50);
        } else {
            node.process(555, &["/usr/local/bin/etcd"], 50);
            let environment = format!("A=b\0ETCD_CERT_FILE={member}\0ETCD_LISTEN_CLIENT_URLS={urls}\0");
            node.site.tree.write("/proc/555/environ", environment);
        }
        let component = node.component("etcd");
        assert_eq!((component.verdict, component.process.unwrap().pid), (InUse, 555), "{}", component.reason);
        node.renew(&["member-node1.pem"], 9999);
        assert_eq!(node.component("etcd").verdict, Stale);
    }
}

#[test]
fn an_etcd_of_which_only_kube_apiserver_tells_is_asked_at_this_nodes_own_addresses() {
    let node = Node::new(Layout::Kubespray);
    let (member, key) = (format!("{HOST_ETCD}/member-node1.pem"), format!("{HOST_ETCD}/member-node1-key.pem"));
    let server = TlsServer::start(&node.site.world, None, frozen(APISERVER, &member, &key));
    node.process(555, &["/usr/local/bin/etcd"], 50);
    let servers = |servers: &str| {
        node.site.tree.edit(MANIFEST, |text| {
            let lines = text.lines().map(|line| match line.contains("--etcd-servers") {
                true => format!("    - --etcd-servers={servers}\n"),
                false => format!("{line}\n"),
            });
            lines.collect()
        });
    };
    servers(&format!("https://192.0.2.77:2379,https://127.0.0.1:{}", server.port()));
    assert_eq!(node.component("etcd").verdict, InUse);
    servers("https://192.0.2.77:2379");
    let component = node.component("etcd");
    assert_eq!((component.verdict, component.served), (Unknown, None));
}

fn kubelet(node: &Node, port: u16) {
    node.site
        .tree
        .edit("/etc/kubernetes/kubelet-config.yaml", |text| format!("{text}port: {port}\naddress: 127.0.0.1\n"));
}

// L04, and that nobody restarts it here: P13
#[test]
fn a_kubelet_that_shows_another_certificate_than_its_newest_file_is_stale() {
    let mut node = Node::new(Layout::Kubespray);
    let role = frozen(APISERVER, "/var/lib/kubelet/pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet.key");
    let server = TlsServer::start(&node.site.world, Some(listen()), role);
    kubelet(&node, server.port());
    let component = node.component("kubelet");
    assert_eq!(component.verdict, InUse, "{}", component.reason);
    assert!(component.reason.contains("client certificate: unknown"), "{}", component.reason);
    node.renew(&["kubelet.crt"], 5000);
    assert_eq!(node.component("kubelet").verdict, Stale);
}

// L04
#[test]
fn a_kubelet_that_cannot_be_reached_is_unknown() {
    let node = Node::new(Layout::Kubespray);
    kubelet(&node, nobody());
    let component = node.component("kubelet");
    assert_eq!(component.verdict, Unknown);
    assert!(component.reason.contains("connection refused"), "{}", component.reason);
}
