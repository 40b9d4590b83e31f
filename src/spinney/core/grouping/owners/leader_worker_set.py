"""LeaderWorkerSets: one gang for each replica, a leader with its workers; as many as when the replica was made.

Where a replica is cut into segments (K13) the leader is in the first of them, unless the set leaves it out.
"""

from __future__ import annotations

from kube_apimachinery.quantity import read_number
from spinney.api.kinds.podgroup import SubGroup
from spinney.api.labels import KAI_SEGMENT_SIZE, LWS_GROUP_INDEX, LWS_SIZE, LWS_WORKER_INDEX
from spinney.core.grouping.group_shape import GroupShape, Lookups, minimum, podgroup_name
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, label
from spinney.core.grouping.topology import segment_annotations

LEADER, WORKERS, REPLICA = "leader", "workers", "replica"
_TEMPLATE = ("spec", "leaderWorkerTemplate")


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    top, labels = chain.top, chain.pod.metadata.labels
    index = labels.get(LWS_GROUP_INDEX)
    if index is None:
        raise InvalidFieldError(
            chain.pod.title, label(LWS_GROUP_INDEX), None, f"the replica of {top} that the pod is of"
        )
    size = read_number(chain.pod.metadata.annotations.get(LWS_SIZE, "")) or top.count(*_TEMPLATE, "size") or 1
    wanted = 1 if _awaits_leader(top, index, lookups) else size
    segments = _segments(top)
    parts: tuple[SubGroup, ...] = (SubGroup(LEADER, 1), SubGroup(WORKERS, wanted - 1))[: min(wanted, 2)]
    part = LEADER if labels.get(LWS_WORKER_INDEX, "0") == "0" or len(parts) == 1 else WORKERS
    if segments and top.word(*_TEMPLATE, "subGroupPolicy", "subGroupPolicyType") != "LeaderExcluded":
        parts, part = (SubGroup(REPLICA, wanted),), REPLICA
    name = podgroup_name(top.name, top.uid, f"group-{index}")
    return GroupShape(name, top, minimum(parts), parts, part, annotations=segments)


def _segments(top: Owner) -> dict[str, str]:
    """The segment annotations of the set; its sub-group size, if any, is the segment size."""
    declared = segment_annotations(top.annotations, top.part(*_TEMPLATE, "workerTemplate"))
    size = top.count(*_TEMPLATE, "subGroupPolicy", "subGroupSize")
    return {**declared, KAI_SEGMENT_SIZE: str(size)} if declared and size else declared


def _awaits_leader(top: Owner, index: str, lookups: Lookups) -> bool:
    """Whether the gang must not wait for workers yet: they are created only once the leader is ready."""
    if top.word("spec", "startupPolicy") != "LeaderReady":
        return False
    leader = lookups.pod(top.namespace, f"{top.name}-{index}")
    return leader is not None and leader.is_alive and not leader.spec.node_name
