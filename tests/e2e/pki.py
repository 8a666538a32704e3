#!/usr/bin/python3
"""Certificates of a node with dates of one's choice.

usage: pki.py authorities CERT_DIR NAME...
           make these of kubeadm's CAs (ca, front-proxy-ca, etcd/ca) as they are a year after the cluster was made, where
           CERT_DIR has none
       pki.py reissue CERT_DIR DAYS FILE...
           re-issue the certificate in each file (PEM, with its key or without, or kubeconfig) by its CA, kubelet.crt by its own
           key, with that lifetime left (a fraction will do; below 0: it has ended); keys, names and usages stay
"""

import base64
import datetime
import os
import re
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

COMMON_NAMES = {"ca": "kubernetes", "front-proxy-ca": "front-proxy-ca", "etcd/ca": "etcd-ca"}

YEAR = datetime.timedelta(days=365)
NOW = datetime.datetime.utcnow().replace(microsecond=0)  # to the second, as certificates are


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data, mode):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def authorities(cert_dir, names):
    for name in names:
        if os.path.exists(f"{cert_dir}/{name}.crt"):
            continue
        os.makedirs(os.path.dirname(f"{cert_dir}/{name}.crt"), exist_ok=True)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, COMMON_NAMES[name])])
        usage = dict.fromkeys(
            ("content_commitment", "data_encipherment", "key_agreement", "crl_sign", "encipher_only", "decipher_only"), False
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - YEAR)
            .not_valid_after(NOW + 9 * YEAR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_encipherment=True, key_cert_sign=True, **usage), critical=True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        write(f"{cert_dir}/{name}.key", private, 0o600)
        write(f"{cert_dir}/{name}.crt", pem(certificate), 0o644)


def load_key(path):
    return serialization.load_pem_private_key(read(path), None)


def load_authority(cert_dir, name):
    return x509.load_pem_x509_certificate(read(f"{cert_dir}/{name}.crt")), load_key(f"{cert_dir}/{name}.key")


def reissued(old, authority, days):
    """The certificate `old` (PEM), signed anew, with a life that ends in `days` days and was a year long at most."""
    old = x509.load_pem_x509_certificate(old)
    certificate, key = authority
    end = NOW + datetime.timedelta(days=days)
    begin = max(end - YEAR, certificate.not_valid_before) if certificate else end - YEAR
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(certificate.subject if certificate else old.subject)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return pem(builder.sign(key, hashes.SHA256()))


def signer_of(path):
    if "/etcd/" in path or path.endswith("/apiserver-etcd-client.crt"):
        return "etcd/ca"
    return "front-proxy-ca" if path.endswith("/front-proxy-client.crt") else "ca"


def reissue(cert_dir, days, paths):
    field = re.compile(rb"(client-certificate-data: )(\S+)")
    for path in paths:
        text = read(path)
        if path.endswith("/kubelet.crt"):
            authority = None, load_key(path.removesuffix(".crt") + ".key")
        else:
            authority = load_authority(cert_dir, signer_of(path))
        if found := field.search(text):
            new = base64.b64encode(reissued(base64.b64decode(found[2]), authority, days))
            write(path, text.replace(found[2], new), 0o600)
        else:
            key = text[text.index(b"-----END CERTIFICATE-----\n") + 26 :] if b"PRIVATE KEY" in text else b""
            write(path, reissued(text, authority, days) + key, 0o600 if key else 0o644)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["authorities", cert_dir, *names] if names:
            authorities(cert_dir, names)
        case ["reissue", cert_dir, days, *paths] if paths:
            reissue(cert_dir, float(days), paths)
        case _:
            sys.exit(__doc__)
