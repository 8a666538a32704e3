//! Client certificates as kube-apiserver takes them: asked for, never demanded in the handshake, judged by the request.

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use k8s_certs_renew::files::Root;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// A clock that stands still at this moment.
#[derive(Debug)]
pub struct At(pub DateTime<Utc>);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(moment(self.0))
    }
}

/// Who may come with a client certificate.
#[derive(Debug)]
pub struct Clients(Arc<dyn ClientCertVerifier>);

impl Clients {
    /// Those whose certificate chains to the CA in this file of the node.
    pub fn of(root: &Root, ca: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let text = root.read(ca).unwrap();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
        let provider = Arc::new(ring::default_provider());
        Self(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap())
    }

    /// Whether this certificate is one of theirs at this moment.
    pub fn knows(&self, leaf: &[u8], now: DateTime<Utc>) -> bool {
        self.0.verify_client_cert(&CertificateDer::from(leaf), &[], moment(now)).is_ok()
    }

    /// The verifier for the handshake: it lets every certificate pass whose key the client has.
    pub fn ask(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Asks(self.0.clone()))
    }
}

#[derive(Debug)]
struct Asks(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Asks {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn moment(at: DateTime<Utc>) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(at.timestamp()).unwrap()))
}
