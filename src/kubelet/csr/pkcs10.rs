//! A PKCS#10 request, read strictly: what is read here must be what the signer reads, so a form that could be read in two ways is none.

use std::net::IpAddr;

use rustls_pki_types::pem::{PemObject, SectionKind};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// Longer than any request of a kubelet: 16 KiB; one of theirs has under 1 KiB, an RSA key of 16384 bits and a hundred names would fit.
pub const LARGEST: usize = 16 * 1024;

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";
const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequest {
    /// Common names in its subject.
    pub common_names: Vec<String>,
    /// Organizations in its subject, in order.
    pub organizations: Vec<String>,
    /// OIDs of whatever else is in its subject.
    pub other_subject: Vec<String>,
    /// Subject alternative names, in order.
    pub names: Vec<San>,
    /// What else it asks for than names: attributes and extensions, in words.
    pub extras: Vec<String>,
    /// Whether it is signed by the key that it asks a certificate for.
    pub signature: Signed,
}

/// A subject alternative name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum San {
    /// A host name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// An e-mail address, a URI or another kind, in words.
    Other(String),
}

/// What came of checking a request's own signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// It is good.
    Well,
    /// It is not that key's.
    Badly,
    /// Its algorithm is not supported here.
    Unjudged,
}

/// Reads a request: one PEM block, and nothing else.
///
/// # Errors
/// Why it is none.
pub fn read(text: &[u8]) -> Result<SigningRequest, String> {
    if text.len() > LARGEST {
        return Err(format!("it has {} bytes, more than {LARGEST}", text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| "it is not PEM".to_owned())?.trim();
    if text.matches("-----BEGIN").count() > 1 {
        return Err("more than one PEM block is in it".to_owned());
    }
    if !text.starts_with(BEGIN) || !text.ends_with(END) {
        return Err("it is not one PEM block 'CERTIFICATE REQUEST'".to_owned());
    }
    let (_, der) = <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes())
        .find_map(|block| block.ok().filter(|(kind, _)| *kind == SectionKind::Csr))
        .ok_or("its PEM block is damaged")?;
    let request = match X509CertificationRequest::from_der(&der) {
        Ok(([], request)) => request,
        Ok(_) => return Err("bytes follow the request inside its PEM block".to_owned()),
        Err(_) => return Err("the PEM block holds no PKCS#10 request".to_owned()),
    };
    let info = &request.certification_request_info;
    let mut read = SigningRequest {
        common_names: Vec::new(),
        organizations: Vec::new(),
        other_subject: Vec::new(),
        names: Vec::new(),
        extras: Vec::new(),
        signature: match request.verify_signature() {
            Ok(()) => Signed::Well,
            Err(X509Error::SignatureVerificationError) => Signed::Badly,
            Err(_) => Signed::Unjudged,
        },
    };
    for attribute in info.subject.iter_attributes() {
        let text = || attribute.as_str().map(str::to_owned).map_err(|_| "its subject cannot be read".to_owned());
        match attribute.attr_type().to_id_string().as_str() {
            COMMON_NAME => read.common_names.push(text()?),
            ORGANIZATION => read.organizations.push(text()?),
            other => read.other_subject.push(other.to_owned()),
        }
    }
    names(&request, &mut read)?;
    Ok(read)
}

/// The names, from the one extension of the one attribute that a kubelet sends. Programs differ in which of several they take (Go took the
/// last until it refused them), so of several none is.
fn names(request: &X509CertificationRequest<'_>, read: &mut SigningRequest) -> Result<(), String> {
    let mut requested = false;
    for attribute in request.certification_request_info.attributes() {
        match attribute.parsed_attribute() {
            ParsedCriAttribute::ExtensionRequest(_) if requested => {
                return Err("it asks for extensions in two places".to_owned());
            }
            ParsedCriAttribute::ExtensionRequest(extensions) => {
                requested = true;
                let mut has_names = false;
                for extension in &extensions.extensions {
                    match extension.parsed_extension() {
                        ParsedExtension::SubjectAlternativeName(_) if has_names => {
                            return Err("it names itself in two extensions".to_owned());
                        }
                        ParsedExtension::SubjectAlternativeName(names) => {
                            has_names = true;
                            read.names = names.general_names.iter().map(name).collect();
                        }
                        ParsedExtension::ParseError { .. } => {
                            return Err("an extension in it cannot be read".to_owned());
                        }
                        _ => read.extras.push(format!("extension {}", extension.oid.to_id_string())),
                    }
                }
            }
            ParsedCriAttribute::ChallengePassword(_) | ParsedCriAttribute::UnsupportedAttribute => {
                read.extras.push(format!("attribute {}", attribute.oid.to_id_string()));
            }
        }
    }
    Ok(())
}

fn name(name: &GeneralName<'_>) -> San {
    match name {
        GeneralName::DNSName(host) => San::Dns((*host).to_owned()),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(four), _) => San::Ip(IpAddr::from(four)),
            (_, Ok(six)) => San::Ip(IpAddr::from(six).to_canonical()),
            _ => San::Other("an address that is none".to_owned()),
        },
        GeneralName::RFC822Name(mail) => San::Other(format!("e-mail '{mail}'")),
        GeneralName::URI(uri) => San::Other(format!("URI '{uri}'")),
        _ => San::Other("a name of another kind".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::{San, Signed, read};

    fn pem(sans: Vec<SanType>) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:node1");
        params.subject_alt_names = sans;
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    fn node1() -> String {
        pem(vec![SanType::DnsName("node1".try_into().unwrap()), SanType::IpAddress("192.0.2.1".parse().unwrap())])
    }

    #[test]
    fn a_request_of_a_kubelet_is_read_whole() {
        let request = read(node1().as_bytes()).unwrap();
        assert_eq!(request.common_names, ["system:node:node1"]);
        assert_eq!(request.organizations, ["system:nodes"]);
        assert_eq!(request.names, [San::Dns("node1".to_owned()), San::Ip("192.0.2.1".parse().unwrap())]);
        assert_eq!((request.other_subject.len(), request.extras.len(), request.signature), (0, 0, Signed::Well));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_the_ipv4_address() {
        let request = read(pem(vec![SanType::IpAddress("::ffff:192.0.2.1".parse().unwrap())]).as_bytes()).unwrap();
        assert_eq!(request.names, [San::Ip("192.0.2.1".parse().unwrap())]);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_request() {
        let good = node1();
        let cut = &good[..good.len() / 2];
        let table = [
            (format!("{good}{good}"), "more than one PEM block"),
            (format!("{good}-----BEGIN X"), "more than one PEM block"),
            (format!("hello\n{good}"), "not one PEM block"),
            (format!("{good}hello\n"), "not one PEM block"),
            (good.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"), "not one PEM block"),
            (cut.to_owned(), "not one PEM block"),
            (good.replacen("MII", "M*I", 1), "damaged"),
            (String::new(), "not one PEM block"),
            (
                "-----BEGIN CERTIFICATE REQUEST-----\nMAMCAQE=\n-----END CERTIFICATE REQUEST-----".to_owned(),
                "no PKCS#10",
            ),
            (format!("{good}{}", "\n".repeat(20_000)), "more than 16384"),
        ];
        for (text, why) in table {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error} instead of {why}");
        }
    }
}
