//! Six states of a node, each with its servers, its journal and a clock that stands still, so that reports of it are the same
//! each time but for serials and ports.

use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use k8s_certs_renew::host::Clock;
use k8s_certs_renew::journal::Journal;

use crate::support::pki::{at, days};
use crate::support::site::Site;
use crate::support::tls_server::{Role, Shows, TlsServer};
use crate::support::tree::{HOST_ETCD, Layout, Plan};
use crate::support::world::demo;

/// A Tuesday in March 2026, eight days after the timer has fired. It fires next on 6 April at 03:00 in Berlin (01:00 UTC), and the
/// threshold is on 13 April at 03:31 there.
pub const NOW: &str = "2026-03-10T12:00:00Z";

/// When the job last ran, and ended well.
pub const LAST_RUN: &str = "2026-03-02T02:12:44Z";

/// The boot of every node here: a day ago, seconds before everything on it was started.
const BOOT: &str = "5f0c1c7e-8f8b-4d6e-9a53-1f8f4a3d2b10";
const UP: Duration = Duration::from_secs(86_400);

/// What kubeadm renews on these nodes.
pub const RENEWED: [&str; 6] = [
    "admin.conf",
    "apiserver",
    "apiserver-kubelet-client",
    "controller-manager.conf",
    "front-proxy-client",
    "scheduler.conf",
];

pub fn now() -> DateTime<Utc> {
    at(NOW)
}

/// Time stands still, so that what is told of ages is the same each time.
#[derive(Debug, Clone, Copy)]
pub struct Still {
    /// The wall clock.
    pub now: DateTime<Utc>,
    /// What the kernel says of it.
    pub synchronised: Option<bool>,
}

impl Clock for Still {
    fn now(&self) -> DateTime<Utc> {
        self.now
    }

    fn synchronised(&self) -> Option<bool> {
        self.synchronised
    }

    fn since_boot(&self) -> Duration {
        UP
    }

    fn sleep(&self, _how_long: Duration) {
        std::thread::yield_now();
    }
}

/// A node in some state, alive until it is dropped.
pub struct State {
    /// Its files, tools and servers.
    pub site: Site,
    /// Its clock.
    pub clock: Still,
    /// etcd's and the kubelet's server.
    pub servers: [TlsServer; 2],
}

