//! The look before the look: what a run needs before it comes to certificates.

use crate::exit::Failure;
use crate::node::Node;
use crate::node::proc::Processes;
use crate::settings::schedule::{Schedule, schedule};

use super::Job;

/// What is looked at before anything else, and has nothing to do with certificates.
#[derive(Debug)]
pub struct Ahead {
    /// Where things are.
    pub node: Node,
    /// What runs, where that shows.
    pub processes: Option<Processes>,
    /// When the job runs next, or why that cannot be told.
    pub schedule: Result<Schedule, Failure>,
}

impl Ahead {
    /// Side by side: on a busy node the list of processes takes as long as all unit files and manifests.
    pub fn look(job: &Job<'_>) -> Self {
        std::thread::scope(|scope| {
            let processes = scope.spawn(|| Processes::read(&job.root));
            let node = Node::look(job.root.clone(), &job.overrides);
            let schedule = schedule(&job.root, &job.wishes, job.now);
            // a thread that panicked has nothing to say; the panic itself has been told on stderr
            Self { node, processes: processes.join().unwrap_or_default(), schedule }
        })
    }
}
