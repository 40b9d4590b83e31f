"""The operator in `spinney up`, on the embedded and on a real API server, met with kubectl alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.real_programs import real_programs
from cluster_kit.server import eventually
from cluster_kit.servers import SERVERS, kubectl_program
from stack_kit.spinney import Spinney, spinney
from unit.operator.operator_world import clique, condition, group, podcliqueset

NODES = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 2}
- {name: block, label: topology.kubernetes.io/block, count: 2}
- {name: rack, label: topology.kubernetes.io/rack, count: 2}
- {name: host, count: 2}
capacity: {cpu: 64, memory: 64Gi, pods: 110}
"""
RACK = {"packDomain": "rack"}
DEADLINE_S = 150.0


@pytest.fixture(scope="module", params=SERVERS)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spinney]:
    """One stack for all tests of this module; each test has a set of its own name."""
    directory: Path = tmp_path_factory.mktemp(f"operator-{request.param}")
    arguments = ["--nodes", str(directory / "nodes.yaml")]
    (directory / "nodes.yaml").write_text(NODES)
    if request.param == "real":
        real_programs()
        arguments.append("--real")
    if kubectl_program() is None:
        pytest.skip("no kubectl: neither built nor installed")
    with spinney(directory / "up", *arguments, kubectl=kubectl_program()) as stack:
        yield stack.ready()


def _apply(up: Spinney, *manifests: dict[str, Any]) -> None:
    up.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))


def _running(up: Spinney, name: str, count: int) -> list[dict[str, Any]]:
    """The pods of a set once so many of them are ready, and no others are there."""

    def check() -> list[dict[str, Any]]:
        pods = up.get("pods", "-l", f"app.kubernetes.io/part-of={name}")["items"]
        assert [condition(each, "Ready")[0] for each in pods] == ["True"] * count
        return pods

    return eventually(check, f"{count} ready pods of {name}", DEADLINE_S)


def _available(up: Spinney, name: str, replicas: int = 1) -> dict[str, Any]:
    def check() -> dict[str, Any]:
        found = up.get("podcliqueset", name)
        assert found["status"].get("availableReplicas", 0) == replicas
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        return found

    return eventually(check, f"{name} is available", DEADLINE_S)


def test_g1_two_cliques_become_running_pods_and_a_status(up: Spinney) -> None:
    _apply(up, podcliqueset("two", [clique("fe", 2), clique("be", 3, 2)]))
    pods = _running(up, "two", 5)
    assert not any(each["spec"].get("schedulingGates") for each in pods)
    assert {each["spec"]["subdomain"] for each in pods} == {"two-0"}
    assert up.get("service", "two-0")["spec"]["clusterIP"] == "None"
    _available(up, "two")
    gang = eventually(
        lambda: (found := up.get("podgangs.scheduler.grove.io", "two-0"))["status"]["phase"] == "Running" and found
    )
    assert [each["minReplicas"] for each in gang["spec"]["podgroups"]] == [2, 2]
    assert condition(up.get("podclique", "two-0-be"), "MinAvailableBreached") == ("False", "SufficientReadyPods")


