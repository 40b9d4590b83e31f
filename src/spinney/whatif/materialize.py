"""Puts planned pods into the simulated cluster, with the PodGroups that an operator or the pod-grouper would write.

Pods get the API server's defaults; a refusal of the server becomes an error message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.resource_claim import ResourceClaim
from spinney.api.builtin.storage import PersistentVolumeClaim
from spinney.api.changes import Create, Json, Patch
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import GATE_PODGANG_PENDING, POD_GROUP_NAME
from spinney.core.expansion.objects import format_time
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.podgroups import DesiredPodGroup, keep, mark
from spinney.core.grouping.settings import GrouperSettings
from spinney.core.grouping.user_errors import UserError
from spinney.drive.client.paths import Key
from spinney.whatif.admission import PodAdmission, PodRefused
from spinney.whatif.expected.expected_pods import ExpectedPods, Registry
from spinney.whatif.expected.podgroup import as_grouped, group_of
from spinney.whatif.simulator import ClusterSimulator


@dataclass(slots=True)
class MaterializedPods:
    """The result for the pods of a workload: the number of pods put into each PodGroup, and error messages."""

    asked: dict[Key, int] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    foreign_schedulers: set[str] = field(default_factory=set)

    def ask(self, key: Key) -> None:
        self.asked[key] = self.asked.get(key, 0) + 1

    def add_error(self, sentence: str) -> None:
        if sentence not in self.mistakes:
            self.mistakes.append(sentence)


class Materializer:
    """Writes to one simulated cluster. `names`: the scheduler names whose pods we schedule."""

    def __init__(self, shadow: ClusterSimulator, registry: Registry, names: frozenset[str], gate: PodAdmission) -> None:
        self._shadow = shadow
        self._registry = registry
        self._gate = gate
        self._settings = GrouperSettings(scheduler_names=names)
        self._lookups = _lookups(shadow)

    def materialize(self, expected: ExpectedPods, raised: MaterializedPods) -> None:
        """Put the pods into the caches, with a scheduling gate if they wait for a gang that is not scheduled yet."""
        namespace = expected.pods[0]["metadata"]["namespace"]
        gated = bool(expected.after) and not self._shadow.minimum_is_placed((namespace, expected.after))
        self._make_claims(expected, namespace)
        try:
            pods = [self._admitted(body, gated) for body in expected.pods]
        except (PodRefused, msgspec.ValidationError) as error:
            raised.add_error(str(error))
            return
        if expected.podgroup is not None:
            self.write(expected.podgroup)
        for pod in pods:
            self._join(expected, pod, raised)

    def _admitted(self, body: Json, gated: bool) -> Json:
        """Admit a pod; a running pod was admitted before and is not validated again."""
        pod = self._gate.pod(_gated(body) if gated else body, check=not body["spec"].get("nodeName"))
        msgspec.convert(pod, Pod, strict=False)
        return pod

    def _make_claims(self, expected: ExpectedPods, namespace: str) -> None:
        views = self._shadow.views
        for name in expected.claims:
            if views.resource_claims.get((namespace, name)) is None:
                body = {"metadata": {"name": name, "namespace": namespace, "uid": self._registry.uid()}}
                self._shadow.put(views.resource_claims, msgspec.convert(body, ResourceClaim, strict=False))
        for claim in expected.volume_claims:
            key = (namespace, claim["metadata"]["name"])
            if views.claims.get(key) is None:
                made = msgspec.convert(
                    self._gate.claim(self._registry.adopt(claim)), PersistentVolumeClaim, strict=False
                )
                self._shadow.put(views.claims, made)

    def write(self, body: Json) -> None:
        """Create the PodGroup; an existing one is not changed."""
        metadata = body["metadata"]
        if self._shadow.views.podgroups.get((metadata["namespace"], metadata["name"])) is None:
            made = self._registry.adopt(body)
            made["metadata"]["creationTimestamp"] = format_time(self._shadow.now_s)
            self._shadow.put(self._shadow.views.podgroups, msgspec.convert(made, PodGroup, strict=False))

    def _join(self, expected: ExpectedPods, pod: Json, raised: MaterializedPods) -> None:
        if pod["spec"]["schedulerName"] not in self._settings.scheduler_names and not pod["spec"].get("nodeName"):
            raised.foreign_schedulers.add(pod["spec"]["schedulerName"])
            return
        runs_alone = pod["spec"].get("nodeName") and POD_GROUP_NAME not in pod["metadata"]["annotations"]
        if expected.podgroup is None and not runs_alone and not self._group(expected, pod, raised):
            return
        pod["metadata"]["creationTimestamp"] = format_time(self._shadow.now_s)
        made = msgspec.convert(pod, Pod, strict=False)
        self._shadow.put(self._shadow.views.pods, made)
        if not made.spec.node_name:
            raised.ask((made.metadata.namespace, made.metadata.annotations.get(POD_GROUP_NAME, "")))

    def _group(self, expected: ExpectedPods, pod: Json, raised: MaterializedPods) -> bool:
        answer = group_of(pod, expected.owners, expected.gang, self._lookups, self._settings)
        if isinstance(answer, UserError):
            raised.add_error(answer.sentence)
            return False
        if isinstance(answer, DesiredPodGroup):
            live = self._shadow.views.podgroups.get((answer.namespace, answer.name))
            changes = keep(answer, live, self._lookups)
            if isinstance(changes, UserError):
                raised.add_error(changes.sentence)
                return False
            self._carry_out(changes, live)
            for change in mark(answer, as_grouped(msgspec.convert(pod, Pod, strict=False))):
                _merge(pod, change.patch)
        return True

    def _carry_out(self, changes: Iterable[Any], live: PodGroup | None) -> None:
        for change in changes:
            if isinstance(change, Create):
                self.write(change.body)
            elif isinstance(change, Patch) and live is not None:
                body = msgspec.json.decode(msgspec.json.encode(live))
                _merge(body, change.patch)
                self._shadow.put(self._shadow.views.podgroups, msgspec.convert(body, PodGroup, strict=False))


def _gated(body: Json) -> Json:
    gates = [*(body["spec"].get("schedulingGates") or ()), {"name": GATE_PODGANG_PENDING}]
    return {**body, "spec": {**body["spec"], "schedulingGates": gates}}


def _merge(body: Json, patch: Json) -> None:
    """Apply a merge patch in place."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, dict):
            _merge(body.setdefault(key, {}), value)
        else:
            body[key] = value


def _lookups(shadow: ClusterSimulator) -> Lookups:
    views = shadow.views

    def keys(name: str) -> list[str] | None:
        found = views.topologies.get(("", name))
        return [level.node_label for level in found.spec.levels] if found is not None else None

    def domains(name: str) -> dict[str, str]:
        found = views.cluster_topologies.get(("", name))
        return {level.domain: level.key for level in found.spec.levels} if found is not None else {}

    def pod(namespace: str, name: str) -> Any:
        found = views.pods.get((namespace, name))
        return as_grouped(found) if found is not None else None

    return Lookups(
        keys,
        domains,
        lambda name: ("", name) in views.queues,
        lambda name: ("", name) in views.priority_classes,
        lambda namespace, name: views.podgroups.get((namespace, name)),
        pod,
        lambda namespace, name: [as_grouped(one) for one in views.pods_of((namespace, name))],
    )
