"""Expands a DynamoGraphDeployment: its workload, auxiliary objects of pods, scale, restart, and status."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api import labels as known
from spinney.api.changes import Change, ChangeSet, Create, Json, Patch, Resource, Scale, Target, resource_of
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.labels import (
    DYNAMO_COMPONENT,
    DYNAMO_KAI_QUEUE,
    DYNAMO_LAST_APPLIED_GENERATION,
    DYNAMO_LAST_APPLIED_HASH,
    DYNAMO_RESTART_AT,
    DYNAMO_WORKLOAD_PROVIDER,
)
from spinney.api.meta import Condition, ObjectMeta
from spinney.core.expansion.dynamo import generated_labels, topology
from spinney.core.expansion.dynamo.containers import FRONTEND_PORT, SYSTEM_PORT
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import BadDeployment, ConditionText, Framework, Mismatch, Observed
from spinney.core.expansion.dynamo.podcliqueset import podcliqueset_of, queue_of, service_account
from spinney.core.expansion.dynamo.roles import excess_pods, is_group, is_worker, node_count, replicas_of
from spinney.core.expansion.dynamo.status import (
    FAILED,
    Failure,
    ObservedStatus,
    Progress,
    progress_of,
    status_changes,
    topology_finding,
    typed_of,
)
from spinney.core.expansion.objects import (
    CONFIGMAPS,
    PODCLIQUES,
    PODCLIQUESETS,
    ROLE_BINDINGS,
    ROLES,
    SCALING_GROUPS,
    SERVICE_ACCOUNTS,
    SERVICES,
    difference,
    owner_reference,
)

# What pods of a deployment need beside them: services, the account with which they find each other, a script.

_WAIT = """\
import os, socket, time

address = os.environ["LEADER_HOST"], int(os.environ["LEADER_PORT"])
while True:
    try:
        socket.create_connection(address, timeout=5).close()
        break
    except OSError as error:
        print(f"waiting for {address[0]}:{address[1]}: {error}", flush=True)
        time.sleep(2)
