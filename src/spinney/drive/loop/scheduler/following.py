"""A gang that has to begin anew while gangs tied to it still run goes to where they are (G12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from spinney.api.placement.problem import Tie
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import GangReading
from spinney.drive.loop.scheduler.book import Entry


def following(reading: GangReading, followers: Iterable[Entry], cluster: Cluster) -> GangReading:
    """The reading, tied for once to the one of its followers that has most members."""
    gang = reading.gang
    if gang.running or gang.tied_to is not None:
        return reading
    topology = cluster.topologies.get(gang.root.topology or "")
    standing = [
        each.reading.gang
        for each in followers
        if each.reading is not None and each.reading.gang.running and each.reading.gang.tied_to is not None
    ]
    known = [each for each in standing if topology is not None and _level(each.tied_to) in topology.levels]
    if not known:
        return reading
    most = max(known, key=lambda each: len(each.running))
    return replace(reading, gang=msgspec.structs.replace(gang, tied_to=Tie(most.name, _level(most.tied_to))))


def _level(tie: Tie | None) -> str:
    return tie.level if tie is not None else ""
