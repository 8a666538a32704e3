//! Waiting for kube-apiserver: this very one, with the new login, and not for ever.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_certs_renew::host::Signals;

use super::seen::{
    APISERVER, CONTROLLER_MANAGER, RENEW_ALL, SCHEDULER, changed, files, owed, renewed_and_copied, run_impatiently,
};
use super::{now, run, run_by, site};
use crate::support::clock::StillClock;
use crate::support::faults::then;
use crate::support::net::{Server, listen, nobody};
use crate::support::servers;
use crate::support::site::Site;
use crate::support::tls_server::{Answer, TlsServer};
use crate::support::tree::HOST_ETCD;

const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// Gives kube-apiserver other flags: its port, and where it binds to.
fn listens(site: &Site, bind: Option<&str>, port: u16) {
    let old = format!("--secure-port={}", site.tree.plan.shape.apiserver);
    let bind = bind.map(|address| format!("\n    - '--bind-address={address}'")).unwrap_or_default();
    site.tree.edit(MANIFEST, |text| {
        assert!(text.contains(&old), "{text}");
        text.replace(&old, &format!("--secure-port={port}{bind}"))
    });
}

/// A kube-apiserver of this node on that listener; `client_ca` is the node path of its clients' CA.
fn apiserver(site: &Site, listener: Option<TcpListener>, client_ca: &str) -> TlsServer {
    let file = |name: &str| PathBuf::from(site.tree.pki(name));
    let role = servers::apiserver(&site.world, file("apiserver.crt"), file("apiserver.key"), client_ca.into());
    TlsServer::start(&site.world, listener, role)
}

#[test]
fn where_strangers_are_turned_away_the_new_admin_conf_is_let_in() {
    for status in [401, 403] {
        let site = site(5);
        site.servers.apiserver.script(|script| script.without_client = Some(status));
        let ran = run(&site, &["--detailed-exitcode"]);
        assert_eq!(ran.code, 10, "{status}: {}", ran.text());
        let new = site.tree.inventory();
        let new = &new.get("admin.conf").unwrap().leaf.as_ref().unwrap().serial;
        let requests = site.servers.apiserver.requests();
        assert!(!requests.is_empty());
        for request in requests {
            assert_eq!((request.path.as_str(), request.status), ("/readyz", 200), "{status}");
            let (_, shown) = x509_parser::parse_x509_certificate(request.client.as_deref().unwrap()).unwrap();
            let shown: String = shown.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown.trim_start_matches('0'), new.replace(':', "").to_lowercase().trim_start_matches('0'));
        }
    }
}

#[test]
fn a_server_that_does_not_accept_the_new_admin_conf_is_not_ready_and_that_is_said() {
    let site = site(5);
    let other = apiserver(&site, None, &format!("{HOST_ETCD}/ca.pem"));
    listens(&site, None, other.port());
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    let said = "answers 401: it does not accept admin.conf's certificate";
    assert!(
        ran.err.contains(&format!("error: kube-apiserver is not back: 127.0.0.1:{} {said}", other.port())),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("error: kube-apiserver is not ready after 300 s: "), "{}", ran.err);
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER]);
    assert_eq!(owed(&site).unwrap(), ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);
}

#[test]
fn without_a_usable_admin_conf_an_answer_of_401_is_explained() {
    let site = site(5);
    site.tree.write("/etc/kubernetes/admin.conf", "apiVersion: v1\nkind: Config\nusers: []\n");
    site.servers.apiserver.script(|script| script.without_client = Some(401));
    let ran = run_impatiently(&site, &[]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("it serves, but whether it is ready it tells no stranger"), "{}", ran.text());
}

#[test]
fn the_address_is_the_manifests() {
    for (bind, listen_on) in
        [("127.0.0.2", "127.0.0.2:0"), ("::", "[::1]:0"), ("::1", "[::1]:0"), ("0.0.0.0", "127.0.0.1:0")]
    {
        let Ok(listener) = TcpListener::bind(listen_on) else {
            println!("not tried, since this machine has no such address: {listen_on}");
            continue;
        };
        let site = site(5);
        let server = apiserver(&site, Some(listener), &site.tree.pki("ca.crt"));
        listens(&site, Some(bind), server.port());
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{bind}: {}", ran.text());
        assert!(server.requests().iter().any(|request| request.status == 200), "{bind}");
        assert_eq!(site.servers.apiserver.requests(), [], "{bind}: nobody was asked elsewhere");
    }
}

#[test]
fn another_server_at_the_address_is_never_taken_for_this_one() {
    let site = site(5);
    // a load balancer in front of another node, whose kube-apiserver has another certificate
    let elsewhere = Site::new(&crate::support::world::demo(), super::plan(300));
    listens(&site, None, elsewhere.servers.apiserver.port());
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    assert!(ran.err.contains("shows another certificate than the one on disk"), "{}", ran.err);
    assert_eq!(elsewhere.servers.apiserver.requests(), [], "it got no request, so no login either");
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER]);
}