/// A state's name, and how to make a node that is in it.
pub type Named = (&'static str, fn() -> State);

/// All six.
pub const ALL: [Named; 6] = [
    ("fresh", fresh),
    ("due", due),
    ("expired", expired),
    ("stale", stale),
    ("kubelet_broken", kubelet_broken),
    ("half_readable", half_readable),
];

/// All is well: everything lasts for 300 days, and is in use.
pub fn fresh() -> State {
    State::new(plan(300))
}

/// What kubeadm renews ends in twenty days: the next run renews it.
pub fn due() -> State {
    State::new(plan(20))
}

/// What kubeadm renews ended yesterday.
pub fn expired() -> State {
    State::new(plan(-1))
}

/// Everything was renewed by hand, and nothing was restarted.
pub fn stale() -> State {
    let state = State::new(plan(300));
    let mut journal = state.journal();
    state.note(&mut journal, 86_000);
    for name in RENEWED {
        state.site.tree.issue(name, now() + days(364));
    }
    state.note(&mut journal, 86_100);
    state.write(&journal);
    state.make_old();
    state
}

/// The kubelet is down, and its client certificate ended two days ago.
pub fn kubelet_broken() -> State {
    let state = State::new(plan(300).ends("kubelet-client-current.pem", now() - days(2)));
    state.site.world.fault(|faults| faults.kubelet_down = true);
    state
}

/// A kubeconfig that is a directory, one that is empty, a certificate that is cut off, a manifest that does not parse.
pub fn half_readable() -> State {
    let state = State::new(plan(300));
    let tree = &state.site.tree;
    tree.remove("/etc/kubernetes/admin.conf");
    std::fs::create_dir(tree.on_host("/etc/kubernetes/admin.conf")).unwrap();
    tree.write("/etc/kubernetes/scheduler.conf", "");
    tree.edit(&tree.pki("front-proxy-client.crt"), |text| text[..200].to_owned());
    tree.write("/etc/kubernetes/manifests/kube-controller-manager.yaml", "spec: [");
    state.make_old();
    state
}

/// The plan of a kubespray node where what kubeadm renews lasts for so many days more.
pub fn plan(left: i64) -> Plan {
    RENEWED.into_iter().fold(Plan::new(Layout::Kubespray, now()), |plan, name| plan.ends(name, now() + days(left)))
}

impl State {
    /// The node of a plan of kubespray's layout: the timer is enabled, everything runs, and the job ended well last time.
    pub fn new(plan: Plan) -> Self {
        let site = Site::new(&demo(), plan);
        let tree = &site.tree;
        tree.write("/etc/systemd/system/k8s-certs-renew.timer", include_str!("../../../units/k8s-certs-renew.timer"));
        tree.write(
            "/etc/systemd/system/k8s-certs-renew.service",
            include_str!("../../../units/k8s-certs-renew.service"),
        );
        let enabled = "/etc/systemd/system/timers.target.wants/k8s-certs-renew.timer";
        tree.link("/etc/systemd/system/k8s-certs-renew.timer", enabled);
        tree.link("/usr/share/zoneinfo/Europe/Berlin", "/etc/localtime");
        let servers = [etcd(&site), kubelet(&site)];
        let state = Self { site, clock: Still { now: now(), synchronised: Some(true) }, servers };
        state.write(&state.journal());
        state.make_old();
        state
    }

    /// What the job has noted: everything was on disk before anything was started.
    pub fn journal(&self) -> Journal {
        let mut journal = Journal::default();
        (journal.last_run, journal.last_success) = (Some(at(LAST_RUN)), Some(at(LAST_RUN)));
        journal.note_end(0, Duration::from_millis(1250));
        self.note(&mut journal, 5);
        journal
    }

    /// Notes what is on disk now, so many seconds after boot.
    pub fn note(&self, journal: &mut Journal, second: u64) {
        let inventory = self.site.tree.inventory();
        let on_disk = inventory.certificates.iter().filter_map(|one| Some((&*one.name, &*one.leaf.as_ref()?.serial)));
        journal.note_serials(on_disk, BOOT, Duration::from_secs(second));
    }

    /// Puts the journal on disk.
    pub fn write(&self, journal: &Journal) {
        journal.write(&self.site.tree.root(), false).unwrap();
    }

    /// Gives every file a time of two months ago: the fixture's own are of the machine's clock, which is another one.
    pub fn make_old(&self) {
        let seconds = u64::try_from((self.clock.now - days(60)).timestamp()).unwrap();
        for dir in ["etc", "root", "var"] {
            set_times(&self.site.tree.dir().join(dir), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        }
    }
}

fn set_times(dir: &Path, to: SystemTime) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            set_times(&path, to);
        } else if metadata.is_file() {
            std::fs::File::open(path).unwrap().set_modified(to).unwrap();
        }
    }
}

/// Host etcd as kubespray runs it: a service, its settings in its environment.
pub fn etcd(site: &Site) -> TlsServer {
    let (certificate, key) = (format!("{HOST_ETCD}/member-node1.pem"), format!("{HOST_ETCD}/member-node1-key.pem"));
    let shows = Shows::Files { certificate: certificate.clone().into(), key: key.into(), reloads: true };
    let role = Role { component: "kube-apiserver", shows, client_ca: None, loopback_ends: None };
    let server = TlsServer::start(&site.world, None, role);
    let port = server.port();
    let tree = &site.tree;
    tree.write("/proc/600/cmdline", "/usr/local/bin/etcd\0");
    tree.write("/proc/600/stat", "600 (etcd) S 1 600 600 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 9 0 900 0 0\n");
    tree.write(
        "/proc/600/environ",
        format!("ETCD_CERT_FILE={certificate}\0ETCD_LISTEN_CLIENT_URLS=https://127.0.0.1:{port}\0"),
    );
    server
}

/// The kubelet's own port, where it serves `kubelet.crt` and knows the cluster's clients.
fn kubelet(site: &Site) -> TlsServer {
    kubelet_knowing(site, &site.tree.pki("ca.crt"))
}

/// Likewise, with another file of the CAs whose clients it knows.
pub fn kubelet_knowing(site: &Site, client_ca: &str) -> TlsServer {
    let tree = &site.tree;
    let file = |name: &str| format!("/var/lib/kubelet/pki/{name}").into();
    let shows = Shows::Files { certificate: file("kubelet.crt"), key: file("kubelet.key"), reloads: true };
    let role = Role { component: "kube-apiserver", shows, client_ca: Some(client_ca.into()), loopback_ends: None };
    let server = TlsServer::start(&site.world, None, role);
    server.script(|script| script.without_client = Some(401));
    let port = server.port();
    tree.edit("/etc/kubernetes/kubelet-config.yaml", |text| {
        let rest: String =
            text.lines().filter(|line| !line.starts_with("port: ")).map(|line| format!("{line}\n")).collect();
        format!("{rest}port: {port}\n")
    });
    server
}
