//! The container runtime, through its command line: which static pods run, and their removal.

pub mod choose;
pub mod cri;
pub mod docker;
pub mod images;
mod json;
mod reference;

use std::path::Path;
use std::time::Duration;

pub use choose::{Around, Wanted, choose};
pub use cri::Cri;
pub use docker::Docker;
pub use images::Image;

use crate::host::{Call, CommandError, Output, ToolError};

/// The namespace of kubeadm's static pods.
pub const NAMESPACE: &str = "kube-system";

/// How static pods are listed and removed on this node.
#[derive(Debug, Clone)]
pub enum Runtime {
    /// A CRI runtime (containerd, CRI-O, cri-dockerd), through crictl.
    Cri(Cri),
    /// Docker under the kubelet's own dockershim (until Kubernetes 1.23).
    Docker(Docker),
}

/// A static pod's sandbox, as the runtime tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id of it.
    pub id: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's label `component`, where it has one and the runtime tells.
    pub component: Option<String>,
    /// Whether the pod comes from a file of the kubelet's (annotation `kubernetes.io/config.source`).
    pub static_file: bool,
    /// Whether it is up. A sandbox that is not ready is never a running pod.
    pub ready: bool,
    /// The kubelet's count; it begins anew when the sandbox before it was removed.
    pub attempt: u32,
    /// Created, in nanoseconds since 1970 by the wall clock of that moment; 0 where it is not told.
    pub created_at_ns: i64,
    /// The pod's UID: for a static pod the hash of its manifest, the same after each restart.
    pub uid: String,
}

/// A container, as the runtime tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id of it.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// The sandbox that it is in.
    pub sandbox_id: String,
    /// Whether it runs.
    pub running: bool,
    /// The kubelet's count of its restarts.
    pub attempt: u32,
    /// Its image.
    pub image: String,
    /// Created, in nanoseconds since 1970 by the wall clock of that moment; 0 where it is not told.
    pub created_at_ns: i64,
}

/// How long a call may take, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one call of crictl to the runtime (`-t`). Its own default of 2 s bounds each call since crictl 1.24 and makes the
    /// removal of a slow pod fail.
    pub rpc: Duration,
    /// What the program gets beyond that before it is killed.
    pub margin: Duration,
    /// How often a removal is tried.
    pub tries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rpc: Duration::from_secs(60), margin: Duration::from_secs(10), tries: 3 }
    }
}

impl Limits {
    /// The longest that one call takes.
    pub fn call(&self) -> Duration {
        self.rpc + self.margin
    }

    /// The longest that one removal takes: each try, and a look at its outcome after each.
    pub fn removal(&self) -> Duration {
        self.call() * 2 * self.tries
    }
}

/// What went wrong with the runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The program that speaks to it is missing.
    #[error("the container runtime cannot be asked: {0}")]
    Tool(#[from] ToolError),
    /// There is nothing to ask.
    #[error("no container runtime was found: neither an endpoint nor docker")]
    NoEndpoint,
    /// The program could not be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The program failed.
    #[error("{call} failed: {words}")]
    Failed {
        /// The command line.
        call: String,
        /// How it ended, and its last words.
        words: String,
    },
    /// The program ended well but its output is not what it should be.
    #[error("{call} gave output that cannot be read: {why}")]
    Output {
        /// The command line.
        call: String,
        /// What is wrong.
        why: String,
    },
}

impl Runtime {
    /// The sandboxes, ready or not, of the static pod with exactly this name in `kube-system`; the newest first.
    ///
    /// Chosen by us from the runtime's answer: namespace, name, origin from a file, and the label `component` where the pod has
    /// one. No pattern of a program's is trusted with that: crictl's and docker's filters match parts of names (cri-tools #1810).
    ///
    /// # Errors
    /// The runtime does not answer, or not in a way that can be read.
    pub fn sandboxes(&self, component: &str, pod: &str) -> Result<Vec<Sandbox>, RuntimeError> {
        let mut found = self.all()?;
        found.retain(|sandbox| {
            sandbox.pod == pod && sandbox.component.as_deref().is_none_or(|label| label == component)
        });
        Ok(found)
    }

