"""The cluster that is replayed on: nodes and one topology with its levels, from a nodes file or a CSV file of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.documents import INVENTORY, DocumentError, read_documents
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.clustertopology import Topology as KaiTopology
from spinney.core.expansion.backends.kai import topology_keys
from spinney.core.view.discovery import discover
from spinney.sim.replay.trace import CsvRow, InputError, header_of, read_csv
from spinney.whatif.inputs.nodes import HOSTNAME_LABEL, parse_nodes

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


GPUS_PER_HOST = 8
_NETWORK = {name: f"network.example.com/{name}" for name in ("core", "aggregation", "tor")}


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """Nodes, and the levels their labels name."""

    nodes: tuple[Node, ...]
    levels: Levels


def read_hosts(text: str, where: str, resource: str, levels: Levels | None = None) -> DescribedCluster:
    """`levels` are those of a topology that was given; else those that the file describes."""
    header = header_of(text)
    if header in _SHEETS:
        read, described = _SHEETS[header]
        manifests = [read(row, resource) for row in read_csv(text, where).rows]
        if not manifests:
            raise InputError(f"{where}: found no rows under the header, expected at least one host")
        _refuse_doubles(manifests, where)
    elif where.endswith(".csv"):
        known = " or ".join(",".join(columns) for columns in _SHEETS)
        raise InputError(f"{where}:1: header: found {','.join(header)[:120]!r}, allowed: {known}")
    else:
        manifests, described = parse_nodes(text, where), None
    nodes = tuple(msgspec.convert(manifest, Node) for manifest in manifests)
    if not any(resource in node.status.allocatable for node in nodes):
        raise InputError(f"{where}: no node has {resource}, expected at least one that does")
    return DescribedCluster(nodes, levels or described or _described(text, resource) or _discovered(nodes, resource))


def _network_host(row: CsvRow, resource: str) -> dict[str, Any]:
    for column in row.cells:
        if not row.cells[column]:
            raise row.wrong(column, "a name")
    labels = {label: row.cells[name] for name, label in _NETWORK.items()}
    return _manifest(row.cells["host"], labels, {"cpu": "128", "memory": "1Ti", resource: str(GPUS_PER_HOST)})


def _lone_host(row: CsvRow, resource: str) -> dict[str, Any]:
    if not row.cells["sn"]:
        raise row.wrong("sn", "a name")
    amounts = {
        "cpu": f"{row.whole('cpu_milli', 0)}m",
        "memory": f"{row.whole('memory_mib', 0)}Mi",
        resource: str(row.whole("gpu", 0, 10_000)),
    }
    return _manifest(row.cells["sn"], {"nvidia.com/gpu.product": row.cells["model"]}, amounts)


def _manifest(name: str, labels: Mapping[str, str], amounts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {HOSTNAME_LABEL: name, **labels}},
        "status": {"allocatable": {"pods": "110", **amounts}},
    }


def _refuse_doubles(manifests: Iterable[Mapping[str, Any]], where: str) -> None:
    seen: set[str] = set()
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        if name in seen:
            raise InputError(f"{where}: host {name!r} is there twice")
        seen.add(name)


def _described(text: str, resource: str) -> Levels | None:
    """The levels of the first description whose nodes have the resource."""
    for document in read_documents(text, limits=INVENTORY):
        if isinstance(document, dict) and "kind" not in document and resource in (document.get("capacity") or {}):
            levels = document["levels"]
            found = [Level(level["name"], level.get("label", HOSTNAME_LABEL)) for level in levels]
            return Levels("described", tuple(found))
    return None


def _discovered(nodes: Sequence[Node], resource: str) -> Levels:
    """The proposal that most nodes with the resource belong to."""
    those = {node.metadata.name for node in nodes if resource in node.status.allocatable}
    proposals = discover(nodes).proposals
    best = max(proposals, key=lambda proposal: len(those.intersection(proposal.nodes)), default=None)
    if best is None:
        return Levels("none", ())
    return Levels(best.name, tuple(Level(choice.domain, choice.key) for choice in best.levels))


_HOST = Level("host", HOSTNAME_LABEL)
_SHEETS: dict[tuple[str, ...], tuple[Callable[[CsvRow, str], dict[str, Any]], Levels | None]] = {
    ("host", "core", "aggregation", "tor"): (
        _network_host,
        Levels("network", (*(Level(name, label) for name, label in _NETWORK.items()), _HOST)),
    ),
    ("sn", "cpu_milli", "memory_mib", "gpu", "model"): (_lone_host, Levels("hosts", (_HOST,))),
}
