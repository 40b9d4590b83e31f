"""How the operator paces itself: what is made comes first, what is told follows once, and rest costs nothing."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from spinney.api.changes import Change, Create, SetStatus
from spinney.core.expansion.objects import PODCLIQUES, PODS
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.apply.outcome import Outcome, Refused, Written
from spinney.drive.client.errors import Forbidden, Status
from spinney.drive.controller.work_queue import WorkQueue
from spinney.drive.operator.reconciler import StatusDebouncer
from spinney.sim.world import World
from unit.operator.operator_world import Counting, clique, group, in_world, podcliqueset

KEY = ("default", "a")


class Hand(ChangeApplier):
    """An `ChangeApplier` whose changes come to what is given."""

    def __init__(self, *answers: Outcome) -> None:
        self.begun: list[Change] = []
        self.most = self._running = 0
        self._answers = list(answers)

    async def _one(self, change: Change) -> Outcome:
        self.begun.append(change)
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0)
        self._running -= 1
        return self._answers.pop(0)


WRITTEN = Written(b"{}", "uid", "1")
REFUSED = Refused(Status(code=403, reason="Forbidden", message="over quota"))
PODS_MADE = [Create(PODS.at(name, "default"), {"metadata": {"name": name}}) for name in "ab"]
TOLD = SetStatus(PODCLIQUES.at("c", "default"), {"replicas": 2}, "uid", "1")


async def test_what_is_alike_is_made_side_by_side_and_told_at_the_next_look() -> None:
    hand = Hand(WRITTEN, WRITTEN)
    assert not await hand.carry_out([*PODS_MADE, TOLD])
    assert hand.begun == PODS_MADE
    assert hand.most == 2


async def test_what_cannot_be_made_is_told_at_once() -> None:
    hand = Hand(REFUSED, REFUSED, WRITTEN)
    with pytest.raises(Forbidden):
        await hand.carry_out([*PODS_MADE, TOLD])
    assert hand.begun == [*PODS_MADE, TOLD]


async def test_what_is_only_told_is_all_done() -> None:
    assert await Hand(WRITTEN).carry_out([TOLD])


def test_a_status_is_written_once_its_objects_are_there_and_not_in_between() -> None:
    transports: list[Counting] = []

    def counting(inner: object) -> Counting:
        transports.append(Counting(inner))
        return transports[-1]

    async def scenario(world: World) -> list[str]:
        cliques = [clique("front", 2), clique("leader"), clique("worker", 3)]
        await world.apply([podcliqueset("s", cliques, [group("g", ["leader", "worker"], 2, 2)])])
        await world.settle()
        return transports[0].writes

    writes = in_world(scenario, binds=False, wrap=lambda sim: counting)
    creates = [text for text in writes if text.startswith("POST") and "/events" not in text]
    statuses = [text for text in writes if "/status" in text]
    assert len([text for text in statuses if "/podcliques/" in text]) <= 2 * 5
    assert len(statuses) <= len(creates)


def crowd(debouncer: StatusDebouncer, size: int) -> WorkQueue[tuple[str, str]]:
    queue: WorkQueue[tuple[str, str]] = WorkQueue(Random(0))
    debouncer.join("pods", queue)
    for number in range(size):
        queue.add(("default", f"waiting-{number}"))
    return queue


async def test_nobody_waits_for_a_few() -> None:
    debouncer = StatusDebouncer()
    crowd(debouncer, 3)
    assert not debouncer.defers("pods", KEY)


async def test_who_lets_a_crowd_pass_is_called_when_it_has_gone() -> None:
    debouncer = StatusDebouncer()
    queue = crowd(debouncer, 40)
    assert debouncer.defers("pods", KEY)
    for _ in range(40):
        queue.done(await queue.get())
    assert await asyncio.wait_for(queue.get(), 1.0) == KEY
    assert not debouncer.defers("pods", KEY)
