"""The gangs that a base gang is placed with: those that its set asks for, whether or not they exist yet (G12).

A gang of the set is taken to be like the replica of its group that is part of the base gang, so what is asked does not
depend on which object was seen first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from spinney.api import generated_names
from spinney.api.placement.problem import AffinityTerm, Gang, Group, PodSet, Tie
from spinney.api.scaled_gangs import ScaledGangs

MOST_EXPECTED = 256
"""So many gangs of one group are looked at."""

_Rename = Callable[[str], str | None]
"""From a path in the base gang to the one in the new gang; None: it is not part of that."""


def expected_gangs(base: Gang, asked: tuple[ScaledGangs, ...]) -> dict[str, Gang]:
    """By name, in order. Those whose pods are not known from the base gang are left out."""
    namespace, _, _ = base.name.partition("/")
    found: dict[str, Gang] = {}
    for each in asked:
        root = _like(base.root, each)
        if root is None:
            continue
        for short in each.names(MOST_EXPECTED):
            name = f"{namespace}/{generated_names.kai_podgroup(short)}"
            found[name] = Gang(name, root, base.priority, base.preemptible, Tie(base.name, each.level))
    return found


def _like(root: Group, asked: ScaledGangs) -> Group | None:
    """The root of a gang with the pods of these parts; None: one of them is not there."""
    parts = {part.name: (path, part) for path, part in _parts(root, "")}
    known = [parts[name] for name in asked.pod_groups if name in parts]
    if not known or len(known) < len(asked.pod_groups):
        return None
    names = {path: part.name for path, part in known}

    def rename(path: str) -> str | None:
        above = next((each for each in names if path == each or path.startswith(f"{each}/")), None)
        return None if above is None else names[above] + path[len(above) :]

    return Group(
        "",
        groups=tuple([_renamed(part, rename) for _, part in known if isinstance(part, Group)]),
        pods=tuple([_with_own_terms(part, rename) for _, part in known if isinstance(part, PodSet)]),
        topology=root.topology,
        required=asked.required,
    )


def _parts(group: Group, prefix: str) -> Iterator[tuple[str, Group | PodSet]]:
    """Everything below a group, with its path."""
    yield from ((prefix + pods.name, pods) for pods in group.pods)
    for each in group.groups:
        path = prefix + each.name
        yield path, each
        yield from _parts(each, f"{path}/")


def _renamed(group: Group, rename: _Rename) -> Group:
    return msgspec.structs.replace(
        group,
        groups=tuple([_renamed(each, rename) for each in group.groups]),
        pods=tuple([_with_own_terms(each, rename) for each in group.pods]),
    )


def _with_own_terms(pods: PodSet, rename: _Rename) -> PodSet:
    """Affinity terms name pod sets by their paths in the new gang; what they say of others is not looked at."""
    return msgspec.structs.replace(
        pods,
        pod_affinity=tuple(_terms(pods.pod_affinity, rename)),
        pod_anti_affinity=tuple(_terms(pods.pod_anti_affinity, rename)),
    )


def _terms(terms: tuple[AffinityTerm, ...], rename: _Rename) -> Iterator[AffinityTerm]:
    for term in terms:
        paths = tuple([path for each in term.pods if (path := rename(each)) is not None])
        if paths:
            yield msgspec.structs.replace(term, pods=paths)
