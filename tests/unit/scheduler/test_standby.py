"""A scheduler that stands by: its views are kept and nothing is written; elected, it decides on what is true then."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spinney.core.scheduling.plan_records import Mark, Term
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.election.leader_election import Leadership, LeadershipLost
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.event_loop import Sim, run
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import RACK
from unit.scheduler.record_forging import annotate, node_names, signed_by, to_bind, uids
from unit.scheduler.scheduler_world import GPU, NODES, QUEUES, TOPOLOGY, bound, plan_of, pod, podgroup, pods

ONE_NODE = f"""
levels:
- {{name: host, count: 1}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


class Wire:
    """Notes what is asked. While it is held back, a watch of pods that was open before tells nothing."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.close = inner.close
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.held_back = False

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        self.asked.append((method, path, dict(rest.get("query") or {})))
        return await self._inner.request(method, path, **rest)

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Any]:
        async with self._inner.stream(path, **rest) as inner:
            yield _Muted(inner, self) if path.endswith("/pods") and not self.held_back else inner

    @property
    def writes(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked if method != "GET"]


class _Muted:
    def __init__(self, inner: Any, wire: Wire) -> None:
        self._inner, self._wire = inner, wire
        self.status, self.headers = inner.status, inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if self._wire.held_back:
                await asyncio.Event().wait()
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()


class Elections:
    """Says when a scheduler is elected, and with what."""

    def __init__(self, sim: Sim, epoch: int = 2) -> None:
        self.leadership = Leadership(epoch, sim.clock, math.inf, confirmed_at=sim.clock.monotonic())
        self.held = asyncio.Event()
        self._sim = sim

    async def elect(self) -> Leadership:
        await self.held.wait()
        self.confirm()
        return self.leadership

    def confirm(self) -> None:
        self.leadership.extend(self._sim.clock.monotonic(), math.inf)


Scene = Callable[[World, Wire, Scheduler, Elections], Awaitable[None]]


def play(scene: Scene, nodes: str = NODES) -> Watchdog:
    async def main(sim: Sim) -> Watchdog:
        parts = Parts(nodes=load_nodes(nodes), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, *QUEUES])
            dog, wire, elections = Watchdog.over(world), Wire(world.transport("standby")), Elections(sim)
            keys = world.record_keys
            standby = Scheduler(wire, sim.clock, sim.dice, Settings(), record_keys=keys, leads=elections.elect)
            task = asyncio.create_task(standby.run())
            await standby.prepared.wait()
            await scene(world, wire, standby, elections)
            task.cancel()
            await asyncio.wait([task])
            return dog

    return run(main, limit_s=10_000)


def test_a_scheduler_that_stands_by_keeps_its_views_and_writes_nothing() -> None:
    async def scene(world: World, wire: Wire, standby: Scheduler, elections: Elections) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await asyncio.sleep(200)
        assert wire.writes == []
        assert not standby.ready.is_set()
        assert len(standby.session.cluster.inventory.resources) > 0
        with pytest.raises(LeadershipLost, match="stands by"):
            standby._check_elected()

    assert play(scene).violations == []


def test_once_elected_it_places_what_waits_without_listing_nodes_again() -> None:
    async def scene(world: World, wire: Wire, standby: Scheduler, elections: Elections) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await asyncio.sleep(10)
        wire.asked.clear()
        elections.held.set()
        await world.settle()
        assert len(await bound(world)) == 2
        listed = {path.rsplit("/", 1)[1] for method, path, query in wire.asked if method == "GET" and "limit" in query}
        assert not listed & {"nodes", "queues", "topologies", "priorityclasses", "storageclasses"}

    assert play(scene).violations == []


def _who_is_bound_to_a_node_that_was_filled_unseen() -> set[str]:
    """A gang that wants the only node waits; somebody else gets it, and the watches of the standby do not tell."""
    found: set[str] = set()

    async def scene(world: World, wire: Wire, standby: Scheduler, elections: Elections) -> None:
        await world.apply([podgroup("waits", 1), *pods("waits", 1, 8)])
        await asyncio.sleep(1)
        wire.held_back = True
        [node] = await world.list("Node")
        await world.apply([pod("first", "others", 8, nodeName=node["metadata"]["name"], schedulerName="other")])
        elections.held.set()
        await asyncio.sleep(30)
        found.update(await bound(world))

    play(scene, ONE_NODE)
    return found


def test_inv1_inv12_what_was_bound_before_the_election_is_seen_also_where_the_watches_are_late() -> None:
    assert _who_is_bound_to_a_node_that_was_filled_unseen() == {"first"}


def test_inv1_the_trial_is_one_unconfirmed_views_overcommit_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def believe(self: SharedCaches, caches: Any) -> None:
        """Whatever the views show."""

    monkeypatch.setattr(SharedCaches, "confirm", believe)
    assert _who_is_bound_to_a_node_that_was_filled_unseen() == {"first", "waits-0"}


def test_an_epoch_that_somebody_wrote_on_a_podgroup_ends_no_leadership_and_holds_up_nobody() -> None:
    async def scene(world: World, wire: Wire, standby: Scheduler, elections: Elections) -> None:
        await world.apply([podgroup("free", 1), *pods("free", 1)])
        forged = podgroup("forged", 1, annotations={"spinney.dev/epoch": "4000000000"})
        await world.apply([forged, *pods("forged", 1)])
        elections.held.set()
        await world.settle(quiet_s=20)
        assert sorted(await bound(world)) == ["forged-0", "free-0"]

    assert play(scene).violations == []


def test_a_record_under_another_lease_that_appears_waits_until_the_lease_says_that_it_is_still_ours() -> None:
    """Somebody may lead by a Lease that was made anew; if not, it is a replay."""

    async def scene(world: World, wire: Wire, standby: Scheduler, elections: Elections) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 1), podgroup("free", 1), *pods("free", 1)])
        elections.held.set()
        await world.settle(quiet_s=20)
        plan = to_bind(await uids(world, "a"), (await node_names(world))[-1:], 9)
        record = await signed_by(world.record_keys[0], world, "a", plan, Mark(Term("another-lease", 9), 1))
        await annotate(world, "a", record)
        await world.settle(quiet_s=20)
        assert list(await bound(world)) == ["free-0"]
        assert await plan_of(world, "a") is not None
        elections.confirm()
        await world.settle(quiet_s=20)
        assert list(await bound(world)) == ["free-0"]
        assert await plan_of(world, "a") is None

    play(scene)
