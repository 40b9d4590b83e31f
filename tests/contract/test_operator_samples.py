"""The sets in `examples/` are admitted and become ready on simulated nodes, under their topologies"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.real_programs import programs_of
from cluster_kit.servers import SERVERS
from contract.operator_stages import affinity_keys, configured
from stack_kit.stage import Stage, stage_on
from unit.operator.operator_world import condition

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = "---\n".join((EXAMPLES / "nodes" / f"{name}.yaml").read_text() for name in ("laptop", "two-halls"))
DEFAULT_LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
GANGS = {
    "autoscaling": 1,
    "disaggregated": 3,
    "explicit-order": 1,
    "in-order": 1,
    "leader-worker": 2,
    "on-gb200": 1,
    "on-h100": 1,
    "single-clique": 2,
}


def example(path: str) -> Json:
    found: Json = yaml.safe_load((EXAMPLES / path).read_text())
    return found


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One cluster with the nodes and topologies of the examples."""
    assets = programs_of(request.param)
    with stage_on(assets, tmp_path_factory.mktemp("samples"), NODES) as found:
        found.operate(configured(DEFAULT_LEVELS))
        for name in ("h100", "gb200"):
            found.create(example(f"topologies/{name}.yaml")).ok(201)
        yield found


def pods_of(sample: Json) -> int:
    """Every clique as often as its group, if it is in one, and all of it as often as the set."""
    template = sample["spec"]["template"]
    groups = template.get("podCliqueScalingGroups", [])
    times = {name: group["replicas"] for group in groups for name in group["cliqueNames"]}
    cliques = template["cliques"]
    return sample["spec"]["replicas"] * sum(one["spec"]["replicas"] * times.get(one["name"], 1) for one in cliques)


def test_every_set_among_the_examples_is_tried() -> None:
    assert [path.stem for path in sorted((EXAMPLES / "sets").glob("*.yaml"))] == list(GANGS)


@pytest.mark.parametrize("file", GANGS)
def test_g1_the_sample_is_admitted_and_becomes_ready(stage: Stage, file: str) -> None:
    sample = example(f"sets/{file}.yaml")
    name = sample["metadata"]["name"]
    admitted = stage.create(sample)
    assert (admitted.status, admitted.warnings) == (201, [])
    stage.ready_pods(name, pods_of(sample))
    stage.available(name, sample["spec"]["replicas"])

    def gangs_run() -> bool:
        phases = [one.get("status", {}).get("phase") for one in stage.part_of("PodGang", name)]
        assert phases == ["Running"] * GANGS[file]
        return True

    stage.eventually(gangs_run, f"the gangs of {name} run")
    stage.delete("PodCliqueSet", name)


@pytest.mark.parametrize("hardware", ["h100", "gb200"])
def test_t5_t6_each_of_two_topologies_keeps_its_sets_on_its_nodes(stage: Stage, hardware: str) -> None:
    sample = example(f"sets/on-{hardware}.yaml")
    sample["metadata"]["name"] = name = f"only-{hardware}"
    stage.create(sample).ok(201)
    pods = stage.ready_pods(name, pods_of(sample))
    keys = [level["key"] for level in example(f"topologies/{hardware}.yaml")["spec"]["levels"]]
    assert {tuple(affinity_keys(pod)) for pod in pods} == {tuple(keys)}
    assert all(pod["spec"]["nodeName"].startswith(f"{hardware}-") for pod in pods)
    stage.delete("PodCliqueSet", name)


@pytest.mark.parametrize(("hardware", "domains"), [("h100", [2, 4, 32]), ("gb200", [2, 1, 2, 32])])
def test_l6_the_status_of_a_topology_counts_its_nodes_and_domains(
    stage: Stage, hardware: str, domains: list[int]
) -> None:
    def seen() -> bool:
        found = stage.get("ClusterTopology", hardware)
        assert [level["domains"] for level in found["status"]["levels"]] == domains
        assert condition(found, "SchedulerTopologyDrift") == ("False", "InSync")
        return True

    stage.eventually(seen, f"the levels of {hardware} are counted")
