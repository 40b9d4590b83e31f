"""A level-triggered controller: changes become keys, and keys are reconciled against the current state.

Never works on half a view: a reconcile starts when all caches are synced and show our own writes. Never dies of one
key: the class of an error says when the key comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_never, cast

import structlog

from kube_apimachinery.clock import Dice
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ApiStatusError, ClientError, Policy
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.informers.shared_caches import catch_up
from spinney.drive.client.paths import Key
from spinney.drive.controller.work_queue import QueueClosed, WorkQueue
from spinney.drive.process_metrics import ERRORS, RECONCILES, ControllerMeter

# Restarts the tasks of a role that fail by a bug of ours: a role ends on purpose, never by accident. Errors that end
# a role on purpose pass through: it was cancelled, it lost its leadership, the server refused it.

PAUSE_S = 1.0


def raise_if_cancelled() -> None:
    """For loops that catch every error: a TaskGroup that is cancelled while one of its tasks fails raises the failure
    and not the cancellation, which would be lost when the failure is caught.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def restart_on_error(task: Callable[[], Awaitable[None]], name: str) -> None:
    """Run the task until it returns, is cancelled or raises a `ClientError`."""
    while True:
        try:
            return await task()
        except ClientError:
            raise
        except Exception as error:
            raise_if_cancelled()
            _log.error("a task failed by our own fault and begins again", task=name, exc_info=error)
            await asyncio.sleep(PAUSE_S)


K = TypeVar("K", bound=Hashable)

_QUICK_RETRIES = 5
_USER_RETRY_S = 30.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """Reconciled: nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Reconcile again after `after_s`, even if nothing changes."""

    after_s: float


Result = Done | RequeueAfter
Reconcile = Callable[[K], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Source(Generic[K]):
    """A cache, and the function from a change in it to the keys to enqueue.

    Keys are enqueued after `gather_s` seconds, so that a burst of changes is reconciled once.
    """

    cache: Cache[Any]
    keys: Callable[[Change[Any]], Iterable[K]]
    gather_s: float = 0.0


class Controller(Generic[K]):
    """Runs until stopped. `client` is used to read objects after own writes whose outcome is unknown.

    The first source caches the objects that the keys name: an object that cannot be reconciled is reported there.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[Source[K]],
        reconcile: Reconcile[K],
        client: ApiClient,
        dice: Dice,
        *,
        workers: int = 4,
    ) -> None:
        self.name = name
        self._meter = ControllerMeter(name)
        self.queue: WorkQueue[K] = WorkQueue(dice, meter=self._meter)
        self._sources = tuple(sources)
        self._caches = tuple({id(source.cache): source.cache for source in sources}.values())
        self._subject = self._sources[0].cache
        self._reconcile = reconcile
        self._client = client
        self._workers = workers
        self._syncing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run until `stop`; keys that are being processed are finished first."""
        subscriptions = [source.cache.subscribe(self._enqueue(source)) for source in self._sources]
        try:
            async with asyncio.TaskGroup() as group:
                self._syncing = group.create_task(self._all_synced())
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self._meter.waiting(0)
            for unsubscribe in subscriptions:
                unsubscribe()

    def stop(self) -> None:
        self.queue.close()
        if self._syncing is not None:
            self._syncing.cancel()

    async def _all_synced(self) -> None:
        for cache in self._caches:
            await cache.wait_synced()

    def _enqueue(self, source: Source[K]) -> Callable[[Change[Any]], None]:
        def enqueue(change: Change[Any]) -> None:
            for key in source.keys(change):
                self.queue.add_after(key, source.gather_s)

        return enqueue

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._handle(key)
            finally:
                self.queue.done(key)

    async def _handle(self, key: K) -> None:
        try:
            behind = [cache for cache in self._caches if cache.expectations.pending or not cache.synced]
            if behind:
                await catch_up(self._client, behind)
            result = await self._reconcile(key)
        except Exception as error:
            raise_if_cancelled()
            RECONCILES.values[self.name, "error"] += 1
            ERRORS.values[self.name,] += 1
            self._handle_error(key, error)
            return
        self.queue.forget(key)
        self._subject.recover(cast(Key, key))
        RECONCILES.values[self.name, "success" if isinstance(result, Done) else "requeue_after"] += 1
        if isinstance(result, RequeueAfter):
            self.queue.add_after(key, result.after_s)

    def _handle_error(self, key: K, error: Exception) -> None:
        policy = error.policy if isinstance(error, ClientError) else Policy.OUR_BUG
        log = _log.bind(controller=self.name, key=str(key), error=str(error), failures=self.queue.failures(key))
        match policy:
            case Policy.RETRY_NOW:
                log.info("retrying now")
                self._retry_now(key)
            case Policy.RETRY_LATER:
                log.info("retrying later")
                self.queue.retry(key, at_least_s=_asked_wait_s(error))
            case Policy.TELL_USER:
                log.warning("refused")
                self.queue.retry(key, at_least_s=_USER_RETRY_S)
            case Policy.OUR_BUG:
                log.error("reconcile failed", exc_info=error)
                self._subject.complain(cast(Key, key), error)
                self.queue.retry(key, at_least_s=1.0)
            case _:
                assert_never(policy)

    def _retry_now(self, key: K) -> None:
        """Requeue without delay, but with backoff once the key keeps failing."""
        if self.queue.failures(key) < _QUICK_RETRIES:
            self.queue.retry_at_once(key)
        else:
            self.queue.retry(key, at_least_s=1.0)


def _asked_wait_s(error: Exception) -> float:
    return (error.retry_after_s or 0.0) if isinstance(error, ApiStatusError) else 0.0
