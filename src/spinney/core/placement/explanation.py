"""Why a gang was refused, as data: who is to blame, how close it came, what is in the way, what would help.

Called after the decision and bounded on its own; never changes the inventory, the standings or the outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spinney.api.placement.result import Explanation, Outcome, Shortfall
from spinney.core.placement.case import Case, Flags, Numbers, Tied
from spinney.core.placement.counting import Profile
from spinney.core.placement.culprits import Culprit, find_culprit
from spinney.core.placement.nearest import nearest, shortfall
from spinney.core.placement.obstacles import obstacles
from spinney.core.placement.parts import Level, Parts
from spinney.core.placement.reasons import reason
from spinney.core.placement.relaxations import Victims, relaxations

if TYPE_CHECKING:
    from spinney.core.placement.engine import Engine


def explain(
    engine: Engine,
    parts: Parts,
    asked: Profile,
    scope: list[int] | None,
    outcome: Outcome,
    cheapest_victims: Victims | None = None,
) -> Explanation:
    """Of a refusal: `infeasible`, or `exhausted`, of which nothing is known but the counts."""
    case = Case(engine, parts, asked, _tied(engine, parts, scope), _nodes(engine, scope))
    if outcome == "exhausted":
        return _exhausted(case)
    culprit = find_culprit(case)
    domains = culprit.domains()
    best = _best(culprit, domains)
    blocked = obstacles(culprit.case, _slots(case, culprit.level, domains))
    return Explanation(
        reason=reason(culprit, len(domains), best, blocked),
        group=culprit.part.path,
        level=_level(case, culprit.level),
        considered=_considered(case, culprit.level, domains),
        best=best,
        blocked=blocked,
        fits_if=tuple(relaxations(case, culprit.part, best[0].holds if best else 0, cheapest_victims)),
    )


def _exhausted(case: Case) -> Explanation:
    steps = case.engine.options.budget
    level = case.parts.all[0].required
    domains = case.domains(level) if level else np.zeros(0, np.int64)
    return Explanation(
        reason=f"the search budget of {steps} steps ended before the answer was known",
        group="",
        level=_level(case, level),
        considered=_considered(case, level, domains),
        blocked=obstacles(case, _slots(case, level, domains)),
    )


def _nodes(engine: Engine, scope: list[int] | None) -> Flags:
    """Where new pods could go: zones stand for a divided node."""
    inventory = engine.inventory
    tree = next(iter(inventory.trees.values()), None)
    if scope is None and tree is not None:
        inside = np.asarray(tree.domain_array(0) == 0)
    else:
        inside = np.zeros(len(inventory.idle), np.bool_)
        inside[list(inventory.slots()) if scope is None else scope] = True
    inside[[one.slot for one in inventory.divided.values()]] = False
    return inside


def _tied(engine: Engine, parts: Parts, scope: list[int] | None) -> Tied | None:
    tie = parts.gang.tied_to
    if scope is None or tie is None:
        return None
    tree = engine.inventory.trees[parts.gang.root.topology or ""]
    depth = tree.depth(tie.level) or 0
    return Tied(tie.gang, tie.level, tree.path(depth, tree.domain_of(depth)[scope[0]]))


def _level(case: Case, level: Level | None) -> str | None:
    """The level that is asked for: of the part, else the one it has to share with another gang."""
    if level is not None:
        return level.key
    return case.tied.level if case.tied else None


def _considered(case: Case, level: Level | None, domains: Numbers) -> int | None:
    if level is not None:
        return len(domains)
    return 1 if case.tied else None


def _slots(case: Case, level: Level | None, domains: Numbers) -> Numbers:
    """The nodes of some domains; without a level all nodes."""
    slots = np.flatnonzero(case.nodes)
    if level is None:
        return slots
    tree = case.inventory.trees[level.topology]
    wanted = np.zeros(tree.domains(level.depth) + 1, np.bool_)
    wanted[domains] = True
    return slots[wanted[tree.domain_array(level.depth)[slots]]]


def _best(culprit: Culprit, domains: Numbers) -> tuple[Shortfall, ...]:
    """The nearest domains; without a level what all nodes hold."""
    case = culprit.case
    if culprit.level is not None:
        return nearest(case, culprit.level, domains)
    return (shortfall(case, case.tied.path if case.tied else (), np.flatnonzero(case.nodes)),)
