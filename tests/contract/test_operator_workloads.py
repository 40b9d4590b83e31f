"""Workloads from end to end, the same on the embedded and on a real API server: scaling, updates, termination, end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.operator_stages import BLOCK, ZONE, staged
from stack_kit.stage import Stage, is_ready
from unit.operator.operator_world import clique, condition, group, podcliqueset

Json = dict[str, Any]
PACKED: dict[str, Any] = {"topologyConstraint": {"packDomain": "zone"}}
IN_BLOCK: dict[str, Any] = {"topologyConstraint": {"packDomain": "block"}}


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One cluster for all tests of this module; each test has sets of its own names."""
    with staged(request.param, tmp_path_factory.mktemp("workload-scenarios")) as found:
        yield found


def with_image(whole: Json, image: str) -> Json:
    changed = deepcopy(whole)
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = image
    return changed


def images(pods: list[Json]) -> Counter[str]:
    return Counter(pod["spec"]["containers"][0]["image"] for pod in pods)


def labels(pods: list[Json], label: str) -> list[str]:
    return sorted(pod["metadata"]["labels"][label] for pod in pods)


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


class Seen:
    """Follows the pods of a set while the block runs: how few were ready in each clique, and how many left."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._selector = f"app.kubernetes.io/part-of={name}"
        self._space, _ = stage.space("Pod")
        self._ready: dict[str, str] = {}
        self.least: dict[str, int] = {}
        self.left: set[str] = set()
        self._follower = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Seen:
        found = self._space.list("pods", labelSelector=self._selector)
        for pod in found["items"]:
            self._note("ADDED", pod)
        self.least = Counter(self._ready.values())
        self._from = found["metadata"]["resourceVersion"]
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        """A last change of our own tells the follower that it has seen everything."""
        name = self._space.names("pods", labelSelector=self._selector)[0]
        self._space.patch("pods", name, {"metadata": {"annotations": {"example.com/end": "true"}}}).ok(200)
        self._follower.join(30)
        assert not self._follower.is_alive()

    def _follow(self) -> None:
        query = {"labelSelector": self._selector, "resourceVersion": self._from, "timeoutSeconds": 60}
        with self._space.watch("pods", **query) as watch:
            for event in iter(watch.next, None):
                self._note(event["type"], event["object"])
                if (event["object"]["metadata"].get("annotations") or {}).get("example.com/end"):
                    return

    def _note(self, what: str, pod: Json) -> None:
        metadata = pod["metadata"]
        if what == "DELETED" or metadata.get("deletionTimestamp"):
            self.left.add(metadata["uid"])
            self._ready.pop(metadata["uid"], None)
        elif is_ready(pod):
            self._ready[metadata["uid"]] = metadata["labels"]["grove.io/podclique"]
        else:
            self._ready.pop(metadata["uid"], None)
        now = Counter(self._ready.values())
        self.least = {name: min(least, now[name]) for name, least in self.least.items()}


def test_g1_g2_g12_each_level_is_scaled_out_and_in_through_its_scale_subresource(stage: Stage) -> None:
    """What is not concerned keeps its pods; what is new has gangs, PodGroups and ties like the first ones."""
    alone = "sc-0-a"
    groups = [group("g", ["l", "w"], **IN_BLOCK)]
    stage.create(podcliqueset("sc", [clique("a", 2, 1), clique("l"), clique("w", 2)], groups, **PACKED)).ok(201)
    first = uids(stage.ready_pods("sc", 5))
    members = first - uids(stage.find("Pod", labelSelector=f"grove.io/podclique={alone}"))

    answer = stage.scale("PodClique", "sc-0-a", 4)
    assert answer["spec"]["replicas"] == 4
    pods = stage.ready_pods("sc", 7)
    assert first < uids(pods)
    mine = [pod for pod in pods if pod["metadata"]["labels"]["grove.io/podclique"] == alone]
    assert labels(mine, "grove.io/podclique-pod-index") == ["0", "1", "2", "3"]
    base = stage.get("PodGang", "sc-0")["spec"]["podgroups"]
    assert [(part["minReplicas"], len(part["podReferences"])) for part in base] == [(1, 4), (1, 1), (2, 2)]

    stage.scale("PodCliqueScalingGroup", "sc-0-g", 3)
    pods = stage.ready_pods("sc", 13)
    assert first < uids(pods)
    for number in (0, 1):
        scaled = stage.get("PodGang", f"sc-0-g-{number}")
        assert scaled["metadata"]["annotations"]["spinney.dev/tied-to"] == f"sc-0,{ZONE}"
        assert [part["name"] for part in scaled["spec"]["podgroups"]] == [
            f"sc-0-g-{number + 1}-l",
            f"sc-0-g-{number + 1}-w",
        ]
        constraint = stage.get("PodGroup", f"sc-0-g-{number}")["spec"]["topologyConstraint"]
        assert constraint["requiredTopologyLevel"] == BLOCK

    stage.scale("PodCliqueSet", "sc", 2)
    pods = stage.ready_pods("sc", 18)
    assert first < uids(pods)
    stage.available("sc", 2)
    assert sorted(stage.uids("PodGang", "sc")) == ["sc-0", "sc-0-g-0", "sc-0-g-1", "sc-1"]
    for kind, name, replicas in (
        ("PodClique", "sc-0-a", 4),
        ("PodCliqueScalingGroup", "sc-0-g", 3),
        ("PodCliqueSet", "sc", 2),
    ):
        space, collection = stage.space(kind)

        def told(space: Any = space, collection: str = collection, name: str = name, wanted: int = replicas) -> bool:
            scale = space.get(collection, name, "scale").ok(200)
            return scale["status"]["replicas"] == wanted and bool(scale["status"].get("selector"))

        stage.eventually(told, f"the scale of {name} tells {replicas} replicas and a selector")

    stage.scale("PodCliqueSet", "sc", 1)
    stage.scale("PodCliqueScalingGroup", "sc-0-g", 1)
    stage.scale("PodClique", "sc-0-a", 2)
    pods = stage.ready_pods("sc", 5)
    assert members < uids(pods) <= members | uids(mine)
    stage.eventually(lambda: sorted(stage.uids("PodGang", "sc")) == ["sc-0"], "the other gangs are gone")
    stage.eventually(lambda: sorted(stage.uids("PodGroup", "sc")) == ["sc-0"], "their PodGroups, too")
    stage.available("sc")


def _updated(stage: Stage, name: str) -> Callable[[], bool]:
    def check() -> bool:
        found = stage.get("PodCliqueSet", name)
        progress = found["status"].get("updateProgress") or {}
        return found["status"]["observedGeneration"] == found["metadata"]["generation"] and "updateEndedAt" in progress

    return check


def test_g1_a_rolling_update_never_goes_below_the_minimum_of_clique_and_group(stage: Stage) -> None:
    whole = podcliqueset("ro", [clique("a", 3, 2), clique("w")], [group("g", ["w"], replicas=3, minimum=2)], **PACKED)
    stage.create(whole).ok(201)
    before = uids(stage.ready_pods("ro", 6))
    stage.available("ro")
    gangs = stage.uids("PodGang", "ro")
    with Seen(stage, "ro") as seen:
        stage.apply(with_image(whole, "v2"))
        stage.eventually(_updated(stage, "ro"), "the update has ended")
        pods = stage.ready_pods("ro", 6)
    assert images(pods) == {"v2": 6}
    assert seen.left == before
    assert seen.least["ro-0-a"] == 2
    assert sorted(seen.least.values()) == [0, 0, 0, 2]
    assert stage.uids("PodGang", "ro") == gangs
    found = stage.available("ro")["status"]
    progress = found["updateProgress"]
    assert (progress["updatedPodCliquesCount"], progress["totalPodCliquesCount"]) == (4, 4)
    assert found["updatedReplicas"] == 1


def test_g1_an_update_that_finds_no_place_takes_one_replica_and_leaves_the_others_alone(stage: Stage) -> None:
    whole = podcliqueset("ne", [clique("w")], [group("g", ["w"])], replicas=3)
    stage.create(whole).ok(201)
    stage.ready_pods("ne", 3)
    stage.available("ne", 3)
    others = {name: uid for name, uid in stage.uids("PodClique", "ne").items() if not name.startswith("ne-0-")}
    huge = with_image(whole, "v2")
    resources = {"requests": {"cpu": "1000"}}
    huge["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"] = resources
    stage.apply(huge)

    def is_replaced() -> bool:
        status = stage.get("PodCliqueScalingGroup", "ne-0-g")["status"]
        return (status["updatedReplicas"], status["availableReplicas"]) == (1, 0)

    stage.eventually(is_replaced, "the first replica has been replaced, and is pending")
    status = stage.available("ne", 2)["status"]
    assert [each["replicaIndex"] for each in status["updateProgress"]["currentlyUpdating"]] == [0]
    assert others.items() <= stage.uids("PodClique", "ne").items()
    stage.apply(with_image(whole, "v3"))
    stage.eventually(_updated(stage, "ne"), "the next update has ended")
    assert images(stage.ready_pods("ne", 3)) == {"v3": 3}


def test_g1_what_has_no_place_does_not_hold_up_the_update_of_what_has(stage: Stage) -> None:
    container = {"name": "main", "image": "serve", "resources": {"requests": {"memory": "40Gi"}}}
    whole = podcliqueset("hu", [clique("w", podSpec={"containers": [container]})], [group("g", ["w"], replicas=14)])
    stage.create(whole).ok(201)
    nodes = len(stage.find("Node"))
    stage.eventually(
        lambda: stage.get("PodCliqueScalingGroup", "hu-0-g")["status"].get("availableReplicas") == nodes,
        "every node has a replica, and two have none",
    )
    stage.apply(with_image(whole, "v2"))
    stage.eventually(_updated(stage, "hu"), "the update has ended")
    assert images(stage.part_of("Pod", "hu")) == {"v2": 14}
    stage.delete("PodCliqueSet", "hu")
    stage.eventually(lambda: not stage.part_of("Pod", "hu"), "its nodes are free again")


def test_g1_on_delete_replaces_what_the_user_deletes_and_nothing_else(stage: Stage) -> None:
    whole = podcliqueset("od", [clique("w", 3, 1)], strategy="OnDelete")
    stage.create(whole).ok(201)
    before = uids(stage.ready_pods("od", 3))
    stage.available("od")
    stage.apply(with_image(whole, "v2"))
    stage.eventually(_updated(stage, "od"), "the update needs nothing more of the operator")
    stage.eventually(
        lambda: stage.get("PodClique", "od-0-w")["spec"]["podSpec"]["containers"][0]["image"] == "v2",
        "the clique has the new template",
    )
    assert uids(stage.part_of("Pod", "od")) == before
    victim = sorted(stage.uids("Pod", "od"))[0]
    stage.delete("Pod", victim)
    stage.eventually(lambda: victim not in stage.uids("Pod", "od"), "the pod is gone")
    pods = stage.ready_pods("od", 3)
    assert images(pods) == {"serve": 2, "v2": 1}
    assert len(uids(pods) & before) == 2
    assert labels(pods, "grove.io/podclique-pod-index") == ["0", "1", "2"]
    stage.eventually(lambda: stage.get("PodClique", "od-0-w")["status"]["updatedReplicas"] == 1, "one is updated")


def test_g1_a_gang_below_its_minimum_for_too_long_is_taken_down_as_a_whole(stage: Stage) -> None:
    """No node takes the replacement of a lost pod: its replica goes, the other stays, and all is well in the end."""
    groups = [group("g", ["w"])]
    whole = podcliqueset("gt", [clique("a"), clique("w")], groups, replicas=2, terminationDelay="1s")
    stage.create(whole).ok(201)
    stage.ready_pods("gt", 4)
    stage.available("gt", 2)
    before = stage.uids("PodClique", "gt")
    nodes = [node["metadata"]["name"] for node in stage.find("Node")]
    try:
        for name in nodes:
            stage.patch("Node", name, {"spec": {"unschedulable": True}}).ok(200)
        (victim,) = stage.find("Pod", labelSelector="grove.io/podclique=gt-0-a")
        stage.delete("Pod", victim["metadata"]["name"])

        def replaced() -> bool:
            now = stage.uids("PodClique", "gt")
            changed = {name for name in before if now.get(name) != before[name]}
            return now.keys() == before.keys() and changed == {"gt-0-a", "gt-0-g-0-w"}

        stage.eventually(replaced, "the cliques of the replica are new ones")
        told = condition(stage.get("PodCliqueScalingGroup", "gt-0-g"), "GangTerminationInProgress")
        assert told == ("True", "GangTerminationActive")
        assert condition(stage.get("PodCliqueScalingGroup", "gt-1-g"), "GangTerminationInProgress") == ("", "")
    finally:
        for name in nodes:
            stage.patch("Node", name, {"spec": {"unschedulable": None}}).ok(200)
    stage.ready_pods("gt", 4)
    stage.available("gt", 2)
    stage.eventually(
        lambda: condition(stage.get("PodCliqueScalingGroup", "gt-0-g"), "GangTerminationInProgress") == ("", ""),
        "the termination is over",
    )


def _listable(stage: Stage) -> Iterator[str]:
    """The paths of everything that can be listed in the namespace, as the server tells them."""
    paths = ["/api/v1"]
    groups = stage.server.http("GET", "/apis").ok(200)["groups"]
    paths += [f"/apis/{version['groupVersion']}" for each in groups for version in each["versions"]]
    for path in paths:
        for resource in stage.server.http("GET", path).ok(200)["resources"]:
            if resource["namespaced"] and "list" in resource["verbs"]:
                yield f"{path}/namespaces/default/{resource['name']}"


def test_g1_a_deleted_set_leaves_nothing_behind(stage: Stage) -> None:
    """Whatever there is in the namespace afterwards, of whatever kind, none of it is part of the set."""
    cliques = [clique("a", 2, autoScalingConfig={"maxReplicas": 4}), clique("w", 2)]
    groups = [group("g", ["w"], replicas=2, scaleConfig={"maxReplicas": 3}, **IN_BLOCK)]
    order: dict[str, Any] = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
    stage.create(podcliqueset("end", cliques, groups, replicas=2, **order, **PACKED)).ok(201)
    stage.ready_pods("end", 12)
    stage.available("end", 2)
    paths = list(_listable(stage))

    def left() -> Counter[str]:
        query = {"labelSelector": "app.kubernetes.io/part-of=end"}
        found = ((path, stage.server.http("GET", path, query=query).ok(200)["items"]) for path in paths)
        return Counter({path.rsplit("/", 1)[-1]: len(items) for path, items in found if items})

    had = left()
    assert had == {
        "pods": 12,
        "podcliques": 6,
        "podcliquescalinggroups": 2,
        "podgangs": 4,
        "podgroups": 4,
        "services": 2,
        "horizontalpodautoscalers": 4,
        "serviceaccounts": 1,
        "secrets": 1,
        "roles": 1,
        "rolebindings": 1,
    }
    stage.delete("PodCliqueSet", "end")
    stage.eventually(lambda: not stage.exists("PodCliqueSet", "end"), "the set is gone")

    def nothing() -> bool:
        assert left() == {}
        return True

    stage.eventually(nothing, "all that was part of it is gone")


def test_g1_an_ordered_set_starts_where_only_restricted_pods_with_limits_may(stage: Stage) -> None:
    """Its pods, as the operator made them, pass Pod Security `restricted` and a quota by limits."""
    harmless = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "c", "image": "i", "securityContext": harmless, "resources": limits}
    cliques = [clique("a", podSpec={"containers": [container]}), clique("b", podSpec={"containers": [container]})]
    stage.create(podcliqueset("strict", cliques, cliqueStartupType="CliqueStartupTypeInOrder")).ok(201)
    (waiting,) = [pod for pod in stage.ready_pods("strict", 2) if pod["spec"].get("initContainers")]
    strict = {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    Space(stage.server, "").create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": strict}).ok(201)
    space = Space(stage.server, "strict")
    hard = {"limits.cpu": "8", "limits.memory": "8Gi", "requests.cpu": "8", "requests.memory": "8Gi"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    space.create("resourcequotas", quota).ok(201)
    used = dict.fromkeys(hard, "0")
    space.patch("resourcequotas", "q", {"status": {"hard": hard, "used": used}}, sub="status").ok(200)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copy"}, "spec": waiting["spec"]}
    pod["spec"].pop("nodeName")
    space.create("pods", pod, dryRun="All").ok(201)
