"""The one engine over the cluster's inventory: each question is a trial, and nothing of it stays but the answer.

`standings` are the members that the views show on their nodes: what is merely planned ties nobody (G12).
"""

from __future__ import annotations

import msgspec

from spinney.api.placement.problem import Gang, Group, Options, Running
from spinney.api.placement.result import Decision
from spinney.core.placement.engine import Engine, Standing
from spinney.core.scheduling.cluster import Cluster

MOST_REFUSALS = 4096


class Decider:
    """Asks the engine. A gang like one that was refused is refused at once until there may be more room."""

    def __init__(self, cluster: Cluster, strategy: str, budget: int) -> None:
        self._cluster = cluster
        self._minimum = Options(strategy=strategy, budget=budget, extras="skip")
        self._everything = Options(strategy=strategy, budget=budget, extras="place")
        self._generation = -1
        self._engine = Engine(cluster.inventory, cluster.topologies, self._minimum)
        self._refusals: dict[Group, Decision] = {}
        self._improved = -1

    @property
    def engine(self) -> Engine:
        return self._engine

    def renew(self) -> bool:
        """Begin anew where inventory or topologies are new ones; then nobody stands anywhere yet."""
        self._cluster.settle()
        if self._generation == self._cluster.generation:
            return False
        self._generation = self._cluster.generation
        self._engine = Engine(self._cluster.inventory, self._cluster.topologies, self._minimum)
        self._refusals.clear()
        return True

    @property
    def is_current(self) -> bool:
        return self._generation == self._cluster.generation and not self._cluster.is_outgrown

    def stand(self, gang: Gang) -> None:
        """Where the members of a gang are, for itself and for those tied to it."""
        slot = self._cluster.inventory.slot
        self._engine.standings[gang.name] = Standing(
            gang, [(member.pods, slot(member.node)) for member in gang.running]
        )

    def forget(self, name: str) -> None:
        self._engine.standings.pop(name, None)

    def minimum(self, gang: Gang) -> Decision:
        """Where the minimum goes, or why it goes nowhere."""
        plain = not gang.running and gang.tied_to is None
        if self._improved != self._cluster.improved or len(self._refusals) >= MOST_REFUSALS:
            self._refusals.clear()
            self._improved = self._cluster.improved
        known = self._refusals.get(gang.root) if plain else None
        if known is not None:
            return msgspec.structs.replace(known, name=gang.name)
        decision = self._ask(gang, self._minimum)
        if plain and decision.outcome == "infeasible":
            self._refusals[gang.root] = decision
        return decision

    def extras(self, gang: Gang, planned: tuple[Running, ...]) -> Decision:
        """Where those beyond the minimum go, with the minimum planned already."""
        return self._ask(msgspec.structs.replace(gang, running=(*gang.running, *planned)), self._everything)

    def _ask(self, gang: Gang, options: Options) -> Decision:
        engine, inventory = self._engine, self._cluster.inventory
        standing = engine.standings.get(gang.name)
        slots = [(member.pods, inventory.slot(member.node)) for member in gang.running]
        engine.standings[gang.name] = Standing(gang, slots)
        engine.options = options
        try:
            with inventory.trial():
                return engine.decide(gang)
        finally:
            if standing is None:
                del engine.standings[gang.name]
            else:
                engine.standings[gang.name] = standing
