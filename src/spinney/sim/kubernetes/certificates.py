"""Keys and certificates for servers on loopback: one authority, one server certificate, one service account key.

Never for anything that can be reached from another machine: the keys live as files beside the control plane's data.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files."""

    authority: Path
    server: Path
    server_key: Path
    service_account_key: Path


def write_certificates(directory: Path, names: tuple[str, ...] = ("localhost",)) -> Certificates:
    """Make fresh keys and write them (the service account key only once); the authority's own key is forgotten."""
    authority_key, server_key = _new_key(), _new_key()
    authority = _authority(authority_key)
    paths = Certificates(
        directory / "ca.crt", directory / "server.crt", directory / "server.key", directory / "service-account.key"
    )
    _write(paths.authority, authority.public_bytes(serialization.Encoding.PEM))
    server = _server(server_key, authority, authority_key, names)
    _write(paths.server, server.public_bytes(serialization.Encoding.PEM))
    _write(paths.server_key, _private(server_key))
    if not paths.service_account_key.exists():  # tokens outlive a restart as the objects do
        _write(paths.service_account_key, _private(_new_key()))
    return paths


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    """In the traditional form: kube-apiserver refuses PKCS#8 for its service account key."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_key_usage(is_authority=is_authority), critical=True)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _common_name("spinney-loopback-ca")
    return _builder(name, name, key, is_authority=True).sign(key, hashes.SHA256())


def _server(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: tuple[str, ...],
) -> x509.Certificate:
    places: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    places += [x509.DNSName(name) for name in names]
    return (
        _builder(_common_name("spinney-loopback"), authority.subject, key, is_authority=False)
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
