//! The stand-in servers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use k8s_certs_renew::node::kubeconfig::{Kubeconfig, Source};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{call, now, site};
use crate::support::faults::then;
use crate::support::net;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, Role, Shows, TlsServer};
use crate::support::tree::Layout;

/// A client that accepts every certificate, since these tests look at which one is shown.
#[derive(Debug)]
struct AcceptsAll;

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, leaf, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, leaf, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

struct Reply {
    status: u16,
    text: String,
    leaf: Vec<u8>,
}

fn get(port: u16, name: &str, path: &str, login: Option<(Vec<u8>, Vec<u8>)>) -> io::Result<Reply> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptsAll));
    let config = match login {
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&certificate).unwrap()],
                PrivateKeyDer::from_pem_slice(&key).unwrap(),
            )
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port))?);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let leaf = stream.conn.peer_certificates().unwrap()[0].to_vec();
    Ok(Reply { status, text, leaf })
}

fn ready(site: &Site) -> io::Result<u16> {
    get(site.servers.apiserver.port(), "localhost", "/readyz", None).map(|reply| reply.status)
}

fn admin(site: &Site) -> (Vec<u8>, Vec<u8>) {
    let text = site.tree.read("/etc/kubernetes/admin.conf");
    let config = Kubeconfig::parse(text.as_bytes(), "/".as_ref()).unwrap();
    match config.current_user().unwrap() {
        user if user.name == "kubernetes-admin" => match (&user.certificate, &user.key) {
            (Some(Source::Data(certificate)), Some(Source::Data(key))) => (certificate.clone(), key.clone()),
            _ => panic!("no embedded login"),
        },
        user => panic!("{}", user.name),
    }
}

fn on_disk(site: &Site) -> Vec<u8> {
    CertificateDer::from_pem_slice(site.tree.read(&site.tree.pki("apiserver.crt")).as_bytes()).unwrap().to_vec()
}

fn remove(site: &Site, component: &str) {
    let id = site.world.sandbox(component).unwrap().id;
    assert!(call(site, "crictl", &format!("rmp -f {id}")).status.success());
}

fn names(leaf: &[u8]) -> (String, i64) {
    let (_, leaf) = X509Certificate::from_der(leaf).unwrap();
    let cn = leaf.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned();
    (cn, leaf.validity().not_after.timestamp())
}

#[test]
fn the_apiserver_shows_what_is_on_disk_at_each_connection() {
    let site = site(Layout::Kubespray);
    let shown = || get(site.servers.apiserver.port(), "localhost", "/readyz", None).unwrap().leaf;
    let old = on_disk(&site);
    assert_eq!(shown(), old);
    let new = site.tree.issue("apiserver", now() + days(365));
    assert_eq!(shown(), new.der);
    // a torn pair is passed over: the one before it stays
    let other = site.tree.issue("front-proxy-client", now() + days(365));
    site.tree.write(&site.tree.pki("apiserver.key"), other.key);
    assert_eq!(shown(), new.der);
}

#[test]
fn a_server_that_does_not_reload_shows_its_certificate_until_it_is_restarted() {
    let site = site(Layout::Kubespray);
    let file = |name: &str| site.tree.pki(name).into();
    let shows = Shows::Files { certificate: file("apiserver.crt"), key: file("apiserver.key"), reloads: false };
    let role = Role { component: "kube-apiserver", shows, client_ca: None, loopback_ends: None };
    let server = TlsServer::start(&site.world, None, role);
    let old = on_disk(&site);
    let new = site.tree.issue("apiserver", now() + days(365)).der;
    let shown = || get(server.port(), "localhost", "/readyz", None).unwrap().leaf;
    assert_eq!(shown(), old);
    remove(&site, "kube-apiserver");
    assert_eq!(shown(), new);
}

#[test]
fn the_loopback_name_gets_another_certificate_which_only_a_restart_renews() {
    let site = site(Layout::Kubespray);
    let shown = || {
        let reply = get(site.servers.apiserver.port(), "apiserver-loopback-client", "/readyz", None).unwrap();
        names(&reply.leaf)
    };
    let (cn, ends) = shown();
    assert!(cn.starts_with("apiserver-loopback-client@"), "{cn}");
    assert_eq!(ends, (now() + days(300)).timestamp());
    remove(&site, "kube-apiserver");
    let (later, ends) = shown();
    assert_ne!(cn, later);
    let start = site.world.sandbox("kube-apiserver").unwrap().created_ns / 1_000_000_000;
    assert_eq!((later, ends), (format!("apiserver-loopback-client@{start}"), start + 365 * 86_400));
}

