//! The boundaries by name, how a run is killed there, and what is left for the next run.

use super::host::THE_END;

/// One boundary.
#[derive(Debug)]
pub struct Boundary {
    /// Where the run is killed.
    pub name: &'static str,
    /// How.
    pub how: How,
    /// What the next run calls and copies.
    pub next: Next,
}

/// How a run is killed at exactly this moment.
#[derive(Debug)]
pub enum How {
    /// When it has said a line with these words.
    Said(&'static str),
    /// Likewise; and this is what a write that was cut off leaves: a file with the beginning of what it was to hold.
    InWrite(&'static str, &'static str),
    /// By a stand-in tool, at this point of the call with these words and number.
    Tool(&'static str, usize, At),
    /// By a server that is asked: a component, and how often it answers before.
    Asked(&'static str, usize),
    /// Likewise, with a server that was restarted.
    AskedAgain(&'static str, usize),
}

/// A point of a tool's call.
#[derive(Debug, Clone, Copy)]
pub enum At {
    /// Nothing is done, and the tool dies too.
    Before,
    /// Nothing is done, and the tool goes on.
    BeforeToolGoesOn,
    /// Everything is done, and not yet answered.
    After,
}

/// What the next run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Whether kubeadm is called.
    pub renews: bool,
    /// The components that are restarted, by their first letters: `acs`.
    pub restarts: &'static str,
    /// How many copies of admin.conf are brought up to date.
    pub copies: usize,
}

const fn next(renews: bool, restarts: &'static str, copies: usize) -> Next {
    Next { renews, restarts, copies }
}

const fn at(name: &'static str, how: How, next: Next) -> Boundary {
    Boundary { name, how, next }
}

const EVERYTHING: Next = next(true, "acs", 2);
const ALL_RESTARTS: Next = next(false, "acs", 2);
const AFTER_APISERVER: Next = next(false, "cs", 2);
const LAST: Next = next(false, "s", 2);
const COPIES: Next = next(false, "", 2);
const NOTHING: Next = next(false, "", 0);

const SSL_PROBE: &str = "/etc/kubernetes/ssl/.k8s-certs-renew.probe";
const HALF_BACKUP: &str =
    "/var/lib/k8s-certs-renew/backups/.20260302T031000Z.partial/etc/kubernetes/.admin.conf.k8s-certs-renew";
const OLD_BACKUP: &str = "/var/lib/k8s-certs-renew/backups/.20260101T030000Z.partial/etc/kubernetes/admin.conf";
const STATE: &str = "/var/lib/k8s-certs-renew/.state.json.k8s-certs-renew";

/// Up to the call of kubeadm.
pub const BEFORE_KUBEADM: &[Boundary] = &[
    at("lock taken, nothing looked at", How::Asked("kube-apiserver", 0), EVERYTHING),
    at("looked, decided, nothing begun", How::Said("Check Expiration before renewal"), EVERYTHING),
    at("preflight: before the runtime is asked", How::Tool("crictl -t 60s pods", 0, At::Before), EVERYTHING),
    at("preflight: a probe file is left", How::InWrite("due  ", SSL_PROBE), EVERYTHING),
    at("before the backup", How::Tool("crictl -t 60s pods", 0, At::After), EVERYTHING),
    at("in the backup, some files saved", How::InWrite("due  ", HALF_BACKUP), EVERYTHING),
    at("after the backup, an old one half removed", How::InWrite("backed up", OLD_BACKUP), EVERYTHING),
    at("after the backup", How::Said("backed up"), EVERYTHING),
    at("in the write that opens the journal", How::InWrite("backed up", STATE), EVERYTHING),
    at("after the journal is opened", How::Said("Renewing certificates"), EVERYTHING),
    at("kubeadm called, nothing written", How::Tool("certs renew all", 0, At::Before), EVERYTHING),
];

/// From kubeadm's answer to the first restart. What kubeadm itself was writing is in `kubeadm.rs`.
pub const RENEWAL: &[Boundary] = &[
    at("kubeadm called, and goes on alone", How::Tool("certs renew all", 0, At::BeforeToolGoesOn), ALL_RESTARTS),
    at("kubeadm has ended, not answered", How::Tool("certs renew all", 0, At::After), ALL_RESTARTS),
    at("after kubeadm, files not read again", How::Said("kubeadm certs renew all --config"), ALL_RESTARTS),
    at("files read again and judged", How::Said("scheduler.conf renewed"), ALL_RESTARTS),
    at("before the first restart", How::Said("Restarting control plane pods"), ALL_RESTARTS),
];

/// For each component: before, in and after its restart.
pub const RESTARTS: &[Boundary] = &[
    at("kube-apiserver: before the removal", How::Said("removing the sandbox of 'kube-apiserver"), ALL_RESTARTS),
    at(
        "kube-apiserver: removal called, nothing done",
        How::Tool("rmp -f kube-apiserver@1", 0, At::Before),
        ALL_RESTARTS,
    ),
    at(
        "kube-apiserver: removal called, and goes on alone",
        How::Tool("rmp -f kube-apiserver@1", 0, At::BeforeToolGoesOn),
        ALL_RESTARTS,
    ),
    at("kube-apiserver: removed, not answered", How::Tool("rmp -f kube-apiserver@1", 0, At::After), ALL_RESTARTS),
    at("kube-apiserver: removed, not looked for", How::Tool("crictl -t 60s pods", 2, At::Before), ALL_RESTARTS),
    at("kube-apiserver: back, not asked for its health", How::Tool("ps -a", 0, At::After), ALL_RESTARTS),
    at("kube-apiserver: back, asked for its health", How::AskedAgain("kube-apiserver", 0), ALL_RESTARTS),
    at("kube-apiserver: back, not proven", How::Tool("ps -a", 1, At::After), ALL_RESTARTS),
    at("kube-apiserver: proven, not written down", How::Said("kube-apiserver restarted"), ALL_RESTARTS),
    at(
        "kube-controller-manager: before the removal",
        How::Said("removing the sandbox of 'kube-controller-manager"),
        AFTER_APISERVER,
    ),
    at(
        "kube-controller-manager: removal called, nothing done",
        How::Tool("rmp -f kube-controller-manager@1", 0, At::Before),
        AFTER_APISERVER,
    ),
    at(
        "kube-controller-manager: removal called, and goes on alone",
        How::Tool("rmp -f kube-controller-manager@1", 0, At::BeforeToolGoesOn),
        LAST,
    ),
    at(
        "kube-controller-manager: removed, not answered",
        How::Tool("rmp -f kube-controller-manager@1", 0, At::After),
        LAST,
    ),
    at("kube-controller-manager: removed, not looked for", How::Tool("crictl -t 60s pods", 4, At::Before), LAST),
    at("kube-controller-manager: back, not asked for its health", How::Tool("ps -a", 2, At::After), LAST),
    at("kube-controller-manager: back, asked for its health", How::AskedAgain("kube-controller-manager", 0), LAST),
    at("kube-controller-manager: back, not proven", How::Tool("ps -a", 3, At::After), LAST),
    at("kube-controller-manager: proven, not written down", How::Said("kube-controller-manager restarted"), LAST),
    at("kube-scheduler: before the removal", How::Said("removing the sandbox of 'kube-scheduler"), LAST),
    at("kube-scheduler: removal called, nothing done", How::Tool("rmp -f kube-scheduler@1", 0, At::Before), LAST),
    at(
        "kube-scheduler: removal called, and goes on alone",
        How::Tool("rmp -f kube-scheduler@1", 0, At::BeforeToolGoesOn),
        COPIES,
    ),
    at("kube-scheduler: removed, not answered", How::Tool("rmp -f kube-scheduler@1", 0, At::After), COPIES),
    at("kube-scheduler: removed, not looked for", How::Tool("crictl -t 60s pods", 6, At::Before), COPIES),
    at("kube-scheduler: back, not asked for its health", How::Tool("ps -a", 4, At::After), COPIES),
    at("kube-scheduler: back, asked for its health", How::AskedAgain("kube-scheduler", 0), COPIES),
    at("kube-scheduler: back, not proven", How::Tool("ps -a", 5, At::After), COPIES),
    at("kube-scheduler: proven, not written down", How::Said("kube-scheduler restarted"), COPIES),
];

/// The copies, and the wait for `/readyz`.
pub const COPIES_AND_WAIT: &[Boundary] = &[
    at("before the first copy", How::Said("Updating /root/.kube/config"), COPIES),
    at(
        "in the write of the first copy",
        How::InWrite("Updating /root/.kube/config", "/root/.kube/.config.k8s-certs-renew"),
        COPIES,
    ),
    at("between two copies", How::Said("Updating /home/ops/.kube/config"), next(false, "", 1)),
    at(
        "in the write of the second copy",
        How::InWrite("Updating /home/ops/.kube/config", "/home/ops/.kube/.config.k8s-certs-renew"),
        next(false, "", 1),
    ),
    at("after the copies, before the wait", How::Said("Waiting for apiserver"), NOTHING),
    at("in the wait: /readyz is asked", How::AskedAgain("kube-apiserver", 1), NOTHING),
    at("in the wait: /readyz was not ready", How::AskedAgain("kube-apiserver", 3), NOTHING),
    at("after the wait", How::Said("/readyz answered 200"), NOTHING),
];

/// The end.
pub const END: &[Boundary] = &[
    at("before the last write of the journal", How::Said("Expiration after renewal"), NOTHING),
    at("in the last write of the journal", How::InWrite("Expiration after renewal", STATE), NOTHING),
    at("after the last write of the journal", How::Said(THE_END), NOTHING),
];
