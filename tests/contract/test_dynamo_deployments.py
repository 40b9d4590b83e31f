"""DynamoGraphDeployments end to end on both servers: placed as they ask, refused with a reason, told when it fails."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster_kit.server import eventually
from cluster_kit.servers import SERVERS
from contract.dynamo_stages import (
    ALPHA,
    BETA,
    DEADLINE_S,
    ROOT,
    Graphs,
    component,
    convert,
    deployment,
    graphs_on,
)

Json = dict[str, Any]
EXAMPLES = ROOT / "examples" / "dynamo"


@pytest.fixture(scope="module", params=SERVERS)
def graphs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    with graphs_on(request.param, tmp_path_factory.mktemp("dynamo")) as found:
        yield found


@pytest.fixture
def name(graphs: Graphs, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a deployment that goes with the test."""
    found = f"d{abs(hash(request.node.name)) % 10_000}"
    yield found
    graphs.stack.kubectl("delete", BETA, found, "--ignore-not-found", "--wait=false")
    graphs.gone(found)


def in_form(form: str, listed: Json) -> str:
    """A deployment of the document as this form of the API says it."""
    text = yaml.safe_dump(listed)
    return convert(text, "v1beta1" if form == "list" else form)


FORMS = ["v1beta1", "v1alpha1", "list"]


def example(which: str, name: str) -> Json:
    """The document's own example, with images and without the delays of real frontends."""
    found: Json = yaml.safe_load((EXAMPLES / "document" / f"{which}.yaml").read_text())
    found["metadata"]["name"] = name
    for service in found["spec"]["services"]:
        probe = {"tcpSocket": {"port": 8000}}
        service["extraPodSpec"]["mainContainer"]["readinessProbe"] = probe
    return found


@pytest.mark.parametrize("form", FORMS)
def test_d1_d6_d12_a_broad_constraint_packs_the_whole_deployment(graphs: Graphs, name: str, form: str) -> None:
    graphs.apply(in_form(form, example("broad", name)))
    graphs.ready(name)
    template = graphs.get("podcliqueset", name)["spec"]["template"]
    assert template["topologyConstraint"] == {"packDomain": "zone"}
    assert all("topologyConstraint" not in one for one in template["cliques"])
    places = graphs.domains(name, "VllmWorker", "zone") + graphs.domains(name, "Frontend", "zone")
    assert len(set().union(*places)) == 1


@pytest.mark.parametrize("form", FORMS)
def test_d3_d6_d12_mixed_constraints_pack_replicas_inside_the_deployment(graphs: Graphs, name: str, form: str) -> None:
    graphs.apply(in_form(form, example("mixed", name)))
    graphs.ready(name)
    template = graphs.get("podcliqueset", name)["spec"]["template"]
    assert template["topologyConstraint"] == {"packDomain": "zone"}
    (group,) = template["podCliqueScalingGroups"]
    assert group["topologyConstraint"] == {"packDomain": "block"}
    assert all("topologyConstraint" not in one for one in template["cliques"])
    blocks = graphs.domains(name, "VllmWorker", "block")
    assert [list(one.values()) for one in blocks] == [[4], [4]]
    assert graphs.condition(name, "TopologyConstraintsEnforced")[:2] == ("True", "AllTopologyLevelsAvailable")


@pytest.mark.parametrize("form", FORMS)
def test_d1_d6_d12_a_constraint_of_one_service_is_its_own(graphs: Graphs, name: str, form: str) -> None:
    graphs.apply(in_form(form, example("targeted", name)))
    graphs.ready(name)
    template = graphs.get("podcliqueset", name)["spec"]["template"]
    assert "topologyConstraint" not in template
    assert template["podCliqueScalingGroups"][0]["topologyConstraint"] == {"packDomain": "rack"}
    assert [list(one.values()) for one in graphs.domains(name, "VllmWorker", "rack")] == [[4], [4]]


