"""The pages, each as a question to the model: what is asked for stands in the address, the answer is a template.

A manifest that is pasted into the form is read in full or refused, planned, and never applied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from spinney.api.labels import POD_GROUP_NAME
from spinney.core.view.node_state import node_trouble, taint_words
from spinney.core.view.plan_result import PlanResult
from spinney.serve.dashboard.boxes import Box, Cell, RenderCache, cells, filling, unit_of
from spinney.serve.dashboard.data_sources import Key, PlanRefused, Questions
from spinney.serve.dashboard.first_page import overview, topologies_page
from spinney.serve.dashboard.gang_page import MOST_PODS, gang_page, tree_for
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page import PageContent
from spinney.serve.dashboard.queue_page import queues_page
from spinney.serve.dashboard.rows import Query, gang_address, listing

MOST_DRAWN = 2000
"""A tree with more nodes is drawn by the browser, on a canvas."""
_MOST_OFFERED = 500


@dataclass(frozen=True, slots=True)
class PageContext:
    """What pages are made from. `run` tells one start of the process from another."""

    model: Model
    questions: Questions
    kept: RenderCache
    run: str = field(default_factory=lambda: token_hex(4))


Asked = Mapping[str, str]
"""What stands in the address: the parts of the path and the query."""
Page = Callable[[PageContext, Asked], Awaitable[PageContent]]


async def overview_page(context: PageContext, asked: Asked) -> PageContent:
    return PageContent("Overview", "overview.html", lambda: {"seen": overview(context.model)})


async def gangs(context: PageContext, asked: Asked) -> PageContent:
    found = listing(context.model.rows(), Query.read(asked))
    return PageContent(
        "Gangs", "gangs.html", lambda: {"found": found}, head="gangs_form.html", address=found.query.address
    )


async def gang(context: PageContext, asked: Asked) -> PageContent:
    key = (asked["namespace"], asked["name"])
    title = "/".join(key)
    if context.model.explained(key) is None:
        return missing("gang", title)
    events = await context.questions.events(key, [pod.metadata.name for pod in context.model.pods_of(key)])

    def build() -> dict[str, Any]:
        seen = gang_page(context.model, context.kept, key, events)
        return {"seen": seen, "namespace": key[0], "name": key[1], "most_pods": MOST_PODS}

    return PageContent(title, "gang.html", build)


async def node(context: PageContext, asked: Asked) -> PageContent:
    name = asked["name"]
    found = context.model.views.nodes.get(("", name))
    if found is None:
        return missing("node", name)

    def build() -> dict[str, Any]:
        pods = [pod for pod in context.model.views.pods if pod.spec.node_name == name]
        pods.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        rows = [(pod, pod.metadata.annotations.get(POD_GROUP_NAME, "")) for pod in pods]
        return {
            "node": found,
            "pods": rows,
            "trouble": node_trouble(found),
            "taints": map(taint_words, found.spec.taints),
        }

    return PageContent(name, "node.html", build)


async def topologies(context: PageContext, asked: Asked) -> PageContent:
    return PageContent(
        "Topologies",
        "topologies.html",
        lambda: {"seen": topologies_page(context.model, context.kept, context.questions.uses())},
    )


async def queues(context: PageContext, asked: Asked) -> PageContent:
    resource = asked.get("resource", "")
    return PageContent("Queues", "queues.html", lambda: {"seen": queues_page(context.model, resource)})


async def tree(context: PageContext, asked: Asked) -> PageContent:
    model = context.model
    view = model.trees()
    chosen = tree_for(view, asked.get("topology", ""))
    if chosen is None:
        there = [each.name for each in view.trees]
        values = {"topologies": there, "wanted": asked.get("topology", "")}
        return PageContent("Topology", "tree_none.html", lambda: values, status=404 if there else 200)
    key = gang_key(asked.get("gang", ""))
    drawn = context.kept.boxes(view, chosen, key)
    frame = f"{context.run}.{model.structure}"

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

    return PageContent(
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


def tree_cells(context: PageContext, asked: Asked) -> dict[str, Any]:
    """Boxes and cells for a canvas: parents before children, each with the position of the box it is in."""
    view = context.model.trees()
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

    for box in context.kept.boxes(view, chosen, gang_key(asked.get("gang", ""))):
        add(box, -1)
    return {"unit": unit_of(view, chosen).word, "boxes": flat, "cells": nodes}


def _flat(cell: Cell, box: int) -> list[object]:
    return [cell.id, box, cell.name, cell.total, cell.used, cell.gang, cell.state, cell.pods, cell.unit]


def missing(kind: str, name: str) -> PageContent:
    return PageContent("Not there", "missing.html", lambda: {"kind": kind, "name": name}, status=404)


MOST_BYTES = 256 * 1024
"""Of a manifest as it is sent."""
MOST_GANGS = 50
"""Of one workload; those that do not fit are shown first."""


def form(
    context: PageContext, text: str = "", answer: PlanResult | PlanRefused | None = None, status: int = 200
) -> PageContent:
    refused = answer.sentence if isinstance(answer, PlanRefused) else ""
    result = answer if isinstance(answer, PlanResult) else None
    values = {
        "text": text,
        "refused": refused,
        "result": result,
        "can_plan": context.questions.plan is not None,
        "most_gangs": MOST_GANGS,
    }
    return PageContent("Plan", "plan.html", lambda: values, status=status)


async def planned(context: PageContext, request: Request) -> PageContent:
    body = await _body(request)
    if body is None:
        return form(
            context, answer=PlanRefused(f"a manifest of more than {MOST_BYTES // 1024} KiB is not read"), status=413
        )
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=8)
    except ValueError:
        return form(context, answer=PlanRefused("this is not what the form sends"), status=400)
    text = fields.get("manifest", [""])[0].replace("\r\n", "\n")
    if not text.strip():
        return form(
            context, answer=PlanRefused("the manifest is empty: paste one or more objects as YAML or JSON"), status=400
        )
    if context.questions.plan is None:
        return form(context, text, PlanRefused("planning is not available here"), status=503)
    return form(context, text, await context.questions.plan(text))


async def _body(request: Request) -> bytes | None:
    """None: there is more than will be read."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            return None
    return body
