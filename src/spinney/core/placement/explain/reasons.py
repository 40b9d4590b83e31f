"""Why a gang is refused, in one sentence: the part, the level, the best domain and what is missing.

Never guesses: every clause is something that was counted or tried.
"""

from __future__ import annotations

import numpy as np

from spinney.api.placement.problem import SINGLE_NUMA_NODE
from spinney.api.placement.result import Blocked, Shortfall
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.explain.best_domains import shortfall
from spinney.core.placement.explain.blame import BlamedPart
from spinney.core.placement.explain.context import RefusalContext
from spinney.core.placement.explain.wording import amounts, enumerated, many, place
from spinney.core.placement.gang.gang_tree import UNNAMED, Part


def reason(culprit: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """The first of these that is so."""
    return (
        _nowhere(culprit)
        or _torn(culprit)
        or _kept_out(culprit, blocked)
        or _unlabelled(culprit, considered)
        or _short_everywhere(culprit, best, blocked)
        or _too_small(culprit, considered, best, blocked)
    )


def _name(culprit: BlamedPart) -> str:
    return _titled(culprit, culprit.part.path)


def _titled(culprit: BlamedPart, path: str) -> str:
    """A name that nobody gave says nothing to anybody."""
    return "the gang" if not path or (culprit.is_sole and path == UNNAMED) else path


def _nowhere(culprit: BlamedPart) -> str:
    return "" if culprit.context.inventory.slots() else f"{_name(culprit)} needs nodes, and the cluster has none"


def _torn(culprit: BlamedPart) -> str:
    """Running members that are not in one domain."""
    context, level = culprit.context, culprit.level
    if level is None:
        return ""
    tree = context.inventory.trees[level.topology]
    domain_of = tree.domain_of(level.depth)
    seats: dict[int, str] = {}
    for slot in sorted(context.pinned(culprit.bound), key=context.inventory.name):
        path = "outside that level" if domain_of[slot] == NOWHERE else place(tree.path(level.depth, domain_of[slot]))
        seats.setdefault(domain_of[slot], f"{context.inventory.node(slot).name} ({path})")
    if len(seats) < 2 and NOWHERE not in seats:
        return ""
    return f"{_name(culprit)} needs one {level.key}, but its members run on {enumerated(list(seats.values()))}"


def _kept_out(culprit: BlamedPart, blocked: Blocked) -> str:
    """Pods that may use no node at all, whatever is free."""
    context = culprit.context
    for leaf in context.active:
        assert leaf.pods is not None
        if not (context.inventory.masks.of(leaf.pods.filter).array() & context.nodes).any():
            nodes = many(len({context.inventory.home(slot) for slot in np.flatnonzero(context.nodes).tolist()}), "node")
            why = f": {_causes(blocked)}" if blocked.reasons else ""
            return f"{_path(culprit, leaf)} may use none of the {nodes}{_tie(context)}{why}"
    return ""


def _unlabelled(culprit: BlamedPart, considered: int) -> str:
    if culprit.level is None or considered:
        return ""
    level = culprit.level
    topology = culprit.context.inventory.trees[level.topology].topology
    if topology.zones and level.key == topology.levels[-1]:
        return (
            f"{_name(culprit)} needs one {level.key}, and no node{_tie(culprit.context)} publishes zones "
            f"under the policy {SINGLE_NUMA_NODE}"
        )
    return (
        f"{_name(culprit)} needs one {level.key}, and no node{_tie(culprit.context)} carries that level "
        f"of topology {level.topology}"
    )


def _short_everywhere(culprit: BlamedPart, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """More pods than all nodes together hold, whatever the level."""
    context, level = culprit.context, culprit.level
    held = sum(min(context.total(shape), need) for shape, need in context.shapes.items())
    if level is None or context.pinned(culprit.bound) or held == sum(context.shapes.values()):
        return ""
    whole = shortfall(context, (), np.flatnonzero(context.nodes))
    where = "the whole cluster" if context.tied is None else place(context.tied.path) + _tie(context)
    nearest = f"; the best {level.key}, {place(best[0].path)}, holds {best[0].holds}" if best else ""
    return f"{_asks(culprit, whole)}, but {where} holds {whole.holds}{_lacks(context, whole, blocked)}{nearest}"


def _too_small(culprit: BlamedPart, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    context, first = culprit.context, best[0]
    joint = f"; each of its {culprit.fitting} parts fits alone, but not together" if culprit.fitting else ""
    holds = f"holds {first.holds}{_lacks(context, first, blocked)}"
    return f"{_asks(culprit, first)}{joint}; {_which(culprit, considered, place(first.path))} {holds}"


def _which(culprit: BlamedPart, considered: int, path: str) -> str:
    context = culprit.context
    pinned = context.pinned(culprit.bound)
    if culprit.level is None:
        return path + _tie(context)
    if pinned:
        first = min(context.inventory.node(slot).name for slot in pinned)
        return f"its member on {first} runs in {path}, which"
    return (
        f"the only one{_tie(context)}, {path},"
        if considered == 1
        else f"the best of {considered}{_tie(context)}, {path},"
    )


def _asks(culprit: BlamedPart, one: Shortfall) -> str:
    asked = f"{_name(culprit)} needs {many(one.of, 'pod')}"
    return f"{asked} in one {culprit.level.key}" if culprit.level else asked


def _lacks(context: RefusalContext, one: Shortfall, blocked: Blocked) -> str:
    """What is missing; where no amount is, what else stands in the way."""
    if one.short:
        return f", short of {amounts(one.short)}"
    if any(leaf.pods.host_ports or leaf.pods.anti_affinity for leaf in context.active if leaf.pods is not None):
        return ", and host ports or anti-affinity keep the others away"
    if not one.holds and blocked.reasons:
        return f", blocked by {_causes(blocked)}"
    return ", and what is free there lies apart"


def _causes(blocked: Blocked) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in sorted(blocked.reasons.items()))


def _path(culprit: BlamedPart, leaf: Part) -> str:
    """The path of a pod set of the case in the whole gang."""
    if culprit.part.pods is not None:
        return _titled(culprit, culprit.part.path)
    return f"{culprit.part.path}/{leaf.path}" if culprit.part.path else _titled(culprit, leaf.path)


def _tie(context: RefusalContext) -> str:
    return "" if context.tied is None else f" beside gang {context.tied.gang}"
