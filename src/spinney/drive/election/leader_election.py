"""Leader election: one Lease, acquired and renewed by compare-and-swap, with an epoch that is counted on that Lease.

A lease alone does not exclude two leaders: clocks stop, processes pause. It says when to stop starting work; the writes
of a former leader are fenced by the epoch that they carry. Clocks of other processes are never compared with ours: a
holder is considered dead when, by our own clock, the lease has not changed for the lease duration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.times import format_micro_time
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Refused, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import codec_for
from spinney.drive.client.errors import ClientError, NotFound, Policy
from spinney.drive.client.informers.cache import version_number
from spinney.drive.client.informers.watch import LineBuffer
from spinney.drive.client.paths import Ref, ResourcePath

LEASES = ResourcePath("coordination.k8s.io", "v1", "leases")
LAST_EPOCH = 2**31 - 1
"""`leaseTransitions` is an int32."""

_RELEASE_S = 2.0
_A_MOMENT_S = 0.001
_WATCH_S = 240
_WATCH_SPREAD_S = 60
_END_S = 10.0
"""The time that the work of a lost term has to end after it was cancelled."""

_log = structlog.get_logger(__name__)


class LeadershipLost(ClientError):
    """We are no longer the leader: start no more work."""

    policy = Policy.TELL_USER


class WorkDidNotEnd(ClientError):
    """The work of a lost term continues although it was cancelled: the process has to exit."""

    policy = Policy.OUR_BUG


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Lease duration, the deadline after which the holder gives up renewing, and the retry interval."""

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
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


_READ = msgspec.json.Decoder(_Lease)


class Leadership:
    """Leadership until a deadline that renewals extend. The door calls `check` before each write.

    `lease_uid` and `epoch` together name the term: epochs of another Lease are not comparable. `confirmed_at` is when
    the last successful renewal was requested. Renewed by one thread and read by another: both only read or replace
    single numbers, so no lock is needed.
    """

    def __init__(
        self, epoch: int, clock: Clock, deadline: float, *, lease_uid: str = "", confirmed_at: float = 0.0
    ) -> None:
        self.epoch = epoch
        self.lease_uid = lease_uid
        self.confirmed_at = confirmed_at
        self._clock = clock
        self._deadline = deadline

    def holds(self) -> bool:
        return self._clock.monotonic() < self._deadline

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        if not self.holds():
            raise LeadershipLost(f"the lease of epoch {self.epoch} was not renewed in time")

    def extend(self, confirmed_at: float, deadline: float) -> None:
        self.confirmed_at = confirmed_at
        self._deadline = deadline

    def end(self) -> None:
        self._deadline = float("-inf")


Elect = Callable[[], Awaitable[Leadership]]
RunOn = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
"""Runs the coroutine that acquires and renews the lease: on the current loop, or in a thread of its own."""


