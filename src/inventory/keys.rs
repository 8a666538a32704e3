//! Whether a private key is a certificate's.

use rustls::crypto::ring::sign::{any_ecdsa_type, any_eddsa_type};
use rustls::sign::SigningKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::node::pem::{Key, KeyFormat};

/// Whether the private key belongs to the public one.
///
/// RSA keys are compared by modulus and exponent, as Go's `tls.X509KeyPair` does; of the others the public half is worked
/// out from the private one.
///
/// # Errors
/// Why it cannot be told: an algorithm or a form that is not supported here.
pub fn belongs(key: &Key, public: &SubjectPublicKeyInfo<'_>) -> Result<bool, String> {
    let kind = Kind::of(key).ok_or("the private key's DER is damaged")?;
    let wanted = public.algorithm.algorithm.to_id_string();
    let curve = public.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok()).map(|oid| oid.to_id_string());
    let bits = public.subject_public_key.data.as_ref();
    match (kind, wanted.as_str()) {
        (Kind::Rsa(private), RSA | RSA_PSS) => {
            let private = rsa_numbers(private, 1).ok_or("the private key's DER is damaged")?;
            Ok(rsa_numbers(bits, 0).is_some_and(|public| public == private))
        }
        (Kind::Ec(named), EC) => {
            if let (Some(private), Some(public)) = (&named, &curve)
                && private != public
            {
                return Ok(false);
            }
            match curve.as_deref() {
                Some(P256 | P384) if bits.first() == Some(&4) => same(
                    any_ecdsa_type(&der(key)).ok().as_deref(),
                    bits,
                    "an ECDSA key without its public half, or damaged",
                ),
                _ => Err("ECDSA on this curve is not supported here".to_owned()),
            }
        }
        (Kind::Ed25519, ED25519) => same(
            any_eddsa_type(&PrivatePkcs8KeyDer::from(key.der.as_slice())).ok().as_deref(),
            bits,
            "a damaged Ed25519 key",
        ),
        (Kind::Other(oid), _) if oid == wanted => Err(format!("keys of algorithm {oid} are not supported here")),
        _ => Ok(false),
    }
}

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";

/// What a private key is.
enum Kind<'a> {
    /// With its PKCS#1 structure.
    Rsa(&'a [u8]),
    /// With its curve, where the key names it.
    Ec(Option<String>),
    Ed25519,
    Other(String),
}

impl<'a> Kind<'a> {
    fn of(key: &'a Key) -> Option<Self> {
        match key.format {
            KeyFormat::Pkcs1 => Some(Self::Rsa(&key.der)),
            // SEC1: SEQUENCE { version, key, [0] curve, [1] public half }
            KeyFormat::Sec1 => {
                let curve = fields(&key.der)?.into_iter().skip(2).find(|field| field.tag() == Tag(0));
                Some(Self::Ec(curve.and_then(|field| oid(&Any::from_der(field.data).ok()?.1))))
            }
            // PKCS#8: SEQUENCE { version, SEQUENCE { algorithm, parameters }, OCTET STRING }
            KeyFormat::Pkcs8 => {
                let outer = fields(&key.der)?;
                let algorithm = elements(outer.get(1)?.data)?;
                let parameter = algorithm.get(1).and_then(oid);
                match oid(algorithm.first()?)?.as_str() {
                    RSA | RSA_PSS => Some(Self::Rsa(outer.get(2)?.data)),
                    EC => Some(Self::Ec(parameter)),
                    ED25519 => Some(Self::Ed25519),
                    other => Some(Self::Other(other.to_owned())),
                }
            }
        }
    }
}

/// Modulus and exponent, which stand after `skip` other fields.
fn rsa_numbers(der: &[u8], skip: usize) -> Option<(&[u8], &[u8])> {
    let fields = fields(der)?;
    let number = |index: usize| {
        let bytes = fields.get(index)?.data;
        Some(&bytes[bytes.iter().position(|&byte| byte != 0)?..])
    };
    Some((number(skip)?, number(skip + 1)?))
}

fn same(private: Option<&dyn SigningKey>, public: &[u8], otherwise: &str) -> Result<bool, String> {
    let half = private.and_then(SigningKey::public_key).ok_or(otherwise)?;
    let (_, half) = SubjectPublicKeyInfo::from_der(&half).map_err(|_| otherwise)?;
    Ok(half.subject_public_key.data.as_ref() == public)
}

fn der(key: &Key) -> PrivateKeyDer<'_> {
    match key.format {
        KeyFormat::Pkcs8 => PrivatePkcs8KeyDer::from(key.der.as_slice()).into(),
        KeyFormat::Pkcs1 => PrivatePkcs1KeyDer::from(key.der.as_slice()).into(),
        KeyFormat::Sec1 => PrivateSec1KeyDer::from(key.der.as_slice()).into(),
    }
}

fn oid(any: &Any<'_>) -> Option<String> {
    any.as_oid().ok().map(|oid| oid.to_id_string())
}

/// The fields of a SEQUENCE.
fn fields(der: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, sequence) = Any::from_der(der).ok()?;
    (sequence.tag() == Tag::Sequence).then_some(())?;
    elements(sequence.data)
}

fn elements(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (rest, element) = Any::from_der(bytes).ok()?;
        all.push(element);
        bytes = rest;
    }
    Some(all)
}
