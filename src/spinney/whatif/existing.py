"""Existing objects of a planned workload: they stay, and only the missing pods are simulated.

Read-only. A described (not live) cluster has no existing objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.documents import LINE, DocumentError, read_document
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_PART_OF, KAI_TOP_OWNER_METADATA, POD_GROUP_NAME, PODCLIQUE
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Forbidden, NotFound
from spinney.drive.client.paths import Key
from spinney.serve.webhook.live_lookup import Reader
from spinney.whatif.expected.expected_pods import ExpectedPods
from spinney.whatif.expected.podcliqueset import NOTHING, ExistingSet
from spinney.whatif.inputs.snapshot import Snapshot
from spinney.whatif.workloads import OWNER_PATHS

_ENDS = ("Complete", "Completed", "Succeeded", "Failed")
"""Condition types of finished Jobs, JobSets and training jobs, successful or failed."""


@dataclass(frozen=True, slots=True)
class ExistingOwner:
    """An existing owner and the names of its live pods. `ended`: it creates no more pods.

    `waiting`: the number of its pods without a node, by PodGroup.
    """

    uid: str
    pods: frozenset[str]
    ended: bool = False
    waiting: Mapping[Key, int] = field(default_factory=dict)


def waiting_of_set(snapshot: Snapshot, body: Json) -> Mapping[Key, int]:
    """The number of pods of a PodCliqueSet without a node, by PodGroup."""
    return _waiting(_pods_of_set(snapshot, body))


def _pods_of_set(snapshot: Snapshot, body: Json) -> list[Pod]:
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    named = [pod for pod in snapshot.pods if pod.metadata.labels.get(APP_PART_OF) == name and pod.is_here]
    return [pod for pod in named if pod.metadata.namespace == namespace]


def _waiting(pods: Iterable[Pod]) -> Mapping[Key, int]:
    return Counter(
        (pod.metadata.namespace, group)
        for pod in pods
        if not pod.spec.node_name and (group := pod.metadata.annotations.get(POD_GROUP_NAME))
    )


async def existing_set(reader: Reader | None, snapshot: Snapshot, body: Json) -> tuple[str, ExistingSet]:
    """The uid of an existing PodCliqueSet and its existing objects; an empty uid if it does not exist."""
    metadata = body["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    live = await reader.get(PodCliqueSet.GROUP, PodCliqueSet.PLURAL, namespace, name) if reader is not None else None
    if reader is None or live is None:
        return "", NOTHING
    labels = {APP_PART_OF: name}
    replicas: dict[str, int] = {}
    for kind in (PodClique, PodCliqueScalingGroup):
        for one in await reader.list(kind.GROUP, kind.PLURAL, namespace, labels):
            replicas[one["metadata"]["name"]] = int(one["spec"].get("replicas", 0))
    mine = _pods_of_set(snapshot, body)
    counts = Counter(pod.metadata.labels.get(PODCLIQUE, "") for pod in mine)
    return live["metadata"]["uid"], ExistingSet(counts, replicas, any(pod.spec.node_name for pod in mine))


async def existing(client: ApiClient | None, snapshot: Snapshot, body: Json) -> ExistingOwner | None:
    """An existing owner of any other kind, identified by the PodGroups that were created for it."""
    path = OWNER_PATHS.get(body["kind"])
    if client is None or path is None:
        return None
    metadata = body["metadata"]
    try:
        found: Mapping[str, Any] = await client.get(path.ref(metadata["name"], metadata["namespace"]))
    except (NotFound, Forbidden):
        return None
    uid = found["metadata"]["uid"]
    groups = {
        group.metadata.name
        for group in snapshot.podgroups
        if group.metadata.namespace == metadata["namespace"] and _top_uid(group.metadata.annotations) == uid
    }
    mine = [pod for pod in snapshot.pods if pod.is_here and pod.metadata.namespace == metadata["namespace"]]
    mine = [pod for pod in mine if pod.metadata.annotations.get(POD_GROUP_NAME) in groups]
    return ExistingOwner(uid, frozenset(pod.metadata.name for pod in mine), _has_ended(found), _waiting(mine))


def without_existing(expected_pods: list[ExpectedPods], there: ExistingOwner) -> list[ExpectedPods]:
    """The missing pods: those with names that do not exist yet, limited to the number that is missing."""
    if there.ended:
        return []
    left = [[pod for pod in expected.pods if pod["metadata"]["name"] not in there.pods] for expected in expected_pods]
    total = sum(len(expected.pods) for expected in expected_pods)
    surplus = sum(map(len, left)) - max(0, total - len(there.pods))
    kept = []
    for expected, pods in zip(expected_pods, left, strict=True):
        dropped = min(surplus, len(pods))
        surplus -= dropped
        if pods[dropped:]:
            kept.append(replace(expected, pods=tuple(pods[dropped:])))
    return kept


def _has_ended(owner: Mapping[str, Any]) -> bool:
    told = (owner.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in _ENDS and one.get("status") == "True" for one in told)


def _top_uid(annotations: Mapping[str, str]) -> str:
    written = annotations.get(KAI_TOP_OWNER_METADATA, "")
    found = next((line for line in written.splitlines() if line.startswith("uid:")), "")
    try:
        uid = read_document(found, limits=LINE)["uid"] if found else ""
    except (DocumentError, TypeError, KeyError):
        return ""
    return uid if isinstance(uid, str) else ""
