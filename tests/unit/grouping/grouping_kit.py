"""Pods, owners and a cluster to look things up in, for questions to the pod-grouper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from spinney.api.kinds.podgroup import PodGroup
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import Owner, OwnerChain, Pod, UserError, chain_of, owner_of
from spinney.core.grouping.pod_grouping import Answer, group
from spinney.core.grouping.podgroups import DesiredPodGroup
from spinney.core.grouping.queue_and_priority import GrouperSettings

Json = dict[str, Any]

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"


@dataclass
class Cluster:
    """What there is to look up."""

    topologies: dict[str, list[str]] = field(default_factory=lambda: {"network": [ZONE, RACK]})
    cluster_topologies: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"network": {"zone": ZONE, "rack": RACK}}
    )
    queues: set[str] = field(default_factory=lambda: {"default-queue", "research"})
    classes: set[str] = field(default_factory=lambda: {"urgent", "batch"})
    podgroups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def lookups(self) -> Lookups:
        return Lookups(
            self.topologies.get,
            lambda name: self.cluster_topologies.get(name, {}),
            self.queues.__contains__,
            self.classes.__contains__,
            lambda namespace, name: next((one for one in self.podgroups if one.metadata.name == name), None),
            lambda namespace, name: next((one for one in self.pods if one.metadata.name == name), None),
            lambda namespace, name: [
                one for one in self.pods if one.metadata.annotations.get("pod-group-name") == name
            ],
        )


def pod(name: str = "p", spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Pod:
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata},
        "spec": {"schedulerName": "kai-scheduler", **(spec or {})},
        "status": status or {},
    }
    return msgspec.convert(body, Pod)


def owner(kind: str, spec: Json | None = None, name: str = "w", status: Json | None = None, **metadata: Any) -> Owner:
    """An owner by `group/version/Kind`."""
    api_version, _, word = kind.rpartition("/")
    body = {
        "apiVersion": api_version,
        "kind": word,
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
        "status": status or {},
    }
    return owner_of(body)


def ask(
    member: Pod,
    *owners: Owner,
    cluster: Cluster | None = None,
    gang: Owner | None = None,
    settings: GrouperSettings | None = None,
) -> Answer:
    chain: OwnerChain = chain_of(member, owners, gang)
    return group(chain, (cluster or Cluster()).lookups(), settings or GrouperSettings())


def wanted(member: Pod, *owners: Owner, **more: Any) -> DesiredPodGroup:
    answer = ask(member, *owners, **more)
    assert isinstance(answer, DesiredPodGroup), answer
    return answer


def mistake(member: Pod, *owners: Owner, **more: Any) -> str:
    answer = ask(member, *owners, **more)
    assert isinstance(answer, UserError), answer
    return answer.sentence


def parts(answer: DesiredPodGroup) -> dict[str, int | None]:
    return {each.name: each.min_member for each in answer.spec.sub_groups}
