//! Names of images, compared as runtimes do.

/// The registry of a name that gives none, and the directory there of a name that gives none either.
const DEFAULT: &str = "docker.io";
const OFFICIAL: &str = "library/";

/// The name of an image: `[registry/]path[:tag][@digest]`, or an id.
///
/// Read by the rules of distribution's `reference` package, which containerd, CRI-O, docker and the kubelet share: the part before
/// the first slash is a registry if it holds a dot, a colon or an upper-case letter, or is `localhost`; without one the image is
/// docker.io's, in `library/` if its path is a single word; without tag and digest it is `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    registry: Option<String>,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// Reads a name.
    pub fn parse(name: &str) -> Self {
        let (name, digest) = match name.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (name, None),
        };
        let (registry, rest) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (Some(first), rest),
            _ => (None, name),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag.to_owned())),
            None => (rest, None),
        };
        let registry = registry.map(|registry| if registry == "index.docker.io" { DEFAULT } else { registry });
        let is_short = !path.contains('/') && registry.is_none_or(|registry| registry == DEFAULT);
        Self {
            registry: registry.map(str::to_owned),
            path: if is_short { format!("{OFFICIAL}{path}") } else { path.to_owned() },
            tag: tag.or_else(|| digest.is_none().then(|| "latest".to_owned())),
            digest,
        }
    }

    /// Whether `other`, a name that the runtime lists, is the image that this name asks for. Where it has a digest, that decides,
    /// whatever the tag. A name without a registry is met by the same path in any: CRI-O looks it up in several
    /// (`registries.conf`), and a pod is rather restarted than put off for ever.
    pub fn is_met_by(&self, other: &Self) -> bool {
        let same_image = match &self.digest {
            Some(_) => self.digest == other.digest,
            None => self.tag == other.tag,
        };
        let of_default = |registry: &Option<String>| registry.as_deref().unwrap_or(DEFAULT).to_owned();
        let same_place = match &self.registry {
            Some(_) => self.path == other.path && of_default(&self.registry) == of_default(&other.registry),
            None => self.path == other.path || self.path.strip_prefix(OFFICIAL) == Some(&other.path),
        };
        same_image && same_place
    }
}

/// The digits of an id, `sha256:` taken off; `None` for a name. No image may have a name of 64 hexadecimal digits.
pub fn id(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("sha256:").unwrap_or(name);
    (digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))).then_some(digits)
}

fn is_registry(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.contains(|letter: char| letter.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{Reference, id};

    #[test]
    fn names_are_compared_as_runtimes_do() {
        const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
        let kube = "registry.k8s.io/kube-apiserver";
        let table = [
            (format!("{kube}:v1.30.1"), format!("{kube}:v1.30.1"), true),
            (format!("{kube}:v1.30.1"), format!("{kube}:v1.30.2"), false),
            (format!("{kube}:v1.30.1"), "k8s.gcr.io/kube-apiserver:v1.30.1".to_owned(), false),
            (kube.to_owned(), format!("{kube}:latest"), true),
            (format!("{kube}:latest"), kube.to_owned(), true),
            // without a registry
            ("etcd:3".to_owned(), "docker.io/library/etcd:3".to_owned(), true),
            ("docker.io/library/etcd:3".to_owned(), "etcd:3".to_owned(), true),
            ("docker.io/etcd:3".to_owned(), "docker.io/library/etcd:3".to_owned(), true),
            ("index.docker.io/etcd:3".to_owned(), "docker.io/library/etcd:3".to_owned(), true),
            ("kube-vip/kube-vip:v1".to_owned(), "docker.io/kube-vip/kube-vip:v1".to_owned(), true),
            ("kube-vip/kube-vip:v1".to_owned(), "ghcr.io/kube-vip/kube-vip:v1".to_owned(), true),
            ("etcd:3".to_owned(), "localhost/etcd:3".to_owned(), true),
            ("ghcr.io/kube-vip/kube-vip:v1".to_owned(), "kube-vip/kube-vip:v1".to_owned(), false),
            ("etcd:3".to_owned(), "docker.io/library/my-etcd:3".to_owned(), false),
            // what is a registry
            ("localhost/etcd:3".to_owned(), "docker.io/localhost/etcd:3".to_owned(), false),
            ("node1:5000/etcd:3".to_owned(), "node1:5000/etcd:3".to_owned(), true),
            ("node1:5000/etcd".to_owned(), "node1:5000/etcd:latest".to_owned(), true),
            ("node1:5000/etcd:3".to_owned(), "node1:5001/etcd:3".to_owned(), false),
            ("Node/etcd:3".to_owned(), "docker.io/Node/etcd:3".to_owned(), false),
            // a digest decides
            (format!("{kube}@{A}"), format!("{kube}@{A}"), true),
            (format!("{kube}:v1.30.1@{A}"), format!("{kube}@{A}"), true),
            (format!("{kube}:v1.30.1@{A}"), format!("{kube}@{B}"), false),
            (format!("{kube}:v1.30.1@{A}"), format!("{kube}:v1.30.1"), false),
            (format!("{kube}:v1.30.1"), format!("{kube}@{A}"), false),
            (format!("{kube}@{A}"), format!("k8s.gcr.io/kube-apiserver@{A}"), false),
        ];
        for (wanted, there, met) in table {
            let (wanted, there) = (Reference::parse(&wanted), Reference::parse(&there));
            assert_eq!(wanted.is_met_by(&there), met, "{wanted:?} by {there:?}");
        }
    }

    #[test]
    fn an_id_is_told_from_a_name() {
        let digits = "0123456789abcdef".repeat(4);
        assert_eq!(id(&digits), Some(digits.as_str()));
        assert_eq!(id(&format!("sha256:{digits}")), Some(digits.as_str()));
        for name in ["", "etcd", "sha256:01", &digits[1..], &digits.to_uppercase(), &format!("etcd@sha256:{digits}")] {
            assert_eq!(id(name), None, "{name}");
        }
    }
}
