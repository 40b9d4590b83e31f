"""Topologies and operators that know them, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spinney.api.kinds.clustertopology import TopologyLevel
from spinney.core.expansion.backends.default_scheduler import DefaultScheduler
from spinney.core.expansion.backends.kai import Kai
from spinney.core.expansion.settings import Settings
from spinney.sim.world import World

ZONE, BLOCK, RACK, HOST = (
    "topology.kubernetes.io/zone",
    "example.com/block",
    "example.com/rack",
    "kubernetes.io/hostname",
)
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}


def settings(levels: dict[str, str] | None = LEVELS, **more: Any) -> Settings:
    """An operator with the KAI scheduler; None: topology is off."""
    found = tuple(TopologyLevel(domain, key) for domain, key in (levels or {}).items())
    return Settings(
        topology_enabled=levels is not None,
        levels=found,
        backends={"kai-scheduler": Kai(), "default-scheduler": DefaultScheduler()},
        default_backend="kai-scheduler",
        **more,
    )


def topology(name: str, levels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]},
    }


def packed(domain: str) -> dict[str, Any]:
    return {"packDomain": domain}


async def events(world: World, kind: str) -> list[tuple[str, str]]:
    """Type and reason of the events about objects of a kind, in the order they came; not what came and went."""
    found = [each for each in await world.list("Event") if each["involvedObject"]["kind"] == kind]
    by_age = sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
    return [(each["type"], each["reason"]) for each in by_age if not each["reason"].endswith("Successful")]


async def restarted(world: World, settings: Settings) -> None:
    """The operator begins anew, told something else."""
    world._parts = replace(world._parts, operator=settings)
    await world.restart()
    await world.settle()