    /// The sandboxes of all static pods in `kube-system`, the newest first.
    ///
    /// # Errors
    /// As [`Runtime::sandboxes`].
    pub fn all(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let mut found = match self {
            Self::Cri(cri) => cri.sandboxes()?,
            Self::Docker(docker) => docker.sandboxes()?,
        };
        found.retain(|sandbox| sandbox.static_file && sandbox.namespace == NAMESPACE);
        found.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created_at_ns, sandbox.attempt)));
        Ok(found)
    }

    /// The containers in a sandbox, running or not, the newest first.
    ///
    /// # Errors
    /// As [`Runtime::sandboxes`].
    pub fn containers_of(&self, sandbox_id: &str) -> Result<Vec<Container>, RuntimeError> {
        let mut found = match self {
            Self::Cri(cri) => cri.containers()?,
            Self::Docker(docker) => docker.containers()?,
        };
        found.retain(|container| container.sandbox_id == sandbox_id);
        found.sort_by_key(|container| std::cmp::Reverse((container.created_at_ns, container.attempt)));
        Ok(found)
    }

    /// Stops and removes a sandbox and its containers at once, so that the kubelet makes new ones. When the program fails, the
    /// list is asked for the truth, and the removal tried again, [`Limits::tries`] times in all.
    ///
    /// # Errors
    /// The sandbox is still there; the error is that of the last try.
    pub fn remove(&self, sandbox_id: &str) -> Result<(), RuntimeError> {
        let mut tries = self.limits().tries;
        loop {
            let Err(error) = self.remove_once(sandbox_id) else { return Ok(()) };
            if self.is_gone(sandbox_id) {
                return Ok(());
            }
            tries = tries.saturating_sub(1);
            if tries == 0 {
                return Err(error);
            }
        }
    }

    /// Removes containers that were left behind in these sandboxes, which are gone: one that the kubelet was just making when its
    /// sandbox was removed. A kubelet does not start any more beside such a container (kubelet 1.20.2: `failed to build map of
    /// initial containers from runtime: no PodsandBox found`, seen). docker's go with their sandbox.
    ///
    /// # Errors
    /// The runtime does not answer, or one of them cannot be removed.
    pub fn remove_leftovers(&self, gone: &[String]) -> Result<(), RuntimeError> {
        let Self::Cri(cri) = self else { return Ok(()) };
        let mut left = cri.containers()?.into_iter().filter(|container| gone.contains(&container.sandbox_id));
        left.try_for_each(|container| cri.remove_container(&container.id))
    }

    /// Stops a container gently: SIGTERM, and SIGKILL after `grace`. The kubelet starts it again in the same sandbox.
    ///
    /// # Errors
    /// The program failed.
    pub fn stop(&self, container_id: &str, grace: Duration) -> Result<(), RuntimeError> {
        match self {
            Self::Cri(cri) => cri.stop(container_id, grace),
            Self::Docker(docker) => docker.stop(container_id, grace),
        }
    }

    /// Whether the runtime answers at all.
    ///
    /// # Errors
    /// Why it does not.
    pub fn answers(&self) -> Result<(), RuntimeError> {
        self.all().map(|_| ())
    }

    /// The limits that this runtime's calls keep to.
    pub fn limits(&self) -> Limits {
        match self {
            Self::Cri(cri) => cri.limits,
            Self::Docker(docker) => docker.limits,
        }
    }

    fn remove_once(&self, sandbox_id: &str) -> Result<(), RuntimeError> {
        match self {
            Self::Cri(cri) => cri.remove(sandbox_id),
            Self::Docker(docker) => docker.remove(sandbox_id),
        }
    }

    /// Whether neither the sandbox nor a container of it is left. What cannot be seen is not gone.
    fn is_gone(&self, sandbox_id: &str) -> bool {
        match self {
            Self::Cri(cri) => cri.sandboxes().is_ok_and(|left| left.iter().all(|sandbox| sandbox.id != sandbox_id)),
            Self::Docker(docker) => docker.is_gone(sandbox_id),
        }
    }
}

/// Runs one of the runtimes' programs; its stderr is for messages only, never data.
fn run(program: &Path, args: &[&str], limits: Limits) -> Result<Output, RuntimeError> {
    let output = Call::new(program).args(args.iter().copied()).deadline(limits.call()).run()?;
    if output.success() {
        return Ok(output);
    }
    Err(RuntimeError::Failed { call: words(program, args), words: output.last_words() })
}

fn words(program: &Path, args: &[&str]) -> String {
    format!("`{} {}`", program.display(), args.join(" "))
}
