//! The stand-in kubeadm's hands: it reads, signs and writes credentials as the real one does.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use k8s_certs_renew::files::Root;
use k8s_certs_renew::node::kubeconfig::{Kubeconfig, Source};
use k8s_certs_renew::node::pem;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::events::Point;
use super::pki::{Ca, Pair, Spec};

/// A certificate and its key: two files, or one kubeconfig.
pub struct Credential<'a> {
    root: &'a Root,
    path: PathBuf,
    /// Called at each point of a write.
    reach: &'a dyn Fn(&Point),
}

/// What a certificate says that a renewal keeps.
pub struct Old {
    cn: String,
    orgs: Vec<String>,
    sans: Vec<String>,
    client: bool,
    server: bool,
}

impl<'a> Credential<'a> {
    /// The kubeconfig at `path` if that ends in `.conf`, else `path.crt` and `path.key`.
    pub fn at(root: &'a Root, path: &Path, reach: &'a dyn Fn(&Point)) -> Self {
        Self { root, path: path.to_path_buf(), reach }
    }

    /// Whether its certificate is there.
    pub fn exists(&self) -> bool {
        self.root.exists(&self.certificate_file())
    }

    /// Reads what a renewal keeps.
    pub fn read(&self) -> Result<Old, String> {
        let file = self.certificate_file();
        let bytes = self.root.read(&file).map_err(|error| error.to_string())?;
        let text = if self.is_kubeconfig() { self.embedded(&bytes)?.0 } else { bytes };
        let pem = pem::read(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let der = pem.certificates.first().ok_or_else(|| format!("{}: no certificate", file.display()))?;
        Old::parse(der)
    }

    /// Writes key and certificate, in that order, in place, so that modes, owners and links stay.
    pub fn write(&self, new: &Pair) -> io::Result<()> {
        if self.is_kubeconfig() {
            let bytes = self.root.read(&self.path)?;
            let (certificate, key) = self.embedded(&bytes).map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(&bytes)
                .replacen(&STANDARD.encode(certificate), &STANDARD.encode(&new.cert), 1)
                .replacen(&STANDARD.encode(key), &STANDARD.encode(&new.key), 1);
            return self.put(&self.path, text.as_bytes());
        }
        self.write_key(new)?;
        self.put(&self.certificate_file(), new.cert.as_bytes())
    }

    /// Writes the key only; of a kubeconfig, the new key beside the old certificate.
    pub fn write_key(&self, new: &Pair) -> io::Result<()> {
        if self.is_kubeconfig() {
            let bytes = self.root.read(&self.path)?;
            let (_, key) = self.embedded(&bytes).map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(&bytes).replacen(&STANDARD.encode(key), &STANDARD.encode(&new.key), 1);
            return self.put(&self.path, text.as_bytes());
        }
        self.put(&self.path.with_extension("key"), new.key.as_bytes())
    }

    fn is_kubeconfig(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "conf")
    }

    fn certificate_file(&self) -> PathBuf {
        if self.is_kubeconfig() { self.path.clone() } else { self.path.with_extension("crt") }
    }

    fn embedded(&self, bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let path = self.path.display();
        let config = Kubeconfig::parse(bytes, Path::new("/"))
            .map_err(|error| format!("invalid kubeConfig file {path}: {error}"))?;
        let user = config.current_user().map_err(|error| format!("invalid kubeConfig file {path}: {error}"))?;
        match (&user.certificate, &user.key) {
            (Some(Source::Data(certificate)), Some(Source::Data(key))) => Ok((certificate.clone(), key.clone())),
            _ => Err(format!("kubeConfig file {path} does not have an embedded client certificate")),
        }
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let real = self.root.canonicalize(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // emptied before it is written, as `os.WriteFile` does it
        let mut file = File::create(self.root.on_host(&real))?;
        (self.reach)(&Point::Emptied(name.clone()));
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        (self.reach)(&Point::Half(name.clone()));
        file.write_all(rest)?;
        (self.reach)(&Point::Written(name));
        Ok(())
    }
}

impl Old {
    fn parse(der: &[u8]) -> Result<Self, String> {
        let (_, leaf) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let text =
            |value: &x509_parser::prelude::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
        let mut old = Self {
            cn: leaf.subject().iter_common_name().next().map(text).unwrap_or_default(),
            orgs: leaf.subject().iter_organization().map(text).collect(),
            sans: Vec::new(),
            client: false,
            server: false,
        };
        for extension in leaf.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    old.sans = names.general_names.iter().filter_map(name).collect();
                }
                ParsedExtension::ExtendedKeyUsage(usage) => {
                    (old.client, old.server) = (usage.client_auth, usage.server_auth);
                }
                _ => {}
            }
        }
        Ok(old)
    }

    /// The new certificate: everything but key, serial and dates as it was.
    pub fn spec(&self, from: DateTime<Utc>, to: DateTime<Utc>) -> Spec {
        let orgs: Vec<&str> = self.orgs.iter().map(String::as_str).collect();
        let mut spec = Spec::client(&self.cn, &orgs, from, to);
        (spec.sans, spec.client, spec.server) = (self.sans.clone(), self.client, self.server);
        spec
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|four| IpAddr::from(four).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|sixteen| IpAddr::from(sixteen).to_string()),
        },
        _ => None,
    }
}

/// A CA that can sign.
pub struct Signer {
    ca: Ca,
    cn: String,
    /// When its certificate begins.
    pub not_before: DateTime<Utc>,
    not_after: DateTime<Utc>,
}

impl Signer {
    /// The CA of `path.crt` and `path.key`; none where the key is kept elsewhere.
    pub fn read(root: &Root, path: &Path) -> Result<Option<Self>, String> {
        let file = path.with_extension("crt");
        let text = root.read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let der = pem::read(text.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?.certificates;
        let der = der.first().ok_or_else(|| format!("{}: no certificate", file.display()))?;
        let (_, ca) = X509Certificate::from_der(der).map_err(|error| format!("{}: {error}", file.display()))?;
        let moment = |time: x509_parser::prelude::ASN1Time| DateTime::from_timestamp(time.timestamp(), 0).unwrap();
        let (not_before, not_after) = (moment(ca.validity().not_before), moment(ca.validity().not_after));
        let cn = ca.subject().iter_common_name().next().and_then(|cn| cn.as_str().ok()).unwrap_or_default().to_owned();
        let key = path.with_extension("key");
        if !root.exists(&key) {
            return Ok(None);
        }
        let key = root.read_to_string(&key).map_err(|error| format!("{}: {error}", key.display()))?;
        rcgen::KeyPair::from_pem(&key).map_err(|error| format!("{}.key: {error}", path.display()))?;
        Ok(Some(Self { ca: Ca::load(&text, &key), cn, not_before, not_after }))
    }

    /// A CA of the same name and dates with another key.
    pub fn impostor(&self) -> Self {
        let ca = Ca::new(&self.cn, super::pki::Algorithm::P256, self.not_before, self.not_after);
        Self { ca, cn: self.cn.clone(), ..*self }
    }

    /// Signs a leaf with a new key.
    pub fn issue(&self, spec: &Spec) -> Pair {
        self.ca.issue(spec)
    }
}