async def _here(work: Coroutine[Any, Any, Any]) -> Any:
    return await work


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Who wants to hold which Lease. `identity` is unique to the process.

    With `watches` the candidate watches the Lease; without it, or where watching is forbidden, it polls.
    """

    lease: Ref
    identity: str
    settings: LeaseSettings = LeaseSettings()
    watches: bool = False


@dataclass(frozen=True, slots=True)
class RenewalLoop:
    """Where the lease is renewed, and why the loop that works must not lead: `stuck` is empty if it may."""

    run: RunOn = _here
    stuck: Callable[[], str] = lambda: ""


class Election:
    """The part of one candidate in the election of a leader."""

    def __init__(
        self,
        client: ApiClient,
        door: Door,
        candidacy: Candidacy,
        clock: Clock,
        dice: Dice,
        renewal: RenewalLoop | None = None,
    ) -> None:
        renewal = renewal or RenewalLoop()
        self._client = client
        self._door = door
        self._ref = candidacy.lease
        self._identity = candidacy.identity
        self._clock = clock
        self._dice = dice
        self._lease_settings = candidacy.settings
        self._watches = candidacy.watches
        self._stuck = renewal.stuck
        self._place = renewal.run
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        self._highest_epoch = 0
        self._led_until: float | None = None  # until when a leader is known to hold, or to have held, the lease
        self._problem = ""
        self._is_watched = False
        self._leadership: Leadership | None = None

    @property
    def leads(self) -> bool:
        return self._leadership is not None and self._leadership.holds()

    def trouble(self) -> str:
        """Why there is no leader; empty while there visibly is one, and for one lease duration after that."""
        if self.leads:
            return ""
        if self._led_until is None:
            return self._problem or f"{self._ref}: was not read yet"
        if self._clock.monotonic() <= self._led_until + self._lease_settings.duration_s:
            return ""
        return f"no process leads: {self._problem or f'{self._ref} is held by a process that does not renew it'}"

    # One term

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Wait for leadership, then lead until done. Raises `LeadershipLost` when it is lost."""

        async def work(elect: Elect) -> None:
            await lead(await elect())

        await self.campaign(work)

    async def campaign(self, work: Callable[[Elect], Awaitable[None]]) -> None:
        """Run work that calls `elect` once it is prepared, until it is done. Raises `LeadershipLost` when leadership is
        lost: all work of the term has ended then, and the caller may campaign again.
        """
        elected: asyncio.Future[Leadership] = asyncio.get_running_loop().create_future()
        wanted = asyncio.Event()

        async def elect() -> Leadership:
            wanted.set()
            return await elected

        async def hold() -> None:
            await wanted.wait()
            await self._place(self._hold(elected))

        tasks = [_begun(_awaited(work(elect)), "term"), _begun(hold(), "lease")]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            held = self.leads
            if self._leadership is not None:
                self._leadership.end()
            await _ended(tasks)
            if held:
                await self._place(self._release())
        _raise_what_ended(tasks)

    async def _hold(self, elected: asyncio.Future[Leadership]) -> None:
        """Acquire the lease and renew it. The waiting work is notified but not waited for, since it may be busy."""
        leadership, loop = await self.acquire(), elected.get_loop()
        if loop is asyncio.get_running_loop():
            _announce(elected, leadership)
        else:
            loop.call_soon_threadsafe(_announce, elected, leadership)
        await self.keep(leadership)

    async def acquire(self) -> Leadership:
        """Try until we hold the lease."""
        changed, following = asyncio.Event(), None
        try:
            while True:
                began = self._clock.monotonic()
                found = await self._try_to_acquire()
                if found is not None:
                    return self._elected(found, began)
                following = following or _begun(self._follow(changed), "lease watch")
                await self._wait_for_a_chance(changed)
        finally:
            if following is not None:
                following.cancel()

    def _elected(self, lease: _Lease, began: float) -> Leadership:
        epoch = lease.spec.lease_transitions or 0
        deadline = began + self._lease_settings.renew_deadline_s
        self._problem = ""
        uid = lease.metadata.uid
        self._leadership = Leadership(epoch, self._clock, deadline, lease_uid=uid, confirmed_at=began)
        self._led_until = deadline
        _log.info("leading", lease=str(self._ref), identity=self._identity, epoch=epoch)
        return self._leadership

    async def _wait_for_a_chance(self, changed: asyncio.Event) -> None:
        """Wait until the lease is free or expired; where it is not watched, until the next poll."""
        retry_s = self._lease_settings.retry_s * (0.75 + 0.5 * self._dice.random())
        while True:
            changed.clear()
            try:
                async with asyncio.timeout(self._free_in_s() or retry_s):
                    await changed.wait()
            except TimeoutError:
                return
            if self._seen is None or self._is_free(self._seen):
                return

    def _free_in_s(self) -> float:
        """Seconds until the lease expires without a renewal; 0: it is not watched, or it is free already."""
        if not self._is_watched or self._seen is None or self._is_free(self._seen):
            return 0.0
        return self._seen_at + self._promised_s(self._seen) - self._clock.monotonic() + _A_MOMENT_S

    async def _try_to_acquire(self) -> _Lease | None:
        """The lease, if it was free or expired and we won the compare-and-swap."""
        try:
            lease = await self._read()
            if not (self._is_free(lease) if lease is not None else self._is_over()):
                self._report_problem("")
                return None
            problem = self._stuck() or self._uncountable(lease)
            if problem:
                self._report_problem(problem)
                return None
            outcome = await self._take(lease)
        except ClientError as error:
            self._report_problem(f"{self._ref} is out of reach: {error}")
            return None
        self._report_problem(f"{self._ref} cannot be taken: {_words(outcome)}" if isinstance(outcome, Refused) else "")
        return self._seen if self._took(outcome) else None

    def _report_problem(self, problem: str) -> None:
        """Log a problem that prevents any leader once, and again when it becomes another problem."""
        if problem and problem != self._problem:
            _log.warning("election: no process can lead", lease=str(self._ref), problem=problem)
        self._problem = problem

    def _uncountable(self, lease: _Lease | None) -> str:
        """Why the epoch cannot be incremented: the server would refuse it, or it would be older than recorded ones."""
        found = (lease.spec.lease_transitions or 0) if lease is not None else 0
        if 0 <= found < LAST_EPOCH:
            return ""
        allowed = f"allowed are 0 to {LAST_EPOCH - 1}"
        return f"{self._ref}: spec.leaseTransitions: found {found}, {allowed}; delete the Lease to count anew"

    async def _take(self, lease: _Lease | None) -> Outcome:
        epoch = self._highest_epoch + 1 if self._highest_epoch < LAST_EPOCH else 1
        spec = self._spec(epoch) | {"acquireTime": format_micro_time(self._clock.now())}
        if lease is None:
            body = {"apiVersion": LEASES.api_version, "kind": "Lease", "spec": spec}
            return await self._door.create(self._ref, body)
        return await self._door.merge_patch(self._ref, {"spec": spec}, _as_seen(lease))

    # Looking

    async def _read(self) -> _Lease | None:
        """Read the lease and note the time by our clock at which it last changed."""
        try:
            lease = await self._client.get(self._ref, _Lease)
        except NotFound:
            self._seen = None
            if self._led_until is None:
                self._led_until = self._clock.monotonic()
            return None
        self._note(lease)
        return lease

    def _note(self, lease: _Lease) -> None:
        """Record the lease, unless it is older than what the watch has already delivered."""
        if self._seen is not None and _is_older(lease.metadata, self._seen.metadata):
            return
        if self._seen is None or self._seen.metadata != lease.metadata:
            self._seen, self._seen_at = lease, self._clock.monotonic()
            self._known_until(self._seen_at + (self._promised_s(lease) if lease.spec.holder_identity else 0))
        self._highest_epoch = max(self._highest_epoch, lease.spec.lease_transitions or 0)

    def _known_until(self, moment: float) -> None:
        self._led_until = max(self._led_until or moment, moment)

    def _promised_s(self, lease: _Lease) -> float:
        return lease.spec.lease_duration_seconds or self._lease_settings.duration_s

    def _is_free(self, lease: _Lease) -> bool:
        """A lease with our own (unique) identity is free to us: we acquired it and the answer was lost."""
        if lease.spec.holder_identity in (None, "", self._identity):
            return True
        return self._clock.monotonic() - self._seen_at > self._promised_s(lease)

    def _is_over(self) -> bool:
        """After the Lease was deleted, wait until its last holder must have noticed that it expired."""
        return self._led_until is None or self._clock.monotonic() >= self._led_until

    # Watching

    async def _follow(self, changed: asyncio.Event) -> None:
        """Set `changed` on every change of the lease. Where it cannot be watched, the caller polls."""
        while self._watches:
            if self._seen is not None:
                try:
                    await self._follow_from(self._seen, changed)
                except (ClientError, TimeoutError) as error:
                    _log.debug("election: the lease is polled", lease=str(self._ref), error=str(error))
                finally:
                    self._is_watched = False
            await asyncio.sleep(self._lease_settings.retry_s)

    async def _follow_from(self, lease: _Lease, changed: asyncio.Event) -> None:
        selection = Selection(LEASES, self._ref.namespace, fields=f"metadata.name={self._ref.name}")
        lines, timeout_s = LineBuffer(), _WATCH_S + int(_WATCH_SPREAD_S * self._dice.random())
        async with (
            asyncio.timeout(timeout_s + self._lease_settings.duration_s),
            self._client.watch(selection, lease.metadata.resource_version, timeout_s) as stream,
        ):
            self._is_watched = True
            async for chunk in stream:
                for piece in lines.feed(chunk):
                    self._fold(piece)
                    changed.set()

    def _fold(self, lines: bytes | memoryview) -> None:
        batch = codec_for(_Lease).events(lines, f"WATCH {self._ref}")
        for event in batch.events:
            if event.type == "DELETED":
                self._seen = None
            else:
                self._note(event.object)
        if batch.failure is not None:
            self._seen = None

    # Keeping

    async def keep(self, leadership: Leadership) -> None:
        """Renew until that fails, then raise `LeadershipLost`; a renewal counts from the moment it was requested."""
        while True:
            await asyncio.sleep(self._lease_settings.retry_s)
            began = self._clock.monotonic()
            leadership.check()
            await self._give_up_if_stuck(leadership)
            try:
                async with asyncio.timeout(leadership.remaining_s()):
                    renewed = await self._renew(leadership.epoch)
            except LeadershipLost:
                leadership.end()
                raise
            except (ClientError, TimeoutError) as error:
                self._not_renewed(str(error) or "no answer in time")
                renewed = False
            if renewed:
                self._problem, self._led_until = "", began + self._lease_settings.renew_deadline_s
                leadership.extend(began, began + self._lease_settings.renew_deadline_s)
            leadership.check()

    async def _give_up_if_stuck(self, leadership: Leadership) -> None:
        """Release the lease if the main loop is stuck: renewing it would keep other candidates from doing the work."""
        problem = self._stuck()
        if problem:
            leadership.end()
            await self._release()
            raise LeadershipLost(f"{self._ref}: epoch {leadership.epoch} was given up: {problem}")

    def _not_renewed(self, reason: str) -> None:
        problem = f"{self._ref} was not renewed: {reason}"
        if problem != self._problem:
            _log.warning("election: renewal failed", lease=str(self._ref), error=reason)
        self._problem = problem

    async def _renew(self, epoch: int) -> bool:
        """True if renewed, False if it may succeed next time. Raises `LeadershipLost` if another candidate holds it."""
        if self._seen is None or not self._is_ours(self._seen, epoch):
            lease = await self._read()
            if lease is None or not self._is_ours(lease, epoch):
                holder = lease.spec.holder_identity if lease else "nobody"
                raise LeadershipLost(f"{self._ref}: epoch {epoch} was taken over by {holder}")
        assert self._seen is not None
        outcome = await self._door.merge_patch(self._ref, {"spec": self._spec(epoch)}, _as_seen(self._seen))
        if self._took(outcome):
            return True
        if isinstance(outcome, Refused):
            self._not_renewed(_words(outcome))
        self._seen = None
        return False

    async def _release(self) -> None:
        """Release the lease, so that the next candidate need not wait for its expiry. A renewal may be in flight."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                if self._seen is not None and await self._let_go(self._seen):
                    return
                lease = await self._read()
                if lease is not None and lease.spec.holder_identity == self._identity:
                    await self._let_go(lease)

    async def _let_go(self, lease: _Lease) -> bool:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": format_micro_time(self._clock.now())}
        return self._took(await self._door.merge_patch(self._ref, {"spec": spec}, _as_seen(lease)))

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
            "leaseDurationSeconds": self._lease_settings.duration_s,
            "leaseTransitions": epoch,
            "renewTime": format_micro_time(self._clock.now()),
        }


def _as_seen(lease: _Lease) -> Precondition:
    return Precondition(lease.metadata.uid, lease.metadata.resource_version)


def _is_older(one: _Meta, other: _Meta) -> bool:
    return one.uid == other.uid and version_number(one.resource_version) < version_number(other.resource_version)


def _words(refused: Refused) -> str:
    return f"{refused.status.code} {refused.status.message or refused.status.reason}"


def _announce(elected: asyncio.Future[Leadership], leadership: Leadership) -> None:
    if not elected.done():
        elected.set_result(leadership)


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _begun(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task whose exception is always retrieved, also if its waiter was cancelled."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_error)
    return task


def _log_error(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is None:
        return
    is_expected = all(isinstance(leaf, ClientError) for leaf in _leaves(error))
    log = _log.debug if is_expected else _log.warning
    log("election: a task ended with an error", task=task.get_name(), error=repr(error))


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for them; raises if one does not end in time."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=_END_S)
    if left:
        raise WorkDidNotEnd(f"found work that goes on {_END_S:g} s after its leadership was lost")


def _raise_what_ended(tasks: list[asyncio.Task[None]]) -> None:
    """Raise what went wrong, if anything; `LeadershipLost` takes precedence over errors that it caused."""
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    leaves = [leaf for error in errors for leaf in _leaves(error)]
    lost = next((leaf for leaf in leaves if isinstance(leaf, LeadershipLost)), None)
    if lost is not None and all(isinstance(leaf, ClientError) for leaf in leaves):
        raise LeadershipLost(str(lost))
    if errors:
        raise errors[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
