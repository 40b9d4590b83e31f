"""One cluster with two real nodes for the whole folder, and one release of the chart on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster_kit.real_programs import node_programs
from node.image import built_image
from node.installation import Installation
from spinney.sim.kubernetes.node.cluster import Cluster, ClusterSettings


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = ClusterSettings(node_programs(), tmp_path_factory.mktemp("nodes"), nodes=("node-0", "node-1"))
    with Cluster(settings) as found:
        yield found


@pytest.fixture(scope="session")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """One replica of each role, in a namespace that enforces `restricted`."""
    archive = tmp_path_factory.mktemp("image") / "spinney.tar"
    built_image(archive)
    cluster.import_image(archive)
    archive.unlink()
    found = Installation(cluster, tmp_path_factory.mktemp("helm"))
    found.install()
    return found
