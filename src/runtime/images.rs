//! Which images a runtime has, and which one it makes sandboxes of.

use super::reference::{Reference, id};
use super::{Runtime, RuntimeError};

/// An image that is there, as the runtime tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The runtime's id of it.
    pub id: String,
    /// Its names: with tags, and with digests. What is no name (`<none>`) meets none.
    pub names: Vec<String>,
}

impl Image {
    /// Whether it is the image that this name, or id, asks for.
    pub fn is(&self, wanted: &str) -> bool {
        if let Some(wanted) = id(wanted) {
            return id(&self.id) == Some(wanted);
        }
        let wanted = Reference::parse(wanted);
        self.names.iter().any(|name| wanted.is_met_by(&Reference::parse(name)))
    }
}

impl Runtime {
    /// Every image that it has.
    ///
    /// # Errors
    /// The program failed, or its output cannot be read.
    pub fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        match self {
            Self::Cri(cri) => cri.images(),
            Self::Docker(docker) => docker.images(),
        }
    }

    /// The image that it makes sandboxes of, by its own word (the pause image); `None` where it gives none. docker's is
    /// dockershim's or cri-dockerd's affair.
    pub fn pause_image(&self) -> Option<String> {
        match self {
            Self::Cri(cri) => cri.pause_image(),
            Self::Docker(_) => None,
        }
    }

    /// The image that a sandbox was made of; `None` where it is not told.
    pub fn image_of(&self, sandbox_id: &str) -> Option<String> {
        match self {
            Self::Cri(cri) => cri.image_of(sandbox_id),
            Self::Docker(docker) => docker.image_of(sandbox_id),
        }
    }

    /// The command that fetches an image, for a person.
    pub fn pull(&self, image: &str) -> String {
        let program = if matches!(self, Self::Cri(_)) { "crictl" } else { "docker" };
        format!("{program} pull {image}")
    }
}
