"""Events about what was done: at a modest rate, never in the way, and rather lost than late."""

from __future__ import annotations

import asyncio

from spinney.api.changes import EmitEvent
from spinney.core.expansion.objects import PODCLIQUES
from spinney.drive.apply.change_applier import EventRecorder
from spinney.sim.event_loop import Sim, run


def notice(number: int) -> EmitEvent:
    return EmitEvent(PODCLIQUES.at("c", "n"), "u", "PodCreateSuccessful", str(number), "")


def told(count: int, takes_s: float = 0.0, fails: tuple[int, ...] = ()) -> list[int]:
    """Which of so many events, said at once, are told when each takes so long."""
    found: list[int] = []

    async def write(said: EmitEvent) -> None:
        await asyncio.sleep(takes_s)
        if int(said.message) in fails:
            raise ConnectionError("no way")
        found.append(int(said.message))

    async def main(sim: Sim) -> None:
        event_recorder = EventRecorder(write, sim.clock)
        task = asyncio.create_task(event_recorder.run())
        event_recorder.record(map(notice, range(count)))
        await asyncio.sleep(600)
        task.cancel()

    run(main)
    return found


def test_g1_a_few_events_are_told_in_order() -> None:
    assert told(5) == [0, 1, 2, 3, 4]


def test_g1_of_a_flood_only_what_is_still_new_is_told() -> None:
    found = told(1000)
    assert 40 <= len(found) <= 60
    assert found == sorted(found)


def test_g1_a_slow_server_gets_fewer_events() -> None:
    assert len(told(100, takes_s=1.0)) <= 3


def test_g1_an_event_that_cannot_be_told_hinders_no_other() -> None:
    assert told(3, fails=(1,)) == [0, 2]
