"""Keeps the scheduler's settings as its SchedulingShard says, and says on shards and Configs what has no effect.

Never judges a shard of another node pool: that is for the scheduler of that pool. Configs are judged by the scheduler
without a pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from spinney.api.kinds.schedulingshard import Config, SchedulingShard
from spinney.core.expansion.objects import ConditionChange, conditions
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Reports
from spinney.core.scheduling.reporting.report import WARNING, Event
from spinney.core.scheduling.settings import Settings
from spinney.core.scheduling.shards import CONFIG_NAME, config_problems, honoured, shard_of
from spinney.drive.apply.outcome import Gone, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import SchedulerCaches, path_of
from spinney.drive.scheduler.execution.api_writer import ApiWriter

READY, HONOURED, NOT_HONOURED = "Ready", "Honoured", "NotHonoured"
RETRY_S = 5.0
_LONGEST_MESSAGE = 32768

_Judged = tuple[SchedulingShard | Config, ConditionChange, ConditionChange]


def follow_shard(session: Session, views: SchedulerCaches, wake: Callable[[], None]) -> None:
    """Adopt what the shard of the scheduler says whenever it changes, also while standing by."""
    given = session.settings

    def adopt(_: object) -> None:
        if session.adopt(honoured(shard_of(views.shards, given.node_pool), given).settings):
            wake()

    views.shards.subscribe(adopt)


class ShardStatusController:
    """`run` until cancelled. `given`: the settings without any shard."""

    def __init__(
        self, session: Session, given: Settings, api_writer: ApiWriter, views: SchedulerCaches, reports: Reports
    ) -> None:
        self._session = session
        self._given = given
        self._api_writer = api_writer
        self._views = views
        self._reports = reports
        self._changed = asyncio.Event()
        self._changed.set()
        views.shards.subscribe(lambda _: self._changed.set())
        views.kai_configs.subscribe(lambda _: self._changed.set())

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for judged in [*self._shards(), *self._configs()]:
                if not await self._write(*judged):
                    asyncio.get_running_loop().call_later(RETRY_S, self._changed.set)

    def _shards(self) -> Iterator[_Judged]:
        pool = self._given.node_pool
        chosen = shard_of(self._views.shards, pool)
        for each in self._views.shards:
            if each is chosen:
                yield (
                    each,
                    _ready(f"the scheduler of node pool '{pool}' goes by it"),
                    _told(honoured(each, self._given)[1]),
                )
            elif each.spec.partition_label_value == pool and chosen is not None:
                text = f"spec.partitionLabelValue: found '{pool}', which {chosen.metadata.name} has already"
                yield each, ConditionChange(READY, "False", "Duplicate", text), _told([text])

    def _configs(self) -> Iterator[_Judged]:
        for each in self._views.kai_configs if not self._given.node_pool else ():
            if each.metadata.name == CONFIG_NAME:
                yield each, _ready("it is read"), _told(config_problems(each, self._given))
            else:
                text = f"metadata.name: found {each.metadata.name}, expected {CONFIG_NAME}"
                yield each, ConditionChange(READY, "False", "NotRead", text), _told([text])

    async def _write(self, judged: SchedulingShard | Config, ready: ConditionChange, told: ConditionChange) -> bool:
        """Whether nothing is left to write."""
        metadata, before = judged.metadata, judged.status.conditions
        wanted = conditions(before, [ready, told], self._session.clock.now(), metadata.generation)
        if wanted == conditions(before, [], 0.0, 0):
            return True
        given = Precondition(metadata.uid, metadata.resource_version)
        ref = path_of(type(judged)).ref(metadata.name)
        if not isinstance(await self._api_writer.door.status(ref, {"conditions": wanted}, given), (Written, Gone)):
            return False
        if told.status == "False" and all(told.message != each.message for each in before):
            event = Event(WARNING, NOT_HONOURED, told.message)
            self._reports.note(f"{judged.GROUP}/{judged.VERSION}", judged.KIND, metadata, event)
        return True


def _ready(text: str) -> ConditionChange:
    return ConditionChange(READY, "True", READY, text)


def _told(problems: Sequence[str]) -> ConditionChange:
    if not problems:
        return ConditionChange(HONOURED, "True", HONOURED, "")
    return ConditionChange(HONOURED, "False", NOT_HONOURED, "; ".join(problems)[:_LONGEST_MESSAGE])
