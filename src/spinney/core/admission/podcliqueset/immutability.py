"""What of a set cannot change after creation; topology has rules of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kube_apimachinery.field_errors import OMITTED, FieldError, forbidden, invalid
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetTemplate
from spinney.core.admission.podcliqueset.scheduler_backend import backend_of
from spinney.core.admission.podcliqueset.startup_order import EXPLICIT, IN_ORDER
from spinney.core.admission.settings import AdmissionSettings

_IMMUTABLE = "field is immutable"


def immutable_errors(podcliqueset: PodCliqueSet, old: PodCliqueSet, settings: AdmissionSettings) -> list[FieldError]:
    template, was = podcliqueset.spec.template, old.spec.template
    return [
        *_same("spec.template.cliqueStartupType", template.clique_startup_type, was.clique_startup_type),
        *_same("spec.template.resourceClaimTemplates", template.resource_claim_templates, was.resource_claim_templates),
        *_same("spec.template.resourceSharing", template.resource_sharing, was.resource_sharing),
        *_cliques(template, was),
        *_groups(template, was),
        *_scheduler(podcliqueset, old, settings),
    ]


def _cliques(template: PodCliqueSetTemplate, was: PodCliqueSetTemplate) -> Iterator[FieldError]:
    names, before = [one.name for one in template.cliques], [one.name for one in was.cliques]
    path = "spec.template.cliques"
    if set(names) != set(before):
        yield forbidden(path, f"not allowed to change clique composition{_difference(names, before)}")
    elif names != before and template.clique_startup_type in (IN_ORDER, EXPLICIT):
        what = f"not allowed to change the order of cliques with {template.clique_startup_type}"
        yield forbidden(path, f"{what}, it was [{' '.join(before)}]")
    by_name = {one.name: one for one in was.cliques}
    for index, clique in enumerate(template.cliques):
        old = by_name.get(clique.name)
        if old is None:
            continue
        where = f"{path}[{index}]"
        yield from _same(f"{where}.resourceSharing", clique.resource_sharing, old.resource_sharing)
        yield from _same(f"{where}.spec.roleName", clique.spec.role_name, old.spec.role_name)
        yield from _same(f"{where}.spec.startsAfter", clique.spec.starts_after, old.spec.starts_after)
        if old.spec.min_available is not None:
            yield from _same(f"{where}.spec.minAvailable", clique.spec.min_available, old.spec.min_available)


def _groups(template: PodCliqueSetTemplate, was: PodCliqueSetTemplate) -> Iterator[FieldError]:
    groups, before = template.pod_clique_scaling_groups, was.pod_clique_scaling_groups
    path = "spec.template.podCliqueScalingGroups"
    names, old_names = [one.name for one in groups], [one.name for one in before]
    if set(names) != set(old_names):
        yield forbidden(path, f"not allowed to add, remove or rename scaling groups{_difference(names, old_names)}")
    by_name = {one.name: one for one in before}
    for index, group in enumerate(groups):
        old = by_name.get(group.name)
        if old is None:
            continue
        where = f"{path}[{index}]"
        yield from _same(f"{where}.cliqueNames", group.clique_names, old.clique_names)
        yield from _same(f"{where}.minAvailable", group.min_available, old.min_available)
        yield from _same(f"{where}.resourceSharing", group.resource_sharing, old.resource_sharing)


def _scheduler(podcliqueset: PodCliqueSet, old: PodCliqueSet, settings: AdmissionSettings) -> Iterable[FieldError]:
    """By what it resolves to: naming the default scheduler is no change."""
    name, before = backend_of(podcliqueset, settings), backend_of(old, settings)
    if name != before and old.spec.template.cliques:
        path = "spec.template.cliques[0].spec.podSpec.schedulerName"
        yield invalid(path, name, f'{_IMMUTABLE}: the scheduler of this set is "{before}"')


def _same(path: str, value: Any, before: Any) -> Iterator[FieldError]:
    if value != before:
        shown = value if isinstance(value, str | int) else OMITTED
        yield invalid(path, shown, f"{_IMMUTABLE}{_was(before)}")


def _was(before: Any) -> str:
    """What it has to be; parts that are objects themselves are too large to be shown."""
    match before:
        case int():
            return f", it was {before}"
        case str():
            return f', it was "{before}"'
        case tuple() if all(isinstance(one, str) for one in before):
            return f", it was [{' '.join(before)}]"
    return ""


def _difference(names: list[str], before: list[str]) -> str:
    added, removed = sorted(set(names) - set(before)), sorted(set(before) - set(names))
    parts = [f"{word} [{' '.join(those)}]" for word, those in (("added", added), ("removed", removed)) if those]
    return f": {', '.join(parts)}"
