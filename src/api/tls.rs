//! TLS as a way to look: which certificate a server has, not whether it is to be trusted.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::socket::Socket;
use crate::host::Deadline;

/// A client certificate with its key.
#[derive(Clone)]
pub struct Identity {
    pair: Arc<CertifiedKey>,
}

/// What a server showed in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The server's own certificate (DER). The server has proven that it holds the key.
    pub leaf_der: Vec<u8>,
    /// What it sent beside it (DER), in its order.
    pub chain_der: Vec<Vec<u8>>,
    /// Whether the handshake came to its end for us; not so where TLS 1.2 demands a client certificate that we lack.
    pub completed: bool,
}

/// Why no certificate was seen, or a client certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The deadline passed.
    #[error("no answer in time")]
    TimedOut,
    /// The server is not the expected one: its certificate is another.
    #[error("another server answers there: its certificate is not the expected one")]
    WrongServer,
    /// The handshake failed before the server had proven its certificate.
    #[error("TLS handshake failed: {0}")]
    Handshake(String),
    /// The client certificate or its key is not PEM, or missing.
    #[error("client certificate cannot be used: {0}")]
    Identity(String),
    /// Anything else that befell the connection.
    #[error("connection failed: {0}")]
    Io(io::Error),
}

impl Identity {
    /// An identity from PEM: a certificate (more may follow it) and its key in PKCS#1, SEC 1 or PKCS#8. Both may be the same text.
    ///
    /// # Errors
    /// [`TlsError::Identity`]: not PEM, a kind of key that ring cannot use, or a key that is not the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let unfit = |what: &str| TlsError::Identity(what.to_owned());
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(without_mark(certificate))
            .collect::<Result<_, pem::Error>>()
            .map_err(|_| unfit("the certificate is not PEM"))?;
        if certificates.is_empty() {
            return Err(unfit("no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_slice(without_mark(key)).map_err(|error| match error {
            pem::Error::NoItemsFound => unfit("no private key in it"),
            // the error could quote the text, which is a private key
            _ => unfit("the private key is not PEM"),
        })?;
        let pair = CertifiedKey::from_der(certificates, key, &rustls::crypto::ring::default_provider())
            .map_err(|error| TlsError::Identity(error.to_string()))?;
        Ok(Self { pair: Arc::new(pair) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Looks at the certificate of the server at `addr`, within `deadline` for all of it.
///
/// With `sni` that name is sent, else none. `identity` is presented where the server asks for one. Any chain is accepted, and a
/// certificate that has expired is one too; the server must have signed the handshake with its key.
///
/// # Errors
/// No certificate was seen and proven.
pub fn handshake(
    addr: SocketAddr,
    sni: Option<&str>,
    identity: Option<&Identity>,
    deadline: Duration,
) -> Result<Seen, TlsError> {
    match connect(addr, sni, identity, None, Deadline::after(deadline)) {
        Ok(mut stream) => {
            // said so that the server does not log a connection that broke off; it has its certificate shown already
            stream.connection.send_close_notify();
            let _ = stream.connection.write_tls(&mut stream.socket);
            Ok(stream.seen)
        }
        Err(failed) => failed.seen.ok_or(failed.error),
    }
}

/// A connection that has completed its handshake.
pub(super) struct TlsStream {
    pub(super) connection: ClientConnection,
    pub(super) socket: Socket,
    pub(super) seen: Seen,
}

/// A handshake that failed, with the certificate if the server had proven it before.
pub(super) struct Failed {
    pub(super) error: TlsError,
    seen: Option<Seen>,
}

/// Connects and completes the handshake; with `expected` only with the server whose certificate (DER) this is. Any other gets
/// nothing from us, not even the client certificate.
pub(super) fn connect(
    addr: SocketAddr,
    sni: Option<&str>,
    identity: Option<&Identity>,
    expected: Option<&[u8]>,
    deadline: Deadline,
) -> Result<TlsStream, Failed> {
    let early = |error: TlsError| Failed { error, seen: None };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let witness = Arc::new(Witness {
        algorithms: provider.signature_verification_algorithms,
        expected: expected.map(<[u8]>::to_vec),
        record: Mutex::default(),
    });
    let config = config(provider, Arc::clone(&witness), identity).map_err(early)?;
    let name = match sni {
        Some(name) => ServerName::try_from(name.to_owned())
            .map_err(|_| early(TlsError::Handshake(format!("{name:?} is not a server name"))))?,
        // rustls sends no SNI for an address
        None => ServerName::from(addr.ip()),
    };
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| early(TlsError::Handshake(error.to_string())))?;
    let mut socket = Socket::connect(addr, deadline).map_err(|error| early(TlsError::from(error)))?;
    let mut result = Ok((0, 0));
    while connection.is_handshaking() && result.is_ok() {
        result = connection.complete_io(&mut socket);
    }
    let record = witness.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let seen = |completed: bool| {
        let mut certificates = record.certificates.clone().into_iter();
        certificates.next().filter(|_| record.proven).map(|leaf_der| Seen {
            leaf_der,
            chain_der: certificates.collect(),
            completed,
        })
    };
    match result {
        Err(_) if record.wrong => Err(early(TlsError::WrongServer)),
        Err(error) => Err(Failed { error: TlsError::from(error), seen: seen(false) }),
        Ok(_) => match seen(true) {
            Some(seen) => Ok(TlsStream { connection, socket, seen }),
            None => Err(early(TlsError::Handshake("the server showed no certificate".to_owned()))),
        },
    }
}

fn config(
    provider: Arc<CryptoProvider>,
    witness: Arc<Witness>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_details(provider, Arc::new(NoTime))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Handshake(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(witness);
    let mut config = match identity {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.pair))))
        }
        None => builder.with_no_client_auth(),
    };
    // a resumed session shows no certificate
    config.resumption = Resumption::disabled();
    Ok(config)
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::UnexpectedEof => Self::Handshake("the server closed the connection".to_owned()),
            _ => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(inner) => Self::Handshake(inner.to_string()),
                None => Self::Io(error),
            },
        }
    }
}

/// Dates are judged by the inventory, against the run's own clock; nothing in a handshake of ours depends on the time.
#[derive(Debug)]
struct NoTime;

impl TimeProvider for NoTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// Accepts any chain and keeps it, but has the handshake's signature checked.
#[derive(Debug)]
struct Witness {
    algorithms: WebPkiSupportedAlgorithms,
    expected: Option<Vec<u8>>,
    record: Mutex<Record>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    certificates: Vec<Vec<u8>>,
    wrong: bool,
    /// The server has signed the handshake with the key of the first certificate.
    proven: bool,
}

impl Witness {
    fn note(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let wrong = self.expected.as_deref().is_some_and(|expected| expected != end_entity.as_ref());
        self.note(|record| {
            record.certificates =
                std::iter::once(end_entity).chain(intermediates).map(|certificate| certificate.to_vec()).collect();
            record.wrong = wrong;
        });
        if wrong {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let valid = verify_tls12_signature(message, certificate, signature, &self.algorithms)?;
        self.note(|record| record.proven = true);
        Ok(valid)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let valid = verify_tls13_signature(message, certificate, signature, &self.algorithms)?;
        self.note(|record| record.proven = true);
        Ok(valid)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// With a byte order mark before them, PEM readers find nothing and say nothing.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}
