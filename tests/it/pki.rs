//! The fixtures themselves: certificates say what they were told to say.

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::support::pki::{Algorithm, Ca, Spec, at};

#[test]
fn a_leaf_of_every_algorithm_has_its_dates_and_its_issuer() {
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("9999-12-31T23:59:59Z"));
    for algorithm in [Algorithm::Rsa(1), Algorithm::P256, Algorithm::P384, Algorithm::Ed25519] {
        let ca = Ca::new("kubernetes", algorithm, from, to);
        let ca = Ca::load(&ca.pair.cert, &ca.pair.key);
        let pair = ca.issue(&Spec::server("kube-apiserver", &["localhost", "::1"], from, to).algorithm(algorithm));
        let (_, leaf) = X509Certificate::from_der(&pair.der).unwrap();
        let (_, issuer) = X509Certificate::from_der(&ca.pair.der).unwrap();
        leaf.verify_signature(Some(issuer.public_key())).unwrap();
        assert_eq!(leaf.validity().not_after.timestamp(), to.timestamp());
    }
}
