//! Certificate signing requests as kubelets make them, and as others do.

use base64::Engine;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

/// A request for a serving certificate; [`Csr::of`] gives the one that a kubelet makes, change what a test is about.
#[derive(Debug, Clone)]
pub struct Csr {
    pub name: String,
    pub user: String,
    pub groups: Vec<&'static str>,
    pub signer: Option<&'static str>,
    pub usages: Vec<&'static str>,
    pub expires: Option<i64>,
    pub common_name: String,
    pub organizations: Vec<&'static str>,
    pub sans: Vec<SanType>,
    pub extensions: Vec<(Vec<u64>, Vec<u8>)>,
    pub attributes: Vec<rcgen::Attribute>,
}

pub fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

pub fn ip(address: &str) -> SanType {
    SanType::IpAddress(address.parse().unwrap())
}

impl Csr {
    /// What the kubelet of this node asks for.
    pub fn of(name: &str, node: &str, sans: Vec<SanType>) -> Self {
        Self {
            name: name.to_owned(),
            user: format!("system:node:{node}"),
            groups: vec!["system:nodes", "system:authenticated"],
            signer: Some("kubernetes.io/kubelet-serving"),
            usages: vec!["digital signature", "key encipherment", "server auth"],
            expires: None,
            common_name: format!("system:node:{node}"),
            organizations: vec!["system:nodes"],
            sans,
            extensions: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// The good one of node1.
    pub fn node1(name: &str) -> Self {
        Self::of(name, "node1", vec![dns("node1"), ip("192.0.2.10")])
    }

    /// The good one of node2, a worker.
    pub fn node2(name: &str) -> Self {
        Self::of(name, "node2", vec![dns("node2"), ip("192.0.2.11")])
    }

    /// With something changed.
    pub fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// PKCS#10.
    pub fn der(&self) -> Vec<u8> {
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        // of one kind rcgen keeps one, so a second organization goes by its OID
        for (index, organization) in self.organizations.iter().enumerate() {
            let kind = if index == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) };
            name.push(kind, *organization);
        }
        name.push(DnType::CommonName, self.common_name.as_str());
        params.distinguished_name = name;
        params.subject_alt_names = self.sans.clone();
        for (oid, content) in &self.extensions {
            params.custom_extensions.push(CustomExtension::from_oid_content(oid, content.clone()));
        }
        let key = KeyPair::generate().unwrap();
        params.serialize_request_with_attributes(&key, self.attributes.clone()).unwrap().der().to_vec()
    }

    /// The object, pending, an hour old.
    pub fn object(&self) -> Value {
        self.object_of(pem(&self.der()).as_bytes())
    }

    /// The object with this in place of the PEM.
    pub fn object_of(&self, request: &[u8]) -> Value {
        let mut spec = json!({
            "request": base64::engine::general_purpose::STANDARD.encode(request),
            "username": self.user,
            "groups": self.groups,
            "usages": self.usages,
        });
        if let Some(signer) = self.signer {
            spec["signerName"] = json!(signer);
        }
        if let Some(seconds) = self.expires {
            spec["expirationSeconds"] = json!(seconds);
        }
        json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": { "name": self.name, "creationTimestamp": "2026-03-10T11:00:00Z", "resourceVersion": "1", "uid": "u" },
            "spec": spec,
            "status": {},
        })
    }
}

/// PEM of a request.
pub fn pem(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n", lines.join("\n"))
}
