"""PodCliqueSet: the rules in their order, for a new set and for a changed one.

A change is refused for what it makes wrong, never for what was wrong before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object
from kube_apimachinery.field_errors import OMITTED, FieldError, forbidden, invalid
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplate
from spinney.api.meta import Removed
from spinney.core.admission.clustertopology import has_scheduled_pods
from spinney.core.admission.decoding import part, read
from spinney.core.admission.findings import Findings
from spinney.core.admission.podcliqueset.resource_sharing import mnnvl_changes, mnnvl_errors, sharing_errors
from spinney.core.admission.podcliqueset.scheduler_backend import backend_of, check_capabilities, scheduler_errors
from spinney.core.admission.podcliqueset.startup_order import EXPLICIT, IN_ORDER, check_startup
from spinney.core.admission.podcliqueset.structure import check_pods, composition_errors, count_errors, name_errors
from spinney.core.admission.podcliqueset.topology import check_topology, constraint_changes, reference_change
from spinney.core.admission.reserved_fields import reserved_errors
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import named

# What of a set cannot change after creation; topology has rules of its own.

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


def check(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    podcliqueset = read(request.object, PodCliqueSet)
    old = read(request.old_object, PodCliqueSet) if request.operation == "UPDATE" else None
    found.refuse_all(_removed_fields(request.object or {}))
    if isinstance(podcliqueset, FieldError):
        found.refuse(podcliqueset)
    elif isinstance(old, PodCliqueSet):
        _check_change(podcliqueset, old, settings, lookup, found)
    else:
        _check_content(podcliqueset, settings, found)
        check_topology(podcliqueset, settings, lookup, found)
        if settings.topology_enabled:
            check_capabilities(podcliqueset, settings, found)


def _removed_fields(obj: Object) -> list[FieldError]:
    """P9: the schema refuses them as well; a client that never asks a schema is told the same."""
    homes: tuple[tuple[tuple[str, ...], tuple[Removed, ...]], ...] = (
        (("spec",), PodCliqueSetSpec.REMOVED),
        (("spec", "template"), PodCliqueSetTemplate.REMOVED),
    )
    return [
        forbidden(".".join((*path, field.name)), field.message)
        for path, removed in homes
        for field in removed
        if field.name in part(obj, *path)
    ]


def _check_content(podcliqueset: PodCliqueSet, settings: AdmissionSettings, found: Findings) -> None:
    """What can be told from the set alone."""
    found.refuse_all(name_errors(podcliqueset))
    found.refuse_all(composition_errors(podcliqueset))
    found.refuse_all(count_errors(podcliqueset))
    check_startup(podcliqueset, found)
    check_pods(podcliqueset, found)
    found.refuse_all(scheduler_errors(podcliqueset, settings))
    found.refuse_all(sharing_errors(podcliqueset))
    found.refuse_all(mnnvl_errors(podcliqueset, settings))
    found.refuse_all(reserved_errors(podcliqueset))


def _check_change(
    podcliqueset: PodCliqueSet, old: PodCliqueSet, settings: AdmissionSettings, lookup: Lookup, found: Findings
) -> None:
    found.refuse_all(mnnvl_changes(podcliqueset, old))
    if podcliqueset.spec == old.spec:
        return
    now, before = Findings(), Findings()
    _check_content(podcliqueset, settings, now)
    _check_content(old, settings, before)
    known = set() if now.is_full else set(map(str, before.errors))
    found.refuse_all(error for error in now.errors if str(error) not in known)
    for warning in now.warnings:
        if warning not in before.warnings:
            found.warn(warning)
    found.refuse_all(immutable_errors(podcliqueset, old, settings))
    found.refuse_all(constraint_changes(podcliqueset, old))
    _check_reference(podcliqueset, old, settings, lookup, found)


def _check_reference(
    podcliqueset: PodCliqueSet, old: PodCliqueSet, settings: AdmissionSettings, lookup: Lookup, found: Findings
) -> None:
    """P5: another reference is as good as a new set, and too late once a pod is scheduled."""
    if {name for _, name in named(podcliqueset)} == {name for _, name in named(old)}:
        return
    check_topology(podcliqueset, settings, lookup, found)
    refusal = reference_change(podcliqueset, old, settings.default_topology)
    if refusal is not None and has_scheduled_pods(lookup, old.metadata.namespace, old.metadata.name):
        found.refuse(refusal)
