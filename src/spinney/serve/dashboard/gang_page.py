"""One gang as values: where it is and how good that is, or what is missing where and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spinney.api.kinds.podgroup import PodGroup
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.placement.gang.gang_tree import GangTree
from spinney.core.placement.scoring import score
from spinney.core.view.best_score import members_of
from spinney.core.view.explanation import GangExplanation, Place
from spinney.core.view.gang_list import DOMAIN_LINE, row_of
from spinney.core.view.mistakes import mistake_row
from spinney.core.view.tree import Tree, View
from spinney.serve.dashboard.boxes import Box, RenderCache, Unit, pruned, unit_of
from spinney.serve.dashboard.data_sources import ClusterEvent, Json, Key
from spinney.serve.dashboard.model import Model

MOST_PODS = 256


@dataclass(frozen=True, slots=True)
class Group:
    """A part of the gang: where it is, what it asked for, and its own score where it has a preference."""

    place: Place
    level: str
    required: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Lack:
    """What a domain could hold of the gang, and what it is short of."""

    domain: str
    holds: int
    of: int
    short: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GangPage:
    """`level`: of the domains in `lacks`. `ways`: what would make it fit. `picture` is empty while nothing is bound."""

    explained: GangExplanation
    created: str
    waits_since: str
    workload: str
    bound: int
    lines: tuple[str, ...]
    groups: tuple[Group, ...]
    level: str
    lacks: tuple[Lack, ...]
    blocked: tuple[tuple[int, str], ...]
    occupied: tuple[tuple[int, str], ...]
    ways: tuple[str, ...]
    unit: Unit | None
    topology: str
    picture: tuple[Box, ...]
    events: tuple[ClusterEvent, ...]


def gang_page(model: Model, kept: RenderCache, key: Key, events: Sequence[ClusterEvent]) -> GangPage | None:
    """None: there is no such gang."""
    group, explained = model.views.groups.get(key), model.explained(key)
    if explained is None:
        return None
    reported, scores = explained.explanation, _scores(model, key, group) if group is not None else {}
    row = row_of(group, explained, model.pods_of(key)) if group is not None else mistake_row(model.pods_of(key))
    lacks = _lacks(reported)
    view = model.trees()
    tree = tree_for(view, explained.topology)
    unit = unit_of(view, tree) if tree is not None else None
    picture: tuple[Box, ...] = ()
    if tree is not None:
        picture = pruned(kept.boxes(view, tree, key))
    return GangPage(
        explained=explained,
        created=row.created,
        waits_since=row.waits_since,
        workload=row.workload,
        bound=sum(bool(member.node) for member in explained.members),
        lines=tuple(line for line in explained.lines if not (lacks and line.startswith(DOMAIN_LINE))),
        groups=tuple(_group(explained, place, scores) for place in explained.places if place.pods or not place.group),
        level=_short(explained, str(reported.get("level") or "")),
        lacks=lacks,
        blocked=_counts(reported.get("blocked")),
        occupied=_counts(reported.get("occupied")),
        ways=tuple(_way(explained, way) for way in _dicts(reported.get("fitsIf"))),
        unit=unit,
        topology=tree.name if tree is not None else "",
        picture=picture,
        events=_together(events),
    )


def _together(events: Sequence[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """What was said in the same words about several stands there once, with the first of them."""
    grouped: dict[tuple[str, str, str], list[ClusterEvent]] = {}
    for one in events:
        grouped.setdefault((one.type, one.reason, one.message), []).append(one)
    found = []
    for same in grouped.values():
        others = len({one.about for one in same}) - 1
        about = f"{same[0].about} and {many(others, 'other')}" if others else same[0].about
        found.append(replace(same[0], about=about))
    return tuple(found)


def tree_for(view: View, name: str) -> Tree | None:
    """The tree of this name; without a name the one that has most nodes."""
    if name:
        return view.tree(name)
    return max(view.trees, key=lambda tree: tree.root.nodes, default=None)


def _group(explained: GangExplanation, place: Place, scores: Mapping[str, float]) -> Group:
    return Group(place, _short(explained, place.level), _short(explained, place.required), scores.get(place.group))


def _short(explained: GangExplanation, key: str) -> str:
    return explained.short.get(key) or key.rpartition("/")[2]


def _scores(model: Model, key: Key, group: PodGroup) -> dict[str, float]:
    """The score of each part that has a preference, by the rule that the whole gang is scored by."""
    found = members_of(group, model.pods_of(key), model.cluster)
    if found is None:
        return {}
    parts, inventory, live = found
    alone = {part.path: GangTree(parts.gang, parts.all, parts.leaves, [part]) for part in parts.preferences}
    return {path.rpartition("/")[2]: score(each, inventory, live) for path, each in alone.items()}


def _dicts(found: object) -> list[Json]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _lacks(reported: Json) -> tuple[Lack, ...]:
    return tuple(
        Lack(
            "/".join(map(str, one.get("path") or ())) or "the cluster",
            _number(one.get("holds")),
            _number(one.get("of")),
            tuple(sorted((str(name), _number(amount)) for name, amount in _entries(one.get("short")))),
        )
        for one in _dicts(reported.get("best"))
    )


def _counts(found: object) -> tuple[tuple[int, str], ...]:
    return tuple((_number(count), str(name)) for name, count in _entries(found))


def _entries(found: object) -> list[tuple[Any, Any]]:
    return list(found.items()) if isinstance(found, dict) else []


def _number(found: object) -> int:
    return found if isinstance(found, int) else 0


def _way(explained: GangExplanation, way: Json) -> str:
    """In the words of the scheduler's own sentence."""
    if "count" in way:
        return f"with {many(_number(way['count']), 'pod')}"
    if "victims" in way:
        gangs = enumerated([str(gang) for gang in way.get("gangs") or ()])
        return f"without {many(_number(way.get('victimCount')), 'pod')} of {gangs}"
    if isinstance(whole := way.get("wholeSet"), dict):
        where = "/".join(map(str, whole.get("path") or ()))
        return f"with gang {whole.get('gang')} and all that are tied to it placed anew in {where}"
    level = way.get("level")
    return f"in one {_short(explained, str(level))}" if level else "without the requirement"
