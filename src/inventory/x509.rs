//! What a DER certificate says, in words and dates.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::asn1_rs::Oid;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, SubjectPublicKeyInfo};

use super::Leaf;

/// The certificate in these DER bytes.
///
/// # Errors
/// Why they are none; as Go's `x509.ParseCertificate`, bytes after it are an error.
pub fn certificate(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) if !is_whole(der, &certificate) => {
            Err("its inner and outer signature algorithms differ".to_owned())
        }
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("bytes follow the certificate inside its PEM block".to_owned()),
        Err(_) => Err("the PEM block holds no X.509 certificate".to_owned()),
    }
}

/// Whether what no signature covers is as it should be: the first byte, and the outer algorithm, which repeats the inner
/// one byte for byte. Go refuses the certificate otherwise (crypto/x509 `parseCertificate`); the parser here does not look.
fn is_whole(der: &[u8], certificate: &X509Certificate<'_>) -> bool {
    let signed: &[u8] = certificate.tbs_certificate.as_ref();
    let Some(at) = der.windows(signed.len()).position(|bytes| bytes == signed) else { return false };
    let outer = &der[at + signed.len()..];
    // no algorithm is as long as to need the long form of a length
    let outer = outer.get(1).and_then(|length| outer.get(..2 + usize::from(*length)));
    der.first() == Some(&0x30) && outer.is_some_and(|outer| signed.windows(outer.len()).any(|bytes| bytes == outer))
}

/// What a certificate says.
///
/// # Errors
/// Names or usages in it cannot be read.
pub fn leaf(certificate: &X509Certificate<'_>) -> Result<Leaf, String> {
    let unreadable = |what: &str| format!("its {what} cannot be read");
    let sans = match certificate.subject_alternative_name().map_err(|_| unreadable("names (subjectAltName)"))? {
        Some(extension) => extension.value.general_names.iter().map(name).collect(),
        None => Vec::new(),
    };
    let usages = match certificate.extended_key_usage().map_err(|_| unreadable("usages (extKeyUsage)"))? {
        Some(extension) => {
            let usage = extension.value;
            let known = [
                (usage.any, "any"),
                (usage.client_auth, "clientAuth"),
                (usage.server_auth, "serverAuth"),
                (usage.code_signing, "codeSigning"),
                (usage.email_protection, "emailProtection"),
                (usage.time_stamping, "timeStamping"),
                (usage.ocsp_signing, "OCSPSigning"),
            ];
            let known = known.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned());
            known.chain(usage.other.iter().map(Oid::to_id_string)).collect()
        }
        None => Vec::new(),
    };
    let constraints = certificate.basic_constraints().map_err(|_| unreadable("basicConstraints"))?;
    let subject = certificate.subject();
    Ok(Leaf {
        subject: subject.to_string(),
        common_name: subject.iter_common_name().next().map(text).unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect(),
        issuer: certificate.issuer().to_string(),
        sans,
        usages,
        serial: serial(certificate.raw_serial()),
        not_before: instant(certificate.validity().not_before),
        not_after: instant(certificate.validity().not_after),
        key_algorithm: key_algorithm(certificate.public_key()),
        is_ca: constraints.is_some_and(|extension| extension.value.ca),
        der_sha256: sha256(certificate.as_raw()),
        key_sha256: sha256(certificate.public_key().raw),
    })
}

/// SHA-256, lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    // rustls hands ring's hash out through its cipher suites only
    rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .map(|suite| hex(suite.common.hash_provider.hash(bytes).as_ref()))
        .unwrap_or_default()
}

/// The bits of an RSA key; None for another kind.
pub fn rsa_bits(key: &SubjectPublicKeyInfo<'_>) -> Option<usize> {
    use x509_parser::public_key::PublicKey;
    let Ok(PublicKey::RSA(rsa)) = key.parsed() else { return None };
    let modulus = rsa.modulus.iter().position(|&byte| byte != 0).map_or(&[][..], |first| &rsa.modulus[first..]);
    Some(modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize))
}

fn key_algorithm(key: &SubjectPublicKeyInfo<'_>) -> String {
    let algorithm = key.algorithm.algorithm.to_id_string();
    let curve = || key.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok()).map(|oid| oid.to_id_string());
    match algorithm.as_str() {
        "1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.10" => {
            rsa_bits(key).map_or_else(|| "RSA".to_owned(), |bits| format!("RSA {bits}"))
        }
        "1.2.840.10045.2.1" => match curve().as_deref() {
            Some("1.2.840.10045.3.1.7") => "ECDSA P-256".to_owned(),
            Some("1.3.132.0.34") => "ECDSA P-384".to_owned(),
            Some("1.3.132.0.35") => "ECDSA P-521".to_owned(),
            Some(other) => format!("ECDSA {other}"),
            None => "ECDSA".to_owned(),
        },
        "1.3.101.112" => "Ed25519".to_owned(),
        _ => algorithm,
    }
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(host) => (*host).to_owned(),
        GeneralName::IPAddress(bytes) => {
            address(bytes).map_or_else(|| format!("IP:{}", hex(bytes)), |ip| ip.to_string())
        }
        GeneralName::URI(uri) => format!("URI:{uri}"),
        GeneralName::RFC822Name(mail) => format!("email:{mail}"),
        GeneralName::DirectoryName(name) => format!("DirName:{name}"),
        GeneralName::RegisteredID(oid) => format!("RID:{}", oid.to_id_string()),
        GeneralName::OtherName(oid, value) => format!("otherName:{}:{}", oid.to_id_string(), hex(value)),
        GeneralName::X400Address(any) => format!("X400Name:{}", hex(any.data)),
        GeneralName::EDIPartyName(any) => format!("EdiPartyName:{}", hex(any.data)),
        GeneralName::Invalid(tag, value) => format!("invalid:{}:{}", tag.0, hex(value)),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> String {
    attribute.as_str().map_or_else(|_| String::from_utf8_lossy(attribute.as_slice()).into_owned(), str::to_owned)
}

/// Two names are the same where their bytes are, as Go compares issuer and subject (crypto/x509 `CertPool`).
pub fn same_name(a: &X509Name<'_>, b: &X509Name<'_>) -> bool {
    a.as_raw() == b.as_raw()
}

fn serial(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn instant(time: ASN1Time) -> DateTime<Utc> {
    // ASN.1 ends with the year 9999, chrono far beyond; the clamp is for the type only
    DateTime::from_timestamp(time.timestamp(), 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // writing to a String cannot fail
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{serial, sha256};

    #[test]
    fn a_serial_has_no_leading_zeros() {
        for (bytes, expected) in [(&[0x00, 0xab][..], "ab"), (&[0x0a], "a"), (&[0], "0"), (&[], "0"), (&[1, 0], "100")]
        {
            assert_eq!(serial(bytes), expected);
        }
    }

    #[test]
    fn the_digest_is_sha_256() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
