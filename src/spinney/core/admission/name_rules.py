"""Names of a set and of its parts: form, uniqueness, and room for the names that are made from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from spinney.api.field_errors import FieldError, duplicate, invalid
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetTemplate
from spinney.api.names import dns_1035_label, dns_label
from spinney.api.naming import NAME_BUDGET

_INDEX = re.compile(r"-[0-9]+-")


def name_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    template = podcliqueset.spec.template
    name = podcliqueset.metadata.name
    for complaint in dns_1035_label(name) if name else ():
        yield invalid("metadata.name", name, f"the headless Services are named after the set: {complaint}")
    cliques = [(f"{_clique(index)}.name", clique.name) for index, clique in enumerate(template.cliques)]
    groups = [(f"{_group(index)}.name", one.name) for index, one in enumerate(template.pod_clique_scaling_groups)]
    roles = [(f"{_clique(index)}.spec.roleName", one.spec.role_name) for index, one in enumerate(template.cliques)]
    for path, part in (*cliques, *groups):
        for complaint in dns_label(part):
            yield invalid(path, part, complaint)
    for named in (cliques, groups, roles):
        yield from _duplicates(named)
    yield from _too_long_together(podcliqueset)
    yield from _collisions(template)


def grouped(template: PodCliqueSetTemplate) -> dict[str, str]:
    """The scaling group of each clique that is in one; the first where it is in several."""
    found: dict[str, str] = {}
    for group in template.pod_clique_scaling_groups:
        for name in group.clique_names:
            found.setdefault(name, group.name)
    return found


def _clique(index: int) -> str:
    return f"spec.template.cliques[{index}]"


def _group(index: int) -> str:
    return f"spec.template.podCliqueScalingGroups[{index}]"


def _duplicates(named: Iterable[tuple[str, str]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for path, name in named:
        if name and name in seen:
            yield duplicate(path, name)
        seen.add(name)


def _too_long_together(podcliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Told on every field that contributes: any of them may be the one to shorten."""
    template, name = podcliqueset.spec.template, podcliqueset.metadata.name
    group_of = grouped(template)
    group_paths = {one.name: f"{_group(index)}.name" for index, one in enumerate(template.pod_clique_scaling_groups)}
    for index, clique in enumerate(template.cliques):
        group = group_of.get(clique.name, "")
        total = len(name) + len(group) + len(clique.name)
        if total <= NAME_BUDGET:
            continue
        between = f"PodCliqueScalingGroup '{group}', " if group else ""
        text = (
            f"combined resource name length {total} exceeds {NAME_BUDGET}-character limit required for pod naming. "
            f"Consider shortening: PodCliqueSet '{name}', {between}PodClique '{clique.name}'"
        )
        yield invalid("metadata.name", name, text)
        if group:
            yield invalid(group_paths[group], group, text)
        yield invalid(f"{_clique(index)}.name", clique.name, text)


def _collisions(template: PodCliqueSetTemplate) -> Iterator[FieldError]:
    """A clique `g-0-w` that stands alone would be named as clique `w` of the first replica of group `g`."""
    group_of = grouped(template)
    members = set(group_of.items())
    for index, clique in enumerate(template.cliques):
        if clique.name in group_of:
            continue
        for cut in _INDEX.finditer(clique.name):
            group, member = clique.name[: cut.start()], clique.name[cut.end() :]
            if (member, group) in members:
                text = f"its PodClique would have the name of PodClique '{member}' in PodCliqueScalingGroup '{group}'"
                yield invalid(f"{_clique(index)}.name", clique.name, text)
