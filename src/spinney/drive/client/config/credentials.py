"""How to reach one API server and how to authenticate to it, as a kubeconfig or the in-cluster environment say."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kube_apimachinery.clock import Clock
from spinney.drive.client.errors import CredentialError

_TOKEN_FILE_AGE_S = 30.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, in PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Grant:
    """Credentials to present: headers on each request, a certificate on each connection."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Certificate | None = None


class Credentials(Protocol):
    """Returns the valid credentials. `renew` is called after a 401; True if the request should be retried."""

    async def grant(self) -> Grant: ...

    def renew(self) -> bool: ...


class Fixed:
    """Static credentials: a token, a password, a certificate, or none."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    async def grant(self) -> Grant:
        return self._grant

    def renew(self) -> bool:
        return False


class TokenFile:
    """A token file that another process rotates, as the kubelet does."""

    def __init__(self, path: Path, clock: Clock, certificate: Certificate | None = None) -> None:
        self._path = path
        self._clock = clock
        self._certificate = certificate
        self._grant: Grant | None = None
        self._read_at = 0.0

    async def grant(self) -> Grant:
        now = self._clock.monotonic()
        if self._grant is None or now - self._read_at >= _TOKEN_FILE_AGE_S:
            self._grant = Grant(bearer(self._read()), self._certificate)
            self._read_at = now
        return self._grant

    def renew(self) -> bool:
        old, self._grant = self._grant, None
        return old is not None

    def _read(self) -> str:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialError(f"{self._path}: found no readable token: {error}") from error
        if not token:
            raise CredentialError(f"{self._path}: found an empty file, expected a token")
        return token


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(user: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {pair}"}


@dataclass(frozen=True, slots=True)
class Connection:
    """Server address, CA, credentials and the default namespace."""

    server: str
    credentials: Credentials = field(repr=False)
    ca: bytes | None = None
    verify: bool = True
    tls_server_name: str | None = None
    namespace: str = "default"
    source: str = ""