def test_d1_without_constraints_there_is_no_topology_anywhere(graphs: Graphs, name: str) -> None:
    graphs.apply(deployment(name, component("Worker", gpus=1), component("Frontend", "frontend")))
    graphs.ready(name)
    rendered = yaml.safe_dump(graphs.get("podcliqueset", name)["spec"])
    assert "opology" not in rendered and "packDomain" not in rendered
    assert graphs.condition(name, "TopologyConstraintsEnforced") == ("", "", "")


def test_d3_a_service_broader_than_its_deployment_is_refused(graphs: Graphs, name: str) -> None:
    wide = component("Decode", topologyConstraint={"packDomain": "zone"})
    said = graphs.refused(deployment(name, wide, topologyConstraint={"packDomain": "rack"}))
    assert (
        'spec.components[0].topologyConstraint.packDomain: Invalid value: "zone": '
        'must be equal to or narrower than the deployment-level domain "rack"'
    ) in said
    old = yaml.safe_load(
        convert(yaml.safe_dump(deployment(name, wide, topologyConstraint={"packDomain": "rack"})), "v1alpha1")
    )
    assert "spec.services[Decode].topologyConstraint.packDomain: Invalid value" in graphs.refused(old)


def test_d7_a_missing_topology_and_a_missing_level_are_refused(graphs: Graphs, name: str) -> None:
    nowhere = {"packDomain": "rack", "clusterTopologyName": "nowhere"}
    said = graphs.refused(deployment(name, component("w"), topologyConstraint=nowhere))
    assert 'clusterTopologyName: Invalid value: "nowhere": references a ClusterTopology resource that was not' in said
    said = graphs.refused(deployment(name, component("w"), topologyConstraint={"packDomain": "numa"}))
    assert 'does not exist in ClusterTopology "grove-topology"; available domains: [block host rack zone]' in said
    said = graphs.refused(deployment(name, component("w"), topologyConstraint={"packDomain": "aisle"}))
    assert "spec.topologyConstraint.packDomain" in said


def test_d8_topology_stays_as_it_was_created(graphs: Graphs, name: str) -> None:
    made = deployment(name, component("w", topologyConstraint={"packDomain": "rack"}))
    graphs.apply(made)
    wanted = {
        "spec.topologyConstraint": deployment(
            name, *made["spec"]["components"], topologyConstraint={"packDomain": "zone"}
        ),
        "spec.components[0].topologyConstraint": deployment(
            name, component("w", topologyConstraint={"packDomain": "host"})
        ),
    }
    for path, changed in wanted.items():
        said = graphs.refused(changed)
        assert f"{path}: Invalid value" in said
        assert "is immutable and cannot be added, removed, or changed after creation" in said


def test_d11_a_named_topology_reaches_the_set_and_none_is_filled_in(graphs: Graphs, name: str) -> None:
    levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}]
    graphs.apply(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "mine"},
            "spec": {"levels": levels},
        }
    )
    constraint = {"packDomain": "zone", "clusterTopologyName": "mine"}
    graphs.apply(deployment(name, component("w"), topologyConstraint=constraint))
    graphs.ready(name)
    assert graphs.get("podcliqueset", name)["spec"]["template"]["clusterTopologyName"] == "mine"
    graphs.stack.kubectl("delete", BETA, name)
    graphs.gone(name)
    graphs.apply(deployment(name, component("w"), topologyConstraint={"packDomain": "zone"}))
    graphs.ready(name)
    assert graphs.get(BETA, name)["spec"]["topologyConstraint"] == {"packDomain": "zone"}
    assert "clusterTopologyName" not in graphs.get("podcliqueset", name)["spec"]["template"]


