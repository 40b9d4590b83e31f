"""Where the webhook's certificate comes from: made by ourselves, or found in a directory that others keep.

Never tells anybody about it: what is published, and when a certificate is shown, is the upkeep's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kube_apimachinery import tls
from spinney.serve.webhook.ca_rotation import Authorities, Schedule, leaf_for, rotated

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ServingCertificates:
    """What to show, and what makes clients trust it; an empty bundle is published by somebody else."""

    leaf: tls.Certificate
    bundle: bytes


class Source(Protocol):
    """Looked at again and again; gives the same papers while nothing has to change."""

    async def look(self, now_s: float) -> ServingCertificates: ...


class OutpacedError(RuntimeError):
    """Somebody else changed the authorities first: read them again."""


class Store(Protocol):
    """Keeps the authorities, for this process or for all replicas."""

    async def read(self) -> Authorities: ...

    async def write(self, authorities: Authorities) -> None:
        """Over what was read last; raises `OutpacedError` if that is no longer there."""
        ...


class InMemoryStore:
    """For a webhook that is alone and whose authorities need not outlive it."""

    def __init__(self) -> None:
        self._authorities: Authorities = ()

    async def read(self) -> Authorities:
        return self._authorities

    async def write(self, authorities: Authorities) -> None:
        self._authorities = authorities


class SelfSigned:
    """Certificates of our own, replaced on schedule."""

    def __init__(self, store: Store, hosts: Sequence[str], schedule: Schedule) -> None:
        self._store = store
        self._hosts = tuple(hosts)
        self._schedule = schedule
        self._leaf: tls.Certificate | None = None

    async def look(self, now_s: float) -> ServingCertificates:
        authorities = await self._turn(now_s)
        self._leaf = leaf_for(self._leaf, authorities, self._hosts, now_s, self._schedule)
        return ServingCertificates(self._leaf, tls.joined(*(one.certificate_pem for one in authorities)))

    async def _turn(self, now_s: float) -> Authorities:
        for _ in range(_TRIES):
            found = await self._store.read()
            wanted = rotated(found, now_s, self._schedule)
            if wanted == found:
                return found
            try:
                await self._store.write(wanted)
            except OutpacedError:
                continue
            return wanted
        raise OutpacedError(f"the authorities of the webhook were changed by others {_TRIES} times in a row")


class MountedCertificates:
    """`tls.crt` and `tls.key` of a directory, and `ca.crt` if it is there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def look(self, now_s: float) -> ServingCertificates:
        leaf = tls.load(self._directory / CERTIFICATE, self._directory / KEY)
        authority = self._directory / AUTHORITY
        return ServingCertificates(leaf, tls.joined(authority.read_bytes()) if authority.exists() else b"")
