"""Expected pods that would be created together, and the origin of their PodGroup.

They never have a node or one of our gates: the scheduler chooses nodes, and `wave` gives the order. A PodGroup that
nobody writes is derived by the pod-grouper's own rules, with the same lookups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec

from spinney.api.builtin.pod import Pod as ScheduledPod
from spinney.api.changes import Json
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import Gate, Pod, PodSpec, PodStatus, chain_of, owner_of
from spinney.core.grouping.pod_grouping import Answer, group
from spinney.core.grouping.queue_and_priority import GrouperSettings


def group_of(
    pod: Json, owners: Sequence[Json], gang: Json | None, lookups: Lookups, settings: GrouperSettings
) -> Answer:
    """`owners` from the nearest to the top one; `gang`: the PodGang that the pod names."""
    typed = msgspec.convert(pod, Pod, strict=False)
    above = tuple(map(owner_of, owners))
    return group(chain_of(typed, above, owner_of(gang) if gang is not None else None), lookups, settings)


def as_grouped(pod: ScheduledPod) -> Pod:
    """Convert a pod of the scheduler's cache to the pod-grouper's type."""
    spec = pod.spec
    gates = tuple(Gate(gate.name) for gate in spec.scheduling_gates)
    seen = PodSpec(spec.scheduler_name, spec.node_name, spec.priority_class_name, gates)
    return Pod(pod.metadata, seen, PodStatus(pod.status.phase))


PLANNED = "planned"
"""Prefix of the uid of an object that does not exist."""
MOST_PODS = 50_000
"""Limit of pods over all manifests and copies of one run, so that it ends in reasonable time."""
_MADE_FOR_EACH_POD = 4


class BadTemplate(ValueError):
    """An owner that pods cannot be created from; the text names the field and what was found."""


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """`podgroup`: as an operator writes it; None: the pod-grouper derives it from `owners`, nearest first, and `gang`.

    `wave`: pods of a later wave are created when earlier ones have nodes; `after`: they keep their gate until this
    PodGroup has its minimum scheduled (G12). `claims`: ResourceClaims created for the pods; `volume_claims`:
    PersistentVolumeClaims.
    """

    pods: tuple[Json, ...]
    podgroup: Json | None = None
    owners: tuple[Json, ...] = ()
    gang: Json | None = None
    wave: int = 0
    after: str = ""
    claims: tuple[str, ...] = ()
    volume_claims: tuple[Json, ...] = ()


@dataclass(slots=True)
class Registry:
    """Issues unique uids for planned objects and enforces the limit of planned pods."""

    most_pods: int = MOST_PODS
    pods: int = 0
    _below: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def uid(self) -> str:
        return f"{PLANNED}-{next(self._numbers)}"

    def uid_below(self, owner: Json) -> str:
        """A uid for a pod or another object created by an owner; objects without pods are limited as well."""
        self._below += 1
        if self._below > _MADE_FOR_EACH_POD * self.most_pods:
            self.require(owner, self._below)
        return self.uid()

    def require(self, owner: Json, pods: int) -> None:
        """Raises BadTemplate if that many more pods exceed the limit; called before they are created."""
        if self.pods + pods <= self.most_pods:
            return
        beside = f" beside {self.pods} of other manifests or copies" if self.pods else ""
        raise BadTemplate(
            f"{owner['kind']} {owner['metadata']['name']}: found {pods} pods{beside}, "
            f"expected no more than {self.most_pods}, the most that are planned"
        )

    def adopt(self, body: Json) -> Json:
        """The object with a uid; an existing object keeps its own."""
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "uid": metadata.get("uid") or self.uid()}}


def owner_reference(owner: Json) -> Json:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**named, "uid": metadata["uid"], "controller": True}
