//! Whether one certificate signed another.

use x509_parser::error::X509Error;
use x509_parser::prelude::X509Certificate;

use super::x509;

/// What came of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// It is good.
    Good,
    /// It is not that key's.
    Bad,
    /// It cannot be checked here: why.
    Unsupported(String),
}

/// Whether `parent` signed `child`. What ring cannot check is not called bad.
pub fn verify(child: &X509Certificate<'_>, parent: &X509Certificate<'_>) -> Signature {
    let algorithm = child.signature_algorithm.algorithm.to_id_string();
    let key = parent.public_key();
    let family =
        |oid: &str| ["1.2.840.113549.1.1.", "1.2.840.10045.", "1.3.101.112"].iter().position(|&f| oid.starts_with(f));
    let (signed_with, key_is) = (family(&algorithm), family(&key.algorithm.algorithm.to_id_string()));
    if signed_with.is_some() && key_is.is_some() && signed_with != key_is {
        return Signature::Bad;
    }
    let unsupported = |what: &str| Signature::Unsupported(format!("signatures {what} are not supported here"));
    match child.verify_signature(Some(key)) {
        Ok(()) => Signature::Good,
        Err(X509Error::SignatureVerificationError) => match x509::rsa_bits(key) {
            // ring wants 2048 to 8192 bits, and for PSS the salt as long as the hash
            Some(bits) if !(2048..=8192).contains(&bits) => unsupported(&format!("of RSA keys of {bits} bits")),
            Some(_) if algorithm == "1.2.840.113549.1.1.10" => unsupported("by RSASSA-PSS with these parameters"),
            _ => Signature::Bad,
        },
        Err(_) => unsupported(&format!("of algorithm {algorithm}")),
    }
}
