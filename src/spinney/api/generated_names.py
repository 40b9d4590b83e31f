"""The names of everything the operator generates, each made in one place.

Names are made from parts here and never taken apart again: what an object belongs to is read from its labels.
"""

from __future__ import annotations

NAME_BUDGET = 45
"""Set, group and clique names together may be this long, so that pod names fit into a DNS label."""

DEFAULT_TOPOLOGY = "grove-topology"


def podclique(podcliqueset: str, replica: int, clique: str) -> str:
    """A clique that stands alone in its set replica."""
    return f"{podcliqueset}-{replica}-{clique}"


def scaling_group(podcliqueset: str, replica: int, group: str) -> str:
    return f"{podcliqueset}-{replica}-{group}"


def scaling_group_podclique(podcliqueset: str, replica: int, group: str, group_replica: int, clique: str) -> str:
    """A clique inside one replica of a scaling group."""
    return f"{scaling_group_replica(podcliqueset, replica, group, group_replica)}-{clique}"


def scaling_group_replica(podcliqueset: str, replica: int, group: str, group_replica: int) -> str:
    """One replica of a scaling group, as the base gang names its topology constraint group."""
    return f"{scaling_group(podcliqueset, replica, group)}-{group_replica}"


def base_gang(podcliqueset: str, replica: int) -> str:
    return f"{podcliqueset}-{replica}"


def scaled_gang(podcliqueset: str, replica: int, group: str, group_replica: int, min_available: int) -> str:
    """The gang of a group replica at or above minAvailable, counted from 0 there.

    The spelling can equal that of a constraint group inside the base gang: never key anything by the bare name.
    """
    return f"{scaling_group(podcliqueset, replica, group)}-{group_replica - min_available}"


def headless_service(podcliqueset: str, replica: int) -> str:
    return f"{podcliqueset}-{replica}"


def headless_service_host(podcliqueset: str, replica: int, namespace: str) -> str:
    """The DNS name of the service, as pods get it in their environment."""
    return f"{headless_service(podcliqueset, replica)}.{namespace}.svc.cluster.local"


def pod_prefix(podclique_name: str) -> str:
    """The generateName of a clique's pods."""
    return f"{podclique_name}-"


def pod_hostname(podclique_name: str, index: int) -> str:
    return f"{podclique_name}-{index}"


def autoscaler(target: str) -> str:
    return target


def role(podcliqueset: str) -> str:
    """Role and RoleBinding of a set's pods."""
    return f"grove.io:pcs:{podcliqueset}"


def service_account(podcliqueset: str) -> str:
    return podcliqueset


def token_secret(podcliqueset: str) -> str:
    """The token with which init containers watch their parents."""
    return f"{podcliqueset}-ic-sat"


def shared_claim(owner: str, template: str) -> str:
    """A resource claim that all replicas of the owner share."""
    return f"{owner}-all-{template}"


def replica_claim(owner: str, replica: int, template: str) -> str:
    """A resource claim of one replica of the owner."""
    return f"{owner}-{replica}-{template}"


def compute_domain(podcliqueset: str, replica: int, group: str) -> str:
    return f"{podcliqueset}-{replica}-{group}"


def kai_podgroup(gang: str) -> str:
    """The scheduler's PodGroup of a gang that the operator writes."""
    return gang


def kai_topology(cluster_topology: str) -> str:
    """The scheduler's topology of a ClusterTopology."""
    return cluster_topology
