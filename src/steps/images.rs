//! Whether the images of what is to be restarted are there. A pod that is removed without them comes back only when a registry
//! answers, and that may need the very control plane that is being restarted, or never be: nodes without a way out exist.

use std::collections::BTreeMap;

use crate::node::flags::flag;
use crate::node::proc::{Process, Processes};
use crate::runtime::{Image, Runtime};

use super::Context;

/// What was seen of the images.
#[derive(Debug, Clone, Default)]
pub struct Images {
    /// Why no pod at all would come back, if so: the image of their sandboxes is missing.
    pub no_pause: Option<String>,
    /// Components that would not come back: why.
    pub missing: BTreeMap<String, String>,
    /// Why it cannot be told which images there are. That is no reason to put anything off: a runtime that runs these pods has had
    /// their images, and the old job never looked.
    pub unseen: Option<String>,
    /// Whether it cannot be told which image sandboxes are made of.
    pub pause_untold: bool,
}

/// Looks for the images of these components, and for the pause image. `processes` are the node's, if it shows any, and `kubelet`
/// is the one of them that runs the pods.
pub fn look(
    context: &Context<'_>,
    runtime: &Runtime,
    components: &[&str],
    processes: Option<&Processes>,
    kubelet: Option<&Process>,
) -> Images {
    let images = match runtime.images() {
        Ok(images) if images.is_empty() => return unseen("it lists none, though it runs pods"),
        Ok(images) => images,
        Err(error) => return unseen(&error.to_string()),
    };
    let is_there = |wanted: &str| images.iter().any(|image: &Image| image.is(wanted));
    let missing = components.iter().filter_map(|component| {
        let wanted = context.node.manifest(component)?.images.iter().map(String::as_str);
        let missing: Vec<&str> = wanted.filter(|image| !is_there(image)).collect();
        let pulls: Vec<String> = missing.iter().map(|image| runtime.pull(image)).collect();
        let why = format!(
            "the container runtime does not have '{}', which {component} runs, so that would not come back where no registry answers ({})",
            missing.join("', '"),
            pulls.join("; ")
        );
        (!missing.is_empty()).then(|| ((*component).to_owned(), why))
    });
    let missing = missing.collect();
    let pause = pause_image(context, runtime, components, processes, kubelet);
    let no_pause = pause.as_deref().filter(|pause| !is_there(pause)).map(|pause| {
        format!(
            "the container runtime does not have its pause image '{pause}', so no pod would come back where no registry answers ({})",
            runtime.pull(pause)
        )
    });
    Images { missing, no_pause, unseen: None, pause_untold: pause.is_none() }
}

fn unseen(why: &str) -> Images {
    let why =
        format!("cannot tell which images the container runtime has, so a pod may need a registry to come back: {why}");
    Images { unseen: Some(why), ..Images::default() }
}

/// The image that sandboxes are made of. A CRI runtime has its own configuration; the kubelet's `--pod-infra-container-image` does
/// not reach it (kubelet flags: it only keeps that image from being collected). Where it does not say, it is the image
/// that runs now. cri-dockerd and dockershim go by their flag of that name.
fn pause_image(
    context: &Context<'_>,
    runtime: &Runtime,
    components: &[&str],
    processes: Option<&Processes>,
    kubelet: Option<&Process>,
) -> Option<String> {
    let in_use = || {
        let manifest = components.iter().find_map(|component| context.node.manifest(component))?;
        let pod = manifest.pod_name(context.node_name);
        let sandboxes = runtime.sandboxes(&manifest.component, &pod).ok()?;
        sandboxes.iter().find_map(|sandbox| runtime.image_of(&sandbox.id))
    };
    let by_flag = |process: &Process| {
        let image = flag(&process.argv, "--pod-infra-container-image")?;
        (!image.is_empty()).then(|| image.to_owned())
    };
    let cri_dockerd = processes.and_then(|processes| processes.find_named("cri-dockerd").into_iter().next());
    match runtime {
        Runtime::Cri(_) => runtime.pause_image().or_else(in_use).or_else(|| cri_dockerd.as_ref().and_then(by_flag)),
        Runtime::Docker(_) => cri_dockerd.as_ref().or(kubelet).and_then(by_flag).or_else(in_use),
    }
}
