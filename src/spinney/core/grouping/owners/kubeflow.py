"""Kubeflow training jobs: a gang of all replicas, or of the minimum in its policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spinney.api.kinds.podgroup import SubGroup
from spinney.api.labels import KUBEFLOW_JOB_ROLE, KUBEFLOW_REPLICA_TYPE
from spinney.core.grouping.group_shape import GroupShape, Lookups, podgroup_name, whole_owner
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, Pod, label, whole

MASTER, WORKER, LAUNCHER = "master", "worker", "launcher"


def tensorflow(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return whole_owner(chain, _minimum(chain.top, _replicas(chain.top, "tfReplicaSpecs")))


def xgboost(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return whole_owner(chain, _minimum(chain.top, _replicas(chain.top, "xgbReplicaSpecs")))


def jax(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    return whole_owner(chain, _minimum(chain.top, _replicas(chain.top, "jaxReplicaSpecs", (WORKER,))))


def mpi(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """A launcher that starts after its workers does not count for the minimum until its pod exists."""
    top = chain.top
    replicas = _replicas(top, "mpiReplicaSpecs", (LAUNCHER, WORKER))
    needed = _minimum(top, replicas)
    if top.word("spec", "launcherCreationPolicy") == "WaitForWorkersReady":
        group = podgroup_name(top.name, top.uid)
        known = (chain.pod, *lookups.members(top.namespace, group))
        if not any(_is_launcher(pod) and pod.metadata.deletion_timestamp is None for pod in known):
            needed -= replicas[LAUNCHER]
    return whole_owner(chain, max(needed, 1))


def pytorch(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """Master and workers are sub-groups: segments are formed from the workers."""
    top = chain.top
    replicas = _replicas(top, "pytorchReplicaSpecs")
    elastic = top.count("spec", "elasticPolicy", "minReplicas")
    needed = _minimum(top, replicas, elastic)
    masters = min(replicas.get(MASTER, 0), needed)
    minima = {MASTER: masters, WORKER: needed - masters}
    parts = tuple(SubGroup(role, minima[role]) for role in (MASTER, WORKER) if role in replicas)
    role = chain.pod.metadata.labels.get(KUBEFLOW_REPLICA_TYPE, "").lower()
    if role not in replicas:
        raise InvalidFieldError(
            chain.pod.title,
            label(KUBEFLOW_REPLICA_TYPE),
            role or None,
            f"a role of {top}: {', '.join(sorted(replicas))}",
        )
    return replace(whole_owner(chain, needed), parts=parts, part=role)


def _replicas(top: Owner, field: str, mandatory: Sequence[str] = ()) -> dict[str, int]:
    """The number of pods of each role, by its name in lower case."""
    found: dict[str, int] = {}
    for role in top.part("spec", field):
        count = whole(top, top.part("spec", field, role), "replicas", f"spec.{field}.{role}.replicas")
        found[role.lower()] = 1 if count is None else count
    for role in mandatory:
        if role not in found:
            raise InvalidFieldError(top, f"spec.{field}.{role.capitalize()}", None, "the replicas of that role")
    return found


def _minimum(top: Owner, replicas: dict[str, int], elastic: int | None = None) -> int:
    declared = top.count("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    wanted = declared or elastic or sum(replicas.values())
    return max(wanted, 1)


def _is_launcher(pod: Pod) -> bool:
    labels = pod.metadata.labels
    return LAUNCHER in (labels.get(KUBEFLOW_JOB_ROLE), labels.get(KUBEFLOW_REPLICA_TYPE, "").lower())
