"""Small clusters and gangs in the exchange format, in few words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from unit.placement.engine_kit import decided

Document = dict[str, Any]
ZONE, BLOCK, RACK, HOST = "zone", "block", "rack", "kubernetes.io/hostname"
LEVELS = [ZONE, BLOCK, RACK, HOST]


def node(name: str, path: str = "z/b/r", gpus: int = 8, used: int = 0, releasing: int = 0, **more: Any) -> Document:
    """A node below zone/block/rack; `path` may be shorter, then the node carries fewer labels."""
    values = [*path.split("/"), name] if path.count("/") == 2 else [value for value in path.split("/") if value]
    return {
        "name": name,
        "labels": dict(zip(LEVELS, values, strict=False)),
        "allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)},
        "used": {"nvidia.com/gpu": str(used)},
        "releasing": {"nvidia.com/gpu": str(releasing)},
        **more,
    }


def pods(name: str, count: int = 1, gpus: int = 1, **more: Any) -> Document:
    return {"name": name, "count": count, "request": {"nvidia.com/gpu": str(gpus)}, **more}


def gang(*sets: Document, name: str = "gang", **more: Any) -> Document:
    return {"name": name, "topology": "t", "pods": list(sets), **more}


def problem(nodes: list[Document], *gangs: Document, **options: Any) -> Document:
    return {
        "version": 1,
        "resources": ["cpu", "memory", "pods", "nvidia.com/gpu"],
        "topologies": [{"name": "t", "levels": LEVELS}],
        "nodes": nodes,
        "gangs": list(gangs),
        "options": options,
    }


def answers(nodes: list[Document], *gangs: Document, **options: Any) -> list[Document]:
    found: list[Document] = decided(problem(nodes, *gangs, **options))["gangs"]
    return found


def answer(nodes: list[Document], one: Document, **options: Any) -> Document:
    return answers(nodes, one, **options)[0]


def nodes_of(found: Document) -> dict[str, int]:
    """How many new pods each node gets."""
    assert found["outcome"] == "placed", found
    return dict(Counter(placement["node"] for placement in found["placements"]))
