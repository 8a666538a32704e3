//! Handshakes and requests against real TLS servers on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_certs_renew::api::{ApiError, Identity, Reply, Scheme, Target, TlsError, get, handshake, post};
use rcgen::{CertificateParams, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// A self-signed certificate with its key.
struct Pair {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Pair {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        // long expired: the handshake is not the place that judges dates
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    fn leaf(&self) -> &[u8] {
        self.certificate.der()
    }

    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Clients {
    Any,
    MustShowACertificate,
}

fn tls(pair: &Pair, clients: Clients, version: &'static rustls::SupportedProtocolVersion) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version]).unwrap();
    let builder = match clients {
        Clients::Any => builder.with_no_client_auth(),
        Clients::MustShowACertificate => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(pair.leaf().to_vec())).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    Arc::new(builder.with_single_cert(vec![pair.certificate.der().clone()], pair.key_der()).unwrap())
}

/// Serves one connection with `talk` and hands back what it returns.
fn serve<T: Send + 'static>(
    ip: &str,
    talk: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, std::thread::JoinHandle<T>) {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    (addr, std::thread::spawn(move || talk(listener.accept().unwrap().0)))
}

/// Reads one request, sends the reply, returns the request (empty where the handshake or the reading failed).
fn answer(mut stream: impl Read + Write, reply: &str) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
            _ => return String::new(),
        }
    }
    let _ = stream.write_all(reply.as_bytes());
    let _ = stream.flush();
    String::from_utf8(request).unwrap()
}

fn https(config: Arc<ServerConfig>, reply: &str) -> (SocketAddr, std::thread::JoinHandle<String>) {
    let reply = reply.to_owned();
    serve("127.0.0.1", move |tcp| {
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
        let request = answer(&mut stream, &reply);
        stream.conn.send_close_notify();
        let _ = stream.flush();
        request
    })
}

fn target(scheme: Scheme, addr: SocketAddr) -> Target {
    Target { scheme, addr, server_name: None }
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn ask(reply: &str) -> Result<Reply, ApiError> {
    let pair = Pair::new("kube-apiserver");
    let (addr, server) = https(tls(&pair, Clients::Any, &rustls::version::TLS13), reply);
    let result = get(&target(Scheme::Https, addr), "/readyz", None, Some(pair.leaf()), LONG);
    server.join().unwrap();
    result
}

#[test]
fn every_status_is_an_answer_with_its_body() {
    let table = [
        ("200 OK", "ok"),
        ("401 Unauthorized", "{\"code\":401}"),
        ("403 Forbidden", "system:anonymous"),
        ("429 Too Many Requests", ""),
        ("500 Internal Server Error", "[+]ping ok\n[-]etcd failed: reason withheld\n"),
        ("302 Found", "elsewhere"),
    ];
    for (status, body) in table {
        let got = ask(&reply(status, body)).unwrap();
        assert_eq!((got.status.to_string().as_str(), got.body.as_str()), (&status[..3], body));
    }
}

#[test]
fn the_request_is_a_plain_get_with_the_address_as_its_host() {
    let pair = Pair::new("kube-apiserver");
    let (addr, server) = https(tls(&pair, Clients::Any, &rustls::version::TLS12), &reply("200 OK", "ok"));
    let got = get(&target(Scheme::Https, addr), "/readyz?verbose", None, None, LONG).unwrap();
    assert_eq!(got.leaf_der.as_deref(), Some(pair.leaf()));
    let request = server.join().unwrap().to_ascii_lowercase();
    assert!(request.starts_with("get /readyz?verbose http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {addr}\r\n")), "{request}");
}

