"""The shape of a pod's group as its owner kind defines it: the owner, the minimum of pods, the sub-groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spinney.api.kinds.podgroup import PodGroup, SubGroup
from spinney.core.grouping.owner_chain import Owner, OwnerChain, Pod, pod_as_owner

NAME_LIMIT = 253
TRAIN, BUILD, INFERENCE = "train", "build", "inference"


@dataclass(frozen=True, slots=True)
class Lookups:
    """Lookups of other objects in the cluster."""

    topology_keys: Callable[[str], Sequence[str] | None]
    """The node labels of a Topology, coarse to fine; None where there is no such Topology."""
    domains: Callable[[str], dict[str, str]]
    """Node labels by short name, as the ClusterTopology of that name defines them."""
    has_queue: Callable[[str], bool]
    has_priority_class: Callable[[str], bool]
    podgroup: Callable[[str, str], PodGroup | None]
    pod: Callable[[str, str], Pod | None]
    members: Callable[[str, str], Sequence[Pod]]
    """The pods that are marked as members of a PodGroup."""
    topologies: Callable[[], Collection[str]] = lambda: ()
    queues: Callable[[], Collection[str]] = lambda: ()
    """Names, to say which one was probably meant."""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """`single`: no other pod can be in the group. `part`: the sub-group of the pod.

    `annotations`: annotations derived from other fields of the owner.
    """

    name: str
    owner: Owner
    min_member: int = 1
    parts: tuple[SubGroup, ...] = ()
    part: str = ""
    default_class: str = TRAIN
    single: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


ShapeOf = Callable[[OwnerChain, Lookups], GroupShape]


def podgroup_name(owner: str, uid: str, suffix: str = "") -> str:
    """`pg-<owner>-<uid>`; a long owner name is truncated, because the uid makes the name unique."""
    tail = f"-{uid}-{suffix}" if suffix else f"-{uid}"
    return f"pg-{owner[: NAME_LIMIT - 3 - len(tail)].rstrip('-.')}{tail}"


def whole_owner(chain: OwnerChain, min_member: int = 1, default_class: str = TRAIN) -> GroupShape:
    """One group for the top owner."""
    top = chain.top
    return GroupShape(podgroup_name(top.name, top.uid), top, min_member, default_class=default_class)


def one_per_pod(chain: OwnerChain, uid: str = "", default_class: str = TRAIN) -> GroupShape:
    """One group for each pod, owned by the pod and deleted with it. The uid in the name is the pod's if not given."""
    pod = pod_as_owner(chain.pod)
    return GroupShape(podgroup_name(pod.name, uid or pod.uid), pod, default_class=default_class, single=True)


def minimum(parts: Sequence[SubGroup]) -> int:
    """The sum of the minima of the sub-groups."""
    return sum(part.min_member or 0 for part in parts)
