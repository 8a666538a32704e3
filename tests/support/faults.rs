//! What a stand-in is to do wrong. Lists are worked off call by call; their last entry holds for every call after it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::events::Event;

/// Everything that can be made to go wrong in a world; the default is that nothing does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// One entry a call of `kubeadm certs renew`.
    pub renewals: Vec<Renewal>,
    /// kubeadm cannot read its ConfigMap: it says so and takes its defaults, stacked etcd among them.
    pub cluster_config_unreachable: bool,
    /// kubeadm refuses the file of `--config`: an API version that it no longer knows.
    pub config_refused: bool,
    /// One entry a removal of a sandbox (`crictl rmp`, `docker rm` of a pause container) or a stop of a container.
    pub removals: Vec<Removal>,
    /// How the kubelet answers a removal or a stop, by component (`kube-scheduler`).
    pub returns: BTreeMap<String, Return>,
    /// How the runtime answers at all.
    pub runtime: Runtime,
    /// The kubelet is down: what is removed or stopped does not come back.
    pub kubelet_down: bool,
    /// Images that the runtime does not have.
    pub missing_images: Vec<String>,
    /// What happens in the middle of calls.
    pub events: Vec<Event>,
    /// How the runtime tells what images it has.
    pub images: Images,
    /// `crictl info` does not tell the pause image.
    pub info_is_silent: bool,
    /// `crictl inspectp` does not tell the sandbox's image.
    pub sandboxes_are_silent: bool,
}

/// What one call of `kubeadm certs renew` does. Names are kubeadm's: `apiserver`, `admin.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    /// What the real one does.
    #[default]
    Ordinary,
    /// Says so and ends with 1; nothing is changed.
    Refuses,
    /// Ends with 1 at this certificate; those before it are renewed, those after it are not.
    StopsAt(String),
    /// Says that all is done and ends with 0; nothing is changed.
    DoesNothing,
    /// Prints its help and ends with 0; nothing is changed.
    PrintsHelp,
    /// Never ends; nothing is changed.
    Hangs,
    /// Never ends once it has come to this certificate.
    HangsAt(String),
    /// Does its work and ends with 0, and leaves a child behind that holds its output open.
    LeavesChild,
    /// Renews this directory of the node, whatever it was told.
    RenewsDirectory(String),
    /// A new key and the old certificate for this one; ends with 0.
    Tears(String),
    /// This one is signed by another CA of the same name; ends with 0.
    AnotherCa(String),
    /// This one gets another common name and loses its SANs; ends with 0.
    OtherNames(String),
    /// Killed by this signal between key and certificate of this one.
    KilledAt(String, i32),
    /// Waits so many milliseconds at each certificate.
    Slow(u64),
}

/// What one removal of a sandbox does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Removal {
    /// Removes it.
    #[default]
    Ordinary,
    /// Runs into crictl's own time-out; nothing is removed.
    DeadlineExceeded,
    /// Runs into crictl's own time-out, and the runtime removes it all the same.
    DeadlineExceededYetDone,
    /// Says that it is done; it is not.
    DoesNothing,
    /// Ends with 1.
    Fails,
    /// Never ends; nothing is removed.
    Hangs,
}

/// How the kubelet answers the removal of a static pod's sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Return {
    /// A new sandbox, ready, with its containers running.
    #[default]
    Ordinary,
    /// The new sandbox is seen only from this listing on (0 is the first after the removal).
    After(u32),
    /// Never.
    Never,
    /// A new sandbox that is not ready, without containers.
    NotReady,
    /// A new sandbox, its container exited.
    Crashes,
    /// Two new sandboxes: attempt 0, not ready, and attempt 1, ready.
    Twice,
}

/// How the container runtime answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runtime {
    /// As it should.
    #[default]
    Up,
    /// Not at all: `connect endpoint ... failed`, 1.
    Down,
    /// As it should, with warnings on stderr.
    Warns,
    /// With an empty list, 0.
    Empty,
}

/// How the runtime tells its images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Images {
    /// As it should.
    #[default]
    Listed,
    /// The list is empty.
    Empty,
    /// In words that are no list.
    Garbled,
    /// Not at all: 1.
    Refused,
}

/// The entry of call number `call` (from 0).
pub fn at<T: Clone + Default>(list: &[T], call: usize) -> T {
    list.get(call).or(list.last()).cloned().unwrap_or_default()
}

/// A list of so many times the one, then the other for ever.
pub fn then<T: Clone>(times: usize, first: T, after: T) -> Vec<T> {
    let mut list = vec![first; times];
    list.push(after);
    list
}
