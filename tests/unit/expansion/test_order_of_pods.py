"""Which pods are given up first, and which are replaced first: by an explicit order, never by a random name (2.8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.kinds.podclique import PodClique
from spinney.core.expansion.podclique.pod_replacement import deletion_order
from spinney.core.expansion.podclique.pod_state import Pod

CLIQUE = msgspec.convert(
    {
        "metadata": {"name": "d-0-w", "labels": {"grove.io/pod-template-hash": "new"}},
        "spec": {"podSpec": {}, "replicas": 3},
    },
    PodClique,
)


def pod(name: str, index: int, **more: Any) -> Pod:
    """A ready pod of the current revision on a node."""
    labels = {"grove.io/podclique-pod-index": str(index), "grove.io/pod-template-hash": more.get("revision", "new")}
    metadata = {"name": name, "labels": labels, "creationTimestamp": more.get("made", "2026-01-01T00:00:00Z")}
    if more.get("leaves"):
        metadata["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    status = {
        "phase": more.get("phase", "Running"),
        "conditions": [{"type": "Ready", "status": "True" if more.get("ready", True) else "False"}],
    }
    spec = {"nodeName": more.get("node", "n1")}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("a", 0, leaves=True), pod("b", 1, node="")),
        (pod("a", 0, node=""), pod("b", 1, phase="Pending", ready=False)),
        (pod("a", 0, phase="Pending", ready=False), pod("b", 1, phase="Unknown", ready=False)),
        (pod("a", 0, phase="Unknown", ready=False), pod("b", 1, ready=False)),
        (pod("a", 0, ready=False), pod("b", 1, revision="old")),
        (pod("a", 0, revision="old"), pod("b", 1)),
        (pod("a", 0, made="2026-01-01T00:00:01Z"), pod("b", 1)),
    ],
    ids=["leaving", "unbound", "pending", "unknown", "not ready", "outdated", "youngest"],
)
def test_g1_pods_are_given_up_in_the_order_of_the_reference(first: Pod, second: Pod) -> None:
    assert deletion_order([second, first], CLIQUE) == [first, second]


def test_g1_among_pods_made_together_the_highest_index_goes_first() -> None:
    pods = [pod("z", 2), pod("m", 10), pod("a", 1), pod("q", 0)]
    assert [each.metadata.name for each in deletion_order(pods, CLIQUE)] == ["m", "z", "a", "q"]
