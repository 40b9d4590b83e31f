"""The cluster that is replayed on: nodes and one topology, from a nodes file or a CSV sheet of hosts.

Sheets are told by their header: `host,core,aggregation,tor` is a network of hosts with eight GPUs each (Lingjun),
`sn,cpu_milli,memory_mib,gpu,model` are nodes without a network (openb). Everything else is a nodes file as for
`spinney up`. The topology is given, or described, or the one that `spinney topology discover` would propose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.documents import INVENTORY, read_documents
from spinney.core.view.discovery import discover
from spinney.sim.nodes.describe import parse_nodes
from spinney.sim.nodes.description import HOSTNAME_LABEL
from spinney.sim.replay.levels import Level, Levels
from spinney.sim.replay.sheets import InputError, Row, header_of, read_sheet

GPUS_PER_HOST = 8
_NETWORK = {name: f"network.example.com/{name}" for name in ("core", "aggregation", "tor")}


@dataclass(frozen=True, slots=True)
class Described:
    """Nodes, and the levels their labels name."""

    nodes: tuple[Node, ...]
    levels: Levels


def read_hosts(text: str, where: str, resource: str, levels: Levels | None = None) -> Described:
    """`levels` are those of a topology that was given; else those that the file describes."""
    header = header_of(text)
    if header in _SHEETS:
        read, described = _SHEETS[header]
        manifests = [read(row, resource) for row in read_sheet(text, where).rows]
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
    return Described(nodes, levels or described or _described(text, resource) or _discovered(nodes, resource))


def _network_host(row: Row, resource: str) -> dict[str, Any]:
    for column in row.cells:
        if not row.cells[column]:
            raise row.wrong(column, "a name")
    labels = {label: row.cells[name] for name, label in _NETWORK.items()}
    return _manifest(row.cells["host"], labels, {"cpu": "128", "memory": "1Ti", resource: str(GPUS_PER_HOST)})


def _lone_host(row: Row, resource: str) -> dict[str, Any]:
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
_SHEETS: dict[tuple[str, ...], tuple[Callable[[Row, str], dict[str, Any]], Levels | None]] = {
    ("host", "core", "aggregation", "tor"): (
        _network_host,
        Levels("network", (*(Level(name, label) for name, label in _NETWORK.items()), _HOST)),
    ),
    ("sn", "cpu_milli", "memory_mib", "gpu", "model"): (_lone_host, Levels("hosts", (_HOST,))),
}
