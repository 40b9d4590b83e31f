"""One object that can not be read ends no command: it is left out, told once on standard error, and refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import Result

from spinney.api.labels import HOSTNAME
from unit.cli.canned_cluster import TOO_DEEP, run_on

Json = dict[str, Any]
RACK, GPU = "example.com/rack", "nvidia.com/gpu"
ODD_POD = "pods ns/odd can not be read: Expected `int | null`, got `str` - at `$.spec.priority`"
ODD_GROUP = (
    "podgroups.scheduling.run.ai ns/odd can not be read: Expected `int | null`, got `str` - at `$.spec.minMember`"
)


def named(name: str, namespace: str = "ns", **more: Any) -> Json:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "3", **place, **more}


def pod(name: str, node: str = "", of: str = "a", gpus: int = 8, **spec: Any) -> Json:
    notes: dict[str, Any] = {"annotations": {"pod-group-name": of}} if of else {}
    amounts = {GPU: str(gpus)}
    containers = [{"name": "main", "image": "work", "resources": {"limits": amounts, "requests": amounts}}]
    own = {"schedulerName": "kai-scheduler", "containers": containers, **({"nodeName": node} if node else {}), **spec}
    return {"metadata": named(name, **notes), "spec": own, "status": {"phase": "Running" if node else "Pending"}}


def group(name: str, **spec: Any) -> Json:
    asked = {"topology": "net", "requiredTopologyLevel": RACK}
    own = {"queue": "default-queue", "minMember": 1, "topologyConstraint": asked, **spec}
    return {"metadata": named(name), "spec": own}


def node(name: str, rack: str = "r0", **status: Any) -> Json:
    labels = {RACK: rack, HOSTNAME: name}
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": named(name, "", labels=labels),
        "status": {"allocatable": offered, "capacity": offered, "conditions": ready, **status},
    }


def topology(name: str, levels: Any = None) -> Json:
    chosen = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOSTNAME}]
    return {"metadata": named(name, ""), "spec": {"levels": chosen if levels is None else levels}}


def queue(name: str, **spec: Any) -> Json:
    return {"metadata": named(name, ""), "spec": spec}


def cluster(**more: list[Json]) -> dict[str, list[Json]]:
    """Two nodes; a gang on the first, and a pod and a PodGroup that nobody can read."""
    found = {
        "nodes": [node("n0"), node("n1", "r1")],
        "pods": [pod("a-0", "n0"), pod("odd", of="b", priority="high")],
        "podgroups": [group("a"), group("odd", minMember="three")],
        "clustertopologies": [topology("net")],
        "queues": [queue("default-parent-queue"), queue("default-queue", parentQueue="default-parent-queue")],
        "namespaces": [{"metadata": named("ns", "")}],
    }
    return {plural: [*found.get(plural, []), *more.get(plural, [])] for plural in {**found, **more}}


def left_out(result: Result) -> list[str]:
    return sorted(line.partition("left out: ")[2] for line in result.stderr.splitlines())


def test_explain_goes_on_without_it_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(), "explain", "ns/a", "-o", "json")
    assert (found.exit_code, left_out(found)) == (0, [ODD_GROUP, ODD_POD])
    (gang,) = json.loads(found.stdout)["gangs"]
    assert (gang["podGroup"], gang["state"]) == ("ns/a", "Scheduled")


def test_explain_names_a_member_that_is_left_out_of_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    more = [pod("a-1", "n1", priority="high")]
    found = run_on(monkeypatch, cluster(pods=more), "explain", "ns/a", "-o", "json")
    (note,) = json.loads(found.stdout)["notes"]
    assert note.startswith("left out: pods ns/a-1 can not be read: ")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("ns/odd", "--kind", "PodGroup"), ODD_GROUP),
        (("ns/odd", "--kind", "Pod"), ODD_POD),
        (("ns/c-0",), ODD_GROUP),  # a pod of the gang
    ],
)
def test_explain_of_what_can_not_be_read_is_a_refusal(
    asked: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_on(monkeypatch, cluster(pods=[pod("c-0", of="odd")]), "explain", *asked)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines()[-1] == f"spinney explain: {why}"


@pytest.mark.parametrize("pods", [1, 20])
def test_explain_does_not_call_a_node_gone_that_can_not_be_read(pods: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few nodes are read one by one, many as a list."""
    more = {
        "nodes": [node(f"m{at}", allocatable=7) for at in range(pods)],
        "pods": [pod(f"a-m{at}", f"m{at}") for at in range(pods)],
    }
    found = run_on(monkeypatch, cluster(**more), "explain", "ns/a", "-o", "json")
    assert (found.exit_code, json.loads(found.stdout).get("notes")) == (0, None)
    assert sum("nodes m" in line for line in left_out(found)) == pods


