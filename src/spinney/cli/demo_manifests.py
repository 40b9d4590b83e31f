"""What the demonstration applies: the files beside this one, which are also examples/demo."""

from __future__ import annotations

from importlib import resources
from typing import Any

from spinney.api.documents import read_documents
from spinney.sim.nodes.describe import parse_nodes


def text_of(name: str) -> str:
    return resources.files("spinney.cli").joinpath("demo_files", f"{name}.yaml").read_text(encoding="utf-8")


def manifests(name: str) -> list[dict[str, Any]]:
    """The objects of a file; nodes are expanded from their description."""
    if name == "nodes":
        return parse_nodes(text_of(name), "nodes")
    return read_documents(text_of(name), name)
