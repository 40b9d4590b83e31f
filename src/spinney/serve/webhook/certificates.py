"""The webhook's certificates: made and rotated by ourselves, or found in a directory that others keep.

Trust comes first: a certificate is shown when what makes clients trust it has been published for `settle_s`, and what
the one before needed stays published for as long again. An authority is replaced in three steps, with `settle_s`
between them: it comes into the bundle, then leaves are signed by it, then the older one goes out of the bundle. All
steps follow from the ages of the authorities, so that processes that share them agree without speaking to each other.

What an API server trusts already and this process knows nothing of is left in the bundle for a while: another replica
may still show a certificate that needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from kube_apimachinery import tls
from kube_apimachinery.clock import Clock

Authorities = tuple[tls.Certificate, ...]
"""Oldest first."""

_DAY_S = 86_400.0
_SIGNS_AFTER, _ALONE_AFTER = 1, 3
"""Multiples of `settle_s`. Leaves change within one of them, so that a third one is enough for all to have done it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long certificates are good for, how early they are replaced, and how long a step is given."""

    authority_days: int = 365
    authority_margin_s: float = 90 * _DAY_S
    leaf_days: int = 30
    leaf_margin_s: float = 10 * _DAY_S
    settle_s: float = 300.0


def rotated(authorities: Sequence[tls.Certificate], now_s: float, schedule: Schedule) -> Authorities:
    """The authorities as they should be now: one more, one less, or the same."""
    living = tuple(one for one in authorities if one.expires_s > now_s)
    if not living:
        return (_new(now_s, schedule),)
    newest = living[-1]
    if len(living) > 1:
        return (newest,) if _age(newest, now_s) >= _ALONE_AFTER * schedule.settle_s else living
    if tls.is_due(newest, now_s, schedule.authority_margin_s):
        return (newest, _new(now_s, schedule))
    return living


def signer(authorities: Authorities, now_s: float, schedule: Schedule) -> tls.Certificate:
    """The newest one that everybody has had the time to trust."""
    newest = authorities[-1]
    if len(authorities) == 1 or _age(newest, now_s) >= _SIGNS_AFTER * schedule.settle_s:
        return newest
    return authorities[-2]


def leaf_for(
    current: tls.Certificate | None,
    authorities: Authorities,
    hosts: Sequence[str],
    now_s: float,
    schedule: Schedule,
) -> tls.Certificate:
    """The certificate to show: the current one while it is good, else a new one."""
    signs = signer(authorities, now_s, schedule)
    if (
        current is not None
        and not tls.is_due(current, now_s, schedule.leaf_margin_s)
        and tls.is_issued_by(current, signs)
    ):
        return current
    return tls.issue(signs, hosts, now_s=now_s, days=schedule.leaf_days)


def _new(now_s: float, schedule: Schedule) -> tls.Certificate:
    return tls.create_authority("spinney-webhook", now_s=now_s, days=schedule.authority_days)


def _age(authority: tls.Certificate, now_s: float) -> float:
    return now_s - authority.made_s


CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ServingCertificates:
    """What to show, and what makes clients trust it; an empty bundle is published by somebody else."""

    leaf: tls.Certificate
    bundle: bytes


class Source(Protocol):
    """Read again and again; gives the same certificates while nothing has to change."""

    async def read(self, now_s: float) -> ServingCertificates: ...


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

    async def read(self, now_s: float) -> ServingCertificates:
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

    async def read(self, now_s: float) -> ServingCertificates:
        leaf = tls.load(self._directory / CERTIFICATE, self._directory / KEY)
        authority = self._directory / AUTHORITY
        return ServingCertificates(leaf, tls.joined(authority.read_bytes()) if authority.exists() else b"")


log = structlog.get_logger("webhook")

_CHECK_S = 10.0

Merge = Callable[[bytes], bytes]
"""From the bundle that is trusted now to the one that should be."""

Publish = Callable[[Merge], Awaitable[None]]
Show = Callable[[tls.Certificate], None]


class CertificateRotation:
    """`begin` gives the first certificate; `run` keeps it up to date from then on."""

    def __init__(self, source: Source, publish: Publish, clock: Clock, settle_s: float) -> None:
        self._source = source
        self._publish = publish
        self._clock = clock
        self._settle_s = settle_s
        self._check_interval_s = min(_CHECK_S, settle_s / 4)
        self._shown: ServingCertificates | None = None
        self._shown_at = 0.0
        self._before = b""
        self._published = b""
        self._published_at = 0.0
        self._own: set[bytes] = set()
        self._found_at: dict[bytes, float] = {}
        self._is_trusted = False
        self.failure = ""
        """Why the last refresh failed; empty if it did not."""

    @property
    def trouble(self) -> str:
        """Why nobody should call this webhook.

        A refresh that fails later on does not take it out of service: API servers go on trusting what was published,
        and they need it for every version they convert.
        """
        if not self._is_trusted:
            return f"certificates: {self.failure}" if self.failure else "certificates have not been published"
        if self._shown is not None and self._shown.leaf.expires_s <= self._clock.now():
            return f"the certificate has expired: {self.failure or 'no other one is trusted yet'}"
        return ""

    async def begin(self) -> tls.Certificate:
        """The certificate to listen with."""
        self._shown = await self._source.read(self._clock.now())
        self._shown_at = self._clock.monotonic()
        return self._shown.leaf

    async def run(self, show: Show) -> None:
        """Until cancelled. What cannot be read or published now is tried again."""
        while True:
            await self.try_refresh(show)
            await asyncio.sleep(self._check_interval_s)

    async def try_refresh(self, show: Show) -> None:
        try:
            await self.refresh(show)
            self.failure, self._is_trusted = "", True
        except Exception as error:
            self.failure = str(error)
            log.warning("certificates could not be refreshed", error=self.failure)

    async def refresh(self, show: Show) -> None:
        """Publish what is needed, then show what is trusted."""
        assert self._shown is not None, "begin comes first"
        found = await self._source.read(self._clock.now())
        await self._publish_trust(tls.joined(found.bundle, self._shown.bundle if self._is_new(found) else self._kept()))
        if self._is_new(found):
            if found.bundle and self._clock.monotonic() - self._published_at < self._settle_s:
                return
            show(found.leaf)
            log.info("another certificate is shown", expires_s=found.leaf.expires_s)
            self._before, self._shown_at = self._shown.bundle, self._clock.monotonic()
        self._shown = found

    def _is_new(self, found: ServingCertificates) -> bool:
        return self._shown is None or found.leaf != self._shown.leaf

    def _kept(self) -> bytes:
        """What the certificate before this one needed, for a while: not every replica shows another one yet."""
        if self._clock.monotonic() - self._shown_at >= self._settle_s:
            self._before = b""
        return self._before

    async def _publish_trust(self, bundle: bytes) -> None:
        if not bundle:
            return
        self._own.update(map(tls.pem, tls.certificates_in(bundle)))
        await self._publish(lambda trusted: tls.joined(bundle, self._of_others(trusted)))
        if bundle != self._published:
            self._published, self._published_at = bundle, self._clock.monotonic()

    def _of_others(self, trusted: bytes) -> bytes:
        """Authorities that this process never had, until every replica that did has gone through all steps.

        When the shared authorities are emptied, a replica that starts then makes new ones, and others show a leaf of
        the old one until they have noticed, and until what they show next is trusted.
        """
        now_s, kept = self._clock.monotonic(), b""
        for one in tls.certificates_in(trusted):
            pem = tls.pem(one)
            if pem in self._own or one.not_valid_after_utc.timestamp() <= self._clock.now():
                continue
            if now_s - self._found_at.setdefault(pem, now_s) < _ALONE_AFTER * self._settle_s:
                kept += pem
        return kept
