"""LeaderWorkerSets: one gang for each replica, a leader with its workers."""

from __future__ import annotations

from spinney.api.kinds.podgroup import SubGroup
from spinney.api.labels import LWS_GROUP_INDEX, LWS_WORKER_INDEX
from spinney.core.grouping.chain import Chain, Owner
from spinney.core.grouping.mistakes import MistakeError, label
from spinney.core.grouping.shape import Lookups, Shape, minimum, podgroup_name

LEADER, WORKERS = "leader", "workers"


def shape(chain: Chain, lookups: Lookups) -> Shape:
    top, labels = chain.top, chain.pod.metadata.labels
    index = labels.get(LWS_GROUP_INDEX)
    if index is None:
        raise MistakeError(chain.pod.title, label(LWS_GROUP_INDEX), None, f"the replica of {top} that the pod is of")
    size = top.count("spec", "leaderWorkerTemplate", "size")
    workers = (1 if size is None else max(size, 1)) - 1
    parts = [SubGroup(LEADER, 1)]
    if workers and not _awaits_leader(top, index, lookups):
        parts.append(SubGroup(WORKERS, workers))
    is_leader = labels.get(LWS_WORKER_INDEX, "0") == "0"
    name = podgroup_name(top.name, top.uid, f"group-{index}")
    part = LEADER if is_leader or len(parts) == 1 else WORKERS
    return Shape(name, top, minimum(parts), tuple(parts), part)


def _awaits_leader(top: Owner, index: str, lookups: Lookups) -> bool:
    """Workers that start once the leader is ready cannot be waited for before the leader has a node."""
    if top.word("spec", "startupPolicy") != "LeaderReady":
        return False
    leader = lookups.pod(top.namespace, f"{top.name}-{index}")
    return leader is not None and leader.is_alive and not leader.spec.node_name