def test_g2_g4_g11_groups_topology_and_podgroups(up: Spinney) -> None:
    groups = [group("g", ["l", "w"], replicas=2, topologyConstraint=RACK)]
    zone = {"packDomain": "zone"}
    _apply(up, podcliqueset("topo", [clique("a"), clique("l"), clique("w", 2)], groups, topologyConstraint=zone))
    _running(up, "topo", 7)
    whole = _available(up, "topo")
    assert whole["metadata"]["labels"]["grove.io/topology-name"] == "grove-topology"
    assert condition(whole, "TopologyLevelsUnavailable") == ("False", "AllClusterTopologyLevelsAvailable")
    podgroup = up.get("podgroups.scheduling.run.ai", "topo-0")
    assert podgroup["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "topology.kubernetes.io/zone"
    assert [each["name"] for each in podgroup["spec"]["subGroups"]] == [
        "topo-0-g-0",
        "topo-0-a",
        "topo-0-g-0-l",
        "topo-0-g-0-w",
    ]
    scaled = up.get("podgangs.scheduler.grove.io", "topo-0-g-0")
    assert scaled["metadata"]["annotations"]["spinney.dev/tied-to"] == "topo-0,topology.kubernetes.io/zone"


def test_g1_scale_subresources_at_all_three_kinds(up: Spinney) -> None:
    _apply(up, podcliqueset("scale", [clique("a"), clique("w")], [group("g", ["w"])]))
    _running(up, "scale", 2)
    up.kubectl("scale", "podclique/scale-0-a", "--replicas=3")
    _running(up, "scale", 4)
    up.kubectl("scale", "podcliquescalinggroup/scale-0-g", "--replicas=2")
    _running(up, "scale", 5)
    up.kubectl("scale", "podcliqueset/scale", "--replicas=2")
    _running(up, "scale", 7)
    _available(up, "scale", 2)
    up.kubectl("scale", "podcliqueset/scale", "--replicas=1")
    up.kubectl("scale", "podcliquescalinggroup/scale-0-g", "--replicas=1")
    _running(up, "scale", 4)


def test_g1_a_rolling_update_replaces_all_pods(up: Spinney) -> None:
    whole = podcliqueset("roll", [clique("a", 2, 1), clique("w")], [group("g", ["w"], replicas=2)])
    _apply(up, whole)
    _running(up, "roll", 4)
    _available(up, "roll")
    for each in whole["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
    _apply(up, whole)

    def done() -> bool:
        progress = up.get("podcliqueset", "roll")["status"].get("updateProgress") or {}
        return "updateEndedAt" in progress

    eventually(done, "the update has ended", DEADLINE_S)
    pods = _running(up, "roll", 4)
    assert {each["spec"]["containers"][0]["image"] for each in pods} == {"v2"}


def test_g1_a_scaled_clique_keeps_its_count_when_its_gang_is_terminated(up: Spinney) -> None:
    sick = {"spinney.dev/sim-fail": "unready"}
    _apply(up, podcliqueset("term", [clique("a", annotations=sick), clique("b")], terminationDelay="15s"))
    eventually(lambda: len(up.get("pods", "-l", "app.kubernetes.io/part-of=term")["items"]) == 2, "pods", DEADLINE_S)
    first = up.get("podclique", "term-0-b")["metadata"]["uid"]
    up.kubectl("scale", "podclique/term-0-b", "--replicas=3")

    def is_made_again() -> bool:
        found = up.get("podclique", "term-0-b")
        return bool(found["metadata"]["uid"] != first and found["spec"]["replicas"] == 3)

    eventually(is_made_again, "the clique was terminated and has its count", DEADLINE_S)
    up.kubectl("delete", "podcliqueset/term")


def test_g1_startup_order_and_autoscalers_are_accepted(up: Spinney) -> None:
    cliques = [clique("a", autoScalingConfig={"maxReplicas": 3}), clique("b", 2, 1)]
    _apply(up, podcliqueset("order", cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
    pods = _running(up, "order", 3)
    waits = [each for each in pods if each["spec"].get("initContainers")]
    assert {each["metadata"]["labels"]["grove.io/podclique"] for each in waits} == {"order-0-b"}
    assert up.get("hpa", "order-0-a")["spec"]["scaleTargetRef"]["kind"] == "PodClique"
    assert up.get("role", "grove.io:pcs:order")["rules"][0]["verbs"] == ["get", "list", "watch"]


def test_l2_c5_a_topology_in_use_outlives_its_deletion_until_the_set_goes(up: Spinney) -> None:
    levels = [{"domain": "rack", "key": "topology.kubernetes.io/rack"}]
    topology = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "held"},
        "spec": {"levels": levels},
    }
    _apply(up, topology)
    _apply(up, podcliqueset("holder", [clique("a")], clusterTopologyName="held", topologyConstraint=RACK))
    _running(up, "holder", 1)
    assert up.get("topologies.kai.scheduler", "held")["spec"]["levels"] == [{"nodeLabel": levels[0]["key"]}]
    up.kubectl("delete", "clustertopology", "held", "--wait=false")
    eventually(lambda: "default/holder" in up.kubectl("get", "events", "-A"), "an event names the user", DEADLINE_S)
    assert up.get("clustertopology", "held")["metadata"]["deletionTimestamp"]
    up.kubectl("delete", "podcliqueset", "holder")
    eventually(lambda: "held" not in up.kubectl("get", "clustertopology"), "the topology is gone", DEADLINE_S)
    eventually(lambda: "held" not in up.kubectl("get", "topologies.kai.scheduler"), "its twin is gone", DEADLINE_S)
    eventually(lambda: not up.get("pods", "-l", "app.kubernetes.io/part-of=holder")["items"], "no pods", DEADLINE_S)


def test_t8_a_set_is_placed_by_a_binding_which_outlives_its_deletion_until_the_set_goes(up: Spinney) -> None:
    levels = [{"domain": "rack", "key": "topology.kubernetes.io/rack"}]
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "bound"},
        "spec": {"levels": levels},
    }
    _apply(up, binding)
    _apply(up, podcliqueset("tenant", [clique("a", 2)], clusterTopologyName="bound", topologyConstraint=RACK))
    pods = _running(up, "tenant", 2)
    racks = {
        node["metadata"]["name"]: node["metadata"]["labels"][levels[0]["key"]] for node in up.get("nodes")["items"]
    }
    assert len({racks[each["spec"]["nodeName"]] for each in pods}) == 1
    assert condition(up.get("ctb", "bound"), "SchedulerTopologyDrift") == ("False", "InSync")
    up.kubectl("delete", "clustertopologybinding", "bound", "--wait=false")
    eventually(lambda: "default/tenant" in up.kubectl("get", "events", "-A"), "an event names the user", DEADLINE_S)
    assert up.get("clustertopologybinding", "bound")["metadata"]["deletionTimestamp"]
    up.kubectl("delete", "podcliqueset", "tenant")
    eventually(lambda: "bound" not in up.kubectl("get", "ctb"), "the binding is gone", DEADLINE_S)
    eventually(lambda: "bound" not in up.kubectl("get", "topologies.kai.scheduler"), "its twin is gone", DEADLINE_S)


