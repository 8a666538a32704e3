//! What is wrong with a certificate: key, signature, dates.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use x509_parser::prelude::X509Certificate;

use crate::node::pem::Key;

use super::read::Found;
use super::signature::{Signature, verify};
use super::{Certificate, Kind, Leaf, Problem, keys, x509};

/// The certificates of all authorities, by subject.
#[derive(Debug, Default)]
pub(super) struct Issuers<'a> {
    by_subject: HashMap<&'a [u8], Vec<Issuer<'a>>>,
}

#[derive(Debug)]
struct Issuer<'a> {
    authority: &'a str,
    certificate: X509Certificate<'a>,
    not_after: DateTime<Utc>,
}

/// What the search for a certificate's signer came to.
enum Signer<'a> {
    Found(&'a Issuer<'a>),
    /// An authority of the right name is here, and did not sign it.
    Other,
    /// No authority of that name is here.
    Unknown,
    Unsupported(String),
}

impl<'a> Issuers<'a> {
    /// Takes in every certificate of an authority's file.
    pub(super) fn add(&mut self, authority: &'a str, ders: &'a [Vec<u8>]) {
        for certificate in ders.iter().filter_map(|der| x509::certificate(der).ok()) {
            let Ok(leaf) = x509::leaf(&certificate) else { continue };
            let subject = certificate.tbs_certificate.subject.as_raw();
            self.by_subject.entry(subject).or_default().push(Issuer {
                authority,
                certificate,
                not_after: leaf.not_after,
            });
        }
    }

    /// Whether an authority has a readable certificate.
    fn knows(&self, authority: &str) -> bool {
        self.by_subject.values().flatten().any(|issuer| issuer.authority == authority)
    }

    /// Whether one of these CA certificates is a key of the authority.
    fn same_key(&self, authority: &str, certificate: &X509Certificate<'_>) -> bool {
        self.by_subject.get(certificate.subject().as_raw()).is_some_and(|issuers| {
            issuers.iter().any(|issuer| {
                issuer.authority == authority && issuer.certificate.public_key().raw == certificate.public_key().raw
            })
        })
    }

    /// The authority's certificate that signed `leaf`, directly or by way of the other certificates in its file.
    fn signer(&self, leaf: &X509Certificate<'_>, chain: &[X509Certificate<'_>], expected: Option<&str>) -> Signer<'_> {
        let mut result = Signer::Unknown;
        let mut current = leaf;
        for _ in 0..=chain.len().min(8) {
            let issuers = self.by_subject.get(current.issuer().as_raw()).map_or(&[][..], Vec::as_slice);
            for issuer in issuers.iter().filter(|issuer| expected.is_none_or(|name| name == issuer.authority)) {
                match verify(current, &issuer.certificate) {
                    Signature::Good => return Signer::Found(issuer),
                    Signature::Bad if matches!(result, Signer::Unknown) => result = Signer::Other,
                    Signature::Bad => {}
                    Signature::Unsupported(why) => result = Signer::Unsupported(why),
                }
            }
            let above = |next: &&X509Certificate<'_>| {
                next.as_raw() != current.as_raw()
                    && x509::same_name(next.subject(), current.issuer())
                    && matches!(verify(current, next), Signature::Good)
            };
            match chain.iter().find(above) {
                Some(next) => current = next,
                None => break,
            }
        }
        result
    }
}

/// Whether the certificate that counts in these files chains to an authority.
pub(super) fn is_signed_by(found: &Found, issuers: &Issuers<'_>, authority: &str) -> bool {
    let Ok(parsed) = parse_all(found) else { return false };
    let (index, _) = the_one(&parsed, &found.keys, false);
    parsed.get(index).is_some_and(|leaf| matches!(issuers.signer(leaf, &parsed, Some(authority)), Signer::Found(_)))
}

/// Fills in what the certificate says and what is wrong with it. `issuers` is None for authorities themselves.
pub(super) fn judge(certificate: &mut Certificate, found: &Found, issuers: Option<&Issuers<'_>>, now: DateTime<Utc>) {
    certificate.missing = found.missing;
    certificate.problems.extend(found.problems.iter().cloned());
    if found.missing {
        if certificate.required {
            certificate.problems.push(Problem::Missing);
        }
        return;
    }
    match parse_all(found) {
        Ok(parsed) if parsed.is_empty() => {}
        Ok(parsed) => match judge_parsed(certificate, found, &parsed, issuers, now) {
            Ok(leaf) => certificate.leaf = Some(leaf),
            Err(why) => certificate.problems.push(Problem::NotACertificate(why)),
        },
        Err(why) => certificate.problems.push(Problem::NotACertificate(why)),
    }
    certificate.problems.sort();
    certificate.problems.dedup();
}

/// Every certificate of the file: kubeadm refuses a file in which one does not parse (client-go `cert.ParseCertsPEM`).
fn parse_all(found: &Found) -> Result<Vec<X509Certificate<'_>>, String> {
    found.ders.iter().map(|der| x509::certificate(der)).collect()
}

