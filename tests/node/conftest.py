"""A real cluster for each module: two nodes with kubelets in namespaces of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster_kit.real_programs import node_programs
from spinney.sim.kubernetes.node.cluster import Cluster, ClusterSettings


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = ClusterSettings(node_programs(), tmp_path_factory.mktemp("nodes"), nodes=("node-0", "node-1"))
    with Cluster(settings) as found:
        yield found
