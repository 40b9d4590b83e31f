"""Preferred affinity between the pods of one gang.

The search knows terms that must hold. So preferences are made terms, the heaviest first, and each is kept if the gang
is still placed, as soon and with the same score: topology goes before preferred affinity, and that before best fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from spinney.api.placement.problem import AffinityPreference, AffinityTerm, Gang, Group, PodSet, SpreadConstraint
from spinney.core.placement.attempt import SearchResult, SetDecision
from spinney.core.placement.gang.running_gangs import pod_sets

MOST_PREFERENCES = 8
"""Each costs one or two searches more."""

_SAME_SCORE = 1e-6


def without_preferences(gang: Gang) -> Gang:
    """The gang with its terms alone."""
    return msgspec.structs.replace(gang, root=_plain(gang.root))


def with_preferences(
    gang: Gang, found: SetDecision, place: Callable[[Gang], SetDecision | SearchResult]
) -> tuple[Gang, SetDecision]:
    """The gang with as many of its preferences made terms as it can keep without losing anything else, and no others.

    `found`: its placement without preferences. `place`: the placement of a gang, for which nothing is taken. Returns
    the placement of the gang as well.
    """
    preferences = _by_precedence(gang)
    gang = without_preferences(gang)
    for path, preference in preferences[:MOST_PREFERENCES]:
        for stricter in _required(gang, path, preference):
            other = place(stricter)
            if isinstance(other, SetDecision) and _is_no_worse(other, found):
                gang, found = stricter, other
                break
    return gang, found


def _by_precedence(gang: Gang) -> list[tuple[str, AffinityPreference]]:
    """The heaviest first; of one weight in the order of paths, and of a pod set in its own order."""
    found = [(path, each) for path, pods in pod_sets(gang).items() for each in pods.affinity_preferences]
    return sorted(found, key=lambda each: (-each[1].weight, each[0]))


def _is_no_worse(other: SetDecision, found: SetDecision) -> bool:
    decision, before = other.decision, found.decision
    return (
        decision.waits <= before.waits
        and len(decision.placements) >= len(before.placements)
        and (decision.score or 0.0) >= (before.score or 0.0) - _SAME_SCORE
        and len(other.followers) >= len(found.followers)
    )


def _required(gang: Gang, path: str, preference: AffinityPreference) -> Iterator[Gang]:
    """The gang with the preference as a term, the strictest form first.

    Where there are not enough domains to keep all pods of a set apart, they are spread evenly.
    """
    for change in _CHANGES[preference.kind]:
        root = _changed(gang.root, "", path, partial(change, path, preference))
        if root != gang.root:
            yield msgspec.structs.replace(gang, root=root)


def _apart(path: str, preference: AffinityPreference, pods: PodSet) -> PodSet:
    others = tuple([each for each in preference.pods if each != path])
    own = (preference.key,) if path in preference.pods else ()
    terms = (AffinityTerm(preference.key, others),) if others else ()
    return msgspec.structs.replace(
        pods, anti_affinity=(*pods.anti_affinity, *own), pod_anti_affinity=(*pods.pod_anti_affinity, *terms)
    )


def _evenly(path: str, preference: AffinityPreference, pods: PodSet) -> PodSet:
    if preference.kind == "apart" and path not in preference.pods:
        return pods
    spread = SpreadConstraint(preference.key, preference.max_skew, preference.min_domains)
    return msgspec.structs.replace(pods, spread=(*pods.spread, spread))


def _near(path: str, preference: AffinityPreference, pods: PodSet) -> PodSet:
    term = AffinityTerm(preference.key, preference.pods, preference.domains)
    return msgspec.structs.replace(pods, pod_affinity=(*pods.pod_affinity, term))


_CHANGES: dict[str, tuple[Callable[[str, AffinityPreference, PodSet], PodSet], ...]] = {
    "apart": (_apart, _evenly),
    "near": (_near,),
    "spread": (_evenly,),
}


def _plain(group: Group) -> Group:
    pods = tuple([msgspec.structs.replace(each, affinity_preferences=()) for each in group.pods])
    return msgspec.structs.replace(group, pods=pods, groups=tuple([_plain(each) for each in group.groups]))


def _changed(group: Group, prefix: str, path: str, change: Callable[[PodSet], PodSet]) -> Group:
    """The group with one pod set changed."""
    pods = tuple([change(each) if prefix + each.name == path else each for each in group.pods])
    groups = tuple([_changed(each, f"{prefix}{each.name}/", path, change) for each in group.groups])
    return msgspec.structs.replace(group, pods=pods, groups=groups)
