"""PodCliqueSet: the rules in their order, for a new set and for a changed one.

A change is refused for what it makes wrong, never for what was wrong before.
"""

from __future__ import annotations

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object
from kube_apimachinery.field_errors import FieldError, forbidden
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplate
from spinney.api.meta import Removed
from spinney.core.admission.decoding import part, read
from spinney.core.admission.findings import Findings
from spinney.core.admission.podcliqueset.immutability import immutable_errors
from spinney.core.admission.podcliqueset.mnnvl import mnnvl_changes, mnnvl_errors
from spinney.core.admission.podcliqueset.pods import check_pods
from spinney.core.admission.podcliqueset.resource_sharing import sharing_errors
from spinney.core.admission.podcliqueset.scheduler_backend import check_capabilities, scheduler_errors
from spinney.core.admission.podcliqueset.startup_order import check_startup
from spinney.core.admission.podcliqueset.structure import composition_errors, count_errors, name_errors
from spinney.core.admission.podcliqueset.topology import check_topology, constraint_changes, reference_change
from spinney.core.admission.reserved_fields import reserved_errors
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.admission.topology_users import has_scheduled_pods
from spinney.core.topology_constraints import named


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
