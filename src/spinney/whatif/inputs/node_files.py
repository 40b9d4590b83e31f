"""Nodes from a file: a YAML stream of v1 Nodes, of compact descriptions, or of both.

Never guesses: a document that is neither is refused with its file, line and field.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from spinney.api.documents import INVENTORY, DocumentError, line_of, read_bounded, read_documents
from spinney.whatif.inputs.node_description import (
    DEFAULT_CAPACITY,
    HOSTNAME_LABEL,
    DescriptionError,
    Path,
    check_name,
    check_taints,
    expand,
    quantities,
)

DEFAULT_NODES = """\
# Sixteen nodes with eight GPUs each: two blocks of two racks of four.
levels:
  - {name: zone, label: topology.kubernetes.io/zone, count: 1}
  - {name: block, label: topology.kubernetes.io/block, count: 2}
  - {name: rack, label: topology.kubernetes.io/rack, count: 2}
  - {name: node, count: 4}
capacity: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 8}
"""
"""The default cluster if none is described; also examples/nodes/laptop.yaml."""


class NodesError(ValueError):
    """A nodes file that cannot be used; the message names file, line and field."""


def load_nodes(source: FilePath | str | None = None) -> list[dict[str, Any]]:
    """Node manifests from a file (a path), from text, or, given nothing, the default sixteen."""
    if source is None:
        return parse_nodes(DEFAULT_NODES, "default nodes")
    if isinstance(source, str):
        return parse_nodes(source, "text")
    try:
        with source.open("rb") as stream:
            body = read_bounded(stream, str(source), INVENTORY)
    except OSError as error:
        raise NodesError(f"{source}: cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise NodesError(str(error)) from error
    return parse_nodes(body, str(source))


def parse_nodes(text: bytes | str, where: str) -> list[dict[str, Any]]:
    """Every document of the text, expanded; names are unique over all of them."""
    nodes: list[dict[str, Any]] = []
    origin: dict[str, int] = {}
    for index, document in enumerate(_documents(text, where)):
        try:
            found = _nodes(document)
        except DescriptionError as wrong:
            raise NodesError(f"{_place(text, where, index, wrong.path)}: {wrong}") from None
        for node in found:
            name = node["metadata"]["name"]
            if name in origin:
                first = f"document {origin[name] + 1}"
                raise NodesError(f"{_place(text, where, index, ())}: node {name!r} is described already, in {first}")
            origin[name] = index
        nodes += found
    if not nodes:
        raise NodesError(f"{where}: found no nodes, expected v1 Nodes or a description with levels")
    return nodes


def _documents(text: bytes | str, where: str) -> list[Any]:
    try:
        return read_documents(text, where, INVENTORY)
    except DocumentError as error:
        raise NodesError(str(error)) from error


def _nodes(document: Any) -> list[dict[str, Any]]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise DescriptionError((), document, "a mapping: a v1 Node, or a description with levels")
    match document.get("kind"):
        case "Node":
            return [_node(document, ())]
        case "List" | "NodeList":
            return list(_items(document))
        case None:
            return expand(document)
        case other:
            raise DescriptionError(("kind",), other, "Node | List | NodeList, or no kind for a description with levels")


def _items(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = document.get("items")
    if not isinstance(items, list):
        raise DescriptionError(("items",), items, "a list of v1 Nodes")
    for index, item in enumerate(items):
        if not isinstance(item, dict) or item.get("kind", "Node") != "Node":
            raise DescriptionError(("items", index), item, "a v1 Node")
        yield _node(item, ("items", index))


def _node(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """A v1 Node with the defaults of every node filled in."""
    if document.get("apiVersion", "v1") != "v1":
        raise DescriptionError((*path, "apiVersion"), document["apiVersion"], "v1")
    metadata = _part(document, "metadata", path)
    spec = _part(document, "spec", path)
    status = _part(document, "status", path)
    name = check_name(metadata.get("name"), (*path, "metadata", "name"))
    check_taints(spec.get("taints") or [], (*path, "spec", "taints"))
    capacity = {**DEFAULT_CAPACITY, **quantities(status.get("capacity") or {}, (*path, "status", "capacity"))}
    allocatable = quantities(status.get("allocatable") or {}, (*path, "status", "allocatable"))
    kept = {key: metadata[key] for key in ("name", "annotations") if metadata.get(key)}
    labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux", **(metadata.get("labels") or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**kept, "labels": labels},
        "spec": spec,
        "status": {**status, "capacity": capacity, "allocatable": {**capacity, **allocatable}},
    }


def _part(document: dict[str, Any], field: str, path: Path) -> dict[str, Any]:
    part = document.get(field) or {}
    if not isinstance(part, dict):
        raise DescriptionError((*path, field), part, "a mapping")
    return part


def _place(text: bytes | str, where: str, index: int, path: Path) -> str:
    """The file with the line of a field, or of its innermost existing parent."""
    body = text.encode() if isinstance(text, str) else text
    line = line_of(body, path, index)
    return where if line is None else f"{where}:{line}"
