"""The operator has the rights that it needs and no others: recorded over what it does, also when answers are lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.recording import LosesAnswers
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.operator_stages import CONFIGURATION, OPERATOR_RIGHTS, ZONE, configured, staged, topology
from stack_kit.compute_domains import DEFINITION, gpu_pod, in_group
from stack_kit.stage import Stage
from unit.operator.operator_world import clique, group, podcliqueset

Json = dict[str, Any]
DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
SHARED = [{"name": "net", "scope": "PerReplica"}]
GROWS = {"maxReplicas": 4, "metrics": []}


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(request.param, tmp_path_factory.mktemp("operator-roles")) as found:
        cluster = Space(found.server, "")
        cluster.create("customresourcedefinitions", DEFINITION).ok(201)
        cluster.established(DEFINITION["metadata"]["name"])
        found.operate(WITH_DOMAINS, LosesAnswers)
        yield found


WITH_DOMAINS = {**CONFIGURATION, "network": {"autoMNNVLEnabled": True}}
EVERYTHING = podcliqueset(
    "all",
    [
        clique("first", autoScalingConfig=GROWS, resourceSharing=SHARED),
        clique("then", startsAfter=["first"]),
        clique("w"),
    ],
    [group("g", ["w"], replicas=2, scaleConfig=GROWS, resourceSharing=SHARED)],
    replicas=2,
    cliqueStartupType="CliqueStartupTypeExplicit",
    topologyConstraint={"packDomain": "zone"},
    resourceClaimTemplates=[{"name": "net", "templateSpec": {"spec": DEVICES}}],
)

LINKED = podcliqueset("linked", [clique("gpu", podSpec=gpu_pod("1"), **in_group("nv"))], replicas=2)


def runs(stage: Stage) -> None:
    """Everything is made, of every kind."""
    stage.create(EVERYTHING).ok(201)
    stage.create(LINKED).ok(201)
    stage.eventually(lambda: len(stage.part_of("ComputeDomain", "linked")) == 2, "the compute domains are there")
    stage.available("all", 2)


def changes(stage: Stage) -> None:
    """What the user changes follows, and what somebody bent is put right."""
    space, _ = stage.space("PodCliqueSet")
    stage.patch(
        "PodCliqueSet", "all", {"spec": {"template": {"headlessServiceConfig": {"publishNotReadyAddresses": False}}}}
    )
    bent = {"metadata": {"labels": {"grove.io/podcliqueset-replica-index": "7"}}}
    for each in stage.part_of("ComputeDomain", "linked"):
        stage.patch("ComputeDomain", each["metadata"]["name"], bent).ok(200)
    stage.eventually(lambda: _podgroups_of(stage, "linked-0"), "the PodGroup of the linked set is there")
    (bent_group,) = _podgroups_of(stage, "linked-0")
    stage.patch("PodGroup", bent_group["metadata"]["name"], {"spec": {"minMember": 7}}).ok(200)
    for each in space.list("horizontalpodautoscalers")["items"]:
        space.patch("horizontalpodautoscalers", each["metadata"]["name"], {"spec": {"maxReplicas": 9}}).ok(200)
    for each in space.list("roles")["items"]:
        space.patch("roles", each["metadata"]["name"], {"rules": []}).ok(200)
    bare = {"metadata": {"labels": {"app.kubernetes.io/component": None}}}
    for each in space.list("resourceclaims")["items"]:
        space.patch("resourceclaims", each["metadata"]["name"], bare).ok(200)

    def is_put_right() -> bool:
        found = space.list("services", labelSelector="app.kubernetes.io/part-of=all")["items"]
        services = [each["spec"].get("publishNotReadyAddresses", False) for each in found]
        sizes = {each["spec"]["maxReplicas"] for each in space.list("horizontalpodautoscalers")["items"]}
        rules = [bool(each["rules"]) for each in space.list("roles")["items"]]
        assert (any(services), sizes, rules) == (False, {4}, [True]), (services, sizes, rules)
        assert stage.get("PodGroup", bent_group["metadata"]["name"])["spec"] == bent_group["spec"]
        claims = [each["metadata"]["labels"] for each in space.list("resourceclaims")["items"]]
        assert claims and all("app.kubernetes.io/component" in labels for labels in claims)
        return True

    stage.eventually(is_put_right, "what was bent is put right")


def _podgroups_of(stage: Stage, gang: str) -> list[Json]:
    return [each for each in stage.find("PodGroup") if each["metadata"]["name"].endswith(gang)]


def shrinks_and_updates(stage: Stage) -> None:
    stage.scale("PodCliqueSet", "all", 1)
    stage.scale("PodCliqueSet", "linked", 1)
    stage.eventually(lambda: len(stage.part_of("PodGang", "all")) == 2, "the second replica is gone")
    stage.eventually(lambda: len(stage.part_of("ComputeDomain", "linked")) == 1, "and its compute domain")
    stage.eventually(lambda: len(stage.part_of("PodCliqueScalingGroup", "all")) == 1, "and its group")
    (scaled,) = stage.part_of("PodCliqueScalingGroup", "all")
    stage.scale("PodCliqueScalingGroup", scaled["metadata"]["name"], 1)
    stage.eventually(lambda: len(stage.part_of("PodGang", "all")) == 1, "the scaled gang is gone")
    template = stage.get("PodCliqueSet", "all")["spec"]["template"]
    for each in template["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "newer"
    stage.patch("PodCliqueSet", "all", {"spec": {"template": {"cliques": template["cliques"]}}}).ok(200)

    def are_new() -> bool:
        images = {each["spec"]["containers"][0]["image"] for each in stage.part_of("Pod", "all")}
        return images == {"newer"}

    stage.eventually(are_new, "all pods are new")
    stage.available("all", 1)


def topologies_change(stage: Stage) -> None:
    stage.apply(topology("mine", {"zone": ZONE}))
    stage.eventually(lambda: stage.exists("Topology", "mine"), "the scheduler's topology is made")
    stage.apply(topology("mine", {"zone": ZONE, "rack": "example.com/rack"}))
    stage.eventually(lambda: len(stage.get("Topology", "mine")["spec"]["levels"]) == 2, "and made anew")
    stage.delete("ClusterTopology", "mine")
    stage.eventually(lambda: not stage.exists("ClusterTopology", "mine"), "the topology is gone")


def is_orphaned_and_adopted(stage: Stage) -> None:
    """A set that leaves its objects behind and is made again: they are taken over."""
    space, collection = stage.space("PodCliqueSet")
    found = stage.get("PodCliqueSet", "all")
    space.delete(collection, "all", {"propagationPolicy": "Orphan"}).ok(200)
    stage.eventually(lambda: not stage.exists("PodCliqueSet", "all"), "the set is gone")
    named = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "all"}}
    stage.apply({**named, "spec": found["spec"]})

    def are_owned() -> bool:
        (whole,) = {stage.get("PodCliqueSet", "all")["metadata"]["uid"]}
        for kind in ("serviceaccounts", "roles", "rolebindings", "services", "horizontalpodautoscalers"):
            for each in space.list(kind, labelSelector="app.kubernetes.io/part-of=all")["items"]:
                assert [owner["uid"] for owner in each["metadata"].get("ownerReferences") or ()] == [whole], each
        return True

    stage.eventually(are_owned, "what it left behind belongs to it again")


def ends(stage: Stage) -> None:
    """Without its default topology, and without the set."""
    for name in ("all", "linked"):
        stage.delete("PodCliqueSet", name)
    stage.eventually(lambda: not stage.find("PodCliqueSet"), "the sets are gone")
    stage.operate(configured(None))
    assert not stage.exists("ClusterTopology", "grove-topology")


def bindings_replace_topologies(stage: Stage) -> None:
    """On a server that knows the newer kind only (T8), with the default topology, and again without it."""
    stage.halt()
    stage.delete("CustomResourceDefinition", "clustertopologies.grove.io")
    gone = lambda: not stage.exists("CustomResourceDefinition", "clustertopologies.grove.io")  # noqa: E731
    stage.eventually(gone, "the older kind is gone")
    stage.operate(CONFIGURATION)
    stage.eventually(lambda: stage.exists("Topology", "grove-topology"), "the twin of the default binding is made")
    stage.apply({**topology("newer", {"zone": ZONE}), "kind": "ClusterTopologyBinding"})

    def is_explained() -> bool:
        return "status" in stage.get("ClusterTopologyBinding", "newer")

    stage.eventually(is_explained, "the binding has a status")
    stage.operate(configured(None))
    stage.eventually(lambda: not stage.exists("ClusterTopologyBinding", "grove-topology"), "the default is gone")


def test_r14_c8_the_operator_uses_every_right_of_its_role_and_no_other(stage: Stage) -> None:
    beginning = (runs, changes, shrinks_and_updates, is_orphaned_and_adopted)
    for play in (*beginning, topologies_change, ends, bindings_replace_topologies):
        play(stage)
    assert stage.record.differences(*OPERATOR_RIGHTS) == {"used and not granted": [], "granted and not used": []}
    assert stage.record.forbidden == []
