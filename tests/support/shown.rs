//! Certificates as servers show them.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::pki::{Algorithm, Ca, Pair, Spec};

/// A chain and its key, if they belong together.
pub fn pair(certificate: &[u8], key: &[u8]) -> Option<Arc<CertifiedKey>> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).ok().map(Arc::new)
}

/// A certificate of a CA that nobody keeps, from an hour before `start`.
pub fn in_memory(cn: &str, san: &str, start: DateTime<Utc>, ends: DateTime<Utc>) -> Arc<CertifiedKey> {
    let from = start - Duration::hours(1);
    let ca = Ca::new(&cn.replacen('@', "-ca@", 1), Algorithm::P256, from, ends);
    let Pair { cert, key, .. } = ca.issue(&Spec::server(cn, &[san], from, ends));
    pair(cert.as_bytes(), key.as_bytes()).unwrap()
}
