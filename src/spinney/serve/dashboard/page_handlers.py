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
from spinney.core.view.tree import View
from spinney.serve.dashboard.boxes import (
    MOST_NAMED,
    Box,
    Drawing,
    Planned,
    RenderCache,
    Unit,
    cells,
    depth_of,
    fill_of,
    filling,
    legend,
    path_of,
    pruned,
    unit_of,
)
from spinney.serve.dashboard.data_sources import Key, PlanRefused, Questions
from spinney.serve.dashboard.first_page import overview, topologies_page
from spinney.serve.dashboard.gang_page import MOST_PODS, gang_page, tree_for
from spinney.serve.dashboard.history import HOURS, History, charts
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page import PageContent
from spinney.serve.dashboard.queue_page import queues_page
from spinney.serve.dashboard.rows import Query, gang_address, listing

_MOST_OFFERED = 500


@dataclass(frozen=True, slots=True)
class PageContext:
    """What pages are made from. `run` tells one start of the process from another."""

    model: Model
    questions: Questions
    kept: RenderCache
    history: History = field(default_factory=History)
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


async def history(context: PageContext, asked: Asked) -> PageContent:
    hours = int(asked["hours"]) if asked.get("hours", "") in map(str, HOURS) else HOURS[-1]
    samples = context.history.last(hours)
    values = {"hours": hours, "offered": HOURS, "samples": samples}
    return PageContent("History", "history.html", lambda: {**values, "charts": charts(samples, hours)})


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
    at = chosen.root.find(path_of(asked.get("at", "")))
    if at is None:
        return missing("domain", asked["at"])
    drawn = context.kept.boxes(view, chosen, key, at, depth_of(chosen, at))
    frame = f"{context.run}.{model.structure}"

    def build() -> dict[str, Any]:
        rows = model.rows()
        return {
            "tree": chosen,
            "topologies": [each.name for each in view.trees],
            "unit": unit_of(view, chosen),
            "boxes": drawn,
            "at": at,
            "is_aggregated": not cells(drawn),
            "named": legend(drawn),
            "most_named": MOST_NAMED,
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
        cells={**dict(filling(drawn)), "legend": legend(drawn)},
    )


def gang_key(text: str) -> Key | None:
    namespace, slash, name = text.strip().partition("/")
    return (namespace, name) if slash and namespace and name else None


def missing(kind: str, name: str) -> PageContent:
    return PageContent("Not found", "missing.html", lambda: {"kind": kind, "name": name}, status=404)


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
        "pictures": pictures(context, result) if result else (),
    }
    return PageContent("Plan", "plan.html", lambda: values, status=status)


@dataclass(frozen=True, slots=True)
class Picture:
    """Where planned pods would go in one topology; `named`: their gangs with their fills."""

    topology: str
    unit: Unit
    boxes: tuple[Box, ...]
    named: list[tuple[str, str]]


def pictures(context: PageContext, result: PlanResult) -> list[Picture]:
    """Domains that would hold planned pods, as they are filled now and would be then."""
    view = context.model.trees()
    found = []
    for tree, planned_pods in _by_tree(view, result).items():
        chosen = view.tree(tree)
        assert chosen is not None
        drawn = pruned(Drawing(chosen, view.resources, planned=planned_pods).boxes(chosen, chosen.root))
        named = [(gang, fill_of(gang)) for gang in sorted({gang for held in planned_pods.values() for gang in held})]
        found.append(Picture(tree, unit_of(view, chosen), drawn, named[:MOST_NAMED]))
    return [picture for picture in found if picture.boxes]


def _by_tree(view: View, result: PlanResult) -> dict[str, Planned]:
    found: dict[str, dict[str, dict[str, Mapping[str, int]]]] = {}
    for gang in result.gangs:
        tree = tree_for(view, gang.explained.topology)
        name = tree.name if tree is not None else ""
        for node, held in gang.held.items() if name else ():
            found.setdefault(name, {}).setdefault(node, {})[gang.name] = held
    return dict(found)


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
    answer = await context.questions.plan(text)
    await context.model.refresh()
    return form(context, text, answer)


async def _body(request: Request) -> bytes | None:
    """None: there is more than will be read."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            return None
    return body
