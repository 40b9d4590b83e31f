"""ClusterTopologies and their bindings: finalizer, scheduler counterparts ("twins"), status (L1-L3, L6, C5, T8).

Where both have one name the binding counts, and the ClusterTopology has neither users nor twins until it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spinney.api.changes import Change, ChangeSet, Create, EmitEvent, Json, Resource, resource_of
from spinney.api.domains import rank
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding, TopologyLevel
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_MANAGED_BY, FINALIZER_CLUSTERTOPOLOGY, MANAGED_BY_OPERATOR
from spinney.api.meta import condition
from spinney.core.expansion.backends import Find, Twin
from spinney.core.expansion.objects import (
    FALSE,
    TRUE,
    UNKNOWN,
    ConditionChange,
    conditions,
    difference,
    entries_patch,
    patch_object,
    status_update,
    to_builtins,
    with_finalizer,
    without_finalizer,
)
from spinney.core.expansion.settings import Settings
from spinney.core.topology_constraints import constraints_of, effective_topology

DRIFT = "SchedulerTopologyDrift"
SUPERSEDED = "Superseded"
_NAMED = 10
_LISTED = 16


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state for one topology: all sets that may use it, and the labels of all nodes."""

    sets: Sequence[PodCliqueSet]
    has_scheduled: Callable[[PodCliqueSet], bool]
    nodes: Sequence[Mapping[str, str]]
    find: Find
    settings: Settings
    now_s: float
    superseded: bool = False  # a binding of the same name counts instead


def expand(topology: AnyTopology, observed: Observed) -> ChangeSet:
    """The changes of one reconcile. Twins are corrected first: drift that is corrected at once is not reported."""
    if topology.metadata.deletion_timestamp is not None:
        return ChangeSet(_leave(topology, observed))
    if observed.settings.protects_topologies and (
        unfinished := with_finalizer(resource_of(type(topology)), topology.metadata, FINALIZER_CLUSTERTOPOLOGY)
    ):
        return ChangeSet(unfinished)
    twins = [] if observed.superseded else twins_of(topology, observed.settings, observed.find)
    changes = tuple(change for _, twin in twins for change in twin.changes)
    return ChangeSet(changes or _status(topology, observed, twins))


def users(topology: str, observed: Observed) -> list[str]:
    """`namespace/name` of the sets with constraints for which this topology counts."""
    default = observed.settings.default_topology
    if observed.superseded:
        return []
    return sorted(
        f"{each.metadata.namespace}/{each.metadata.name}"
        for each in observed.sets
        if constraints_of(each) and effective_topology(each, default, observed.has_scheduled(each)) == topology
    )


def default_topology(resource: Resource, settings: Settings, live: AnyTopology | None) -> tuple[Change, ...]:
    """The changes that create or correct the default topology, of the kind that is served, as configured (C3)."""
    levels = [to_builtins(level) for level in sorted(settings.levels, key=lambda level: rank(level.domain))]
    labels = {APP_MANAGED_BY: MANAGED_BY_OPERATOR}
    target = resource.at(settings.default_topology)
    if live is None:
        metadata = {"name": target.name, "labels": labels, "finalizers": [FINALIZER_CLUSTERTOPOLOGY]}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return (Create(target, {**body, "spec": {"levels": levels}}),)
    known = {"levels": [to_builtins(level) for level in live.spec.levels]}
    labelled = entries_patch(live.metadata.labels, labels)
    patch = {"metadata": {"labels": labelled} if labelled else {}, "spec": difference(known, {"levels": levels})}
    return patch_object(resource, live.metadata, patch)


def is_managed(topology: AnyTopology) -> bool:
    return topology.metadata.labels.get(APP_MANAGED_BY) == MANAGED_BY_OPERATOR


def twins_of(topology: AnyTopology, settings: Settings, find: Find) -> list[tuple[str, Twin]]:
    """The twins by the name of their scheduler; schedulers without topologies have none, unless they are bound."""
    made = {name: settings.backends[name].twin_of(topology, find) for name in settings.backends}
    found = {name: twin for name, twin in made.items() if twin is not None}
    bindings = topology.spec.scheduler_topology_bindings if isinstance(topology, ClusterTopologyBinding) else ()
    for bound in bindings:
        message = f'scheduler backend "{bound.scheduler_name}" is not available for topology management'
        found.setdefault(bound.scheduler_name, Twin(bound.topology_reference, False, message, available=False))
    return sorted(found.items())


