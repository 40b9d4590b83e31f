"""Certificates of a running webhook kept fresh, in an order in which no call fails.

Trust comes first: a certificate is shown when what makes clients trust it has been published for `settle_s`, and what
the one before needed stays published for as long again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from kube_apimachinery import tls
from kube_apimachinery.clock import Clock
from spinney.serve.webhook.certificate_source import ServingCertificates, Source

log = structlog.get_logger("webhook")

_CHECK_S = 10.0

Publish = Callable[[bytes], Awaitable[None]]
Show = Callable[[tls.Certificate], None]


class CertificateRotation:
    """`begin` gives the first certificate; `run` looks after it from then on."""

    def __init__(self, source: Source, publish: Publish, clock: Clock, settle_s: float) -> None:
        self._source = source
        self._publish = publish
        self._clock = clock
        self._settle_s = settle_s
        self._look_s = min(_CHECK_S, settle_s / 4)
        self._shown: ServingCertificates | None = None
        self._shown_at = 0.0
        self._before = b""
        self._published = b""
        self._published_at = 0.0
        self._is_trusted = False
        self.failure = ""
        """Why the last look failed; empty if it did not."""

    @property
    def trouble(self) -> str:
        """Why nobody should call this webhook.

        A look that fails later on does not take it out of service: API servers go on trusting what they were told, and
        they need it for every version they convert.
        """
        if not self._is_trusted:
            return f"certificates: {self.failure}" if self.failure else "certificates have not been published"
        if self._shown is not None and self._shown.leaf.expires_s <= self._clock.now():
            return f"the certificate has expired: {self.failure or 'no other one is trusted yet'}"
        return ""

    async def begin(self) -> tls.Certificate:
        """The certificate to listen with."""
        self._shown = await self._source.look(self._clock.now())
        self._shown_at = self._clock.monotonic()
        return self._shown.leaf

    async def run(self, show: Show) -> None:
        """Until cancelled. What cannot be read or published now is tried again."""
        while True:
            await self.try_refresh(show)
            await asyncio.sleep(self._look_s)

    async def try_refresh(self, show: Show) -> None:
        try:
            await self.look(show)
            self.failure, self._is_trusted = "", True
        except Exception as error:
            self.failure = str(error)
            log.warning("certificates could not be looked after", error=self.failure)

    async def look(self, show: Show) -> None:
        """One look: publish what is needed, then show what is trusted."""
        assert self._shown is not None, "begin comes first"
        found = await self._source.look(self._clock.now())
        await self._tell(tls.joined(found.bundle, self._shown.bundle if self._is_new(found) else self._kept()))
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

    async def _tell(self, bundle: bytes) -> None:
        if not bundle:
            return
        await self._publish(bundle)
        if bundle != self._published:
            self._published, self._published_at = bundle, self._clock.monotonic()
