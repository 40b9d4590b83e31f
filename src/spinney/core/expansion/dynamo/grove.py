"""Deployments as PodCliqueSets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spinney.api.changes import Change, Json, Resource, Scale
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.labels import DYNAMO_COMPONENT, DYNAMO_RESTART_AT
from spinney.api.meta import Condition
from spinney.core.expansion.dynamo import names, topology
from spinney.core.expansion.dynamo.framework import ConditionText, Observed
from spinney.core.expansion.dynamo.podcliqueset import podcliqueset_of
from spinney.core.expansion.dynamo.roles import is_group, replicas_of
from spinney.core.expansion.dynamo.status import Progress, progress_of, topology_finding
from spinney.core.expansion.resource_kinds import PODCLIQUES, PODCLIQUESETS, SCALING_GROUPS

_UNAVAILABLE = "TopologyLevelsUnavailable"


class Grove:
    """One deployment is one replica of a set; a component is a clique of it, or a scaling group."""

    resource: Resource = PODCLIQUESETS

    def name_of(self, deployment: Json) -> str:
        return names.podcliqueset(deployment["metadata"]["name"], _components(deployment))

    def render(self, deployment: Json, observed: Observed, restarts: Mapping[str, str]) -> Json:
        made = podcliqueset_of(deployment, observed.settings, _replicas_in(observed.workload), restarts)
        topology.respell(made["spec"]["template"], _template(observed.workload))
        return made

    def scale(self, deployment: Json, observed: Observed) -> list[Change]:
        """Replicas of what exists change where it is scaled, never in the set."""
        found: list[Change] = []
        for component in _components(deployment):
            name, wanted = names.child(self.name_of(deployment), component["name"]), replicas_of(component)
            grouped = is_group(component)
            behind: PodClique | PodCliqueScalingGroup | None
            behind = observed.groups.get(name) if grouped else observed.cliques.get(name)
            if behind is None or behind.spec.replicas == wanted or behind.metadata.deletion_timestamp is not None:
                continue
            metadata = behind.metadata
            target = (SCALING_GROUPS if grouped else PODCLIQUES).of(metadata)
            found.append(Scale(target, wanted, metadata.uid, metadata.resource_version))
        return found

    def progress(self, deployment: Json, observed: Observed) -> list[Progress]:
        name = self.name_of(deployment)
        return [
            progress_of(deployment, component, name, observed.cliques, observed.groups)
            for component in _components(deployment)
        ]

    def restarted(self, observed: Observed) -> dict[str, str]:
        marks: dict[str, str] = {}
        for clique in _template(observed.workload).get("cliques") or ():
            mark = (clique.get("annotations") or {}).get(DYNAMO_RESTART_AT)
            if mark:
                marks[(clique.get("labels") or {}).get(DYNAMO_COMPONENT, "")] = mark
        return marks

    def is_settled(self, observed: Observed) -> bool:
        if observed.workload is None:
            return False
        metadata, status = observed.workload["metadata"], observed.workload.get("status") or {}
        progress = status.get("updateProgress")
        seen = status.get("observedGeneration") == metadata.get("generation")
        return seen and (progress is None or bool(progress.get("updateEndedAt")))

    def topology(self, observed: Observed) -> ConditionText:
        live = observed.workload
        generation = int(live["metadata"].get("generation", 0)) if live is not None else 0
        return topology_finding(_condition(live), generation)


def _components(deployment: Json) -> list[Json]:
    return list(deployment["spec"].get("components") or ())


def _template(live: Json | None) -> Json:
    found: Json = ((live or {}).get("spec") or {}).get("template") or {}
    return found


def _condition(live: Json | None) -> Condition | None:
    told = ((live or {}).get("status") or {}).get("conditions") or ()
    found = next((one for one in told if one.get("type") == _UNAVAILABLE), None)
    return msgspec.convert(found, Condition) if found is not None else None


def _replicas_in(live: Json | None) -> dict[str, int]:
    """Replicas by clique and group, in the order of the set."""
    template = _template(live)
    cliques = {one["name"]: int(one["spec"].get("replicas", 1)) for one in template.get("cliques") or ()}
    groups = {one["name"]: int(one.get("replicas", 1)) for one in template.get("podCliqueScalingGroups") or ()}
    return {**cliques, **groups}