def test_scaling_a_component_keeps_topology_and_pods(graphs: Graphs, name: str) -> None:
    worker = component("Decode", gpus=8, multinode={"nodeCount": 2}, topologyConstraint={"packDomain": "rack"})
    graphs.apply(deployment(name, worker, topologyConstraint={"packDomain": "zone"}))
    graphs.ready(name)
    before, pods = graphs.get("podcliqueset", name), graphs.uids(name)
    graphs.apply(deployment(name, {**worker, "replicas": 3}, topologyConstraint={"packDomain": "zone"}))
    eventually(lambda: len(graphs.pods(name)) == 6, "six pods", DEADLINE_S)
    graphs.ready(name)
    assert graphs.get("podcliqueset", name)["spec"] == before["spec"]
    assert pods < graphs.uids(name)
    assert [list(one.values()) for one in graphs.domains(name, "Decode", "rack")] == [[2], [2], [2]]
    graphs.apply(deployment(name, worker, topologyConstraint={"packDomain": "zone"}))
    eventually(lambda: graphs.uids(name) == pods, "the first replica is left", DEADLINE_S)


def test_a_changed_template_replaces_the_pods_of_its_component_only(graphs: Graphs, name: str) -> None:
    made = deployment(name, component("Decode", gpus=1, replicas=2), component("Frontend", "frontend"))
    graphs.apply(made)
    graphs.ready(name)
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in graphs.pods(name)}
    changed = copy.deepcopy(made)
    changed["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = "example.com/serve:2.0.0"
    graphs.apply(changed)

    def rolled() -> bool:
        pods = graphs.pods(name)
        images = sorted(one["spec"]["containers"][0]["image"].rpartition(":")[2] for one in pods)
        return images == ["1.0.0", "2.0.0", "2.0.0"]

    eventually(rolled, "the workers are new", DEADLINE_S)
    graphs.ready(name)
    kept = {one["metadata"]["uid"] for one in graphs.pods(name)} & set(before.values())
    assert len(kept) == 1


def test_a_restart_goes_from_component_to_component_and_is_told(graphs: Graphs, name: str) -> None:
    made = deployment(name, component("Decode", gpus=1), component("Frontend", "frontend"))
    graphs.apply(made)
    graphs.ready(name)
    before = graphs.uids(name)
    made["spec"]["restart"] = {"id": "once"}
    graphs.apply(made)

    def done() -> bool:
        return (graphs.get(BETA, name).get("status") or {}).get("restart") == {
            "observedID": "once",
            "phase": "Completed",
        }

    eventually(done, "the restart is done", DEADLINE_S)
    after = graphs.uids(name)
    assert len(after) == 2 and not before & after
    del made["spec"]["restart"]
    graphs.apply(made)
    graphs.ready(name)
    assert graphs.uids(name) == after


def test_what_is_deleted_takes_everything_with_it(graphs: Graphs, name: str) -> None:
    graphs.apply(deployment(name, component("Decode", multinode={"nodeCount": 2}), component("Frontend", "frontend")))
    graphs.ready(name)
    services = graphs.stack.kubectl("get", "services", "-o", "name").split()
    assert f"service/{name}-frontend" in services
    graphs.stack.kubectl("delete", BETA, name)
    graphs.gone(name)


def test_no_room_is_a_capacity_problem_and_says_so(graphs: Graphs, name: str) -> None:
    wide = component("Decode", gpus=8, multinode={"nodeCount": 9}, topologyConstraint={"packDomain": "rack"})
    graphs.apply(deployment(name, wide))
    said = graphs.says(name, "Ready", "False", "insufficient_capacity")
    assert f"{name}: Decode: insufficient scheduled replicas: scheduled=0/1" in said


def test_both_versions_are_served_and_say_the_same(graphs: Graphs, name: str) -> None:
    graphs.apply(deployment(name, component("Decode"), topologyConstraint={"packDomain": "zone"}))
    graphs.ready(name)
    old = graphs.get(ALPHA, name)
    assert old["spec"]["topologyConstraint"] == {"packDomain": "zone"}
    assert list(old["spec"]["services"]) == ["Decode"]
    assert old["status"]["services"]["Decode"]["componentName"] == f"{name}-0-decode"