#[test]
fn an_old_process_that_does_not_re_read_its_files_is_not_ready() {
    let site = site(5);
    let port = {
        let file = |name: &str| PathBuf::from(site.tree.pki(name));
        let mut role = servers::apiserver(&site.world, file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
        if let crate::support::tls_server::Shows::Files { reloads, .. } = &mut role.shows {
            *reloads = false;
        }
        // another component's pod: it is not started anew by the restart of kube-apiserver
        role.component = "kube-scheduler";
        let server = TlsServer::start(&site.world, None, role);
        listens(&site, None, server.port());
        server
    };
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    assert!(ran.err.contains("kube-apiserver has not read it yet"), "{}", ran.err);
    drop(port);
}

#[test]
fn a_server_that_is_not_ready_at_first_is_waited_for() {
    for answer in [Answer::Status(500), Answer::Status(429), Answer::Status(503), Answer::Closes] {
        let site = site(5);
        site.servers.apiserver.script(|script| script.restarted = then(20, answer, Answer::Ready));
        let clock = StillClock::at(now());
        let ran = run_by(&clock, &site, &["--detailed-exitcode"], &Signals::none());
        assert_eq!(ran.code, 10, "{answer:?}: {}", ran.text());
        assert!(clock.slept().as_millis() >= 20 * 40, "{answer:?}: {:?}", clock.slept());
        assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER], "{answer:?}");
    }
}

/// Passes a connection on, byte by byte.
fn pass_on(client: TcpStream, port: u16) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", port))?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let there = std::thread::spawn(move || io::copy(&mut from, &mut to));
    let (mut from, mut to) = (server, client);
    let back = io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = there.join();
    back.map(|_| ())
}

#[test]
fn broken_connections_are_states_and_no_errors() {
    let site = site(5);
    let (behind, count) = (site.servers.apiserver.port(), AtomicUsize::new(0));
    let front = Server::start(listen(), move |mut client| match count.fetch_add(1, Ordering::Relaxed) {
        // gone at once
        0 | 4 => Ok(()),
        // gone with unread bytes: a reset
        1 | 5 => client.peek(&mut [0; 16]).map(|_| ()),
        // no TLS
        2 => client.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"),
        // the end in the middle of a handshake
        3 => {
            client.peek(&mut [0; 16])?;
            client.write_all(&[0x16, 3, 3, 0, 122, 2, 0])
        }
        _ => pass_on(client, behind),
    });
    listens(&site, None, front.port());
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
}

#[test]
fn a_time_out_names_the_failing_checks() {
    let site = site(5);
    // seen back once, then broken
    site.servers.apiserver.script(|script| script.restarted = then(1, Answer::Ready, Answer::Status(500)));
    let ran = run_by(
        &StillClock::at(now()).oversleeping(std::time::Duration::from_secs(2)),
        &site,
        &["--ready-timeout", "7s"],
        &Signals::none(),
    );
    assert_eq!(ran.code, 22, "{}", ran.text());
    let port = site.servers.apiserver.port();
    let said = format!("error: kube-apiserver is not ready after 7 s: 127.0.0.1:{port} answers 500, failing: etcd");
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER, CONTROLLER_MANAGER, SCHEDULER]);
    assert_eq!(ran.headlines().last(), Some(&"Expiration after renewal"));
    assert_eq!(owed(&site), None, "every component was seen back");
    let before = site.serials();
    site.servers.apiserver.script(|_| {});
    assert_eq!(run(&site, &[]).code, 0);
    assert_eq!(site.renewed_since(&before), Vec::<String>::new());
}

#[test]
fn the_wait_is_as_long_as_it_was_said_and_no_longer() {
    for (time, looks) in [("0", 1), ("1s", 2), ("10s", 11), ("1min 30s", 91)] {
        let site = site(5);
        site.servers.apiserver.script(|script| script.restarted = then(1, Answer::Ready, Answer::Status(500)));
        let clock = StillClock::at(now()).oversleeping(std::time::Duration::from_secs(1));
        let ran = run_by(&clock, &site, &["--ready-timeout", time], &Signals::none());
        assert_eq!(ran.code, 22, "{time}: {}", ran.text());
        // one more for the restart
        assert_eq!(site.servers.apiserver.requests().len(), looks + 1, "{time}");
    }
    let ran = run(&site(5), &["--ready-timeout", "soon"]);
    assert_eq!(ran.code, 64, "{}", ran.text());
}

// W06
#[test]
fn a_server_that_never_listens_ends_the_wait_and_the_state_of_its_container_is_told() {
    let site = site(5);
    let port = nobody();
    listens(&site, None, port);
    let before = files(&site);
    let ran = run_impatiently(&site, &[]);
    assert_eq!(ran.code, 22, "{}", ran.text());
    let not_back = ran.err.lines().find(|line| line.starts_with("error: kube-apiserver is not back: ")).unwrap();
    assert!(not_back.contains(&format!("127.0.0.1:{port}: connection refused")), "{not_back}");
    assert!(not_back.contains(" ready: container kube-apiserver (attempt 0) running"), "{not_back}");
    assert!(ran.err.contains("error: kube-apiserver is not ready after 300 s: "), "{}", ran.err);
    assert_eq!(site.world.acts(), [RENEW_ALL, APISERVER]);
    assert_eq!(changed(&before, &files(&site)), renewed_and_copied());
    let broken: Vec<_> =
        site.tree.inventory().certificates.into_iter().filter(|one| !one.problems.is_empty()).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
