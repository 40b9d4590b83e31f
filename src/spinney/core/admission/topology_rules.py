"""The topology of a set: switched on, existing, one name, known domains, narrower downwards (P2, P3, P5, P6, P10)."""

from __future__ import annotations

from collections.abc import Iterable

from spinney.api.admission import Lookup
from spinney.api.domains import is_domain, is_narrower
from spinney.api.field_errors import FieldError, forbidden, invalid
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.constraints import (
    NAME_PATH,
    Place,
    clique_places,
    constrained,
    effective_topology,
    group_places,
    named,
    reference,
    set_place,
)
from spinney.core.admission.findings import Findings
from spinney.core.admission.reading import read
from spinney.core.admission.settings import AdmissionSettings

NOT_ENABLED = "topology support is not enabled in the operator"
_DISABLED = f"topology constraints are not allowed when Topology Aware Scheduling is disabled: {NOT_ENABLED}"
_NO_CONSTRAINT = (
    "clusterTopologyName is set but no topologyConstraint is specified on the PodCliqueSet, "
    "any PodCliqueScalingGroup or any PodClique"
)
_NAMES_DIFFER = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
)


def check_topology(podcliqueset: PodCliqueSet, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    """Everything that a new set, or a new reference, has to fulfil."""
    limited = constrained(podcliqueset)
    path, name = reference(podcliqueset)
    if name and not limited:
        found.refuse(invalid(path, name, _NO_CONSTRAINT))
    if not settings.topology_enabled:
        found.refuse_all(_disabled(podcliqueset, limited))
        return
    found.refuse_all(_conflicting_names(podcliqueset))
    found.refuse_all(_broader_children(podcliqueset))
    for place in limited:
        _warn_of_redundance(place, found)
    if limited or name:
        _check_domains(limited, path, name, settings.default_topology, lookup, found)


def _disabled(podcliqueset: PodCliqueSet, limited: list[Place]) -> Iterable[FieldError]:
    name = podcliqueset.spec.template.cluster_topology_name
    if name:
        yield invalid(NAME_PATH, name, f"clusterTopologyName cannot be used: {NOT_ENABLED}")
    for place in limited:
        yield invalid(place.path, place.required or place.preferred, _DISABLED)


def _conflicting_names(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    given = list(named(podcliqueset))
    wanted = podcliqueset.spec.template.cluster_topology_name
    if wanted:
        for path, name in given:
            if name != wanted:
                yield invalid(path, name, f'topologyName must equal clusterTopologyName "{wanted}"')
    elif len({name for _, name in given}) > 1:
        for path, name in given:
            yield invalid(path, name, _NAMES_DIFFER)


def _check_domains(
    limited: list[Place], path: str, explicit: str, default: str, lookup: Lookup, found: Findings
) -> None:
    name = explicit or default
    obj = lookup(ClusterTopology.GROUP, ClusterTopology.PLURAL, "", name)
    topology = read(obj, ClusterTopology) if obj is not None else None
    if not isinstance(topology, ClusterTopology):
        how = "" if explicit else ": it is the default, and the set names no other"
        found.refuse(invalid(path, name, f'ClusterTopology "{name}" not found{how}'))
        return
    if topology.metadata.deletion_timestamp:
        found.warn(f'ClusterTopology "{name}" is being deleted, and stays only as long as sets use it')
    levels = [level.domain for level in topology.spec.levels]
    for place in limited:
        for domain, where in ((place.required, place.required_path), (place.preferred, place.preferred_path)):
            if domain and domain not in levels:
                shown = " ".join(levels)
                found.refuse(
                    invalid(where, domain, f"topology domain '{domain}' does not exist in cluster topology [{shown}]")
                )


def _broader_children(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    """Required is compared with required and preferred with preferred; equal is allowed."""
    cliques = {place.name: place for place in clique_places(podcliqueset)}
    groups = group_places(podcliqueset)
    for child in (*groups, *cliques.values()):
        yield from _broader(set_place(podcliqueset), child)
    for group, place in zip(podcliqueset.spec.template.pod_clique_scaling_groups, groups, strict=True):
        for name in dict.fromkeys(group.clique_names):
            if name in cliques:
                yield from _broader(place, cliques[name])


def _broader(parent: Place, child: Place) -> Iterable[FieldError]:
    halves = (
        (parent.required, child.required, parent.path),
        (parent.preferred, child.preferred, parent.preferred_path),
    )
    for above, below, path in halves:
        if is_domain(above) and is_domain(below) and is_narrower(above, below):
            text = (
                f"{parent.title} topology constraint domain '{above}' is narrower than "
                f"{child.title} topology constraint domain '{below}'"
            )
            yield invalid(path, above, text)


def _warn_of_redundance(place: Place, found: Findings) -> None:
    if is_domain(place.required) and is_domain(place.preferred) and is_narrower(place.required, place.preferred):
        found.warn(f"{place.preferred_path} is coarser than {place.required_path} and is redundant")


def constraint_changes(podcliqueset: PodCliqueSet, old: PodCliqueSet) -> Iterable[FieldError]:
    """P4. The spelling may change, the meaning may not. Cliques and groups that are not in both are told elsewhere."""
    before = {(place.kind, place.name): place for place in (set_place(old), *group_places(old), *clique_places(old))}
    for place in (set_place(podcliqueset), *group_places(podcliqueset), *clique_places(podcliqueset)):
        was = before.get((place.kind, place.name))
        if was is not None:
            yield from _change(was, place)


def _change(was: Place, place: Place) -> Iterable[FieldError]:
    if was.constraint is None and place.constraint is not None:
        yield forbidden(place.path, f"{place.title} topology constraint cannot be added after creation")
    elif was.constraint is not None and place.constraint is None:
        yield forbidden(place.path, f"{place.title} topology constraint cannot be removed after creation")
    elif (was.required, was.preferred) != (place.required, place.preferred):
        before, after = _shown(was), _shown(place)
        yield forbidden(place.path, f"{place.title} topology constraint cannot be changed from {before} to {after}")


def _shown(place: Place) -> str:
    return f'required="{place.required}" preferred="{place.preferred}"'


def reference_change(podcliqueset: PodCliqueSet, old: PodCliqueSet, default: str) -> FieldError | None:
    """P5, once a pod is scheduled: the refusal of another reference, or None where it is the same.

    A topologyName (P10) may be added where it names the topology that is used already.
    """
    (path, name), (_, before) = reference(podcliqueset), reference(old)
    added = not before and path != NAME_PATH
    if name == before or (added and name == effective_topology(old, default)):
        return None
    field = path.rpartition(".")[2]
    return forbidden(path, f'{field} cannot be changed from "{before}" to "{name}" once pods are scheduled')
