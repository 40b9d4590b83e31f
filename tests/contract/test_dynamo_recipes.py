"""The shapes in which models are served, as examples/dynamo has them, on simulated GPU nodes of both servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.servers import SERVERS
from contract.dynamo_stages import BETA, ROOT, Graphs, graphs_on

Json = dict[str, Any]
RECIPES = sorted((ROOT / "examples" / "dynamo").glob("*.yaml"))
NODES = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 1}
- {name: block, label: topology.kubernetes.io/block, count: 4}
- {name: rack, label: topology.kubernetes.io/rack, count: 2}
- {name: host, count: 4}
capacity: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 8}
"""


@pytest.fixture(scope="module", params=SERVERS)
def graphs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    """All of them at once: frontends wait ten seconds before they say that they are ready."""
    directory = tmp_path_factory.mktemp("recipes")
    (directory / "nodes.yaml").write_text(NODES)
    with graphs_on(request.param, directory / "up", "--nodes", str(directory / "nodes.yaml")) as found:
        for recipe in RECIPES:
            found.apply(recipe.read_text())
        yield found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_becomes_ready_where_it_asks_to_be(graphs: Graphs, recipe: Path) -> None:
    manifest: Json = yaml.safe_load(recipe.read_text())
    name = manifest["metadata"]["name"]
    found = graphs.ready(name)
    assert found["status"]["state"] == "successful"
    whole = (manifest["spec"].get("topologyConstraint") or {}).get("packDomain")
    everywhere: set[str] = set()
    for component in manifest["spec"]["components"]:
        nodes = (component.get("multinode") or {}).get("nodeCount", 1)
        replicas = component.get("replicas", 1)
        pods = [
            each
            for each in graphs.pods(name)
            if each["metadata"]["labels"]["nvidia.com/dynamo-component"] == component["name"]
        ]
        assert len(pods) == nodes * replicas
        domain = (component.get("topologyConstraint") or {}).get("packDomain")
        if domain:
            assert all(len(one) == 1 for one in graphs.domains(name, component["name"], domain))
        if whole:
            everywhere |= set().union(*graphs.domains(name, component["name"], whole))
    assert len(everywhere) == (1 if whole else 0)


def test_the_leader_of_mpi_starts_after_its_workers(graphs: Graphs) -> None:
    graphs.ready("trtllm-multi")
    template = graphs.get("podcliqueset", "trtllm-multi")["spec"]["template"]
    assert template["cliqueStartupType"] == "CliqueStartupTypeExplicit"
    starts = {each["name"]: each["spec"].get("startsAfter") for each in template["cliques"]}
    assert starts == {"frontend": None, "decode-ldr": ["decode-wkr"], "decode-wkr": None}


def test_all_of_them_together_leave_nothing_pending(graphs: Graphs) -> None:
    names = [yaml.safe_load(recipe.read_text())["metadata"]["name"] for recipe in RECIPES]
    for name in names:
        graphs.ready(name)
    found = {each["metadata"]["name"]: each["status"]["state"] for each in graphs.stack.get(BETA)["items"]}
    assert found == dict.fromkeys(names, "successful")