fn judge_parsed(
    certificate: &mut Certificate,
    found: &Found,
    parsed: &[X509Certificate<'_>],
    issuers: Option<&Issuers<'_>>,
    now: DateTime<Utc>,
) -> Result<Leaf, String> {
    let (index, not_first) = the_one(parsed, &found.keys, issuers.is_none());
    let this = &parsed[index];
    let leaf = x509::leaf(this)?;
    if not_first {
        certificate.problems.push(Problem::NotFirst);
    }
    key(certificate, found, this);
    if let Some(issuers) = issuers {
        signature(certificate, this, &leaf, parsed, issuers);
        if let Some(ca) = &found.ca {
            ca_inside(certificate, ca, issuers, now);
        }
    }
    dates(certificate, &leaf, now);
    Ok(leaf)
}

/// The one of several certificates that counts, and whether it should have been the first and is not.
///
/// Kubernetes and kubeadm take the first. Of a chain in the wrong order the first that is no CA is meant; of an authority's
/// bundle the one that belongs to the key, and its place matters only where the names differ, since kubeadm signs with the
/// key under the first one's name (kubeadm `pkiutil.TryLoadCertAndKeyFromDisk`).
fn the_one(parsed: &[X509Certificate<'_>], keys: &[Key], authority: bool) -> (usize, bool) {
    if parsed.len() < 2 {
        return (0, false);
    }
    let wanted = |certificate: &X509Certificate<'_>| match (authority, keys.first()) {
        (true, None) => true,
        (true, Some(key)) => keys::belongs(key, certificate.public_key()) == Ok(true),
        (false, _) => !certificate.is_ca(),
    };
    let index = parsed.iter().position(wanted).unwrap_or(0);
    let same_name = authority && x509::same_name(parsed[0].subject(), parsed[index].subject());
    (index, index != 0 && !same_name)
}

fn key(certificate: &mut Certificate, found: &Found, parsed: &X509Certificate<'_>) {
    let optional = matches!(certificate.kind, Kind::Authority { .. });
    if found.key_missing && !optional {
        certificate.problems.push(Problem::KeyMissing);
    }
    // Go takes the first key of a file (crypto/tls `X509KeyPair`)
    match found.keys.first().map(|key| keys::belongs(key, parsed.public_key())) {
        Some(Ok(false)) => certificate.problems.push(Problem::KeyMismatch),
        Some(Err(why)) => certificate.problems.push(Problem::CannotBeJudged(why)),
        Some(Ok(true)) | None => {}
    }
}

fn signature(
    certificate: &mut Certificate,
    parsed: &X509Certificate<'_>,
    leaf: &Leaf,
    chain: &[X509Certificate<'_>],
    issuers: &Issuers<'_>,
) {
    let expected = certificate.ca_name.clone();
    match (issuers.signer(parsed, chain, expected.as_deref()), expected) {
        (Signer::Found(issuer), _) => {
            certificate.ca_name = Some(issuer.authority.to_owned());
            if leaf.not_after > issuer.not_after {
                certificate
                    .problems
                    .push(Problem::OutlivesCa { ca: issuer.authority.to_owned(), ca_not_after: issuer.not_after });
            }
        }
        (Signer::Unsupported(why), _) => certificate.problems.push(Problem::CannotBeJudged(why)),
        // a CA that cannot be read has its own entry, and its own problem
        (Signer::Other | Signer::Unknown, Some(ca)) if issuers.knows(&ca) => {
            certificate.problems.push(Problem::NotSignedByCa { ca });
        }
        (Signer::Other | Signer::Unknown, _) => {}
    }
}

/// The CA inside a kubeconfig must be the one on disk, by name and key, and one of its certificates still valid.
fn ca_inside(
    certificate: &mut Certificate,
    ca: &Result<Vec<Vec<u8>>, String>,
    issuers: &Issuers<'_>,
    now: DateTime<Utc>,
) {
    let Some(name) = certificate.ca_name.clone() else { return };
    if !issuers.knows(&name) {
        return;
    }
    let ders = match ca {
        Ok(ders) => ders,
        Err(why) => return certificate.problems.push(Problem::CaInKubeconfig(why.clone())),
    };
    let inside: Vec<_> = ders.iter().filter_map(|der| x509::certificate(der).ok()).collect();
    let ours: Vec<_> = inside.iter().filter(|inside| issuers.same_key(&name, inside)).collect();
    if ours.is_empty() {
        certificate.problems.push(Problem::CaMismatch { ca: name });
    } else if let Some(last) = ours.iter().filter_map(|ours| x509::leaf(ours).ok()).map(|leaf| leaf.not_after).max()
        && last < now
    {
        certificate
            .problems
            .push(Problem::CaInKubeconfig(format!("expired on {}", last.format("%Y-%m-%d %H:%M:%S UTC"))));
    }
}

fn dates(certificate: &mut Certificate, leaf: &Leaf, now: DateTime<Utc>) {
    if leaf.not_after < now {
        certificate.problems.push(Problem::Expired { at: leaf.not_after });
    }
    if leaf.not_before > now {
        certificate.problems.push(Problem::NotYetValid { from: leaf.not_before });
    }
}
