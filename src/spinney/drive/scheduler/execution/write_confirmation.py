"""Confirms own writes whose result is unknown: nothing continues before it is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from kube_apimachinery.clock import Dice
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.read_own_writes import catch_up

_BACKOFF = Backoff(base_s=0.05, cap_s=5.0)
_log = structlog.get_logger(__name__)


class WriteConfirmation:
    """Covers the caches that decisions are based on. `settled` is called when all results are known."""

    def __init__(
        self, client: ApiClient, caches: Sequence[Cache[Any]], dice: Dice, settled: Callable[[], None]
    ) -> None:
        self._client = client
        self._caches = tuple(caches)
        self._dice = dice
        self._settled = settled

    async def confirm_writes(self) -> None:
        """Wait until the caches show the results of everything written so far."""
        attempt = 0
        while True:
            try:
                await catch_up(self._client, self._caches)
                self._settled()
                return
            except ClientError as error:
                _log.warning("own writes are not settled yet", error=str(error))
            await asyncio.sleep(_BACKOFF.delay_s(attempt, self._dice))
            attempt += 1
