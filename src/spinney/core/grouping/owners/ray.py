"""Ray: one gang for each RayCluster, whatever its owner; the head and each worker group are sub-groups."""

from __future__ import annotations

from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroupTopologyConstraint, SubGroup
from spinney.api.labels import RAY_GROUP, RAY_NODE_TYPE
from spinney.core.grouping.group_shape import GroupShape, Lookups, minimum, one_per_pod, podgroup_name
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, label, whole
from spinney.core.grouping.topology import constraint_of

GROUP = "ray.io"
HEAD = "headgroup"
_SUSPENDED = ("suspend", "suspended")
"""Ray's name of the field, and KAI's."""
_CLUSTER_SPEC = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """The group of a Ray pod; a pod that is no Ray node, such as the submitter of a RayJob, gets its own group."""
    if RAY_NODE_TYPE not in chain.pod.metadata.labels:
        return one_per_pod(chain)
    cluster = chain.of_kind(GROUP, "RayCluster")
    owner = chain.top if cluster is None else cluster.under(chain.top)
    parts = _parts(owner, lookups)
    part = HEAD if chain.pod.metadata.labels[RAY_NODE_TYPE] == "head" else _worker_group(chain, owner, parts)
    name = podgroup_name(owner.name, owner.uid)
    return GroupShape(name, owner, max(minimum(parts), 1), parts, part)


def _parts(owner: Owner, lookups: Lookups) -> tuple[SubGroup, ...]:
    path = ("spec", *_CLUSTER_SPEC.get(owner.kind, ()))
    head = owner.part(*path, "headGroupSpec")
    where = ".".join(path)
    constraint = _constraint(owner, head, f"{where}.headGroupSpec", lookups)
    parts = [SubGroup(HEAD, 1, topology_constraint=constraint)]
    for index, group in enumerate(owner.items(*path, "workerGroupSpecs")):
        if not any(group.get(key) is True for key in _SUSPENDED):
            parts.append(_worker_part(owner, group, f"{where}.workerGroupSpecs[{index}]", lookups))
    return tuple(parts)


def _worker_part(owner: Owner, group: Json, path: str, lookups: Lookups) -> SubGroup:
    name = group.get("groupName")
    if not isinstance(name, str) or not name:
        raise InvalidFieldError(owner, f"{path}.groupName", name, "a name")
    least = whole(owner, group, "minReplicas", f"{path}.minReplicas")
    replicas = least or whole(owner, group, "replicas", f"{path}.replicas") or 0
    hosts = whole(owner, group, "numOfHosts", f"{path}.numOfHosts")
    constraint = _constraint(owner, group, path, lookups)
    return SubGroup(name, replicas * (1 if hosts is None else hosts), topology_constraint=constraint)


def _constraint(owner: Owner, group: Json, path: str, lookups: Lookups) -> PodGroupTopologyConstraint | None:
    """The constraint in the pod template of a Ray worker group."""
    template = group.get("template")
    metadata = template.get("metadata") if isinstance(template, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        return None
    for key, value in annotations.items():
        if not isinstance(value, str):
            raise InvalidFieldError(owner, f"{path}.template.metadata.annotations[{key}]", value, "a string")
    found = constraint_of(annotations, f"{owner}: {path}.template", lookups, owner.annotations)
    return found if found.topology else None


def _worker_group(chain: OwnerChain, owner: Owner, parts: tuple[SubGroup, ...]) -> str:
    name = chain.pod.metadata.labels.get(RAY_GROUP)
    known = sorted(part.name for part in parts if part.name != HEAD)
    if name is None or name not in known:
        raise InvalidFieldError(
            chain.pod.title, label(RAY_GROUP), name, f"a worker group of {owner}: {', '.join(known)}"
        )
    return name
