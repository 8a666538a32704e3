//! Certificates made on the spot, with chosen dates.

use chrono::{DateTime, Duration, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};

/// The kind of a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, 2048 bits: one of two stored keys, since ring makes none.
    Rsa(u8),
    /// ECDSA on P-256: the quickest to make, so the default of the fixtures.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

impl Algorithm {
    /// A new key; the RSA ones are always the same.
    pub fn key(self) -> KeyPair {
        match self {
            Self::Rsa(1) => KeyPair::from_pem(include_str!("../data/rsa-2048-1.key")).unwrap(),
            Self::Rsa(_) => KeyPair::from_pem(include_str!("../data/rsa-2048-2.key")).unwrap(),
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap(),
            Self::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap(),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(),
        }
    }
}

/// A certificate and its key, as PEM (the key as PKCS#8).
#[derive(Debug, Clone)]
pub struct Pair {
    /// `CERTIFICATE`.
    pub cert: String,
    /// `PRIVATE KEY`.
    pub key: String,
    /// The certificate as DER.
    pub der: Vec<u8>,
}

/// A certificate authority.
pub struct Ca {
    /// Its own certificate and key.
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

/// What a leaf is to say. [`Spec::client`] and [`Spec::server`] begin one.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Common name.
    pub cn: String,
    /// Organizations.
    pub orgs: Vec<String>,
    /// DNS names and addresses.
    pub sans: Vec<String>,
    /// clientAuth, serverAuth.
    pub client: bool,
    /// Whether it is a server's.
    pub server: bool,
    /// Key algorithm.
    pub algorithm: Algorithm,
    /// First moment of validity.
    pub not_before: DateTime<Utc>,
    /// Last moment of validity.
    pub not_after: DateTime<Utc>,
    /// Serial number; random where not given.
    pub serial: Option<u64>,
}

impl Spec {
    /// A client certificate.
    pub fn client(cn: &str, orgs: &[&str], not_before: DateTime<Utc>, not_after: DateTime<Utc>) -> Self {
        Self {
            cn: cn.to_owned(),
            orgs: orgs.iter().map(|&org| org.to_owned()).collect(),
            sans: Vec::new(),
            client: true,
            server: false,
            algorithm: Algorithm::P256,
            not_before,
            not_after,
            serial: None,
        }
    }

    /// A server certificate.
    pub fn server(cn: &str, sans: &[&str], not_before: DateTime<Utc>, not_after: DateTime<Utc>) -> Self {
        Self {
            sans: sans.iter().map(|&san| san.to_owned()).collect(),
            client: false,
            server: true,
            ..Self::client(cn, &[], not_before, not_after)
        }
    }

    /// With keys of this kind.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }
}

impl Ca {
    /// A new self-signed CA.
    pub fn new(cn: &str, algorithm: Algorithm, not_before: DateTime<Utc>, not_after: DateTime<Utc>) -> Self {
        let key = algorithm.key();
        let mut params = params(cn, &[], not_before, not_after);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let certificate = params.self_signed(&key).unwrap();
        let pair = Pair { cert: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() };
        Self { pair, issuer: Issuer::new(params, key) }
    }

    /// A CA below this one.
    pub fn intermediate(&self, cn: &str, not_before: DateTime<Utc>, not_after: DateTime<Utc>) -> Self {
        let key = Algorithm::P256.key();
        let mut params = params(cn, &[], not_before, not_after);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair { cert: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() };
        Self { pair, issuer: Issuer::new(params, key) }
    }

    /// The CA whose certificate and key these are.
    pub fn load(cert_pem: &str, key_pem: &str) -> Self {
        let key = KeyPair::from_pem(key_pem).unwrap();
        let der = x509_parser::pem::parse_x509_pem(cert_pem.as_bytes()).unwrap().1.contents;
        let pair = Pair { cert: cert_pem.to_owned(), key: key_pem.to_owned(), der };
        Self { pair, issuer: Issuer::from_ca_cert_pem(cert_pem, key).unwrap() }
    }

    /// A leaf with a new key.
    pub fn issue(&self, spec: &Spec) -> Pair {
        let orgs: Vec<&str> = spec.orgs.iter().map(String::as_str).collect();
        let mut params = params(&spec.cn, &orgs, spec.not_before, spec.not_after);
        params.subject_alt_names = spec
            .sans
            .iter()
            .map(|san| match san.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(san.as_str().try_into().unwrap()),
            })
            .collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        // rcgen's own default follows from the key, and the RSA keys are always the same
        let random =
            || Algorithm::P256.key().public_key_raw()[1..9].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        params.serial_number = Some(SerialNumber::from(spec.serial.unwrap_or_else(random)));
        if spec.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if spec.client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        let key = spec.algorithm.key();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { cert: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() }
    }
}

fn params(cn: &str, orgs: &[&str], not_before: DateTime<Utc>, not_after: DateTime<Utc>) -> CertificateParams {
    let mut params = CertificateParams::default();
    // rcgen keeps one value of a kind
    assert!(orgs.len() < 2, "one organization at most");
    let mut name = DistinguishedName::new();
    for &org in orgs {
        name.push(DnType::OrganizationName, org);
    }
    name.push(DnType::CommonName, cn);
    params.distinguished_name = name;
    params.not_before = date(not_before);
    params.not_after = date(not_after);
    params
}

fn date(at: DateTime<Utc>) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(at.timestamp()).unwrap()
}

/// `2026-03-02T03:00:00Z` and the like.
pub fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// So many days.
pub fn days(number: i64) -> Duration {
    Duration::days(number)
}
