"""Why a gang is refused, in one sentence: the part, the level, the best domain and what is missing.

Never guesses: every clause is something that was counted or tried.
"""

from __future__ import annotations

import numpy as np

from spinney.api.placement.problem import SINGLE_NUMA_NODE
from spinney.api.placement.result import Blocked, Shortfall
from spinney.core.inventory.tiers import NOWHERE
from spinney.core.placement.case import Case
from spinney.core.placement.culprits import Culprit
from spinney.core.placement.nearest import shortfall
from spinney.core.placement.parts import UNNAMED, Part
from spinney.core.placement.wording import amounts, enumerated, many, place


def reason(culprit: Culprit, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """The first of these that is so."""
    return (
        _nowhere(culprit)
        or _torn(culprit)
        or _kept_out(culprit, blocked)
        or _unlabelled(culprit, considered)
        or _short_everywhere(culprit, best, blocked)
        or _too_small(culprit, considered, best, blocked)
    )


def _name(culprit: Culprit) -> str:
    return _titled(culprit, culprit.part.path)


def _titled(culprit: Culprit, path: str) -> str:
    """A name that nobody gave says nothing to anybody."""
    return "the gang" if not path or (culprit.is_sole and path == UNNAMED) else path


def _nowhere(culprit: Culprit) -> str:
    return "" if culprit.case.inventory.slots() else f"{_name(culprit)} needs nodes, and the cluster has none"


def _torn(culprit: Culprit) -> str:
    """Running members that are not in one domain."""
    case, level = culprit.case, culprit.level
    if level is None:
        return ""
    tree = case.inventory.trees[level.topology]
    domain_of = tree.domain_of(level.depth)
    seats: dict[int, str] = {}
    for slot in sorted(case.pinned(culprit.bound), key=case.inventory.name):
        path = "outside that level" if domain_of[slot] == NOWHERE else place(tree.path(level.depth, domain_of[slot]))
        seats.setdefault(domain_of[slot], f"{case.inventory.node(slot).name} ({path})")
    if len(seats) < 2 and NOWHERE not in seats:
        return ""
    return f"{_name(culprit)} needs one {level.key}, but its members run on {enumerated(list(seats.values()))}"


def _kept_out(culprit: Culprit, blocked: Blocked) -> str:
    """Pods that may use no node at all, whatever is free."""
    case = culprit.case
    for leaf in case.active:
        assert leaf.pods is not None
        if not (case.inventory.masks.of(leaf.pods.filter).array() & case.nodes).any():
            nodes = many(len({case.inventory.home(slot) for slot in np.flatnonzero(case.nodes).tolist()}), "node")
            why = f": {_causes(blocked)}" if blocked.reasons else ""
            return f"{_path(culprit, leaf)} may use none of the {nodes}{_tie(case)}{why}"
    return ""


def _unlabelled(culprit: Culprit, considered: int) -> str:
    if culprit.level is None or considered:
        return ""
    level = culprit.level
    topology = culprit.case.inventory.trees[level.topology].topology
    if topology.zones and level.key == topology.levels[-1]:
        return (
            f"{_name(culprit)} needs one {level.key}, and no node{_tie(culprit.case)} publishes zones "
            f"under the policy {SINGLE_NUMA_NODE}"
        )
    return (
        f"{_name(culprit)} needs one {level.key}, and no node{_tie(culprit.case)} carries that level "
        f"of topology {level.topology}"
    )


def _short_everywhere(culprit: Culprit, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    """More pods than all nodes together hold, whatever the level."""
    case, level = culprit.case, culprit.level
    held = sum(min(case.total(shape), need) for shape, need in case.shapes.items())
    if level is None or case.pinned(culprit.bound) or held == sum(case.shapes.values()):
        return ""
    whole = shortfall(case, (), np.flatnonzero(case.nodes))
    where = "the whole cluster" if case.tied is None else place(case.tied.path) + _tie(case)
    nearest = f"; the best {level.key}, {place(best[0].path)}, holds {best[0].holds}" if best else ""
    return f"{_asks(culprit, whole)}, but {where} holds {whole.holds}{_lacks(case, whole, blocked)}{nearest}"


def _too_small(culprit: Culprit, considered: int, best: tuple[Shortfall, ...], blocked: Blocked) -> str:
    case, first = culprit.case, best[0]
    joint = f"; each of its {culprit.fitting} parts fits alone, but not together" if culprit.fitting else ""
    holds = f"holds {first.holds}{_lacks(case, first, blocked)}"
    return f"{_asks(culprit, first)}{joint}; {_which(culprit, considered, place(first.path))} {holds}"


def _which(culprit: Culprit, considered: int, path: str) -> str:
    case = culprit.case
    pinned = case.pinned(culprit.bound)
    if culprit.level is None:
        return path + _tie(case)
    if pinned:
        first = min(case.inventory.node(slot).name for slot in pinned)
        return f"its member on {first} runs in {path}, which"
    return f"the only one{_tie(case)}, {path}," if considered == 1 else f"the best of {considered}{_tie(case)}, {path},"


def _asks(culprit: Culprit, one: Shortfall) -> str:
    asked = f"{_name(culprit)} needs {many(one.of, 'pod')}"
    return f"{asked} in one {culprit.level.key}" if culprit.level else asked


def _lacks(case: Case, one: Shortfall, blocked: Blocked) -> str:
    """What is missing; where no amount is, what else stands in the way."""
    if one.short:
        return f", short of {amounts(one.short)}"
    if any(leaf.pods.host_ports or leaf.pods.anti_affinity for leaf in case.active if leaf.pods is not None):
        return ", and host ports or anti-affinity keep the others away"
    if not one.holds and blocked.reasons:
        return f", blocked by {_causes(blocked)}"
    return ", and what is free there lies apart"


def _causes(blocked: Blocked) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in sorted(blocked.reasons.items()))


def _path(culprit: Culprit, leaf: Part) -> str:
    """The path of a pod set of the case in the whole gang."""
    if culprit.part.pods is not None:
        return _titled(culprit, culprit.part.path)
    return f"{culprit.part.path}/{leaf.path}" if culprit.part.path else _titled(culprit, leaf.path)


def _tie(case: Case) -> str:
    return "" if case.tied is None else f" beside gang {case.tied.gang}"
