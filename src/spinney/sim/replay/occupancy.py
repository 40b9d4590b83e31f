"""The cluster of a replay and who runs on it: gangs are decided by the scheduler's own engine, placed and removed.

Keeps no account of its own: what is free is what the inventory says. Moves are made the moment they are decided. A
setting is a strategy and what is added to it: `binpack`, `spread+consolidation`, `binpack+fifo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from spinney.api.kinds.clustertopology import KaiTopologyLevel, TopologySpec
from spinney.api.kinds.clustertopology import Topology as KaiTopology
from spinney.api.meta import ObjectMeta
from spinney.api.operator_configuration import PlacementStrategy
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate, Gang, Running
from spinney.api.placement.result import Decision, Move
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.settings import BINPACK
from spinney.sim.replay.cluster import DescribedCluster

STRATEGIES = {"binpack": BINPACK, "spread": PlacementStrategy.both("spread")}
CONSOLIDATION, FIFO = "consolidation", "fifo"
DEFAULT_SETTINGS = ("binpack", "spread")


class SettingError(ValueError):
    """A setting that there is not."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`consolidate`: how much may be moved for a gang that fits nowhere. `fifo`: nobody overtakes whoever waits."""

    name: str
    strategy: PlacementStrategy
    consolidate: Consolidate | None = None
    fifo: bool = False


def read_settings(written: Sequence[str], limits: Consolidate) -> list[Setting]:
    """Each once."""
    for name in written:
        if list(written).count(name) > 1:
            raise SettingError(f"--setting: found {name!r} twice, allowed: each setting once")
    return [read_setting(name, limits) for name in written]


def read_setting(written: str, limits: Consolidate) -> Setting:
    strategy, *added = written.split("+")
    if strategy not in STRATEGIES or len(set(added)) != len(added) or not set(added) <= {CONSOLIDATION, FIFO}:
        allowed = f"{' or '.join(STRATEGIES)}, with +{CONSOLIDATION} and +{FIFO} where wanted"
        raise SettingError(f"--setting: found {written!r}, allowed: {allowed}")
    return Setting(written, STRATEGIES[strategy], limits if CONSOLIDATION in added else None, FIFO in added)


MOVING_BUDGET = 20_000
"""Steps for one search of moves: a replay asks for them often."""


@dataclass(frozen=True, slots=True)
class PlacedGang:
    """Where the pods of a gang went, what had to move for it, and which gangs had to leave."""

    nodes: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    victims: tuple[str, ...] = ()


class Occupancy:
    """One setting's view of the cluster."""

    def __init__(self, described: DescribedCluster, setting: Setting) -> None:
        self.cluster = cluster_of(described)
        self._setting = setting
        self._session = PlacementSession(self.cluster, setting.strategy, DEFAULT_BUDGET)
        self._session.renew()
        options = msgspec.structs.replace(self._session.options, budget=MOVING_BUDGET)
        self._moving = msgspec.structs.replace(options, consolidate=setting.consolidate)
        self._reclaiming = msgspec.structs.replace(options, preempt=True)
        self._running: dict[str, Gang] = {}

    @property
    def names(self) -> list[str]:
        """Of gangs that are there."""
        return sorted(self._running)

    def refusal(self, gang: Gang) -> str:
        """Why a gang does not fit as things are; empty: it fits."""
        decision = self._session.minimum(gang)
        if decision.outcome == "placed":
            return ""
        return decision.explanation.reason if decision.explanation is not None else decision.outcome

    def place(self, gang: Gang) -> PlacedGang | None:
        """Place a gang on what is free; None: it does not fit."""
        return self._placed(gang, self._session.minimum(gang)) if self._may_fit(gang) else None

    def place_after_moves(self, gang: Gang) -> PlacedGang | None:
        """Place a gang that fits nowhere, others having moved; None: no allowed moves were found."""
        return self._placed(gang, self._session.disturbing(gang, self._moving, {}))

    def place_after_reclaim(self, gang: Gang, rules: VictimRules) -> PlacedGang | None:
        """Place a gang that fits nowhere, others having left; None: no lawful victims make it fit."""
        return self._placed(gang, self._session.disturbing(gang, self._reclaiming, {}, rules=rules))

    def moves_may_help(self, gang: Gang) -> bool:
        """Moves make no room: they only gather what is free."""
        if self._setting.consolidate is None:
            return False
        inventory = self.cluster.inventory
        for pods in gang.root.pods:
            for resource, amount in enumerate(pods.request):
                free = inventory.room(frozenset({pods.filter}), (resource,)).total(resource) if amount else 0
                if free < amount * pods.min:
                    return False
        return True

    def leave(self, name: str) -> None:
        """A gang is done."""
        self._vacate(name)
        self._session.forget(name)
        self.cluster.touch()

    def _may_fit(self, gang: Gang) -> bool:
        """False where counting proves that it does not: cheaper than an answer with reasons."""
        engine = self._session.engine
        return not engine.fast_path.counting.is_hopeless(*engine.read(gang), waiting=False)

    def _placed(self, gang: Gang, decision: Decision) -> PlacedGang | None:
        if decision.outcome != "placed":
            return None
        for move in decision.moves:
            self._move(move)
        victims = tuple(sorted({victim.gang for victim in decision.victims}))
        for name in victims:
            self.leave(name)
        self._occupy(gang, tuple(Running(place.pods, place.node) for place in decision.placements))
        return PlacedGang(tuple(place.node for place in decision.placements), decision.moves, victims)

    def _occupy(self, gang: Gang, members: tuple[Running, ...]) -> None:
        seated = msgspec.structs.replace(gang, running=members)
        requests = {path: pods.request for path, pods in pod_sets(gang).items()}
        for at, member in enumerate(members):
            self.cluster.inventory.add_pod(f"{gang.name}/{at}", member.node, requests[member.pods])
        self._running[gang.name] = seated
        self._session.put_gang(seated)

    def _vacate(self, name: str) -> Gang:
        gang = self._running.pop(name)
        for at in range(len(gang.running)):
            self.cluster.inventory.remove_pod(f"{name}/{at}")
        return gang

    def _move(self, move: Move) -> None:
        """One pod of a gang changes its node."""
        gang = self._vacate(move.gang)
        members = list(gang.running)
        members[members.index(Running(move.pods, move.source))] = Running(move.pods, move.target)
        self._occupy(gang, tuple(members))
        self.cluster.touch()


def cluster_of(described: DescribedCluster) -> Cluster:
    """The nodes and their topology as the scheduler knows them."""
    cluster = Cluster()
    for node in described.nodes:
        cluster.put_node(node.metadata.name, node)
    levels = described.levels
    if levels.keys:
        spec = TopologySpec(tuple(KaiTopologyLevel(key) for key in levels.keys))
        cluster.put_kai_topology(levels.name, KaiTopology(metadata=ObjectMeta(name=levels.name), spec=spec))
    cluster.settle()
    return cluster
