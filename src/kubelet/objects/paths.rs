//! Where objects are, by kube-apiserver's version. Where that is unknown, as the versions of today have them.

use crate::evidence::version::Version;

/// The certificate signing requests: `v1` from 1.19, `v1beta1` from 1.4 to 1.21 (Kubernetes' API deprecation guide).
pub fn requests(version: Option<Version>) -> String {
    format!("/apis/certificates.k8s.io/{}/certificatesigningrequests", since(version, (1, 19)))
}

/// One of them. Its name is whatever somebody gave it: kube-apiserver forbids `/` and `%` only.
pub fn request(version: Option<Version>, name: &str) -> String {
    format!("{}/{}", requests(version), encoded(name))
}

/// Its subresource by which it is approved.
pub fn approval(version: Option<Version>, name: &str) -> String {
    format!("{}/approval", request(version, name))
}

/// Objects of RBAC: `v1` from 1.8, `v1beta1` from 1.6 to 1.21.
pub fn rbac(version: Option<Version>, kind: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/{}/{kind}", since(version, (1, 8)))
}

/// The deployments of every namespace: `apps/v1` from 1.9, `apps/v1beta1` from 1.6 to 1.15.
pub fn deployments(version: Option<Version>) -> &'static str {
    match since(version, (1, 9)) {
        "v1" => "/apis/apps/v1/deployments",
        _ => "/apis/apps/v1beta1/deployments",
    }
}

/// The version of an API that became `v1` in this version of Kubernetes.
pub fn since(version: Option<Version>, first: Version) -> &'static str {
    if version.is_none_or(|version| version >= first) { "v1" } else { "v1beta1" }
}

/// A name or a value as a part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
