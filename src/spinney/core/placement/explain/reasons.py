"""Explanations as text: the reason for a refusal in one sentence, and a few lines for terminals and pages.

Never guesses: every clause states something that was counted or tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np

from kube_apimachinery.quantity import format_bytes, format_milli
from spinney.api.placement.problem import SINGLE_NUMA_NODE
from spinney.api.placement.result import (
    Blocked,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    FitsWithWholeSet,
    Relaxation,
    Shortfall,
)
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.explain.best_domains import shortfall
from spinney.core.placement.explain.blame import BlamedPart
from spinney.core.placement.explain.context import RefusalContext
from spinney.core.placement.gang.gang_tree import UNNAMED, Part


def sentence(explanation: Explanation) -> str:
    """The reason, and the relaxations that would help."""
    ways = _ways(explanation.fits_if)
    return f"{explanation.reason}; it would fit {ways}" if ways else explanation.reason


def lines(explanation: Explanation) -> list[str]:
    """The reason, then one line each: best domains, what blocks nodes, gangs that occupy them, what would help."""
    found = [explanation.reason]
    if explanation.best:
        found.append("best: " + "; ".join(_shortfall(one) for one in explanation.best))
    if explanation.blocked is not None:
        found += _blocked(explanation.blocked)
    ways = _ways(explanation.fits_if)
    if ways:
        found.append(f"would fit: {ways}")
    return found


def amounts(short: Mapping[str, int]) -> str:
    """`24 nvidia.com/gpu and 16Gi memory`."""
    return enumerated([_amount(name, amount) for name, amount in short.items()])


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(path: Sequence[str]) -> str:
    return "/".join(path) or "the cluster"


def enumerated(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _amount(resource: str, amount: int) -> str:
    match resource:
        case "cpu":
            return f"{format_milli(amount)} cpu"
        case "memory" | "ephemeral-storage":
            return f"{format_bytes(amount)} {resource}"
        case "pods":
            return many(amount, "pod slot")
        case _:
            return f"{amount} {resource}"


def _shortfall(one: Shortfall) -> str:
    short = f", short of {amounts(one.short)}" if one.short else ""
    return f"{place(one.path)} holds {one.holds} of {one.of}{short}"


def _blocked(one: Blocked) -> list[str]:
    found = []
    if one.reasons:
        reasons = [f"{many(count, 'node')} {reason}" for reason, count in sorted(one.reasons.items())]
        found.append("blocked: " + ", ".join(reasons))
    if one.occupied:
        gangs = sorted(one.occupied, key=lambda name: (-one.occupied[name], name))
        found.append("occupied: " + ", ".join(f"{many(one.occupied[name], 'node')} by {name}" for name in gangs))
    return found


def _ways(ways: Sequence[Relaxation]) -> str:
    return enumerated([_way(one) for one in ways], last="or")


def _way(one: Relaxation) -> str:
    match one:
        case FitsAtLevel(level=None):
            return "without the requirement"
        case FitsAtLevel(level=level):
            return f"in one {level}"
        case FitsWithCount(count=count):
            return f"with {many(count, 'pod')}"
        case FitsWithVictims(victims=victims):
            gangs = sorted({victim.gang for victim in victims})
            return f"without {many(len(victims), 'pod')} of {enumerated(gangs)}"
        case FitsWithWholeSet(gang=gang, path=path):
            return f"with gang {gang} and all that are tied to it placed anew in {place(path)}"
        case _:
            assert_never(one)


def reason(blamed: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """The first of these reasons that applies."""
    return (
        _no_nodes(blamed)
        or _members_apart(blamed)
        or _no_eligible_node(blamed, blocked)
        or _no_domains(blamed, considered)
        or _exceeds_cluster(blamed, best, blocked)
        or _exceeds_best_domain(blamed, considered, best, blocked)
    )


def _name(blamed: BlamedPart) -> str:
    return _titled(blamed, blamed.part.path)


def _titled(blamed: BlamedPart, path: str) -> str:
    """The path of a part; a default name that no user gave is not shown."""
    return "the gang" if not path or (blamed.is_sole and path == UNNAMED) else path


def _no_nodes(blamed: BlamedPart) -> str:
    return "" if blamed.context.inventory.slots() else f"{_name(blamed)} needs nodes, and the cluster has none"


def _members_apart(blamed: BlamedPart) -> str:
    """Running members that are not in one domain of the required level."""
    context, level = blamed.context, blamed.level
    if level is None:
        return ""
    tree = context.inventory.trees[level.topology]
    domain_of = tree.domain_of(level.depth)
    member_domains: dict[int, str] = {}
    for slot in sorted(context.pinned(blamed.bound), key=context.inventory.name):
        path = "outside that level" if domain_of[slot] == NOWHERE else place(tree.path(level.depth, domain_of[slot]))
        member_domains.setdefault(domain_of[slot], f"{context.inventory.node(slot).name} ({path})")
    if len(member_domains) < 2 and NOWHERE not in member_domains:
        return ""
    return f"{_name(blamed)} needs one {level.key}, but its members run on {enumerated(list(member_domains.values()))}"


def _no_eligible_node(blamed: BlamedPart, blocked: Blocked) -> str:
    """Pods that may use no node at all, whatever is free."""
    context = blamed.context
    for leaf in context.active:
        assert leaf.pods is not None
        if not (context.inventory.masks.of(leaf.pods.filter).array() & context.nodes).any():
            nodes = many(len({context.inventory.home(slot) for slot in np.flatnonzero(context.nodes).tolist()}), "node")
            why = f": {_causes(blocked)}" if blocked.reasons else ""
            return f"{_path(blamed, leaf)} may use none of the {nodes}{_tie(context)}{why}"
    return ""


def _no_domains(blamed: BlamedPart, considered: int) -> str:
    if blamed.level is None or considered:
        return ""
    level = blamed.level
    topology = blamed.context.inventory.trees[level.topology].topology
    if topology.zones and level.key == topology.levels[-1]:
        return (
            f"{_name(blamed)} needs one {level.key}, and no node{_tie(blamed.context)} publishes zones "
            f"under the policy {SINGLE_NUMA_NODE}"
        )
    return (
        f"{_name(blamed)} needs one {level.key}, and no node{_tie(blamed.context)} carries that level "
        f"of topology {level.topology}"
    )


def _exceeds_cluster(blamed: BlamedPart, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """More pods than all nodes together hold, whatever the level."""
    context, level = blamed.context, blamed.level
    held = sum(min(context.total(shape), need) for shape, need in context.shapes.items())
    if level is None or context.pinned(blamed.bound) or held == sum(context.shapes.values()):
        return ""
    whole = shortfall(context, (), np.flatnonzero(context.nodes))
    where = "the whole cluster" if context.tied is None else place(context.tied.path) + _tie(context)
    nearest = f"; the best {level.key}, {place(best[0].path)}, holds {best[0].holds}" if best else ""
    return f"{_asks(blamed, whole)}, but {where} holds {whole.holds}{_lacks(context, whole, blocked)}{nearest}"


def _exceeds_best_domain(blamed: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    context, first = blamed.context, best[0]
    joint = f"; each of its {blamed.fitting} parts fits alone, but not together" if blamed.fitting else ""
    holds = f"holds {first.holds}{_lacks(context, first, blocked)}"
    return f"{_asks(blamed, first)}{joint}; {_which(blamed, considered, place(first.path))} {holds}"


def _which(blamed: BlamedPart, considered: int, path: str) -> str:
    context = blamed.context
    pinned = context.pinned(blamed.bound)
    if blamed.level is None:
        return path + _tie(context)
    if pinned:
        first = min(context.inventory.node(slot).name for slot in pinned)
        return f"its member on {first} runs in {path}, which"
    return (
        f"the only one{_tie(context)}, {path},"
        if considered == 1
        else f"the best of {considered}{_tie(context)}, {path},"
    )


def _asks(blamed: BlamedPart, one: Shortfall) -> str:
    asked = f"{_name(blamed)} needs {many(one.of, 'pod')}"
    return f"{asked} in one {blamed.level.key}" if blamed.level else asked


def _lacks(context: RefusalContext, one: Shortfall, blocked: Blocked) -> str:
    """What is missing; if no amount is, what else blocks the pods."""
    if one.short:
        return f", short of {amounts(one.short)}"
    if context.parts.affinity:
        return ", and affinity between its pods keeps the others away"
    if any(leaf.pods.host_ports or leaf.pods.anti_affinity for leaf in context.active if leaf.pods is not None):
        return ", and host ports or anti-affinity keep the others away"
    if not one.holds and blocked.reasons:
        return f", blocked by {_causes(blocked)}"
    return ", and what is free there lies apart"


def _causes(blocked: Blocked) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in sorted(blocked.reasons.items()))


def _path(blamed: BlamedPart, leaf: Part) -> str:
    """The path of a pod set of the context within the whole gang."""
    if blamed.part.pods is not None:
        return _titled(blamed, blamed.part.path)
    return f"{blamed.part.path}/{leaf.path}" if blamed.part.path else _titled(blamed, leaf.path)


def _tie(context: RefusalContext) -> str:
    return "" if context.tied is None else f" beside gang {context.tied.gang}"
