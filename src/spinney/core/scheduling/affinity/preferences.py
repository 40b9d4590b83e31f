"""Preferred affinity between pods that are placed together.

The engine knows terms that must hold. So preferences are made terms, the heaviest first, and each is kept if the gang
is still placed, as soon and with the same score: topology goes before preferred affinity, and that before best fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import msgspec

from spinney.api.placement.problem import AffinityTerm, Gang, Group, PodSet, SpreadConstraint
from spinney.core.placement.engine import SetDecision

MOST_PREFERENCES = 8
"""Each asks the engine once or twice more."""

_SAME_SCORE = 1e-6


class GangPreference(msgspec.Struct, frozen=True, order=True):
    """A pod set would rather be near to pod sets, by path, apart from them, or spread. Ordered by what goes first."""

    precedence: int
    path: str
    kind: Literal["apart", "near", "spread"]
    key: str
    others: tuple[str, ...]
    max_skew: int = 1
    min_domains: int = 1


def with_preferences(
    gang: Gang, found: SetDecision, preferences: Sequence[GangPreference], place: Callable[[Gang], SetDecision]
) -> SetDecision:
    """The placement of a gang that keeps as many of its preferences as it can without losing anything else."""
    if found.decision.outcome != "placed":
        return found
    for preference in sorted(preferences)[:MOST_PREFERENCES]:
        for stricter in _required(gang, preference):
            other = place(stricter)
            if _is_no_worse(other, found):
                gang, found = stricter, other
                break
    return found


def _is_no_worse(other: SetDecision, found: SetDecision) -> bool:
    decision, before = other.decision, found.decision
    return (
        decision.outcome == "placed"
        and decision.waits <= before.waits
        and len(decision.placements) >= len(before.placements)
        and (decision.score or 0.0) >= (before.score or 0.0) - _SAME_SCORE
        and len(other.followers) >= len(found.followers)
    )


def _required(gang: Gang, preference: GangPreference) -> Iterator[Gang]:
    """The gang with the preference as a term, the strictest form first.

    Where there are not enough domains to keep all pods of a set apart, they are spread evenly.
    """
    for change in _CHANGES[preference.kind]:
        root = _changed(gang.root, "", preference.path, partial(change, preference))
        if root != gang.root:
            yield msgspec.structs.replace(gang, root=root)


def _apart(preference: GangPreference, pods: PodSet) -> PodSet:
    others = tuple([path for path in preference.others if path != preference.path])
    own = (preference.key,) if len(others) < len(preference.others) else ()
    terms = (AffinityTerm(preference.key, others),) if others else ()
    return msgspec.structs.replace(
        pods, anti_affinity=(*pods.anti_affinity, *own), pod_anti_affinity=(*pods.pod_anti_affinity, *terms)
    )


def _evenly(preference: GangPreference, pods: PodSet) -> PodSet:
    if preference.kind == "apart" and preference.path not in preference.others:
        return pods
    spread = SpreadConstraint(preference.key, preference.max_skew, preference.min_domains)
    return msgspec.structs.replace(pods, spread=(*pods.spread, spread))


def _near(preference: GangPreference, pods: PodSet) -> PodSet:
    return msgspec.structs.replace(
        pods, pod_affinity=(*pods.pod_affinity, AffinityTerm(preference.key, preference.others))
    )


_CHANGES: dict[str, tuple[Callable[[GangPreference, PodSet], PodSet], ...]] = {
    "apart": (_apart, _evenly),
    "near": (_near,),
    "spread": (_evenly,),
}


def _changed(group: Group, prefix: str, path: str, change: Callable[[PodSet], PodSet]) -> Group:
    """The group with one pod set changed."""
    pods = tuple([change(each) if prefix + each.name == path else each for each in group.pods])
    groups = tuple([_changed(each, f"{prefix}{each.name}/", path, change) for each in group.groups])
    return msgspec.structs.replace(group, pods=pods, groups=groups)
