"""A certificate authority and leaves for the tests of TLS."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ONE_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Leaf:
    certificate: bytes
    key: bytes


class Authority:
    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        builder = _builder(self._name, self._name, self._key.public_key())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._own = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self._own.public_bytes(serialization.Encoding.PEM)

    def leaf(self, name: str, *hosts: str) -> Leaf:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_common_name(name), self._name, key.public_key())
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        signed = builder.sign(self._key, hashes.SHA256())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Leaf(signed.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form))


def server_context(directory: Path, leaf: Leaf, client_authority: Authority | None = None) -> ssl.SSLContext:
    chain, key = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(leaf.certificate)
    key.write_bytes(leaf.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    if client_authority is not None:
        context.load_verify_locations(cadata=client_authority.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _ONE_DAY)
        .not_valid_after(now + _ONE_DAY)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
