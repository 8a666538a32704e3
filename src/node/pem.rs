//! PEM as people have it: text around the blocks, CRLF, a byte order mark, no final newline, keys and certificates mixed.

use rustls_pki_types::pem::{PemObject, SectionKind};

/// The blocks of a PEM file that matter here.
#[derive(Clone, Default)]
pub struct Pem {
    /// Certificates (`CERTIFICATE`), DER, in the file's order.
    pub certificates: Vec<Vec<u8>>,
    /// Private keys (`PRIVATE KEY`, `RSA PRIVATE KEY`, `EC PRIVATE KEY`), DER, in the file's order.
    pub keys: Vec<Key>,
}

/// A private key. Its `Debug` shows the format only.
#[derive(Clone)]
pub struct Key {
    /// PKCS#8, PKCS#1 or SEC1.
    pub format: KeyFormat,
    /// The DER bytes.
    pub der: Vec<u8>,
}

/// How a private key is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFormat {
    /// `PRIVATE KEY`.
    Pkcs8,
    /// `RSA PRIVATE KEY`.
    Pkcs1,
    /// `EC PRIVATE KEY`; an `EC PARAMETERS` block before it is passed over.
    Sec1,
}

/// Why a text holds no usable PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// A block begins and does not end, or its base64 is damaged.
    #[error("a PEM block is damaged or cut off")]
    Damaged,
    /// The bytes are DER.
    #[error("DER, not PEM; kubeadm reads PEM only (openssl x509 -inform DER converts)")]
    Der,
}

/// The certificates and private keys of a PEM text. A text with neither gives an empty [`Pem`].
///
/// # Errors
/// The text is empty, is DER, or a block of it is damaged.
pub fn read(bytes: &[u8]) -> Result<Pem, PemError> {
    // with a byte order mark the readers find nothing and say nothing
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(PemError::Empty);
    }
    if bytes.starts_with(&[0x30, 0x82]) {
        return Err(PemError::Der);
    }
    let mut pem = Pem::default();
    for item in <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes) {
        let (kind, der) = item.map_err(|_| PemError::Damaged)?;
        let format = match kind {
            SectionKind::Certificate => {
                pem.certificates.push(der);
                continue;
            }
            SectionKind::PrivateKey => KeyFormat::Pkcs8,
            SectionKind::RsaPrivateKey => KeyFormat::Pkcs1,
            SectionKind::EcPrivateKey => KeyFormat::Sec1,
            _ => continue,
        };
        pem.keys.push(Key { format, der });
    }
    if !unterminated(bytes) { Ok(pem) } else { Err(PemError::Damaged) }
}

/// Whether the text was cut off inside a block: the readers pass such a block over in silence.
fn unterminated(bytes: &[u8]) -> bool {
    let count = |needle: &[u8]| bytes.windows(needle.len()).filter(|window| window == &needle).count();
    count(b"-----BEGIN ") > count(b"-----END ")
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pem")
            .field("certificates", &self.certificates.len())
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("format", &self.format).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyFormat, PemError, read};

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nMAMCAQI=\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn blocks_are_found_however_the_file_was_made() {
        let plain = CERTIFICATE.to_owned();
        let cases = [
            ("plain", plain.clone(), 1, 0),
            ("windows lines", plain.replace('\n', "\r\n"), 1, 0),
            ("byte order mark", format!("\u{feff}{plain}"), 1, 0),
            ("text before", format!("Bag Attributes\n    friendlyName: x\nsubject=/CN=x\n{plain}"), 1, 0),
            ("no final newline", plain.trim_end().to_owned(), 1, 0),
            ("chain", plain.repeat(2), 2, 0),
            ("key first", format!("{KEY}{plain}"), 1, 1),
            (
                "parameters",
                format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{KEY}"),
                0,
                1,
            ),
            ("neither", "hello".to_owned(), 0, 0),
            ("trusted", plain.replace("CERTIFICATE", "TRUSTED CERTIFICATE"), 0, 0),
        ];
        for (name, text, certificates, keys) in cases {
            let pem = read(text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((pem.certificates.len(), pem.keys.len()), (certificates, keys), "{name}");
        }
        assert_eq!(read(KEY.as_bytes()).unwrap().keys[0].format, KeyFormat::Sec1);
    }

    #[test]
    fn empty_cut_off_and_der_are_told_apart() {
        assert_eq!(read(b" \n").unwrap_err(), PemError::Empty);
        assert_eq!(read(b"\x30\x82\x01\x0a").unwrap_err(), PemError::Der);
        assert_eq!(read(&CERTIFICATE.as_bytes()[..40]).unwrap_err(), PemError::Damaged);
        let cut = format!("{CERTIFICATE}{}", &CERTIFICATE[..40]);
        assert_eq!(read(cut.as_bytes()).unwrap_err(), PemError::Damaged);
        assert_eq!(read(CERTIFICATE.replace("MAMC", "M*MC").as_bytes()).unwrap_err(), PemError::Damaged);
    }

    #[test]
    fn a_key_is_never_shown() {
        let pem = read(KEY.as_bytes()).unwrap();
        let shown = format!("{pem:?} {:?}", pem.keys[0]);
        assert!(!shown.contains("48") && !shown.contains("[") && shown.contains("Sec1"), "{shown}");
    }
}
