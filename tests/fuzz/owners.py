"""Owners of pods: read by the pod-grouper, cached by nobody.

Each is grouped with pods of several roles, alone and below another owner.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fuzz.objects import BASES, Json
from spinney.api.meta import ObjectMeta
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import Owner, OwnerChain, Pod, owner_of
from spinney.core.grouping.pod_grouping import Answer, group
from spinney.core.grouping.podgroups import DesiredPodGroup, abandoned, keep, mark
from spinney.core.grouping.queue_and_priority import GrouperSettings

OWNERS = ("jobs", "jobsets", "rayclusters", "rayjobs", "leaderworkersets", "pytorchjobs", "mpijobs", "podcliquesets")
_GANGS = "podgangs"
_SETTINGS = GrouperSettings()


def group_pods_of(plural: str, found: Json) -> None:
    """The pods of one owner."""
    for chain in _chains(plural, found):
        _write(chain)


def group_pod(found: Json) -> None:
    """One pod, below a valid owner of each kind."""
    try:
        pod = msgspec.convert(found, Pod)
    except msgspec.ValidationError:
        return
    for owner in _OWNERS:
        _write(OwnerChain(pod, (owner,), gang=_GANG if owner.kind == "PodCliqueSet" else None))


def answers(plural: str) -> list[Answer]:
    """What becomes of the pods of a valid owner."""
    return [group(chain, LOOKUPS, _SETTINGS) for chain in _chains(plural, _stored(plural))]


def _chains(plural: str, found: Json) -> list[OwnerChain]:
    if plural == _GANGS:
        return [OwnerChain(pod, (_SET,), gang=owner_of(found)) for pod in PODS]
    if plural not in OWNERS:
        return []
    owner = owner_of(found)
    gang = _GANG if plural == "podcliquesets" else None
    return [
        OwnerChain(pod, above, gang) for pod in PODS for above in ((owner,), (owner, _WRAPPERS.get(plural, _WRAPPER)))
    ]


def _write(chain: OwnerChain) -> None:
    answer = group(chain, LOOKUPS, _SETTINGS)
    if isinstance(answer, DesiredPodGroup):
        keep(answer, None, LOOKUPS)
        mark(answer, chain.pod)
        abandoned(answer, chain.pod, LOOKUPS)


def _stored(plural: str) -> Json:
    base = BASES[plural]
    metadata: dict[str, Any] = {**base["metadata"], "name": "o", "namespace": "ns", "uid": f"uid-{plural}"}
    return {**base, "metadata": metadata}


def _above(api_version: str, kind: str) -> Owner:
    metadata = {
        "name": "above",
        "namespace": "ns",
        "uid": "uid-above",
        "annotations": {"kai.scheduler/topology": "tree"},
    }
    return owner_of({"apiVersion": api_version, "kind": kind, "metadata": metadata})


def _pod(*labels: str) -> Pod:
    keys = (
        *("ray.io/node-type", "ray.io/group", "leaderworkerset.sigs.k8s.io/worker-index"),
        *("training.kubeflow.org/replica-type", "jobset.sigs.k8s.io/replicatedjob-name"),
    )
    both = {"leaderworkerset.sigs.k8s.io/group-index": "0", "grove.io/podgang": "o"}
    return Pod(ObjectMeta(name="p", namespace="ns", uid="u", labels={**both, **dict(zip(keys, labels, strict=True))}))


PODS = (
    _pod("worker", "w", "1", "worker", "w"),
    _pod("head", "", "0", "master", "w"),
    Pod(ObjectMeta(name="p", namespace="ns", uid="u", labels={"a": "b"})),
)
"""A worker, a leader, and a pod whose labels say nothing."""
LOOKUPS = Lookups(
    topology_keys=lambda name: ["zone", "rack"],
    domains=lambda name: {"zone": "zone"},
    has_queue=lambda name: True,
    has_priority_class=lambda name: True,
    podgroup=lambda namespace, name: None,
    pod=lambda namespace, name: None,
    members=lambda namespace, name: (),
)
_WRAPPER = _above("trainer.kubeflow.org/v1alpha1", "TrainJob")
_WRAPPERS = {"jobs": _above("batch/v1", "CronJob"), "rayclusters": owner_of(_stored("rayjobs"))}
_OWNERS = [owner_of(_stored(plural)) for plural in OWNERS]
_SET, _GANG = owner_of(_stored("podcliquesets")), owner_of(_stored(_GANGS))
