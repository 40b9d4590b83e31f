"""pods/binding: the one way to a node."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import binding, merged, node, pod
from cluster_kit.server import eventually
from cluster_kit.space import Space


def bind(space: Space, name: str, node_name: str, **metadata: Any) -> Any:
    return space.create("pods", binding(name, node_name, **metadata), name=name, sub="binding")


def test_a_binding_puts_a_pod_on_a_node(space: Space, unique: str) -> None:
    made = space.create("pods", pod("p")).ok(201)
    answer = bind(space, "p", unique).ok(201)
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    now = space.get("pods", "p").ok()
    assert now["spec"]["nodeName"] == unique
    (condition,) = now["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]
    assert int(now["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert now["metadata"]["generation"] == made["metadata"]["generation"]


def test_a_pod_is_bound_once(space: Space, unique: str) -> None:
    space.create("pods", pod("p")).ok(201)
    bind(space, "p", unique).ok(201)
    refused = bind(space, "p", f"{unique}-2")
    refused.refused(409, "Conflict", f'pod p is already assigned to node "{unique}"')
    bind(space, "p", unique).refused(409, "Conflict", "is already assigned to node")
    assert space.get("pods", "p").ok()["spec"]["nodeName"] == unique


def test_a_pod_that_is_not_there_is_not_bound(space: Space) -> None:
    bind(space, "absent", "n").refused(404, "NotFound", 'pods "absent" not found')


def test_a_binding_may_name_the_pods_uid(space: Space, unique: str) -> None:
    made = space.create("pods", pod("p")).ok(201)
    refused = bind(space, "p", unique, uid="11111111-2222-3333-4444-555555555555")
    refused.refused(409, "Conflict")
    assert "nodeName" not in space.get("pods", "p").ok()["spec"]
    bind(space, "p", unique, uid=made["metadata"]["uid"]).ok(201)


def test_a_binding_may_name_the_pods_version(space: Space, unique: str) -> None:
    made = space.create("pods", pod("p")).ok(201)
    space.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}).ok(200)
    refused = bind(space, "p", unique, resourceVersion=made["metadata"]["resourceVersion"])
    refused.refused(409, "Conflict")
    now = space.get("pods", "p").ok()
    assert "nodeName" not in now["spec"]
    bind(space, "p", unique, resourceVersion=now["metadata"]["resourceVersion"]).ok(201)


def test_a_deleting_pod_is_not_bound(space: Space, unique: str) -> None:
    space.create("pods", pod("p", finalizers=["example.com/hold"])).ok(201)
    space.delete("pods", "p").ok(200)
    bind(space, "p", unique).refused(409, "Conflict", "pod p is being deleted, cannot be assigned to a host")
    space.patch("pods", "p", {"metadata": {"finalizers": None}}).ok(200)


def test_a_gated_pod_is_not_bound(space: Space, unique: str) -> None:
    space.create("pods", pod("p", {"schedulingGates": [{"name": "example.com/gang"}]})).ok(201)
    bind(space, "p", unique).refused(409, "Conflict", "pod p has non-empty .spec.schedulingGates")
    space.patch("pods", "p", {"spec": {"schedulingGates": None}}).ok(200)
    bind(space, "p", unique).ok(201)


def test_annotations_and_labels_of_a_binding(space: Space, unique: str) -> None:
    space.create("pods", pod("p", annotations={"a": "1"}, labels={"x": "1"})).ok(201)
    bind(space, "p", unique, annotations={"b": "2"}, labels={"topology.kubernetes.io/zone": "z"}).ok(201)
    meta = space.get("pods", "p").ok()["metadata"]
    assert meta["annotations"] == {"a": "1", "b": "2"}
    assert meta["labels"] == {"x": "1", "topology.kubernetes.io/zone": "z"}


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "no target name": ({"target": {"name": ""}}, 500, ""),
    "a target that is no node": ({"target": {"kind": "Pod"}}, 500, ""),
    "another name": ({"metadata": {"name": "q"}}, 400, "BadRequest"),
    "another namespace": ({"metadata": {"namespace": "other"}}, 400, "BadRequest"),
    "another kind": ({"kind": "Pod"}, 400, "BadRequest"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_bad_binding_binds_nothing(row: str, space: Space) -> None:
    change, code, reason = BAD[row]
    space.create("pods", pod("p")).ok(201)
    reply = space.create("pods", merged(binding("p", "n"), change), name="p", sub="binding")
    reply.refused(code, reason)
    assert "nodeName" not in space.get("pods", "p").ok()["spec"]


def test_the_node_need_not_exist(space: Space, unique: str) -> None:
    space.create("pods", pod("p")).ok(201)
    bind(space, "p", f"{unique}-absent").ok(201)


def test_a_binding_may_be_sent_to_its_own_collection(space: Space, unique: str) -> None:
    space.create("pods", pod("p")).ok(201)
    space.create("bindings", binding("p", unique)).ok(201)
    assert space.get("pods", "p").ok()["spec"]["nodeName"] == unique


def test_the_node_is_not_set_by_update(space: Space, unique: str) -> None:
    made = space.create("pods", pod("p")).ok(201)
    space.replace("pods", merged(made, {"spec": {"nodeName": unique}})).refused(422, "Invalid")
    space.patch("pods", "p", {"spec": {"nodeName": unique}}).refused(422, "Invalid")


def test_a_pod_may_be_born_on_a_node(space: Space, cluster: Space, unique: str) -> None:
    cluster.create("nodes", node(unique)).ok(201)
    made = space.create("pods", pod("p", {"nodeName": unique})).ok(201)
    assert made["spec"]["nodeName"] == unique
    bind(space, "p", unique).refused(409, "Conflict")


def test_topology_labels_of_the_node_are_copied_to_the_pod(space: Space, cluster: Space, unique: str) -> None:
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}
    cluster.create("nodes", merged(node(unique), {"metadata": {"labels": zone}})).ok(201)
    space.create("pods", pod("p")).ok(201)

    def copied() -> bool:
        space.delete("pods", "p", gracePeriodSeconds=0)
        space.create("pods", pod("p")).ok(201)
        bind(space, "p", unique).ok(201)
        labels = space.get("pods", "p").ok()["metadata"].get("labels", {})
        return labels == {key: zone[key] for key in zone if key != "other"}

    eventually(copied, "the labels of the node are on the pod")
