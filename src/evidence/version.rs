//! What a version re-reads by itself.

use std::time::Duration;

use crate::node::Manifest;

/// A version of Kubernetes: major and minor.
pub type Version = (u32, u32);

/// Within this time kube-apiserver serves a new pair: 1.17 to 1.22 look every 60 s, later ones watch the files and look every
/// 60 s besides (apiserver `dynamiccertificates`). Half a minute more is for a busy machine.
pub const RELOAD: Duration = Duration::from_secs(90);

/// The version in the tag of the component's image, such as `registry.k8s.io/kube-apiserver:v1.29.3`; None where it has no
/// such tag, a digest alone for instance.
pub fn of(manifest: &Manifest) -> Option<Version> {
    manifest.containers.iter().find_map(|container| tag(&container.image))
}

/// Whether kube-apiserver re-reads its serving pair by itself: from 1.17 on. An unknown version is taken to do so, since
/// what it has not read after [`RELOAD`] is called stale all the same.
pub fn reloads_serving(version: Option<Version>) -> bool {
    version.is_none_or(|version| version >= (1, 17))
}

/// Whether client certificates that stand in files are re-read: from 1.18 on (client-go `cert_rotation.go`, used for kubelet and
/// for kubeconfigs that name files; the aggregator's front-proxy pair is dynamic too). An unknown version is taken not to.
pub fn reloads_client_files(version: Option<Version>) -> bool {
    version.is_some_and(|version| version >= (1, 18))
}

/// The version in a text such as `v1.29.3`; None where it is none.
pub fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.strip_prefix('v')?.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse().ok()
    });
    Some((numbers.next()??, numbers.next()??))
}

fn tag(image: &str) -> Option<Version> {
    let image = image.split('@').next()?;
    let (_, tag) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))?;
    parse(tag)
}

#[cfg(test)]
mod tests {
    use super::{reloads_client_files, reloads_serving, tag};

    #[test]
    fn the_version_is_in_the_tag_of_the_image() {
        let table = [
            ("k8s.gcr.io/kube-apiserver:v1.20.2", Some((1, 20))),
            ("registry:5000/kube-apiserver:v1.36.2-eks-1@sha256:abcd", Some((1, 36))),
            ("rancher/hardened-kubernetes:v1.9.3_rke2r1", Some((1, 9))),
            ("registry:5000/kube-apiserver", None),
            ("kube-apiserver@sha256:abcd", None),
            ("kube-apiserver:latest", None),
            ("kube-apiserver:v1", None),
            ("", None),
        ];
        for (image, version) in table {
            assert_eq!(tag(image), version, "{image}");
        }
    }

    #[test]
    fn an_unknown_version_is_taken_for_the_one_that_is_restarted_rather() {
        assert!(reloads_serving(None) && reloads_serving(Some((1, 17))) && !reloads_serving(Some((1, 16))));
        assert!(!reloads_client_files(None) && reloads_client_files(Some((1, 18))));
        assert!(!reloads_client_files(Some((1, 17))));
    }
}
