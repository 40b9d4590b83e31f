"""RuntimeClasses: the kind, and what pods that name one get from it"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from cluster_kit.objects import pod, runtime_class
from cluster_kit.server import eventually
from cluster_kit.space import Space

Json = dict[str, Any]
CLASSES = "runtimeclasses"
COSTS = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}


def test_a_runtime_class_is_kept_as_it_is(cluster: Space, unique: str) -> None:
    made = cluster.create(CLASSES, runtime_class(unique, overhead=COSTS)).ok(201)
    assert (made["handler"], made["overhead"]) == ("runsc", COSTS)
    assert "generation" not in made["metadata"]
    refused = cluster.patch(CLASSES, unique, {"handler": "kata"})
    refused.refused(422, "Invalid", 'handler: Invalid value: "kata": field is immutable')
    cluster.patch(CLASSES, unique, {"metadata": {"labels": {"a": "b"}}}).ok()
    cluster.delete(CLASSES, unique).ok(200)


BAD: dict[str, tuple[Json, str]] = {
    "a handler that is no label": ({"handler": "run/sc"}, 'handler: Invalid value: "run/sc"'),
    "no handler": ({"handler": ""}, "handler: Required value"),
    "a toleration of nothing": (
        {"scheduling": {"tolerations": [{"operator": "Sometimes"}]}},
        'scheduling.tolerations[0].operator: Unsupported value: "Sometimes"',
    ),
}


@pytest.mark.parametrize("row", BAD)
def test_a_bad_runtime_class_is_refused(row: str, cluster: Space, unique: str) -> None:
    fields, complaint = BAD[row]
    cluster.create(CLASSES, runtime_class(unique, **fields)).refused(422, "Invalid", complaint)


def test_a_pod_gets_overhead_nodes_and_tolerations_of_its_class(space: Space, cluster: Space, unique: str) -> None:
    taint = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}
    scheduling = {"nodeSelector": {"sandbox": "yes"}, "tolerations": [taint]}
    cluster.create(CLASSES, runtime_class(unique, overhead=COSTS, scheduling=scheduling)).ok(201)
    made = space.create("pods", pod("p", {"runtimeClassName": unique, "nodeSelector": {"a": "b"}})).ok(201)["spec"]
    assert made["overhead"] == COSTS["podFixed"]
    assert made["nodeSelector"] == {"a": "b", "sandbox": "yes"}
    assert taint in made["tolerations"]


def test_a_pod_of_a_class_that_is_not_there_is_refused(space: Space, unique: str) -> None:
    refused = space.create("pods", pod("p", {"runtimeClassName": unique}))
    refused.refused(403, "Forbidden", f'pod rejected: RuntimeClass "{unique}" not found')


def test_a_pod_has_the_overhead_of_its_class_or_none(space: Space, cluster: Space, unique: str) -> None:
    cluster.create(CLASSES, runtime_class(unique, overhead=COSTS)).ok(201)
    other = space.create("pods", pod("p", {"runtimeClassName": unique, "overhead": {"cpu": "1"}}))
    other.refused(403, "Forbidden", "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    alone = space.create("pods", pod("p", {"overhead": {"cpu": "1"}}))
    alone.refused(403, "Forbidden", "Pod Overhead set without corresponding RuntimeClass defined Overhead")


def test_a_pod_that_wants_other_nodes_than_its_class_is_refused(space: Space, cluster: Space, unique: str) -> None:
    cluster.create(CLASSES, runtime_class(unique, scheduling={"nodeSelector": {"sandbox": "yes"}})).ok(201)
    refused = space.create("pods", pod("p", {"runtimeClassName": unique, "nodeSelector": {"sandbox": "no"}}))
    wanted = "runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
    refused.refused(403, "Forbidden", f"conflict: {wanted}")


def test_pods_alike_follow_a_class_that_changes(space: Space, cluster: Space, unique: str) -> None:
    """Two pods with one spec, and the class gone in between: the second is not made of what was found for the first."""
    cluster.create(CLASSES, runtime_class(unique)).ok(201)
    for name in ("a", "b", "c"):
        space.create("pods", pod(name, {"runtimeClassName": unique})).ok(201)
    cluster.delete(CLASSES, unique).ok(200)
    later = (space.create("pods", pod(f"later-{number}", {"runtimeClassName": unique})) for number in count())
    eventually(lambda: next(later).status == 403, "the class is not found any more")