#[test]
fn controller_manager_and_scheduler_show_the_second_of_their_start() {
    let site = site(Layout::Kubespray);
    for (component, port) in [
        ("kube-controller-manager", site.servers.controller_manager.port()),
        ("kube-scheduler", site.servers.scheduler.port()),
    ] {
        let expected = || format!("localhost@{}", site.world.sandbox(component).unwrap().created_ns / 1_000_000_000);
        let first = get(port, "localhost", "/healthz", None).unwrap();
        assert_eq!((first.status, names(&first.leaf).0), (200, expected()));
        remove(&site, component);
        let second = get(port, "localhost", "/healthz", None).unwrap();
        assert_eq!(names(&second.leaf).0, expected());
        assert_ne!(first.leaf, second.leaf);
    }
}

#[test]
fn answers_go_by_the_script_and_a_restart_begins_another() {
    let site = site(Layout::Kubespray);
    site.servers.apiserver.script(|script| {
        script.first = then(3, Answer::Status(500), Answer::Ready);
        script.restarted = vec![Answer::Closes, Answer::Closes, Answer::Status(429), Answer::Ready];
    });
    let five = || (0..5).map(|_| ready(&site).unwrap_or(0)).collect::<Vec<_>>();
    assert_eq!(five(), [500, 500, 500, 200, 200]);
    remove(&site, "kube-apiserver");
    assert_eq!(five(), [0, 0, 429, 200, 200]);
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Closes]);
    assert_eq!(five(), [0; 5]);
    site.servers.apiserver.script(|script| script.restarted = vec![Answer::Status(500)]);
    let failing = get(site.servers.apiserver.port(), "localhost", "/readyz?verbose", None).unwrap();
    assert!(failing.text.contains("[-]etcd failed"), "{}", failing.text);
}

#[test]
fn a_server_whose_pod_is_gone_answers_nobody() {
    let site = site(Layout::Kubespray);
    site.world.fault(|faults| faults.kubelet_down = true);
    assert_eq!(ready(&site).unwrap(), 200);
    remove(&site, "kube-apiserver");
    assert!(ready(&site).is_err());
}

#[test]
fn a_stranger_is_turned_away_and_admin_is_let_in() {
    let site = site(Layout::Kubespray);
    let port = site.servers.apiserver.port();
    for status in [401, 403] {
        site.servers.apiserver.script(|script| script.without_client = Some(status));
        assert_eq!(ready(&site).unwrap(), status);
        assert_eq!(get(port, "localhost", "/readyz", Some(admin(&site))).unwrap().status, 200);
    }
    assert_eq!(get(port, "localhost", "/api/v1/nodes", Some(admin(&site))).unwrap().status, 404);
    let last = site.servers.apiserver.requests().pop().unwrap();
    assert_eq!((last.path.as_str(), last.client.is_some()), ("/api/v1/nodes", true));
}

#[test]
fn a_login_that_has_expired_is_no_login() {
    let site = site(Layout::Kubespray);
    let port = site.servers.apiserver.port();
    site.tree.issue("admin.conf", now() - days(1));
    assert_eq!(get(port, "localhost", "/readyz", Some(admin(&site))).unwrap().status, 401);
    let from_another_ca = super::site(Layout::Kubespray);
    assert_eq!(get(port, "localhost", "/readyz", Some(admin(&from_another_ca))).unwrap().status, 401);
}

#[test]
fn the_kubelets_health_port_speaks_plain_http() {
    let site = site(Layout::Kubespray);
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(site.servers.kubelet.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("/healthz").starts_with("HTTP/1.1 200 OK"));
    assert!(ask("/metrics").starts_with("HTTP/1.1 404"));
    assert!(site.tree.read("/etc/kubernetes/kubelet-config.yaml").contains(&site.servers.kubelet.port().to_string()));
}

#[test]
fn an_apiserver_can_be_made_to_refuse_connections() {
    let mut site = site(Layout::Kubespray);
    let port = site.servers.apiserver.port();
    site.servers.refuse_apiserver(&site.world);
    let error = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_server_ends_with_its_value() {
    let site = site(Layout::Kubespray);
    let port = site.servers.scheduler.port();
    drop(site);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(TcpStream::connect(("127.0.0.1", net::nobody())).is_err());
}
