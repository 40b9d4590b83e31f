"""Expands a DynamoGraphDeployment: its workload, auxiliary objects of pods, scale, restart, and status."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api.changes import Change, ChangeSet, Create, Json, Patch, Target, resource_of
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.labels import (
    DYNAMO_KAI_QUEUE,
    DYNAMO_LAST_APPLIED_GENERATION,
    DYNAMO_LAST_APPLIED_HASH,
    DYNAMO_WORKLOAD_PROVIDER,
)
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.dynamo import generated_labels, topology
from spinney.core.expansion.dynamo.framework import BadDeployment, Framework, Observed
from spinney.core.expansion.dynamo.grove import Grove
from spinney.core.expansion.dynamo.multinode import Mismatch
from spinney.core.expansion.dynamo.podcliqueset import queue_of
from spinney.core.expansion.dynamo.roles import excess_pods
from spinney.core.expansion.dynamo.services import services_of
from spinney.core.expansion.dynamo.status import FAILED, Failure, ObservedStatus, status_changes, typed_of
from spinney.core.expansion.objects import difference, owner_reference

RESTARTING, COMPLETED = "Restarting", "Completed"


@dataclass(frozen=True, slots=True)
class Restart:
    """`marks` by component; `status` as the deployment tells it, None where no restart is asked for."""

    marks: Mapping[str, str]
    status: Json | None = None


def restart_of(deployment: Json, carried: Mapping[str, str], busy: Collection[str], settled: bool) -> Restart:
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
    open_ = [one for one in order if carried.get(one) != name or one in busy or not settled]
    if strategy.get("type", "Sequential") == "Sequential":
        open_ = _one_of(open_, order, carried, name, settled)
    marks = {**carried, **dict.fromkeys(open_, name)}
    phase = RESTARTING if open_ else COMPLETED
    return Restart(marks, {"observedID": name, "phase": phase, **({"inProgress": open_} if open_ else {})})


def _one_of(open_: list[str], order: list[str], carried: Mapping[str, str], name: str, settled: bool) -> list[str]:
    """The component to restart now: the last one begun while its pods change, else the next."""
    begun = [one for one in order if carried.get(one) == name]
    return begun[-1:] if begun and not settled else open_[:1]


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
    """All of it; a deployment that is going takes what it owns with it."""
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
    told = framework.topology(observed) if topology.is_constrained(deployment) else None
    seen = ObservedStatus(framework.name_of(deployment), progress, told, observed.gangs, failure, restart.status)
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