def test_live1_a_settled_stack_does_not_write(up: Spinney) -> None:
    """The versions of everything the operator makes stay as they are while nothing happens."""
    _apply(up, podcliqueset("rest", [clique("a", 2)], [], topologyConstraint=RACK))
    _running(up, "rest", 2)
    _available(up, "rest")
    kinds = "podcliquesets,podcliques,podcliquescalinggroups,podgangs,podgroups.scheduling.run.ai,clustertopologies"

    def versions() -> dict[str, str]:
        found = up.get(kinds, "-l", "app.kubernetes.io/part-of=rest")["items"]
        return {f"{each['kind']} {each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}

    def unchanged() -> bool:
        before = versions()
        up.kubectl("get", "nodes")
        up.kubectl("get", "nodes")
        return before == versions()

    eventually(unchanged, "two looks show the same versions", DEADLINE_S)


def test_g3_the_three_level_example_of_the_design_is_admitted_and_runs(up: Spinney) -> None:
    """Disaggregated inference: the set in a zone, groups in blocks and racks, cliques in racks."""

    def rack(name: str, replicas: int = 1) -> dict[str, Any]:
        return clique(name, replicas, topologyConstraint=RACK)

    cliques = [clique("router", topologyConstraint={"packDomain": "block"})]
    cliques += [rack("p-leader"), rack("p-worker", 4), rack("d-leader"), rack("d-worker", 2)]
    groups = [
        group("prefill", ["p-worker", "p-leader"], replicas=2, topologyConstraint={"packDomain": "block"}),
        group("decode", ["d-worker", "d-leader"], replicas=2, topologyConstraint=RACK),
    ]
    zone = {"packDomain": "zone"}
    _apply(up, podcliqueset("disagg", cliques, groups, topologyConstraint=zone))
    _running(up, "disagg", 17)
    _available(up, "disagg")
    base = up.get("podgangs.scheduler.grove.io", "disagg-0")["spec"]
    configs = {each["name"]: each["topologyConstraint"] for each in base["topologyConstraintGroupConfigs"]}
    required = {name: each["packConstraint"]["required"] for name, each in configs.items()}
    assert required == {
        "disagg-0-prefill-0": "topology.kubernetes.io/block",
        "disagg-0-decode-0": "topology.kubernetes.io/rack",
    }
