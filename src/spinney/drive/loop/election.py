"""Who leads: one Lease, taken and kept by compare-and-swap, with an epoch that never decreases.

A lease does not exclude two leaders: clocks stop, processes pause. It says when to stop starting work; what excludes
the loser's writes is the epoch in what it writes. Other processes' clocks are never compared with ours: a holder is
dead when we, by our own clock, have seen no sign of life for as long as it promised to give one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from spinney.api.clock import Clock, Dice
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError, NotFound, Policy
from spinney.drive.client.paths import Ref, ResourcePath

LEASES = ResourcePath("coordination.k8s.io", "v1", "leases")

_RELEASE_S = 2.0

_log = structlog.get_logger(__name__)


class LeadershipLost(ClientError):
    """We may no longer lead: start no more work."""

    policy = Policy.TELL_USER


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease is good for, when its holder gives up renewing, and how often everybody tries."""

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_deadline_s > self.retry_s > 0:
            raise ValueError(f"found {self}, expected duration_s > renew_deadline_s > retry_s > 0")


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


_READ = msgspec.json.Decoder(_Lease)


class Leadership:
    """Held until a moment that renewals push forward. `check` is what the door asks before each write."""

    def __init__(self, epoch: int, clock: Clock, deadline: float) -> None:
        self.epoch = epoch
        self._clock = clock
        self._deadline = deadline

    def holds(self) -> bool:
        return self._clock.monotonic() < self._deadline

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        if not self.holds():
            raise LeadershipLost(f"the lease of epoch {self.epoch} was not renewed in time")

    def extend(self, deadline: float) -> None:
        self._deadline = deadline

    def end(self) -> None:
        self._deadline = float("-inf")


class Election:
    """One candidate. `identity` is unique to the process; `epoch_floor` is the highest epoch found in any record."""

    def __init__(
        self,
        client: ApiClient,
        door: Door,
        lease: Ref,
        identity: str,
        clock: Clock,
        dice: Dice,
        *,
        terms: Terms | None = None,
        epoch_floor: Callable[[], int] = lambda: 0,
    ) -> None:
        self._client = client
        self._door = door
        self._ref = lease
        self._identity = identity
        self._clock = clock
        self._dice = dice
        self._terms = terms or Terms()
        self._epoch_floor = epoch_floor
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        self._highest_epoch = 0

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Wait for leadership, then lead until done. Raises `LeadershipLost` when it is lost: then exit."""
        leadership = await self.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._keep(leadership), name="lease renewal")
                group.create_task(_finish(lead(leadership), renewing), name="leading")
        except* LeadershipLost as lost:
            raise LeadershipLost(str(lost.exceptions[0])) from None
        finally:
            held = leadership.holds()
            leadership.end()
            if held:
                await self._release()

    async def acquire(self) -> Leadership:
        """Try until the lease is ours."""
        while True:
            began = self._clock.monotonic()
            try:
                epoch = await self._try_to_acquire()
            except ClientError as error:
                _log.warning("election: lease out of reach", lease=str(self._ref), error=str(error))
                epoch = None
            if epoch is not None:
                _log.info("leading", lease=str(self._ref), identity=self._identity, epoch=epoch)
                return Leadership(epoch, self._clock, began + self._terms.renew_deadline_s)
            await asyncio.sleep(self._terms.retry_s * (0.75 + 0.5 * self._dice.random()))

    async def _try_to_acquire(self) -> int | None:
        """The epoch, if the lease is free or its holder dead, and nobody else was quicker."""
        lease = await self._look()
        if lease is not None and not self._is_free(lease):
            return None
        epoch = max(self._highest_epoch, self._epoch_floor()) + 1
        spec = self._spec(epoch) | {"acquireTime": self._stamp()}
        if lease is None:
            body = {"apiVersion": LEASES.api_version, "kind": "Lease", "spec": spec}
            outcome = await self._door.create(self._ref, body)
        else:
            outcome = await self._door.merge_patch(self._ref, {"spec": spec}, _as_seen(lease))
        return epoch if self._took(outcome) else None

    async def _look(self) -> _Lease | None:
        """The lease as it is, with the time by our clock at which it last changed."""
        try:
            lease = await self._client.get(self._ref, _Lease)
        except NotFound:
            self._seen = None
            return None
        self._note(lease)
        return lease

    def _note(self, lease: _Lease) -> None:
        if self._seen is None or self._seen.metadata != lease.metadata:
            self._seen, self._seen_at = lease, self._clock.monotonic()
        self._highest_epoch = max(self._highest_epoch, lease.spec.lease_transitions or 0)

    def _is_free(self, lease: _Lease) -> bool:
        """A lease in our own name is free to us: we took it and the answer was lost, for nobody else is called so."""
        if lease.spec.holder_identity in (None, "", self._identity):
            return True
        promised_s = lease.spec.lease_duration_seconds or self._terms.duration_s
        return self._clock.monotonic() - self._seen_at > promised_s

    async def _keep(self, leadership: Leadership) -> None:
        """Renew until we cannot; a renewal counts from the moment it was asked for."""
        while True:
            await asyncio.sleep(self._terms.retry_s)
            began = self._clock.monotonic()
            leadership.check()
            try:
                async with asyncio.timeout(leadership.remaining_s()):
                    renewed = await self._renew(leadership.epoch)
            except LeadershipLost:
                leadership.end()
                raise
            except (ClientError, TimeoutError) as error:
                _log.warning("election: renewal failed", lease=str(self._ref), error=str(error))
                renewed = False
            if renewed:
                leadership.extend(began + self._terms.renew_deadline_s)
            leadership.check()

    async def _renew(self, epoch: int) -> bool:
        """True if renewed, False if it may work next time. Raises `LeadershipLost` if another one holds it."""
        if self._seen is None or not self._is_ours(self._seen, epoch):
            lease = await self._look()
            if lease is None or not self._is_ours(lease, epoch):
                holder = lease.spec.holder_identity if lease else "nobody"
                raise LeadershipLost(f"{self._ref}: epoch {epoch} was taken over by {holder}")
        assert self._seen is not None
        outcome = await self._door.merge_patch(self._ref, {"spec": self._spec(epoch)}, _as_seen(self._seen))
        if self._took(outcome):
            return True
        self._seen = None
        return False

    async def _release(self) -> None:
        """Let the next one in at once instead of after the lease's duration."""
        if self._seen is None:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                await self._door.merge_patch(self._ref, {"spec": spec}, _as_seen(self._seen))

    def _took(self, outcome: Outcome) -> bool:
        if not isinstance(outcome, Written):
            return False
        self._note(_READ.decode(outcome.body))
        return True

    def _is_ours(self, lease: _Lease, epoch: int) -> bool:
        return lease.spec.holder_identity == self._identity and lease.spec.lease_transitions == epoch

    def _spec(self, epoch: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.duration_s,
            "leaseTransitions": epoch,
            "renewTime": self._stamp(),
        }

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_seen(lease: _Lease) -> Precondition:
    return Precondition(lease.metadata.uid, lease.metadata.resource_version)


async def _finish(work: Awaitable[None], renewing: asyncio.Task[None]) -> None:
    try:
        await work
    finally:
        renewing.cancel()
