"""Explanations as text: the reason for a refusal, and what would help, in one sentence.

Never guesses: every clause states something that was counted or tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import ge
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
from spinney.core.placement.explain.capacity import KeptOut, Never, TooLarge, TooMany
from spinney.core.placement.explain.context import RefusalContext, shape_of
from spinney.core.placement.gang.gang_tree import UNNAMED, Level, Part


def sentence(explanation: Explanation) -> str:
    """The reason, and the relaxations that would help."""
    ways = _ways(explanation.fits_if)
    return f"{explanation.reason}; it would fit {ways}" if ways else explanation.reason


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


def reason(
    blamed: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked, never: Never | None
) -> str:
    """The first of these reasons that applies: what would never fit before what does not fit now."""
    return (
        _no_nodes(blamed)
        or _members_apart(blamed)
        or _no_eligible_node(blamed, blocked)
        or _no_domains(blamed, considered)
        or _would_never_fit(blamed, never)
        or _exceeds_cluster(blamed, best, blocked, never)
        or _exceeds_best_domain(blamed, considered, best, blocked, never)
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
    key = _first_missing(blamed.context, level)
    which = "that level" if key == level.key else f"the label {key}, a broader level"
    return (
        f"{_name(blamed)} needs one {level.key}, and no node{_tie(blamed.context)} carries {which} "
        f"of topology {level.topology}"
    )


def _first_missing(context: RefusalContext, level: Level) -> str:
    """The broadest level whose label no node carries that carries those of all broader ones."""
    nodes = [context.inventory.node(slot).labels for slot in np.flatnonzero(context.nodes).tolist()]
    for key in context.inventory.trees[level.topology].levels[: level.depth]:
        nodes = [labels for labels in nodes if key in labels]
        if not nodes:
            return key
    return level.key


def _would_never_fit(blamed: BlamedPart, never: Never | None) -> str:
    match never:
        case None | TooMany():
            return ""  # part of the sentence on the closest domain
        case KeptOut(part=part, nodes=nodes, causes=causes):
            which = f"the {many(nodes, 'node')} that {'is' if nodes == 1 else 'are'} large enough for a pod"
            return f"{_path(blamed, part)} may use none of {which}{_tie(blamed.context)}: {_counted(causes)}"
        case TooLarge():
            return _too_large(blamed, never)
        case _:
            assert_never(never)


def _too_large(blamed: BlamedPart, never: TooLarge) -> str:
    has = f"has more than {amounts(never.largest)}" if any(never.largest.values()) else "has any"
    has = has if never.largest else "has that much of all of them"
    tie = _tie(blamed.context)
    return f"a pod of {_path(blamed, never.part)} needs {amounts(never.asked)}, and no {never.unit}{tie} {has}"


def _too_many(blamed: BlamedPart, never: Never | None) -> str:
    """A clause on the most that an empty domain holds; without a level, all empty nodes."""
    if not isinstance(never, TooMany):
        return ""
    level = never.level
    where = f"into an empty {level.key}" if level else "on empty nodes"
    holds = f"no more than {never.holds} fit {where}"
    asked = many(never.asked, "pod")
    if never.resource:
        has = f"an empty {level.key} has" if level else "all nodes together have"
        holds = f"{has} no more than {amounts({never.resource: never.holds})}"
        asked = amounts({never.resource: never.asked})
    same = _path(blamed, never.part) == _name(blamed)
    if same and not never.resource:
        return f"; {holds}"
    who = f"that is {asked} in all" if same else f"{_path(blamed, never.part)} needs {asked}"
    return f"; {who}{f' in one {level.key}' if level and not same else ''}, and {holds}"


def _exceeds_cluster(blamed: BlamedPart, best: tuple[Shortfall, ...], blocked: Blocked, never: Never | None) -> str:
    """More pods than all nodes together hold, whatever the level."""
    context, level = blamed.context, blamed.level
    held = sum(min(context.total(shape), need) for shape, need in context.shapes.items())
    too_many = isinstance(never, TooMany) and never.level is not None
    if level is None or too_many or context.pinned(blamed.bound) or held == sum(context.shapes.values()):
        return ""
    whole = shortfall(context, (), np.flatnonzero(context.nodes))
    where = "the whole cluster" if context.tied is None else place(context.tied.path) + _tie(context)
    nearest = f"; the best {level.key}, {place(best[0].path)}, holds {best[0].holds}" if best else ""
    holds = f"{where} holds {whole.holds}{_lacks(context, whole, blocked)}"
    return f"{_asks(blamed, whole)}{_too_many(blamed, never)}, but {holds}{nearest}"


def _exceeds_best_domain(
    blamed: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked, never: Never | None
) -> str:
    context, first = blamed.context, best[0]
    joint = f"; each of its {blamed.fitting} parts fits alone, but not together" if blamed.fitting else ""
    asked = f"{_asks(blamed, first)}{joint}{_too_many(blamed, never)}"
    return (
        f"{asked}; {_which(blamed, considered, place(first.path))} holds {first.holds}{_lacks(context, first, blocked)}"
    )


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
        return f", short of {amounts(one.short)}{_within_zones(context)}"
    if context.parts.affinity:
        return ", and affinity between its pods keeps the others away"
    if any(leaf.pods.host_ports or leaf.pods.anti_affinity for leaf in context.active if leaf.pods is not None):
        return ", and host ports or anti-affinity keep the others away"
    if not one.holds and blocked.reasons:
        return f", blocked by {_causes(blocked)}"
    return ", and what is free there lies apart"


def _within_zones(context: RefusalContext) -> str:
    """For a pod for which a divided node has room, and none of its zones has."""
    for leaf in context.active:
        fit, request = context.per_node(shape_of(leaf)), shape_of(leaf).request
        admitted = context.inventory.masks.of(shape_of(leaf).filter).array() & context.nodes
        divided = {id(one): one for slot, one in context.inventory.divided.items() if admitted[slot]}
        for one in divided.values():
            free = context.inventory.free(one.slot, True)
            if not fit[list(one.zones)].any() and all(map(ge, free, request)):
                return f" in one NUMA zone, which has to hold all of a pod under the policy {SINGLE_NUMA_NODE}"
    return ""


def _causes(blocked: Blocked) -> str:
    return _counted(blocked.reasons)


def _counted(causes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))


def _path(blamed: BlamedPart, leaf: Part) -> str:
    """The path of a part of the context within the whole gang."""
    if blamed.part.pods is not None or not leaf.path:
        return _titled(blamed, blamed.part.path)
    return f"{blamed.part.path}/{leaf.path}" if blamed.part.path else _titled(blamed, leaf.path)


def _tie(context: RefusalContext) -> str:
    return "" if context.tied is None else f" beside gang {context.tied.gang}"