"""
_READS = [
    {"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
]


def services_of(deployment: Json, settings: DynamoSettings) -> dict[Target, Json]:
    """Each object without its owner, by its place."""
    metadata = deployment["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    discovers = generated_labels.discovery_of(deployment, settings) == "kubernetes"
    found: dict[Target, Json] = {}
    if discovers:
        account = service_account(name)
        found[SERVICE_ACCOUNTS.at(account, namespace)] = {}
        found[ROLES.at(account, namespace)] = {"rules": _READS}
        found[ROLE_BINDINGS.at(account, namespace)] = {
            "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
    for component in deployment["spec"].get("components", ()):
        if component.get("type") == "frontend" or discovers:
            service = generated_labels.service(name, component["name"])
            found[SERVICES.at(service, namespace)] = {"spec": _service(deployment, component)}
    if any(is_worker(one) and node_count(one) > 1 for one in deployment["spec"].get("components", ())):
        script = f"{name}-wait-leader-script"
        found[CONFIGMAPS.at(script, namespace)] = {"data": {"wait_for_leader.py": _WAIT}}
    return found


def _service(deployment: Json, component: Json) -> Json:
    port = ("http", FRONTEND_PORT) if component.get("type") == "frontend" else ("system", SYSTEM_PORT)
    return {
        "selector": {
            known.DYNAMO_SELECTOR: generated_labels.component_names(deployment["metadata"]["name"], component["name"])
        },
        "ports": [{"name": port[0], "port": port[1], "targetPort": port[0], "protocol": "TCP"}],
    }


# Deployments as PodCliqueSets.

_UNAVAILABLE = "TopologyLevelsUnavailable"


class Grove:
    """One deployment is one replica of a set; a component is a clique of it, or a scaling group."""

    resource: Resource = PODCLIQUESETS

    def name_of(self, deployment: Json) -> str:
        return generated_labels.podcliqueset(deployment["metadata"]["name"], _components(deployment))

    def render(self, deployment: Json, observed: Observed, restarts: Mapping[str, str]) -> Json:
        made = podcliqueset_of(deployment, observed.settings, _replicas_in(observed.workload), restarts)
        topology.respell(made["spec"]["template"], _template(observed.workload))
        return made

    def scale(self, deployment: Json, observed: Observed) -> list[Change]:
        """Replicas of what exists change where it is scaled, never in the set."""
        found: list[Change] = []
        for component in _components(deployment):
            name, wanted = generated_labels.child(self.name_of(deployment), component["name"]), replicas_of(component)
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
    reported = ((live or {}).get("status") or {}).get("conditions") or ()
    found = next((one for one in reported if one.get("type") == _UNAVAILABLE), None)
    return msgspec.convert(found, Condition) if found is not None else None


def _replicas_in(live: Json | None) -> dict[str, int]:
    """Replicas by clique and group, in the order of the set."""
    template = _template(live)
    cliques = {one["name"]: int(one["spec"].get("replicas", 1)) for one in template.get("cliques") or ()}
    groups = {one["name"]: int(one.get("replicas", 1)) for one in template.get("podCliqueScalingGroups") or ()}
    return {**cliques, **groups}


RESTARTING, COMPLETED = "Restarting", "Completed"


@dataclass(frozen=True, slots=True)
class Restart:
    """`marks` by component; `status` as the deployment tells it, None where no restart is asked for."""

    marks: Mapping[str, str]
    status: Json | None = None


def restart_of(deployment: Json, carried: Mapping[str, str], busy: Collection[str], updated: bool) -> Restart:
    """The next step. `carried`: marks of now; `busy`: components that are not ready; `settled`: no update is on."""
    asked = deployment["spec"].get("restart") or {}
    name = str(asked.get("id") or "")
    if not name:
        return Restart(dict(carried))
    before = (deployment.get("status") or {}).get("restart") or {}
    if (before.get("observedID"), before.get("phase")) == (name, COMPLETED):
        return Restart(dict(carried), {"observedID": name, "phase": COMPLETED})
    strategy = asked.get("strategy") or {}
    order = _order(deployment, strategy.get("order") or ())
    open_ = [one for one in order if carried.get(one) != name or one in busy or not updated]
    if strategy.get("type", "Sequential") == "Sequential":
        open_ = _one_of(open_, order, carried, name, updated)
    marks = {**carried, **dict.fromkeys(open_, name)}
    phase = RESTARTING if open_ else COMPLETED
    return Restart(marks, {"observedID": name, "phase": phase, **({"inProgress": open_} if open_ else {})})


def _one_of(open_: list[str], order: list[str], carried: Mapping[str, str], name: str, updated: bool) -> list[str]:
    """The component to restart now: the last one begun while its pods change, else the next."""
    begun = [one for one in order if carried.get(one) == name]
    return begun[-1:] if begun and not updated else open_[:1]


def _order(deployment: Json, first: Collection[str]) -> list[str]:
    """Named components first, the others in the order of the deployment."""
    known = [one["name"] for one in deployment["spec"].get("components") or ()]
    named = [one for one in first if one in known]
    return [*named, *(one for one in known if one not in named)]


DEPLOYMENTS = resource_of(DynamoGraphDeployment)
GROVE: Framework = Grove()
_UNSUPPORTED = "unsupported_workload_provider"
_MISSHAPEN = (AttributeError, TypeError, KeyError, ValueError, IndexError)
"""Errors from malformed templates that bypassed admission; templates are opaque."""
_TWO_SCHEDULERS = "kai-scheduler and volcano scheduler integrations cannot both be enabled for Grove"


def expand(deployment: Json, observed: Observed, framework: Framework = GROVE) -> ChangeSet:
    """All of it; a deployment that is going takes what it owns with it. The API server asks for no spec."""
    deployment = {"spec": {}, **deployment}
    typed = typed_of(deployment)
    if typed.metadata.deletion_timestamp is not None:
        return ChangeSet()
    progress = framework.progress(deployment, observed)
    busy = {one.name for one in progress if one.why}
    restart = restart_of(deployment, framework.restarted(observed), busy, framework.is_settled(observed))
    failure = _failure(deployment, observed)
    changes: list[Change] = []
    if failure is None:
        try:
            if excess := excess_pods(deployment):
                raise BadDeployment(f"the deployment would have {excess}")
            wanted = framework.render(deployment, observed, restart.marks)
            changes += _missing(deployment, typed.metadata, observed)
            changes += _workload_changes(wanted, typed.metadata, observed, framework)
            changes += framework.scale(deployment, observed)
        except (BadDeployment, Mismatch, topology.BadOverride) as error:
            failure = Failure(FAILED, str(error))
        except _MISSHAPEN as error:
            failure = Failure(FAILED, f"no set can be made of a pod template of this deployment: {error!r}")
    if failure is None and observed.refusal:
        failure = Failure(FAILED, observed.refusal)
    reported = framework.topology(observed) if topology.is_constrained(deployment) else None
    seen = ObservedStatus(framework.name_of(deployment), progress, reported, observed.gangs, failure, restart.status)
    return ChangeSet((*changes, *status_changes(DEPLOYMENTS, typed, seen, observed.now_s)))


def _failure(deployment: Json, observed: Observed) -> Failure | None:
    provider = generated_labels.annotations_of(deployment).get(DYNAMO_WORKLOAD_PROVIDER, "grove")
    if provider != "grove":
        message = f"workload provider {provider!r} is not supported: deployments are rendered as PodCliqueSets only"
        return Failure(_UNSUPPORTED, message)
    if observed.settings.kai and observed.settings.volcano:
        return Failure(FAILED, _TWO_SCHEDULERS)
    named = generated_labels.annotations_of(deployment).get(DYNAMO_KAI_QUEUE, "").strip()
    if named and observed.settings.kai and not observed.queue_exists:
        queue = queue_of(deployment, observed.settings)
        return Failure(
            FAILED,
            f"kai-scheduler queue validation failed: queue '{queue}' not found in cluster. "
            "Ensure the queue exists before using kai-scheduler",
        )
    return None


def _missing(deployment: Json, owner: ObjectMeta, observed: Observed) -> list[Change]:
    """The missing auxiliary objects that pods need besides the workload."""
    found: list[Change] = []
    for target, content in services_of(deployment, observed.settings).items():
        if target not in observed.present:
            found.append(Create(target, _body(target, generated_labels.set_labels(deployment), {}, owner, content)))
    return found


def _workload_changes(wanted: Json, owner: ObjectMeta, observed: Observed, framework: Framework) -> list[Change]:
    target = framework.resource.at(wanted["metadata"]["name"], owner.namespace)
    word = _hash(wanted)
    kept = {DYNAMO_LAST_APPLIED_HASH: word, DYNAMO_LAST_APPLIED_GENERATION: str(owner.generation)}
    annotations = {**wanted["metadata"]["annotations"], **kept}
    live = observed.workload
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
    return [Patch(target, patch, metadata["uid"], metadata["resourceVersion"])]


def _hash(wanted: Json) -> str:
    seen = [wanted["metadata"]["labels"], wanted["metadata"]["annotations"], wanted["spec"]]
    return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()[:16]


def covers(live: Any, wanted: Any) -> bool:
    """Whether the live object contains everything wanted; fields set by others do not matter."""
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
