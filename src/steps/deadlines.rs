//! Every deadline of a run, in one place.

use std::time::Duration;

use crate::runtime::Limits;

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
        }
    }
}

impl Deadlines {
    /// The longest that a whole run can take: the parts that follow one another, each at its end.
    pub fn total(&self) -> Duration {
        // what is begun just before a budget ends may still take its own time
        let call = self.limits.call();
        // three sockets, docker, and the list of the one that is chosen; its images, and the one of sandboxes in three questions
        let asked = call * (5 + 4);
        let runtime = self.runtime + asked;
        let renewal = self.renewal + self.kubeadm_call;
        // the list before the removal, the last look for a new sandbox and its container, and how both stand at the end
        let removed = self.removing * 2 + self.limits.removal() + call * 5;
        // the list before the stop, a last try to stop with a look at what came of it, the last look for the new container
        let question = self.members + self.probe;
        let stopped = self.reread + question + self.removing + self.grace.max(call) + call * 9;
        let one = removed.max(stopped) + self.back + self.proof;
        // the look for the metrics, at the end: all of that once more, and handshakes, which take less than a probe
        let metrics = asked + question + self.probe;
        runtime + question + renewal + self.restarts + one + self.ready + self.probe + metrics
    }
}