def test_explain_does_without_a_topology_that_can_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = cluster() | {"clustertopologies": [topology("net", "none")]}
    found = run_on(monkeypatch, objects, "explain", "ns/a")
    assert found.exit_code == 0
    assert any(line.startswith("clustertopologies.grove.io net can not be read") for line in left_out(found))


def test_topology_show_draws_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(nodes=[node("odd", allocatable=7)]), "topology", "show")
    assert (found.exit_code, "n0" in found.stdout, len(left_out(found))) == (0, True, 3)


@pytest.mark.parametrize("asked", [("odd",), ("--gang", "ns/odd")])
def test_topology_show_of_what_can_not_be_read_is_a_refusal(
    asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = cluster(clustertopologies=[topology("odd", "none")])
    found = run_on(monkeypatch, objects, "topology", "show", *asked)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "odd can not be read: " in found.stderr.splitlines()[-1]


def test_topology_lint_looks_at_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(nodes=[node("odd", allocatable=7)]), "topology", "lint")
    assert found.exit_code in (0, 1)
    assert ("net" in found.stdout, len(left_out(found))) == (True, 1)


def podcliqueset(name: str, **template: Any) -> Json:
    spec = {"containers": [{"name": "main", "image": "work", "resources": {"limits": {GPU: "8"}}}]}
    cliques = [{"name": "w", "spec": {"roleName": "w", "replicas": 1, "podSpec": spec}}]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": named(name),
        "spec": {"replicas": 1, "template": {"cliques": cliques, **template}},
    }


def test_topology_usage_lists_the_sets_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = cluster(podcliquesets=[podcliqueset("good"), podcliqueset("deep", more=TOO_DEEP)])
    found = run_on(monkeypatch, objects, "topology", "usage")
    assert (found.exit_code, "ns/good" in found.stdout, "ns/deep" in found.stdout) == (0, True, False)
    assert left_out(found)[0].startswith("podcliquesets.grove.io ns/deep can not be read: ")


def test_validate_judges_beside_what_can_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a topology looks at all sets that may use it."""
    objects = cluster(podcliquesets=[podcliqueset("deep", more=TOO_DEEP)])
    changed = topology("net", [{"domain": "rack", "key": RACK}])
    changed |= {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology"}
    arguments = ("validate", "-f", "-", "--kubeconfig", "any")
    found = run_on(monkeypatch, objects, *arguments, text=yaml.safe_dump(changed))
    assert (found.exit_code, "ClusterTopology" in found.stdout) == (0, True)
    assert left_out(found)[0].startswith("podcliquesets.grove.io ns/deep can not be read: ")


PLAN = ("plan", "-f", "-", "-n", "ns", "-o", "json")


def test_plan_counts_the_node_of_a_pod_that_can_not_be_read_as_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the scheduler does: n0 is used, and nobody knows what is free on n1."""
    text = yaml.safe_dump(podcliqueset("new"))
    fits = run_on(monkeypatch, cluster(), *PLAN, text=text)
    assert (fits.exit_code, left_out(fits)) == (0, [ODD_GROUP, ODD_POD])
    full = run_on(monkeypatch, cluster(pods=[pod("b-1", "n1", of="b", priority="high")]), *PLAN, text=text)
    assert full.exit_code == 1
    assert any("ns/b-1 can not be read" in note for note in json.loads(full.stdout)["notes"])


def test_consolidate_surveys_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(), "consolidate", "-o", "json")
    assert (found.exit_code, left_out(found)) == (0, [ODD_GROUP, ODD_POD])
    assert reach(found) == {RACK: 1, HOSTNAME: 1}
    full = run_on(monkeypatch, cluster(pods=[pod("b-1", "n1", of="b", priority="high")]), "consolidate", "-o", "json")
    assert reach(full) == {RACK: 0, HOSTNAME: 0}


def reach(found: Result) -> dict[str, int]:
    return {one["level"]: one["now"] for one in json.loads(found.stdout)["largest"]["levels"]}


def test_consolidate_of_a_gang_that_can_not_be_read_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(), "consolidate", "ns/odd")
    assert (found.exit_code, found.stderr.splitlines()[-1]) == (2, f"spinney consolidate: {ODD_GROUP}")
