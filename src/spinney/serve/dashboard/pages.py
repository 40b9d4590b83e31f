"""The pages, each as a question to the model: what is asked for stands in the address, the answer is a template.

Nothing in here writes to a cluster, and nothing works on text: values go to templates as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from spinney.api.labels import POD_GROUP_NAME
from spinney.serve.dashboard.boxes import Box, Cell, cells, filling, unit_of
from spinney.serve.dashboard.gang_page import MOST_PODS, gang_page, tree_for
from spinney.serve.dashboard.keeping import Kept
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.overview import overview
from spinney.serve.dashboard.rows import Query, gang_address, listing
from spinney.serve.dashboard.seeing import Key, Questions
from spinney.serve.dashboard.showing import Shown
from spinney.serve.dashboard.topologies_page import topologies_page

MOST_DRAWN = 2000
"""A tree with more nodes is drawn by the browser, on a canvas."""
_MOST_OFFERED = 500


@dataclass(frozen=True, slots=True)
class Desk:
    """What pages are made from. `run` tells one start of the process from another."""

    model: Model
    questions: Questions
    kept: Kept
    run: str = field(default_factory=lambda: token_hex(4))


Asked = Mapping[str, str]
"""What stands in the address: the parts of the path and the query."""
Page = Callable[[Desk, Asked], Awaitable[Shown]]


async def overview_page(desk: Desk, asked: Asked) -> Shown:
    return Shown("Overview", "overview.html", lambda: {"seen": overview(desk.model)})


async def gangs(desk: Desk, asked: Asked) -> Shown:
    found = listing(desk.model.rows(), Query.read(asked))
    return Shown("Gangs", "gangs.html", lambda: {"found": found}, head="gangs_form.html", address=found.query.address)


async def gang(desk: Desk, asked: Asked) -> Shown:
    key = (asked["namespace"], asked["name"])
    title = "/".join(key)
    if desk.model.views.groups.get(key) is None:
        return missing("gang", title)
    events = await desk.questions.events(key, [pod.metadata.name for pod in desk.model.pods_of(key)])

    def build() -> dict[str, Any]:
        seen = gang_page(desk.model, desk.kept, key, events)
        return {"seen": seen, "namespace": key[0], "name": key[1], "most_pods": MOST_PODS}

    return Shown(title, "gang.html", build)


async def node(desk: Desk, asked: Asked) -> Shown:
    name = asked["name"]
    found = desk.model.views.nodes.get(("", name))
    if found is None:
        return missing("node", name)

    def build() -> dict[str, Any]:
        pods = [pod for pod in desk.model.views.pods if pod.spec.node_name == name]
        pods.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        rows = [(pod, pod.metadata.annotations.get(POD_GROUP_NAME, "")) for pod in pods]
        return {"node": found, "pods": rows}

    return Shown(name, "node.html", build)


async def topologies(desk: Desk, asked: Asked) -> Shown:
    return Shown(
        "Topologies", "topologies.html", lambda: {"seen": topologies_page(desk.model, desk.kept, desk.questions.uses())}
    )


async def tree(desk: Desk, asked: Asked) -> Shown:
    model = desk.model
    view = model.trees()
    chosen = tree_for(view, asked.get("topology", ""))
    if chosen is None:
        there = [each.name for each in view.trees]
        values = {"topologies": there, "wanted": asked.get("topology", "")}
        return Shown("Topology", "tree_none.html", lambda: values, status=404 if there else 200)
    key = gang_key(asked.get("gang", ""))
    drawn = desk.kept.boxes(view, chosen, key)
    frame = f"{desk.run}.{model.structure}"

    def build() -> dict[str, Any]:
        rows = model.rows()
        return {
            "tree": chosen,
            "topologies": [each.name for each in view.trees],
            "unit": unit_of(view, chosen),
            "boxes": drawn,
            "cells": cells(drawn),
            "on_canvas": cells(drawn) > MOST_DRAWN,
            "gang": "/".join(key) if key else "",
            "gang_there": key is not None and model.views.groups.get(key) is not None,
            "gang_address": gang_address(*key) if key else "",
            "gangs": [row.title for row in rows if row.bound][:_MOST_OFFERED],
        }

    return Shown(
        f"Topology {chosen.name}",
        "tree.html",
        build,
        head="tree_form.html",
        frame=frame,
        cells=dict(filling(drawn)),
    )


def gang_key(text: str) -> Key | None:
    namespace, slash, name = text.strip().partition("/")
    return (namespace, name) if slash and namespace and name else None


def tree_cells(desk: Desk, asked: Asked) -> dict[str, Any]:
    """Boxes and cells for a canvas: parents before children, each with the position of the box it is in."""
    view = desk.model.trees()
    chosen = tree_for(view, asked.get("topology", ""))
    if chosen is None:
        return {"boxes": [], "cells": []}
    flat: list[list[object]] = []
    nodes: list[list[object]] = []

    def add(box: Box, parent: int) -> None:
        at = len(flat)
        flat.append([box.id, parent, box.level, box.name, box.nodes, box.total, box.used, box.gang, box.unit])
        nodes.extend([_flat(cell, at) for cell in box.cells])
        for kid in box.kids:
            add(kid, at)

    for box in desk.kept.boxes(view, chosen, gang_key(asked.get("gang", ""))):
        add(box, -1)
    return {"unit": unit_of(view, chosen).word, "boxes": flat, "cells": nodes}


def _flat(cell: Cell, box: int) -> list[object]:
    return [cell.id, box, cell.name, cell.total, cell.used, cell.gang, cell.state, cell.pods, cell.unit]


def missing(kind: str, name: str) -> Shown:
    return Shown("Not there", "missing.html", lambda: {"kind": kind, "name": name}, status=404)
