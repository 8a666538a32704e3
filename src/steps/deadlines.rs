//! Every deadline of a run, in one place.

use std::time::Duration;

use crate::runtime::Limits;

/// How often a write of the Lease is tried in one go, where others are faster or answers are lost.
pub const WRITES: u32 = 3;
/// How many connections' time is spent on one question to the API, when one API server after another does not answer.
pub const SERVERS: u32 = 5;

/// How long each part of a run may take at most. The service's start time-out is longer than their [`Deadlines::total`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// One call of kubeadm. With the API in a black hole kubeadm 1.20 alone takes 40 s, and 48 s where the mirror pod
    /// lacks its annotation.
    pub kubeadm_call: Duration,
    /// All calls of kubeadm together.
    pub renewal: Duration,
    /// Until a container runtime that is still starting answers: a missed run fires right at boot.
    pub runtime: Duration,
    /// Calls of crictl or docker.
    pub limits: Limits,
    /// Until a sandbox that cannot be removed at first is given up.
    pub removing: Duration,
    /// Between two tries to remove one.
    pub removing_pause: Duration,
    /// Until a removed component is back.
    pub back: Duration,
    /// All restarts together.
    pub restarts: Duration,
    /// Until a component that re-reads its files by itself (etcd) shows the new ones; then it is restarted.
    pub reread: Duration,
    /// Between two looks at what it shows.
    pub reread_pause: Duration,
    /// Until etcd has told its members, whatever its addresses; each other member is then asked within [`Deadlines::probe`], all at once.
    pub members: Duration,
    /// How long a container that is stopped gently has to end by itself (kubelet's own default is 30 s).
    pub grace: Duration,
    /// Until kube-apiserver's `/readyz` answers at the end (`--ready-timeout`).
    pub ready: Duration,
    /// All handshakes with one component, when it is looked at what is in use. Short, since a skip run waits for it where a server
    /// hangs, and no harm: what does not answer is unknown, and that restarts nothing.
    pub handshakes: Duration,
    /// Until a component that is back is proven to use what is on disk.
    pub proof: Duration,
    /// One look at a health endpoint.
    pub probe: Duration,
    /// Between two looks at a health endpoint.
    pub pause: Duration,
    /// Between two questions to the container runtime.
    pub runtime_pause: Duration,
    /// Until it is this node's turn to restart (`--turn-timeout`).
    pub turn: Duration,
    /// Until the others carry the load again, when that is looked at once more while this node has the turn.
    pub others: Duration,
    /// One connection to an API server, its answer included.
    pub api: Duration,
    /// One Event, and one look at whose turn it is for a report: whoever does not answer.
    pub event: Duration,
    /// One hook before or after a restart (`--hook-timeout`).
    pub hook: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            kubeadm_call: Duration::from_secs(3 * 60),
            renewal: Duration::from_secs(10 * 60),
            runtime: Duration::from_secs(2 * 60),
            limits: Limits { tries: 1, ..Limits::default() },
            removing: Duration::from_secs(20),
            removing_pause: Duration::from_secs(1),
            back: Duration::from_secs(5 * 60),
            restarts: Duration::from_secs(20 * 60),
            reread: Duration::from_secs(90),
            reread_pause: Duration::from_secs(1),
            members: Duration::from_secs(5),
            grace: Duration::from_secs(30),
            ready: Duration::from_secs(5 * 60),
            handshakes: Duration::from_millis(300),
            proof: Duration::from_secs(90),
            probe: Duration::from_secs(3),
            pause: Duration::from_millis(40),
            runtime_pause: Duration::from_millis(300),
            turn: Duration::from_secs(30 * 60),
            others: Duration::from_secs(30),
            api: Duration::from_secs(3),
            event: Duration::from_secs(2),
            hook: Duration::from_secs(2 * 60),
        }
    }
}

impl Deadlines {
    /// The longest that a whole run can take: the parts that follow one another, each at its end.
    pub fn total(&self) -> Duration {
        let call = self.limits.call();
        // three sockets, docker, and the list of the one that is chosen; its images, and the one of sandboxes in three questions
        let asked = call * (5 + 4);
        let runtime = self.runtime + asked;
        let renewal = self.renewal + self.kubeadm_call;
        // hooks that an earlier run owes; a look at whose turn it is, begun just before the time for it ends, and what was taken in vain
        let turn = self.hook * 2 + self.turn + self.look() + self.given_back();
        // the look for the metrics, at the end: all of that once more, handshakes, which take less than a probe, and whose turn it is
        let metrics = asked + self.members() + self.probe + self.event;
        // at the start and at the end
        let events = self.event * 2;
        runtime + self.members() + renewal + turn + self.holding() + events + metrics
    }

    /// The longest that a run has the turn: from its taking, over the last restart that is begun just before the time for restarts ends,
    /// until it is given back. So long the Lease is good, and need not be renewed while this node's own API server is down.
    pub fn holding(&self) -> Duration {
        self.look() + self.restarts + self.last() + self.ready + self.probe + self.given_back()
    }

    /// The longest that one restart takes, with a look at the others before it, and its hooks.
    pub fn last(&self) -> Duration {
        let call = self.limits.call();
        // what is begun just before a budget ends may still take its own time:
        // the list before the removal, the last look for a new sandbox and its container, and how both stand at the end
        let removed = self.removing * 2 + self.limits.removal() + call * 5;
        // the list before the stop, a last try to stop with a look at what came of it, the last look for the new container
        let stopped = self.reread + self.members() + self.removing + self.grace.max(call) + call * 9;
        let again = self.question() + self.others + self.question() * 3 + self.api * 2;
        again + self.hook * 2 + removed.max(stopped) + self.back + self.proof
    }

    /// etcd's members, and how they are.
    fn members(&self) -> Duration {
        self.members + self.probe
    }

    /// One question to the API: the last connection is begun just before the time for it ends, and has a handshake of its own.
    fn question(&self) -> Duration {
        self.api * (SERVERS + 2)
    }

    /// One look at whose turn it is: who the others are (three questions), who has it, and each try to take it; etcd and the others are
    /// looked at before and after.
    fn look(&self) -> Duration {
        self.question() * (4 + WRITES) + self.api * WRITES + (self.members() + self.api * 2) * 2
    }

    fn given_back(&self) -> Duration {
        (self.question() + self.api) * WRITES
    }
}
