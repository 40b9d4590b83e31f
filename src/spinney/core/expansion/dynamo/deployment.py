"""What a DynamoGraphDeployment implies: its set, what pods need beside it, scale, and status."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from spinney.api.changes import Amend, Change, Create, Expansion, Json, Resource, Scale, Target, resource_of
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import DYNAMO_KAI_QUEUE, DYNAMO_LAST_APPLIED_HASH
from spinney.api.meta import Condition, ObjectMeta
from spinney.core.expansion.dynamo import marks, names, topology
from spinney.core.expansion.dynamo.accessories import accessories_of
from spinney.core.expansion.dynamo.podcliqueset import BadDeployment, podcliqueset_of, queue_of
from spinney.core.expansion.dynamo.readiness import progress_of
from spinney.core.expansion.dynamo.roles import is_group, replicas_of
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.core.expansion.dynamo.status import FAILED, Failure, Seen, status_changes, topology_finding, typed_of
from spinney.core.expansion.dynamo.wiring import Mismatch
from spinney.core.expansion.objects import difference, owner_reference
from spinney.core.expansion.resources import PODCLIQUES, PODCLIQUESETS, SCALING_GROUPS

DEPLOYMENTS = resource_of(DynamoGraphDeployment)
_ONLY_GROVE = "unsupported_workload_provider"
_UNAVAILABLE = "TopologyLevelsUnavailable"


@dataclass(frozen=True, slots=True)
class Observed:
    """What is there. `podcliqueset` is the live set as JSON; `refusal`: what the last attempt to write it came to."""

    settings: DynamoSettings
    now_s: float
    podcliqueset: Json | None = None
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    gangs: Sequence[PodGang] = ()
    present: frozenset[Target] = frozenset()
    queue_exists: bool = True
    refusal: str = ""


class Framework(Protocol):
    """A way to run deployments; each renders the same API in its own words (D4)."""

    name: str

    def render(self, deployment: Json, settings: DynamoSettings, live: Json | None) -> Json: ...


class Grove:
    """Deployments as PodCliqueSets."""

    name = "grove"

    def render(self, deployment: Json, settings: DynamoSettings, live: Json | None) -> Json:
        return podcliqueset_of(deployment, settings, _replicas_in(live))


def expand(deployment: Json, observed: Observed, framework: Framework | None = None) -> Expansion:
    """All of it; a deployment that is going takes what it owns with it."""
    typed = typed_of(deployment)
    if typed.metadata.deletion_timestamp is not None:
        return Expansion()
    chosen = framework or Grove()
    podcliqueset = names.podcliqueset(typed.metadata.name, deployment["spec"].get("components", []))
    failure = _failure(deployment, observed)
    changes: list[Change] = []
    if failure is None:
        try:
            wanted = chosen.render(deployment, observed.settings, observed.podcliqueset)
            changes += _missing(deployment, typed.metadata, observed)
            changes += _set_changes(wanted, typed.metadata, observed)
            changes += _scale_changes(deployment, podcliqueset, observed)
        except (BadDeployment, Mismatch, topology.BadOverride) as error:
            failure = Failure(FAILED, str(error))
    if failure is None and observed.refusal:
        failure = Failure(FAILED, observed.refusal)
    seen = _seen(deployment, podcliqueset, observed, failure)
    return Expansion((*changes, *status_changes(DEPLOYMENTS, typed, seen, observed.now_s)))


def _failure(deployment: Json, observed: Observed) -> Failure | None:
    provider = marks.annotations_of(deployment).get("nvidia.com/workload-provider", "grove")
    if provider != "grove":
        message = f"workload provider {provider!r} is not supported: deployments are rendered as PodCliqueSets only"
        return Failure(_ONLY_GROVE, message)
    named = marks.annotations_of(deployment).get(DYNAMO_KAI_QUEUE, "").strip()
    if named and observed.settings.kai and not observed.queue_exists:
        queue = queue_of(deployment, observed.settings)
        return Failure(
            FAILED,
            f"kai-scheduler queue validation failed: queue '{queue}' not found in cluster. "
            "Ensure the queue exists before using kai-scheduler",
        )
    return None


def _missing(deployment: Json, owner: ObjectMeta, observed: Observed) -> list[Change]:
    """What pods need beside the set and is not there."""
    found: list[Change] = []
    for target, content in accessories_of(deployment, observed.settings).items():
        if target not in observed.present:
            found.append(Create(target, _body(target, marks.set_labels(deployment), {}, owner, content)))
    return found


def _set_changes(wanted: Json, owner: ObjectMeta, observed: Observed) -> list[Change]:
    target = PODCLIQUESETS.at(wanted["metadata"]["name"], owner.namespace)
    word = _hash(wanted)
    annotations = {**wanted["metadata"]["annotations"], DYNAMO_LAST_APPLIED_HASH: word}
    live = observed.podcliqueset
    if live is None:
        return [
            Create(target, _body(target, wanted["metadata"]["labels"], annotations, owner, {"spec": wanted["spec"]}))
        ]
    metadata = live["metadata"]
    same = (metadata.get("annotations") or {}).get(DYNAMO_LAST_APPLIED_HASH) == word
    if same and covers(live["spec"], wanted["spec"]):
        return []
    patch: Json = {
        "metadata": {"labels": wanted["metadata"]["labels"], "annotations": annotations},
        "spec": difference(live["spec"], wanted["spec"]),
    }
    return [Amend(target, patch, metadata["uid"], metadata["resourceVersion"])]


def _scale_changes(deployment: Json, podcliqueset: str, observed: Observed) -> list[Change]:
    """Replicas of what exists change where it is scaled, never in the set."""
    found: list[Change] = []
    for component in deployment["spec"].get("components", ()):
        name, wanted = names.child(podcliqueset, component["name"]), replicas_of(component)
        grouped = is_group(component)
        behind: PodClique | PodCliqueScalingGroup | None
        behind = observed.groups.get(name) if grouped else observed.cliques.get(name)
        if behind is None or behind.spec.replicas == wanted or behind.metadata.deletion_timestamp is not None:
            continue
        resource: Resource = SCALING_GROUPS if grouped else PODCLIQUES
        metadata = behind.metadata
        found.append(Scale(resource.of(metadata), wanted, metadata.uid, metadata.resource_version))
    return found


def _seen(deployment: Json, podcliqueset: str, observed: Observed, failure: Failure | None) -> Seen:
    progress = [
        progress_of(deployment, component, podcliqueset, observed.cliques, observed.groups)
        for component in deployment["spec"].get("components", ())
    ]
    found = None
    if topology.is_constrained(deployment):
        live = observed.podcliqueset
        generation = int(live["metadata"].get("generation", 0)) if live is not None else 0
        found = topology_finding(_condition(live), generation)
    return Seen(podcliqueset, progress, found, observed.gangs, failure)


def _condition(live: Json | None) -> Condition | None:
    told = ((live or {}).get("status") or {}).get("conditions") or ()
    found = next((one for one in told if one.get("type") == _UNAVAILABLE), None)
    return msgspec.convert(found, Condition) if found is not None else None


def _replicas_in(live: Json | None) -> dict[str, int]:
    """Replicas by clique and group, in the order of the set."""
    template = ((live or {}).get("spec") or {}).get("template") or {}
    cliques = {one["name"]: int(one["spec"].get("replicas", 1)) for one in template.get("cliques") or ()}
    groups = {one["name"]: int(one.get("replicas", 1)) for one in template.get("podCliqueScalingGroups") or ()}
    return {**cliques, **groups}


def _hash(wanted: Json) -> str:
    seen = [wanted["metadata"]["labels"], wanted["metadata"]["annotations"], wanted["spec"]]
    return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()[:16]


def covers(live: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; what others filled in does not matter."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(key in live and covers(live[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        if not isinstance(live, list) or len(live) != len(wanted):
            return False
        return all(covers(one, other) for one, other in zip(live, wanted, strict=True))
    return bool(live == wanted)


def _body(
    target: Target, labels: Mapping[str, str], annotations: Mapping[str, str], owner: ObjectMeta, content: Json
) -> Json:
    metadata: Json = {
        "name": target.name,
        "namespace": target.namespace,
        "labels": dict(labels),
        "ownerReferences": [owner_reference(DEPLOYMENTS, owner)],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": target.resource.api_version,
        "kind": target.resource.kind,
        "metadata": metadata,
        **content,
    }