#[test]
fn a_question_is_posted_as_json_and_its_answer_read() {
    let (addr, server) = serve("127.0.0.1", |mut stream| {
        let mut request = Vec::new();
        let mut buffer = [0; 1024];
        while !request.ends_with(b"{}") {
            let read = stream.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(reply("404 Not Found", "Not Found\n").as_bytes()).unwrap();
        String::from_utf8(request).unwrap().to_ascii_lowercase()
    });
    let got = post(&target(Scheme::Http, addr), "/v3/cluster/member/list", "{}", None, LONG).unwrap();
    assert_eq!((got.status, got.body.as_str()), (404, "Not Found\n"));
    let request = server.join().unwrap();
    assert!(request.starts_with("post /v3/cluster/member/list http/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    assert!(request.contains("content-length: 2\r\n"), "{request}");
}

#[test]
fn a_chunked_body_and_one_that_ends_with_the_connection_are_read_whole() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(ask(chunked).unwrap().body, "abcde");
    assert_eq!(ask("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end").unwrap().body, "to the end");
}

#[test]
fn a_body_is_read_up_to_its_bound() {
    let got = ask(&reply("200 OK", &"x".repeat(100_000))).unwrap();
    assert_eq!(got.body.len(), 64 * 1024);
}

#[test]
fn a_body_that_is_cut_off_and_an_answer_that_is_not_http_are_errors() {
    for bad in ["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok", "SSH-2.0-OpenSSH_9.2\r\n\r\n", ""] {
        let error = ask(bad).unwrap_err();
        assert!(matches!(error, ApiError::Other(_)), "{bad:?}: {error:?}");
    }
}

#[test]
fn another_server_gets_neither_a_request_nor_our_client_certificate() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (theirs, ours, client) = (Pair::new("balancer"), Pair::new("kube-apiserver"), Pair::new("admin"));
        let config = tls(&theirs, Clients::MustShowACertificate, version);
        let (addr, server) = serve("127.0.0.1", move |mut tcp| {
            let mut connection = ServerConnection::new(config).unwrap();
            let failed = connection.complete_io(&mut tcp).is_err();
            (failed, connection.peer_certificates().is_some())
        });
        let identity = identity(&client);
        let error = get(&target(Scheme::Https, addr), "/readyz", Some(&identity), Some(ours.leaf()), LONG).unwrap_err();
        assert_eq!(error, ApiError::WrongServer);
        assert_eq!(server.join().unwrap(), (true, false));
    }
}

fn identity(pair: &Pair) -> Identity {
    Identity::from_pem(pair.certificate.pem().as_bytes(), pair.key.serialize_pem().as_bytes()).unwrap()
}

#[test]
fn the_leaf_is_kept_when_the_server_then_demands_a_certificate_that_we_lack() {
    for (version, completed) in [(&rustls::version::TLS12, false), (&rustls::version::TLS13, true)] {
        let pair = Pair::new("etcd");
        let (addr, server) = https(tls(&pair, Clients::MustShowACertificate, version), "");
        let seen = handshake(addr, None, None, LONG).unwrap();
        assert_eq!((seen.leaf_der.as_slice(), seen.completed), (pair.leaf(), completed));
        server.join().unwrap();
        let (addr, server) = https(tls(&pair, Clients::MustShowACertificate, version), "");
        let error = get(&target(Scheme::Https, addr), "/health", None, None, LONG).unwrap_err();
        // the server's alert can be overtaken by the end of the connection
        assert!(matches!(error, ApiError::Tls(_) | ApiError::Other(_)), "{error:?}");
        server.join().unwrap();
    }
}

#[test]
fn a_client_certificate_is_presented_where_it_is_asked_for() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["etcd".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2999, 1, 1);
        let pair = Pair { certificate: params.self_signed(&key).unwrap(), key };
        let (addr, server) = https(tls(&pair, Clients::MustShowACertificate, version), &reply("200 OK", "true"));
        let got = get(&target(Scheme::Https, addr), "/health", Some(&identity(&pair)), None, LONG).unwrap();
        assert_eq!((got.status, got.body.as_str()), (200, "true"));
        server.join().unwrap();
    }
}

#[test]
fn the_certificate_can_depend_on_the_name_that_is_asked_for() {
    let pair = Pair::new("any");
    let config = tls(&pair, Clients::Any, &rustls::version::TLS13);
    for (sni, expected) in [(Some("apiserver-loopback-client"), Some("apiserver-loopback-client")), (None, None)] {
        let config = Arc::clone(&config);
        let (addr, server) = serve("127.0.0.1", move |mut tcp| {
            let mut connection = ServerConnection::new(config).unwrap();
            let _ = connection.complete_io(&mut tcp);
            connection.server_name().map(str::to_owned)
        });
        handshake(addr, sni, None, LONG).unwrap();
        assert_eq!(server.join().unwrap().as_deref(), expected);
    }
}

