"""ClusterTopology: its finalizer, its scheduler counterparts ("twins"), its status per level (L1-L3, L6, C5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spinney.api.changes import Change, ChangeSet, Create, EmitEvent, Json
from spinney.api.domains import rank
from spinney.api.kinds.clustertopology import ClusterTopology, TopologyLevel
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_MANAGED_BY, FINALIZER_CLUSTERTOPOLOGY, MANAGED_BY_OPERATOR
from spinney.api.meta import condition
from spinney.core.expansion.backends import Find, Twin
from spinney.core.expansion.objects import (
    CLUSTERTOPOLOGIES,
    FALSE,
    TRUE,
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


def expand(topology: ClusterTopology, observed: Observed) -> ChangeSet:
    """The changes of one reconcile. Twins are corrected first: drift that is corrected at once is not reported."""
    if topology.metadata.deletion_timestamp is not None:
        return ChangeSet(_leave(topology, observed))
    if unfinished := with_finalizer(CLUSTERTOPOLOGIES, topology.metadata, FINALIZER_CLUSTERTOPOLOGY):
        return ChangeSet(unfinished)
    twins = twins_of(topology, observed.settings, observed.find)
    changes = tuple(change for _, twin in twins for change in twin.changes)
    return ChangeSet(changes or _status(topology, observed, twins))


def users(topology: str, observed: Observed) -> list[str]:
    """`namespace/name` of the sets with constraints for which this topology counts."""
    default = observed.settings.default_topology
    return sorted(
        f"{each.metadata.namespace}/{each.metadata.name}"
        for each in observed.sets
        if constraints_of(each) and effective_topology(each, default, observed.has_scheduled(each)) == topology
    )


def default_topology(settings: Settings, live: ClusterTopology | None) -> tuple[Change, ...]:
    """The changes that create or correct the default topology to match the configuration (C3)."""
    levels = [to_builtins(level) for level in sorted(settings.levels, key=lambda level: rank(level.domain))]
    labels = {APP_MANAGED_BY: MANAGED_BY_OPERATOR}
    target = CLUSTERTOPOLOGIES.at(settings.default_topology)
    if live is None:
        metadata = {"name": target.name, "labels": labels, "finalizers": [FINALIZER_CLUSTERTOPOLOGY]}
        resource = target.resource
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return (Create(target, {**body, "spec": {"levels": levels}}),)
    known = {"levels": [to_builtins(level) for level in live.spec.levels]}
    labelled = entries_patch(live.metadata.labels, labels)
    patch = {"metadata": {"labels": labelled} if labelled else {}, "spec": difference(known, {"levels": levels})}
    return patch_object(CLUSTERTOPOLOGIES, live.metadata, patch)


def is_managed(topology: ClusterTopology) -> bool:
    return topology.metadata.labels.get(APP_MANAGED_BY) == MANAGED_BY_OPERATOR


def twins_of(topology: ClusterTopology, settings: Settings, find: Find) -> list[tuple[str, Twin]]:
    """The twins by the name of their scheduler; schedulers without topologies have none."""
    found = [(name, settings.backends[name].twin_of(topology, find)) for name in sorted(settings.backends)]
    return [(name, twin) for name, twin in found if twin is not None]


def _leave(topology: ClusterTopology, observed: Observed) -> tuple[Change, ...]:
    """Finish a deletion; blocked while sets use the topology, and for the default one while topology is enabled."""
    name, settings = topology.metadata.name, observed.settings
    is_default = name == settings.default_topology
    dropped = is_default and is_managed(topology) and not settings.topology_enabled
    reason = ""
    if is_default and settings.topology_enabled:
        reason = "it is the default topology and topology aware scheduling is enabled"
    if (found := users(name, observed)) and not dropped:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        reason = f"it is used by PodCliqueSets {', '.join(found[:_NAMED])}{more}"
    if not reason:
        return without_finalizer(CLUSTERTOPOLOGIES, topology.metadata, FINALIZER_CLUSTERTOPOLOGY)
    message = f"deletion waits: {reason}"
    occasion = topology.metadata.deletion_timestamp or ""
    target = CLUSTERTOPOLOGIES.of(topology.metadata)
    return (EmitEvent(target, topology.metadata.uid, "DeletionBlocked", message, occasion, warning=True),)


def _status(topology: ClusterTopology, observed: Observed, twins: Sequence[tuple[str, Twin]]) -> tuple[Change, ...]:
    before, metadata = topology.status, topology.metadata
    drifted = [f"{name}: {twin.message}" for name, twin in twins if not twin.in_sync]
    findings: list[ConditionChange] = []
    if twins:
        text = "; ".join(drifted) or "the topologies of all schedulers are in sync"
        findings = [ConditionChange(DRIFT, TRUE if drifted else FALSE, "Drift" if drifted else "InSync", text)]
    gone = [] if findings else [DRIFT]
    status: Json = {
        "conditions": conditions(before.conditions, findings, observed.now_s, metadata.generation, gone),
        "schedulerTopologyStatuses": [_twin_status(name, twin) for name, twin in twins],
        "levels": level_statuses(topology.spec.levels, observed.nodes),
    }
    if not drifted:
        status["observedGeneration"] = metadata.generation
    return (*_drift_event(topology, findings), *status_update(CLUSTERTOPOLOGIES, metadata, before, status))


def _twin_status(name: str, twin: Twin) -> Json:
    status: Json = {"schedulerName": name, "topologyReference": twin.reference, "inSync": twin.in_sync}
    if twin.generation:
        status["schedulerBackendTopologyObservedGeneration"] = twin.generation
    if twin.message:
        status["message"] = twin.message
    return status


def _drift_event(topology: ClusterTopology, findings: Sequence[ConditionChange]) -> list[EmitEvent]:
    """An event on each transition of the drift condition."""
    old = condition(topology.status.conditions, DRIFT)
    drifted = bool(findings) and findings[0].status == TRUE
    if not findings or (old is None and not drifted) or (old is not None and old.status == findings[0].status):
        return []
    occasion = old.last_transition_time if old is not None else "first"
    reason = "TopologyDriftDetected" if drifted else "TopologyInSync"
    target, uid = CLUSTERTOPOLOGIES.of(topology.metadata), topology.metadata.uid
    return [EmitEvent(target, uid, reason, findings[0].message, occasion, warning=drifted)]


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
