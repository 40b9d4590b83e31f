"""The levels that gangs are asked to keep together in: names for people, node labels for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.documents import DocumentError, read_documents
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.topology import Topology as KaiTopology
from spinney.core.expansion.backends.kai import topology_keys
from spinney.sim.replay.sheets import InputError

CLUSTER = "cluster"
"""The level of whatever keeps together nowhere narrower."""


@dataclass(frozen=True, slots=True)
class Level:
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Levels:
    """One topology, broad to narrow."""

    name: str
    levels: tuple[Level, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels)

    def find(self, written: str) -> Level | None:
        """By name, or by node label."""
        return next((level for level in self.levels if written in (level.name, level.key)), None)


def read_levels(text: str, where: str) -> Levels:
    """The one ClusterTopology, or Topology of the scheduler, in a file; other kinds in it are passed over."""
    try:
        documents = read_documents(text, where)
    except DocumentError as error:
        raise InputError(str(error)) from None
    found = [_levels(document, where) for document in documents if _kind(document) in _KINDS]
    if len(found) != 1:
        names = f": {', '.join(levels.name for levels in found)}" if found else ""
        raise InputError(f"{where}: found {len(found)} topologies{names}, expected one ClusterTopology or Topology")
    return found[0]


def _kind(document: Any) -> Any:
    return document.get("kind") if isinstance(document, dict) else None


def _levels(document: dict[str, Any], where: str) -> Levels:
    try:
        if document["kind"] == KaiTopology.KIND:
            kai = msgspec.convert(document, KaiTopology)
            labels = [level.node_label for level in kai.spec.levels]
            return Levels(kai.metadata.name, tuple(Level(label.rpartition("/")[2], label) for label in labels))
        grove = msgspec.convert(document, ClusterTopology)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {document['kind']}: {error}") from None
    names = {level.key: level.domain for level in grove.spec.levels}
    return Levels(grove.metadata.name, tuple(Level(names[key], key) for key in topology_keys(grove)))


_KINDS = (ClusterTopology.KIND, KaiTopology.KIND)