#[test]
fn a_server_without_the_key_of_the_certificate_that_it_shows_has_proven_nothing() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (shown, held) = (Pair::new("kube-apiserver"), Pair::new("thief"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = provider.key_provider.load_private_key(held.key_der()).unwrap();
        let torn = rustls::sign::CertifiedKey::new(vec![shown.certificate.der().clone()], key);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(torn)));
        let (addr, server) = https(Arc::new(config), "");
        let error = handshake(addr, None, None, LONG).unwrap_err();
        assert!(matches!(error, TlsError::Handshake(_)), "{error:?}");
        server.join().unwrap();
    }
}

#[test]
fn plain_http_works_without_tls_and_over_ipv6() {
    for ip in ["127.0.0.1", "::1"] {
        if TcpListener::bind((ip, 0)).is_err() {
            println!("no {ip} on this machine: not tried");
            continue;
        }
        let (addr, server) = serve(ip, |tcp| answer(tcp, &reply("200 OK", "ok")));
        let got = get(&target(Scheme::Http, addr), "/healthz", None, None, LONG).unwrap();
        assert_eq!(got, Reply { status: 200, body: "ok".to_owned(), leaf_der: None });
        assert!(server.join().unwrap().to_ascii_lowercase().contains(&format!("host: {addr}\r\n")));
    }
}

#[test]
fn nobody_there_is_refused() {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in [Scheme::Http, Scheme::Https] {
        assert_eq!(get(&target(scheme, addr), "/", None, None, LONG).unwrap_err(), ApiError::Refused);
    }
    assert!(matches!(handshake(addr, None, None, LONG), Err(TlsError::Refused)));
}

#[test]
fn a_black_hole_and_a_server_that_trickles_hold_us_no_longer_than_the_deadline() {
    // accepts in the kernel and never answers
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap();
    assert_in_time(|| get(&target(Scheme::Https, addr), "/", None, None, SHORT).map(|_| ()));
    assert_in_time(|| get(&target(Scheme::Http, addr), "/", None, None, SHORT).map(|_| ()));
    assert!(matches!(handshake(addr, None, None, SHORT), Err(TlsError::TimedOut)));

    for head in ["HTTP/1.1 200 OK\r\nX-Slow: ", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"] {
        let (addr, server) = serve("127.0.0.1", move |mut tcp| {
            let mut sent = tcp.write_all(head.as_bytes());
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(5));
                sent = tcp.write_all(b"x");
            }
        });
        assert_in_time(|| get(&target(Scheme::Http, addr), "/", None, None, SHORT).map(|_| ()));
        server.join().unwrap();
    }
}

fn assert_in_time(ask: impl FnOnce() -> Result<(), ApiError>) {
    let begin = Instant::now();
    assert_eq!(ask(), Err(ApiError::TimedOut));
    assert!(begin.elapsed() >= SHORT && begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn a_server_that_speaks_no_tls_is_a_tls_error() {
    let (addr, server) = serve("127.0.0.1", |mut tcp| {
        let _ = tcp.read(&mut [0; 64]);
        let _ = tcp.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    });
    let error = get(&target(Scheme::Https, addr), "/", None, None, LONG).unwrap_err();
    assert!(matches!(error, ApiError::Tls(_)), "{error:?}");
    server.join().unwrap();
}

#[test]
fn a_client_certificate_is_read_from_pem_as_people_have_it() {
    let pair = Pair::new("admin");
    let (certificate, key) = (pair.certificate.pem(), pair.key.serialize_pem());
    let both = format!("some text\n{certificate}{key}").replace('\n', "\r\n");
    let marked = format!("\u{feff}{certificate}");
    for (certificate, key) in [(certificate.as_str(), key.as_str()), (&both, &both), (&marked, &key)] {
        Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    }
}

#[test]
fn a_torn_pair_and_what_is_no_pem_are_errors_that_show_no_key() {
    let (pair, other) = (Pair::new("admin"), Pair::new("other"));
    let (certificate, key) = (pair.certificate.pem(), pair.key.serialize_pem());
    let broken = key.replace("-----END", "----END");
    let table = [
        (certificate.as_str(), other.key.serialize_pem()),
        (certificate.as_str(), String::new()),
        (certificate.as_str(), broken),
        (certificate.as_str(), certificate.clone()),
        ("", key.clone()),
        ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", key.clone()),
    ];
    let secret = key.lines().nth(1).unwrap();
    for (certificate, key) in table {
        let error = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(matches!(error, TlsError::Identity(_)), "{error:?}");
        assert!(!error.to_string().contains(secret) && !format!("{error:?}").contains(secret));
    }
    assert_eq!(format!("{:?}", identity(&pair)), "Identity { .. }");
}
