"""Certificates for our own listeners: an authority, and leaves signed by it.

Never reads a clock (callers give the time) and never writes a key that others can read.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BACKDATED = timedelta(minutes=5)  # clocks of a cluster differ by a little


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes

    @property
    def expires_s(self) -> float:
        return _parse(self.certificate_pem).not_valid_after_utc.timestamp()

    @property
    def made_s(self) -> float:
        """When it was made, to the second."""
        return (_parse(self.certificate_pem).not_valid_before_utc + _BACKDATED).timestamp()


def create_authority(name: str, *, now_s: float, days: int = 3650) -> Certificate:
    """A self-signed EC P-256 authority that may sign leaves only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key.public_key(), now_s, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _signed(builder, key, key)


def issue(
    authority: Certificate, hosts: Sequence[str], *, now_s: float, days: int = 365, client: bool = False
) -> Certificate:
    """A certificate for serving under these DNS names and IP addresses, or for being a client of the first name."""
    use = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    issuer = _parse(authority.certificate_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(hosts[0]), issuer.subject, key.public_key(), now_s, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(_key_id_of(issuer), critical=False)
    )
    return _signed(builder, key, _private_key(authority))


def create_key() -> bytes:
    """A new EC P-256 key as PEM."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def load(certificate_path: Path, key_path: Path) -> Certificate:
    """A certificate and its key from files; a key that is not the certificate's is refused."""
    found = Certificate(certificate_path.read_bytes(), key_path.read_bytes())
    private = serialization.load_pem_private_key(found.key_pem, password=None)
    if private.public_key() != _parse(found.certificate_pem).public_key():
        raise ValueError(f"{key_path} is not the key of the certificate in {certificate_path}")
    return found


def save(certificate: Certificate, certificate_path: Path, key_path: Path) -> None:
    """Write both files; the key is readable by its owner only, from its first byte on."""
    certificate_path.write_bytes(certificate.certificate_pem)
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(certificate.key_pem)


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """TLS 1.2 and later, with this certificate. OpenSSL reads keys from files only: they live for this call."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as directory:
        paths = Path(directory, "tls.crt"), Path(directory, "tls.key")
        save(certificate, *paths)
        context.load_cert_chain(*paths)
    return context


def client_context(bundle_pem: bytes | None) -> ssl.SSLContext:
    """Trust in every certificate of the bundle, root or not, or in the system's roots; names come from SANs only."""
    context = ssl.create_default_context(cadata=bundle_pem.decode() if bundle_pem else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context


def is_issued_by(leaf: Certificate, authority: Certificate) -> bool:
    """Whether the authority's own key signed the leaf."""
    try:
        _parse(leaf.certificate_pem).verify_directly_issued_by(_parse(authority.certificate_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def joined(*bundles: bytes) -> bytes:
    """Every certificate of the bundles once, in the order in which they come first."""
    found = [one for bundle in bundles if bundle for one in x509.load_pem_x509_certificates(bundle)]
    return b"".join(dict.fromkeys(map(pem, found)))


def certificates_in(bundle: bytes) -> list[x509.Certificate]:
    """None where the bundle is empty or cannot be read: somebody else may have written it."""
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def is_due(certificate: Certificate, now_s: float, margin_s: float) -> bool:
    """Whether it expires within the margin."""
    return certificate.expires_s - now_s <= margin_s


def _parse(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _private_key(certificate: Certificate) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(certificate.key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"the authority's key is {type(key).__name__}, expected an EC key")
    return key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now_s: float, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(now_s, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_id_of(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key = issuer.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Certificate:
    certificate = builder.sign(signer, hashes.SHA256())
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """In the traditional form: kube-apiserver refuses PKCS#8 for its service account key."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
