"""Node labels that describe a location: those of Kubernetes, clouds and vendors, and keys with a level's name.

A key proves nothing: whether its values nest is checked on the nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spinney.api.labels import HOSTNAME, REGION, ZONE


@dataclass(frozen=True, slots=True)
class KnownKey:
    """`domain` is the best name for the level, `source` the origin of the key."""

    key: str
    domain: str
    source: str


KNOWN = (
    KnownKey(REGION, "region", "Kubernetes"),
    KnownKey(ZONE, "zone", "Kubernetes"),
    KnownKey("topology.kubernetes.io/datacenter", "datacenter", "by convention"),
    KnownKey("topology.kubernetes.io/block", "block", "by convention"),
    KnownKey("topology.kubernetes.io/rack", "rack", "by convention"),
    KnownKey("cloud.provider.com/topology-zone", "zone", "Kueue's examples"),
    KnownKey("cloud.provider.com/datacenter", "datacenter", "Kueue's examples"),
    KnownKey("cloud.provider.com/topology-block", "block", "Kueue's examples"),
    KnownKey("cloud.provider.com/topology-rack", "rack", "Kueue's examples"),
    KnownKey("network.topology.nvidia.com/datacenter", "datacenter", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/core", "datacenter", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/spine", "block", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/block", "rack", "NVIDIA Topograph"),
    KnownKey("network.topology.nvidia.com/leaf", "rack", "NVIDIA Topograph"),
    KnownKey("fabric.topograph.run/tier-2", "datacenter", "Topograph"),
    KnownKey("fabric.topograph.run/tier-1", "block", "Topograph"),
    KnownKey("fabric.topograph.run/tier-0", "rack", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-3", "datacenter", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-2", "block", "Topograph"),
    KnownKey("topology.kubernetes.io/network-level-1", "rack", "Topograph"),
    KnownKey("topology.k8s.aws/network-node-layer-1", "datacenter", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-2", "block", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-3", "rack", "AWS"),
    KnownKey("topology.k8s.aws/network-node-layer-4", "rack", "AWS"),
    KnownKey("cloud.google.com/gce-topology-block", "block", "Google Cloud"),
    KnownKey("cloud.google.com/gce-topology-subblock", "rack", "Google Cloud"),
    KnownKey("cloud.google.com/gce-topology-host", "rack", "Google Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.hpc_island_id", "datacenter", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.network_block_id", "block", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/rdma.local_block_id", "rack", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/host.network_block_id", "block", "Oracle Cloud"),
    KnownKey("oci.oraclecloud.com/host.rack_id", "rack", "Oracle Cloud"),
    KnownKey("topology.nebius.com/gpu-cluster-id", "datacenter", "Nebius"),
    KnownKey("topology.nebius.com/tier-2", "block", "Nebius"),
    KnownKey("topology.nebius.com/tier-1", "rack", "Nebius"),
    KnownKey("backend.coreweave.cloud/fabric", "datacenter", "CoreWeave"),
    KnownKey("backend.coreweave.cloud/superpod", "block", "CoreWeave"),
    KnownKey("backend.coreweave.cloud/leafgroup", "rack", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/fabric", "datacenter", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/superpod", "block", "CoreWeave"),
    KnownKey("ib.coreweave.cloud/leafgroup", "rack", "CoreWeave"),
    KnownKey("node.coreweave.cloud/rack", "rack", "CoreWeave"),
    KnownKey("nvidia.com/gpu.clique", "rack", "NVIDIA: NVLink domain"),
    KnownKey("network.topology.nvidia.com/accelerator", "rack", "NVIDIA Topograph: NVLink domain"),
    KnownKey("accelerator.topograph.run/domain", "rack", "Topograph: NVLink domain"),
    KnownKey("topology.k8s.aws/ultraserver-id", "rack", "AWS: NVLink domain"),
    KnownKey("ds.coreweave.com/nvlink.domain", "rack", "CoreWeave: NVLink domain"),
    KnownKey("topology.nebius.com/tier-0", "rack", "Nebius: NVLink domain"),
    KnownKey("topology.k8s.aws/capacity-block-id", "block", "AWS: reservation"),
    KnownKey("cloud.google.com/gke-placement-group", "block", "Google Cloud: placement group"),
    KnownKey(HOSTNAME, "host", "Kubernetes"),
)
"""Within one source broad to narrow. Of two keys that cannot both be levels the earlier one stays."""

_BY_KEY = {one.key: one for one in KNOWN}
_WORDS = {
    "region": "region",
    "zone": "zone",
    "datacenter": "datacenter",
    "dc": "datacenter",
    "hall": "datacenter",
    "room": "datacenter",
    "fabric": "datacenter",
    "core": "datacenter",
    "island": "datacenter",
    "block": "block",
    "spine": "block",
    "superpod": "block",
    "aggregation": "block",
    "row": "block",
    "rack": "rack",
    "tor": "rack",
    "leaf": "rack",
    "leafgroup": "rack",
    "subblock": "rack",
    "switch": "rack",
    "nvlink": "rack",
}
_ENDINGS = ("id", "name", "domain", "group")
_OF_OTHERS = re.compile(
    r"^(?:(?:.*\.)?node-role\.kubernetes\.io/|node\.kubernetes\.io/|(?:beta\.)?kubernetes\.io/(?:os|arch)$"
    r"|failure-domain\.beta\.kubernetes\.io/|beta\.kubernetes\.io/|feature\.node\.kubernetes\.io/|.*\.nvidia\.com/"
    r"|nvidia\.com/|amd\.com/|karpenter\.|.*csi\.|cloud\.google\.com/|kubernetes\.azure\.com/|.*\.amazonaws\.com/"
    r"|k8s\.io/|.*\.coreweave\.cloud/|kai\.scheduler/|grove\.io/|agentpool$|.*/(?:version|revision|hash)$)"
)


def known(key: str) -> KnownKey | None:
    """A key of the table, or one whose last word is that of a level: `example.com/topology-rack`, `acme/rack-id`."""
    found = _BY_KEY.get(key)
    if found is not None or is_of_others(key):
        return found
    words = [word for word in re.split(r"[-_.]", key.rpartition("/")[2].lower()) if word]
    while len(words) > 1 and words[-1] in _ENDINGS:
        words.pop()
    domain = _WORDS.get(words[-1]) if words else None
    return KnownKey(key, domain, "by its name") if domain is not None else None


def is_of_others(key: str) -> bool:
    """Whether a label describes the type or the manager of a node, not its location."""
    return key not in _BY_KEY and _OF_OTHERS.match(key) is not None


def importance(one: KnownKey) -> int:
    """Small for keys to keep; those known by their names come last."""
    return KNOWN.index(one) if one.key in _BY_KEY else len(KNOWN)
