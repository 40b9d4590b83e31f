"""Kinds that are not served: what it costs to learn that they are, in requests."""

from __future__ import annotations

import asyncio

import pytest

from kube_embedded.base.identity import AUTHENTICATED, Identity
from spinney.api.changes import resource_of
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.meta import PartialObject
from spinney.drive.apply.change_applier import path_of
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.sim.event_loop import Sim, run
from spinney.sim.transport import InProcessTransport, TracingTransport
from spinney.sim.world import World

KIND = path_of(resource_of(ClusterTopology))
TOLD = "definitions may not be watched"


def requests_in_ten_minutes(capsys: pytest.CaptureFixture[str], *, may_watch: bool) -> tuple[int, int]:
    """How often the kind was asked for, and how often it was told that definitions may not be watched."""
    asked = []

    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice) as world:
            nobody = InProcessTransport(world.server, Identity("nobody", groups=(AUTHENTICATED,)))
            inner: Transport = world.transport("admin") if may_watch else nobody
            trace = TracingTransport(inner, sim.clock)
            optional = OptionalCaches(ApiClient(trace, sim.dice), OwnWrites(), sim.dice)
            optional.expect(KIND, PartialObject)
            await optional.refresh()
            trace.lines.clear()
            running = asyncio.create_task(optional.run())
            await asyncio.sleep(599)
            running.cancel()
            await asyncio.wait([running])
            asked.append(sum(f"GET {KIND.collection()} " in line for line in trace.lines))

    run(main)
    return asked[0], capsys.readouterr().out.count(TOLD)


def test_live4_a_kind_that_stays_away_costs_next_to_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert requests_in_ten_minutes(capsys, may_watch=True) == (1, 0)


def test_live4_without_the_right_to_watch_definitions_a_kind_is_asked_for_every_half_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert requests_in_ten_minutes(capsys, may_watch=False) == (19, 1)