def _leave(topology: AnyTopology, observed: Observed) -> tuple[Change, ...]:
    """Finish a deletion; blocked while sets use the topology, and for the default one while topology is enabled."""
    name, settings = topology.metadata.name, observed.settings
    is_default = name == settings.default_topology and (bool(settings.levels) or settings.needs_default)
    dropped = is_default and is_managed(topology) and not settings.topology_enabled
    reason = ""
    if is_default and settings.topology_enabled and not observed.superseded:
        reason = "it is the default topology and topology aware scheduling is enabled"
    if settings.protects_topologies and (found := users(name, observed)) and not dropped:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        reason = f"it is used by PodCliqueSets {', '.join(found[:_NAMED])}{more}"
    if not reason:
        return without_finalizer(resource_of(type(topology)), topology.metadata, FINALIZER_CLUSTERTOPOLOGY)
    message = f"deletion waits: {reason}"
    occasion = topology.metadata.deletion_timestamp or ""
    target = resource_of(type(topology)).of(topology.metadata)
    return (EmitEvent(target, topology.metadata.uid, "DeletionBlocked", message, occasion, warning=True),)


def _status(topology: AnyTopology, observed: Observed, twins: Sequence[tuple[str, Twin]]) -> tuple[Change, ...]:
    before, metadata = topology.status, topology.metadata
    findings = [*_drift(twins), *_superseded(topology, observed)]
    gone = {DRIFT, SUPERSEDED} - {each.type for each in findings}
    status: Json = {
        "conditions": conditions(before.conditions, findings, observed.now_s, metadata.generation, sorted(gone)),
        "schedulerTopologyStatuses": [_twin_status(name, twin) for name, twin in twins],
    }
    if isinstance(topology, ClusterTopology):  # upstream's definition of the binding has no such field
        status["levels"] = level_statuses(topology.spec.levels, observed.nodes)
    if all(twin.in_sync for _, twin in twins):
        status["observedGeneration"] = metadata.generation
    events = [event for finding in findings for event in _transition(topology, finding)]
    return (*events, *status_update(resource_of(type(topology)), metadata, before, status))


def _drift(twins: Sequence[tuple[str, Twin]]) -> list[ConditionChange]:
    drifted = "; ".join(f"{name}: {twin.message}" for name, twin in twins if not twin.in_sync)
    if not twins:
        return []
    if any(not twin.available for _, twin in twins):
        return [ConditionChange(DRIFT, UNKNOWN, "TopologyNotFound", drifted)]
    if drifted:
        return [ConditionChange(DRIFT, TRUE, "Drift", drifted)]
    return [ConditionChange(DRIFT, FALSE, "InSync", "the topologies of all schedulers are in sync")]


def _superseded(topology: AnyTopology, observed: Observed) -> list[ConditionChange]:
    if not observed.superseded:
        return []
    message = f'ClusterTopologyBinding "{topology.metadata.name}" has the same name and counts instead'
    return [ConditionChange(SUPERSEDED, TRUE, "ClusterTopologyBindingExists", message)]


def _twin_status(name: str, twin: Twin) -> Json:
    status: Json = {"schedulerName": name, "topologyReference": twin.reference, "inSync": twin.in_sync}
    if twin.generation:
        status["schedulerBackendTopologyObservedGeneration"] = twin.generation
    if twin.message:
        status["message"] = twin.message
    return status


_EVENTS = {
    (DRIFT, TRUE): "TopologyDriftDetected",
    (DRIFT, UNKNOWN): "TopologyDriftDetected",
    (DRIFT, FALSE): "TopologyInSync",
    (SUPERSEDED, TRUE): "TopologySuperseded",
}


def _transition(topology: AnyTopology, finding: ConditionChange) -> list[EmitEvent]:
    """An event on each transition of a condition; that all is well from the start is none."""
    old = condition(topology.status.conditions, finding.type)
    warning = finding.status != FALSE
    if (old is None and not warning) or (old is not None and old.status == finding.status):
        return []
    occasion = old.last_transition_time if old is not None else "first"
    reason = _EVENTS[finding.type, finding.status]
    target, uid = resource_of(type(topology)).of(topology.metadata), topology.metadata.uid
    return [EmitEvent(target, uid, reason, finding.message, occasion, warning=warning)]


def level_statuses(levels: Sequence[TopologyLevel], nodes: Sequence[Mapping[str, str]]) -> list[Json]:
    """Per level: nodes with and without the label, domains, and values that lie in more than one broader domain."""
    found: list[Json] = []
    above: list[str] = []
    for level in levels:
        with_key = [labels for labels in nodes if level.key in labels]
        paths = {(*(labels.get(key, "") for key in above), labels[level.key]) for labels in with_key}
        status: Json = {"domain": level.domain, "key": level.key}
        counts = {"nodes": len(with_key), "nodesMissing": len(nodes) - len(with_key), "domains": len(paths)}
        status |= {name: count for name, count in counts.items() if count}
        if torn := _not_nested(level.key, above[-1] if above else "", with_key):
            status["notNested"] = torn[:_LISTED]
        found.append(status)
        above.append(level.key)
    return found


def _not_nested(key: str, parent: str, nodes: Sequence[Mapping[str, str]]) -> list[str]:
    if not parent:
        return []
    parents: dict[str, set[str]] = {}
    for labels in nodes:
        if parent in labels:
            parents.setdefault(labels[key], set()).add(labels[parent])
    return sorted(value for value, above in parents.items() if len(above) > 1)
