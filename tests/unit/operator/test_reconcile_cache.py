"""Inputs of reconciles: recorded by reading, complete, and woken for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spinney.api.changes import ChangeSet, SetStatus
from spinney.core.expansion.objects import PODS
from spinney.drive.client.codec import WatchEvent
from spinney.drive.client.informers.cache import Cache
from spinney.drive.controller.reconcile_cache import Reads, ReconcileCache, RecordedCache
from spinney.drive.operator.reconciler import ReconcileContext
from spinney.sim.world import World
from unit.drive.drive_kit import THINGS, Thing, thing
from unit.operator.operator_world import clique, group, in_world, podcliqueset
from unit.operator.topologies import LEVELS, packed, settings, topology

KEY, OTHER = ("ns", "a"), ("ns", "b")
Things = RecordedCache[Thing]


class Expanded:
    """An object whose expansion reads as told, and the cache that it reads."""

    def __init__(self, read: Callable[[Things], object], answer: ChangeSet = ChangeSet()) -> None:  # noqa: B008
        self.cache: Cache[Thing] = Cache(THINGS, indexes={"color": lambda each: (each.color,)})
        self.show("a", 1)
        self.runs = 0
        reads = Reads()
        things = RecordedCache(self.cache, reads)

        def expand(key: tuple[str, str]) -> ChangeSet:
            self.runs += 1
            things.get(key)
            read(things)
            return answer

        self._known = ReconcileCache(expand, reads)

    def show(self, name: str, version: int) -> None:
        self.cache.fold([WatchEvent("ADDED", thing(name, version, color="red"))])

    def runs_at(self, now_s: float = 0.0, key: tuple[str, str] = KEY) -> int:
        self._known.expansion(key, now_s)
        return self.runs


READS: dict[str, Callable[[Things], object]] = {
    "one object": lambda things: things.get(OTHER),
    "an index": lambda things: things.by("color", "red"),
    "the keys": lambda things: things.keys(),
    "all of them": lambda things: [each.metadata.name for each in things],
}


@pytest.mark.parametrize("how", READS)
def test_whatever_an_expansion_reads_is_an_input(how: str) -> None:
    expanded = Expanded(READS[how])
    assert [expanded.runs_at(), expanded.runs_at()] == [1, 1]
    expanded.show("b", 2)
    assert [expanded.runs_at(), expanded.runs_at()] == [2, 2]


def test_what_an_expansion_does_not_read_is_no_input() -> None:
    expanded = Expanded(lambda things: things.by("color", "blue"))
    expanded.runs_at()
    expanded.show("b", 2)
    assert expanded.runs_at() == 1


def test_an_expansion_is_due_at_the_time_that_it_named() -> None:
    expanded = Expanded(lambda things: None, ChangeSet(requeue_at_s=50.0))
    assert [expanded.runs_at(10.0), expanded.runs_at(49.0), expanded.runs_at(50.0)] == [1, 1, 2]


def test_an_expansion_with_changes_is_not_kept() -> None:
    expanded = Expanded(lambda things: None, ChangeSet((SetStatus(PODS.at("a"), {}, "", ""),)))
    assert [expanded.runs_at(), expanded.runs_at()] == [1, 2]


def test_nothing_is_kept_of_an_object_that_is_gone() -> None:
    expanded = Expanded(lambda things: None)
    assert [expanded.runs_at(key=OTHER), expanded.runs_at(key=OTHER)] == [1, 2]


NEED_NOT_WAKE = {
    # The owner is looked up to see that it controls the object; it exists before what it makes.
    "podclique": {"podcliquescalinggroups"},
    "podgang": {"podcliquesets", "podcliquescalinggroups"},
    # Whether pods are scheduled counts for sets with a label, and the PodCliqueSet controller corrects that label.
    "clustertopologybinding": {"podcliques", "podcliquescalinggroups", "pods"},
    "clustertopology": {"podcliques", "podcliquescalinggroups", "pods"},
}


def test_every_cache_that_a_controller_reads_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an object with changed inputs sleeps until something else happens to it."""
    sources: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    reading = [""]
    build, ask = ReconcileContext.controller, Reads.ask

    def controller(self: ReconcileContext, name: str, first: Any, later: Any, expand: Any, *more: Any) -> Any:
        sources[name] = {source.cache.resource.plural for source in [*first, *later]}

        def named(key: Any) -> ChangeSet:
            reading[0] = name
            return expand(key)

        return build(self, name, first, later, named, *more)

    def asked(self: Reads, question: Any, *arguments: Any) -> Any:
        owner = question.__self__
        cache = owner if isinstance(owner, Cache) else owner.cache
        if reading[0] and self._answers is not None:
            read.setdefault(reading[0], set()).add(cache.resource.plural)
        return ask(self, question, *arguments)

    monkeypatch.setattr(ReconcileContext, "controller", controller)
    monkeypatch.setattr(Reads, "ask", asked)

    async def scenario(world: World) -> None:
        cliques = [clique("front", 2), clique("leader"), clique("worker", 3)]
        groups = [group("g", ["leader", "worker"], 2, 1)]
        constraint = packed("block")
        await world.apply([topology("a", LEVELS), podcliqueset("s", cliques, groups, topologyConstraint=constraint)])
        await world.settle()
        await world.delete("ClusterTopology", "grove-topology")
        await world.settle()
        await world.delete("PodCliqueSet", "s")
        await world.settle()

    in_world(scenario, settings())
    assert len(read) == 6
    assert {name: read[name] - sources[name] - NEED_NOT_WAKE.get(name, set()) for name in read} == {
        name: set() for name in sources
    }
