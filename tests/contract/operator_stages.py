"""The cluster of the operator's scenarios: GB200 and H100 nodes that share a zone, and topologies for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_kit.real_programs import programs_of
from spinney.api.roles import ROLES
from stack_kit.stage import Stage, stage_on

Json = dict[str, Any]

ZONE, BLOCK, RACK, H100_RACK, HOST = (
    "topology.kubernetes.io/zone",
    "example.com/block",
    "example.com/rack",
    "example.com/h100-rack",
    "kubernetes.io/hostname",
)
GB200 = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}
NODES = f"""
name: gb200
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110}}
---
name: h100
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: rack, label: {H100_RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110}}
"""


def configured(levels: dict[str, str] | None = None) -> Json:
    """An operator for the KAI scheduler; without levels, topology is off."""
    found: Json = {"scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]}}
    if levels is not None:
        told = [{"domain": domain, "key": key} for domain, key in levels.items()]
        found["topologyAwareScheduling"] = {"enabled": True, "levels": told}
    return found


CONFIGURATION = configured(GB200)
OPERATOR_RIGHTS = ROLES["operator"].cluster


@contextmanager
def staged(kind: str, directory: Path) -> Iterator[Stage]:
    """A stage with an operator at work, which has exactly the rights that are shipped for it and needs no others."""
    assets = programs_of(kind)
    with stage_on(assets, directory, NODES) as stage:
        stage.operate(CONFIGURATION)
        yield stage
    lacking = stage.record.differences(*OPERATOR_RIGHTS)["used and not granted"]
    assert (lacking, stage.record.forbidden) == ([], []), (lacking, stage.record.forbidden)


def topology(name: str, levels: dict[str, str]) -> Json:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]},
    }


def affinity_keys(pod: Json) -> list[str]:
    """The labels that a node must carry for a pod."""
    node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    assert len(terms) == 1
    expressions = terms[0].get("matchExpressions") or []
    assert all(each["operator"] == "Exists" for each in expressions)
    return [each["key"] for each in expressions]
