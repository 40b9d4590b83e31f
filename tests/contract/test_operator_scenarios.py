"""Topology from end to end, the same on the embedded and on a real API server: examples, retry, protection, drift."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from contract.operator_stages import (
    BLOCK,
    CONFIGURATION,
    GB200,
    H100_RACK,
    HOST,
    RACK,
    ZONE,
    affinity_keys,
    configured,
    staged,
    topology,
)
from stack_kit.stage import Stage
from unit.operator.operator_world import clique, condition, group, podcliqueset

Json = dict[str, Any]
CONDITION = "TopologyLevelsUnavailable"
NAME = "grove.io/topology-name"
BLOCKED = "DeletionBlocked"
H100 = {"zone": ZONE, "rack": H100_RACK, "host": HOST}


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One cluster for all tests of this module; each test has sets and topologies of its own names."""
    with staged(request.param, tmp_path_factory.mktemp("topology-scenarios")) as found:
        yield found


def packed(domain: str) -> Json:
    return {"topologyConstraint": {"packDomain": domain}}


def within(required: str) -> Json:
    """A constraint as a gang has it: hosts are preferred wherever something broader is required."""
    return {"packConstraint": {"required": required, "preferred": HOST}}


def level(required: str, name: str = "grove-topology") -> Json:
    """The same as a PodGroup has it."""
    return {"topology": name, "requiredTopologyLevel": required, "preferredTopologyLevel": HOST}


def of_the_gang(gang: Json) -> Json:
    """Its spec with the number of references instead of generated names."""
    spec = deepcopy(gang["spec"])
    for part in spec["podgroups"]:
        part["podReferences"] = len(part["podReferences"])
    return spec


def pod_group(name: str, pods: int, required: str = "") -> Json:
    found: Json = {"name": name, "podReferences": pods, "minReplicas": pods}
    return found | ({"topologyConstraint": within(required)} if required else {})


def sub_group(name: str, members: int, required: str, parent: str = "") -> Json:
    found: Json = {"name": name, "minMember": members, "topologyConstraint": level(required)}
    return found | ({"parent": parent} if parent else {})


DISAGGREGATED = podcliqueset(
    "disaggregated-inference",
    [
        clique("router", 1, **packed("block")),
        clique("p-leader", 1, **packed("rack")),
        clique("p-worker", 4, **packed("rack")),
        clique("d-leader", 1, **packed("rack")),
        clique("d-worker", 2, **packed("rack")),
    ],
    [
        group("prefill", ["p-worker", "p-leader"], replicas=2, **packed("block")),
        group("decode", ["d-worker", "d-leader"], replicas=2, **packed("rack")),
    ],
    **packed("zone"),
)


def test_g3_g4_g7_g11_t6_the_three_level_example_field_by_field(stage: Stage) -> None:
    base = "disaggregated-inference-0"
    stage.create(DISAGGREGATED).ok(201)
    pods = stage.ready_pods("disaggregated-inference", 1 + 2 * 5 + 2 * 3)
    stage.available("disaggregated-inference")
    gang = stage.get("PodGang", base)
    assert gang["metadata"]["annotations"][NAME] == "grove-topology"
    assert of_the_gang(gang) == {
        "topologyConstraint": within(ZONE),
        "topologyConstraintGroupConfigs": [
            {
                "name": f"{base}-prefill-0",
                "podGroupNames": [f"{base}-prefill-0-p-worker", f"{base}-prefill-0-p-leader"],
                "topologyConstraint": within(BLOCK),
            },
            {
                "name": f"{base}-decode-0",
                "podGroupNames": [f"{base}-decode-0-d-worker", f"{base}-decode-0-d-leader"],
                "topologyConstraint": within(RACK),
            },
        ],
        "podgroups": [
            pod_group(f"{base}-router", 1, BLOCK),
            pod_group(f"{base}-prefill-0-p-worker", 4, RACK),
            pod_group(f"{base}-prefill-0-p-leader", 1, RACK),
            pod_group(f"{base}-decode-0-d-worker", 2, RACK),
            pod_group(f"{base}-decode-0-d-leader", 1, RACK),
        ],
    }
    podgroup = stage.get("PodGroup", base)["spec"]
    assert (podgroup["minMember"], podgroup["topologyConstraint"]) == (9, level(ZONE))
    assert podgroup["subGroups"] == [
        {"name": f"{base}-prefill-0", "minSubGroup": 2, "topologyConstraint": level(BLOCK)},
        {"name": f"{base}-decode-0", "minSubGroup": 2, "topologyConstraint": level(RACK)},
        sub_group(f"{base}-router", 1, BLOCK),
        sub_group(f"{base}-prefill-0-p-worker", 4, RACK, f"{base}-prefill-0"),
        sub_group(f"{base}-prefill-0-p-leader", 1, RACK, f"{base}-prefill-0"),
        sub_group(f"{base}-decode-0-d-worker", 2, RACK, f"{base}-decode-0"),
        sub_group(f"{base}-decode-0-d-leader", 1, RACK, f"{base}-decode-0"),
    ]
    for kind, key, members in (
        ("prefill", BLOCK, (("p-worker", 4), ("p-leader", 1))),
        ("decode", RACK, (("d-worker", 2), ("d-leader", 1))),
    ):
        scaled = stage.get("PodGang", f"{base}-{kind}-0")
        assert of_the_gang(scaled) == {
            "topologyConstraint": within(key),
            "podgroups": [pod_group(f"{base}-{kind}-1-{name}", count, RACK) for name, count in members],
        }
        assert scaled["metadata"]["annotations"]["spinney.dev/tied-to"] == f"{base},{ZONE}"
        tree = stage.get("PodGroup", f"{base}-{kind}-0")
        assert tree["spec"]["topologyConstraint"] == level(key)
        assert tree["spec"]["subGroups"] == [
            sub_group(f"{base}-{kind}-1-{name}", count, RACK) for name, count in members
        ]
        assert tree["metadata"]["annotations"]["spinney.dev/tied-to"] == f"{base},{ZONE}"
    assert {tuple(affinity_keys(pod)) for pod in pods} == {(ZONE, BLOCK, RACK, HOST)}
    assert all(pod["spec"]["nodeName"].startswith("gb200") for pod in pods)


def test_t5_t6_c5_l6_two_topologies_share_a_zone_and_nothing_else(stage: Stage) -> None:
    """Both sets ask for a rack; each means its own hardware by it."""
    stage.apply(topology("h100", H100), topology("gb200", GB200))
    for name in ("h100", "gb200"):
        stage.create(podcliqueset(f"on-{name}", [clique("w", 2)], clusterTopologyName=name, **packed("rack"))).ok(201)
    stage.create(podcliqueset("anywhere", [clique("w")])).ok(201)
    for name, levels in (("h100", H100), ("gb200", GB200)):
        pods = stage.ready_pods(f"on-{name}", 2)
        whole = stage.available(f"on-{name}")
        assert whole["metadata"]["labels"][NAME] == name
        gang = stage.get("PodGang", f"on-{name}-0")
        assert gang["metadata"]["annotations"][NAME] == name
        assert gang["spec"]["topologyConstraint"] == within(levels["rack"])
        podgroup = stage.get("PodGroup", f"on-{name}-0")
        assert podgroup["spec"]["topologyConstraint"] == level(levels["rack"], name)
        twin = stage.get("Topology", name)
        assert [each["nodeLabel"] for each in twin["spec"]["levels"]] == list(levels.values())
        assert all(affinity_keys(pod) == list(levels.values()) for pod in pods)
        assert all(pod["spec"]["nodeName"].startswith(name) for pod in pods)
    free = stage.ready_pods("anywhere", 1)
    assert affinity_keys(free[0]) == []
    assert "topologyConstraint" not in stage.get("PodGang", "anywhere-0")["spec"]

    def counted() -> Any:
        levels = {each["domain"]: each for each in (stage.get("ClusterTopology", "h100").get("status") or {})["levels"]}
        return (levels["rack"]["nodes"], levels["rack"]["nodesMissing"], levels["rack"]["domains"]) == (4, 8, 2)

    stage.eventually(counted, "the status of h100 counts its nodes")


def test_p5_l5_a_pending_set_tries_another_topology_and_then_stays(stage: Stage) -> None:
    """No node carries the label of `planned`: the pods wait until the set is pointed at what is there."""
    planned, built = {"zone": ZONE, "rack": "example.com/planned"}, {"zone": ZONE, "rack": RACK, "host": HOST}
    stage.apply(topology("planned", planned), topology("built", built))
    whole = podcliqueset(
        "retry",
        [clique("a"), clique("w", 2)],
        [group("g", ["w"], replicas=2, **packed("rack"))],
        clusterTopologyName="planned",
        **packed("zone"),
    )
    stage.create(whole).ok(201)

    def waiting() -> bool:
        pods = stage.part_of("Pod", "retry")
        gated = [bool(pod["spec"].get("schedulingGates")) for pod in pods]
        return sorted(gated) == [False] * 3 + [True] * 2 and not any(pod["spec"].get("nodeName") for pod in pods)

    stage.eventually(waiting, "the base gang is free to go and has nowhere to go, the scaled one waits for it")
    podgroup = stage.get("PodGroup", "retry-0")["spec"]["topologyConstraint"]
    assert podgroup["preferredTopologyLevel"] == "example.com/planned"
    before = stage.uids("PodGroup", "retry")
    refused = stage.patch("PodCliqueSet", "retry", {"spec": {"template": {"clusterTopologyName": "nowhere"}}})
    refused.refused(422, "Invalid", 'ClusterTopology "nowhere" not found')
    stage.patch("PodCliqueSet", "retry", {"spec": {"template": {"clusterTopologyName": "built"}}}).ok(200)
    pods = stage.ready_pods("retry", 5)
    assert {tuple(affinity_keys(pod)) for pod in pods} == {(ZONE, RACK, HOST)}
    assert stage.available("retry")["metadata"]["labels"][NAME] == "built"
    for gang, required in (("retry-0", ZONE), ("retry-0-g-0", RACK)):
        assert stage.get("PodGang", gang)["metadata"]["annotations"][NAME] == "built"
        assert stage.get("PodGang", gang)["spec"]["topologyConstraint"] == within(required)
        assert stage.get("PodGroup", gang)["spec"]["topologyConstraint"] == level(required, "built")
        assert stage.get("PodGroup", gang)["metadata"]["annotations"][NAME] == "built"
    assert stage.uids("PodGroup", "retry") == before
    refused = stage.patch("PodCliqueSet", "retry", {"spec": {"template": {"clusterTopologyName": "planned"}}})
    refused.refused(422, "Invalid", 'from "built" to "planned" once pods are scheduled')
    assert stage.uids("Pod", "retry") == {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods}


def test_l1_l2_l4_l5_a_used_topology_is_protected_until_its_users_are_gone(stage: Stage) -> None:
    levels = {"zone": ZONE, "rack": RACK}
    stage.apply(topology("used", levels))
    nowhere = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"example.com/never": "true"}}
    runs = podcliqueset("user-a", [clique("w")], clusterTopologyName="used", **packed("rack"))
    waits = podcliqueset("user-b", [clique("w", podSpec=nowhere)], clusterTopologyName="used", **packed("zone"))
    for each in (runs, waits):
        stage.create(each).ok(201)
    stage.ready_pods("user-a", 1)
    stage.available("user-a")
    twin = stage.get("Topology", "used")["metadata"]["uid"]
    assert stage.get("ClusterTopology", "used")["metadata"]["finalizers"] == ["grove.io/clustertopology"]

    narrower = topology("used", {**levels, "host": HOST})["spec"]
    refused = stage.patch("ClusterTopology", "used", {"spec": narrower})
    refused.refused(422, "Invalid", "spec.levels: Forbidden", "default/user-a")
    assert "user-b" not in refused.message
    stage.patch("ClusterTopology", "used", {"metadata": {"labels": {"example.com/team": "a"}}}).ok(200)

    stage.delete("PodCliqueSet", "user-a")
    stage.eventually(lambda: not stage.part_of("PodClique", "user-a"), "the running user is gone")
    stage.patch("ClusterTopology", "used", {"spec": narrower}).ok(200)
    stage.eventually(
        lambda: stage.get("PodGroup", "user-b-0")["spec"]["topologyConstraint"] == level(ZONE, "used"),
        "the pending user is translated anew",
    )

    def recreated() -> bool:
        found = stage.get("Topology", "used")
        keys = [each["nodeLabel"] for each in found["spec"]["levels"]]
        return found["metadata"]["uid"] != twin and keys == [ZONE, RACK, HOST]

    stage.eventually(recreated, "the scheduler's topology is a new one")
    stage.delete("ClusterTopology", "used")
    told = (BLOCKED, "deletion waits: it is used by PodCliqueSets default/user-b")
    stage.eventually(lambda: told in stage.events("ClusterTopology", "used"), "an event names the user")
    assert stage.get("ClusterTopology", "used")["metadata"]["deletionTimestamp"]
    stage.delete("PodCliqueSet", "user-b")
    stage.eventually(lambda: not stage.exists("ClusterTopology", "used"), "it goes with its last user")
    stage.eventually(lambda: not stage.exists("Topology", "used"), "its twin goes with it")


def test_l2_an_event_names_ten_users_and_counts_the_others(stage: Stage) -> None:
    stage.apply(topology("crowded", {"rack": RACK}))
    for number in range(12):
        name = f"crowd-{number:02d}"
        stage.create(podcliqueset(name, [clique("w")], clusterTopologyName="crowded", **packed("rack"))).ok(201)
    for number in range(12):
        stage.available(f"crowd-{number:02d}")
    stage.delete("ClusterTopology", "crowded")
    named = ", ".join(f"default/crowd-{number:02d}" for number in range(10))
    told = (BLOCKED, f"deletion waits: it is used by PodCliqueSets {named} and 2 more")
    stage.eventually(lambda: told in stage.events("ClusterTopology", "crowded"), "an event names the users")
    for number in range(12):
        stage.delete("PodCliqueSet", f"crowd-{number:02d}")
    stage.eventually(lambda: not stage.exists("ClusterTopology", "crowded"), "it goes with the last one")


def test_c4_l2_p6_p7_s1_s4_topology_is_switched_off_and_on_again(stage: Stage) -> None:
    stage.apply(topology("kept", {"zone": ZONE, "rack": RACK}))
    whole = podcliqueset("off-on", [clique("a"), clique("w", **packed("rack"))], **packed("zone"))
    stage.create(whole).ok(201)
    stage.ready_pods("off-on", 2)
    stage.available("off-on")
    before, applied = stage.uids("Pod", "off-on"), stage.get("PodGang", "off-on-0")["spec"]
    stage.delete("ClusterTopology", "grove-topology")

    def is_blocked() -> bool:
        told = [text for reason, text in stage.events("ClusterTopology", "grove-topology") if reason == BLOCKED]
        return any("default/off-on" in text for text in told)

    stage.eventually(is_blocked, "the default topology is kept, for it is used by omission")
    assert stage.get("ClusterTopology", "grove-topology")["metadata"]["deletionTimestamp"]

    stage.operate(configured())
    off = stage.eventually(
        lambda: condition(found := stage.get("PodCliqueSet", "off-on"), CONDITION)[0] == "Unknown" and found,
        "the condition tells that topology is off",
    )
    assert condition(off, CONDITION) == ("Unknown", "TopologyAwareSchedulingDisabled")
    assert not stage.exists("ClusterTopology", "grove-topology")
    stage.eventually(lambda: not stage.exists("Topology", "grove-topology"), "its twin goes with it")
    assert stage.exists("ClusterTopology", "kept")
    gang = stage.get("PodGang", "off-on-0")
    assert "topologyConstraint" not in gang["spec"]
    assert not any("topologyConstraint" in part for part in gang["spec"]["podgroups"])
    assert NAME not in gang["metadata"].get("annotations", {})

    def stripped() -> bool:
        podgroup = stage.get("PodGroup", "off-on-0")
        parts = [podgroup["spec"], *podgroup["spec"]["subGroups"]]
        return not any(part.get("topologyConstraint") for part in parts)

    stage.eventually(stripped, "the PodGroup has no constraints")
    stage.patch("PodCliqueSet", "off-on", {"metadata": {"labels": {"example.com/team": "b"}}}).ok(200)
    refused = stage.create(podcliqueset("too-late", [clique("w")], **packed("zone")))
    refused.refused(422, "Invalid", "topology support is not enabled in the operator")

    stage.operate(CONFIGURATION)
    stage.eventually(
        lambda: condition(stage.get("PodCliqueSet", "off-on"), CONDITION)[0] == "False", "the condition is well again"
    )
    assert stage.get("PodGang", "off-on-0")["spec"] == applied
    stage.eventually(
        lambda: stage.get("PodGroup", "off-on-0")["spec"].get("topologyConstraint") == level(ZONE),
        "the PodGroup has its constraint again",
    )
    assert stage.exists("Topology", "grove-topology")
    assert "deletionTimestamp" not in stage.get("ClusterTopology", "grove-topology")["metadata"]
    assert stage.uids("Pod", "off-on") == before
    assert [reason for reason, _ in stage.events("PodCliqueSet", "off-on")] == [
        "TopologyConstraintsApplied",
        "TopologyAwareSchedulingDisabled",
        "TopologyConstraintsApplied",
    ]


def test_g9_s1_s4_l5_what_vanishes_is_stripped_and_what_comes_back_is_restored(stage: Stage) -> None:
    """First a level of the default topology, at a start of the operator; then a whole topology, by force."""
    levels = {"zone": ZONE, "rack": RACK, "host": HOST}
    stage.apply(topology("fragile", levels))
    groups = [group("g", ["w"], replicas=2, **packed("block"))]
    stage.create(podcliqueset("drift", [clique("a"), clique("w")], groups, **packed("zone"))).ok(201)
    stage.create(podcliqueset("broken", [clique("w")], clusterTopologyName="fragile", **packed("rack"))).ok(201)
    stage.ready_pods("drift", 3)
    stage.ready_pods("broken", 1)
    for name in ("drift", "broken"):
        stage.available(name)
    before = {name: stage.uids("Pod", name) for name in ("drift", "broken")}

    stage.operate(configured({"zone": ZONE, "rack": RACK, "host": HOST}))
    found = stage.eventually(
        lambda: condition(found := stage.get("PodCliqueSet", "drift"), CONDITION)[0] == "True" and found,
        "the condition tells of the level that vanished",
    )
    told = next(each for each in found["status"]["conditions"] if each["type"] == CONDITION)
    assert told["reason"] == "ClusterTopologyLevelsUnavailable"
    assert told["message"] == "Unavailable topology domains: [block]"
    gang = stage.get("PodGang", "drift-0")["spec"]
    assert gang["topologyConstraint"] == within(ZONE)
    assert "topologyConstraintGroupConfigs" not in gang
    assert "topologyConstraint" not in stage.get("PodGang", "drift-0-g-0")["spec"]
    stage.operate(CONFIGURATION)
    stage.eventually(
        lambda: condition(stage.get("PodCliqueSet", "drift"), CONDITION)[0] == "False", "the level is there again"
    )
    assert stage.get("PodGang", "drift-0-g-0")["spec"]["topologyConstraint"] == within(BLOCK)
    assert stage.get("PodGang", "drift-0")["spec"]["topologyConstraintGroupConfigs"][0]["name"] == "drift-0-g-0"

    stage.delete("ClusterTopology", "fragile")
    stage.patch("ClusterTopology", "fragile", {"metadata": {"finalizers": None}}).ok(200)
    stage.eventually(
        lambda: condition(stage.get("PodCliqueSet", "broken"), CONDITION) == ("Unknown", "ClusterTopologyNotFound"),
        "the condition tells of the topology that vanished",
    )
    assert "topologyConstraint" not in stage.get("PodGang", "broken-0")["spec"]
    stage.apply(topology("fragile", levels))
    stage.eventually(
        lambda: stage.get("PodGang", "broken-0")["spec"].get("topologyConstraint") == within(RACK), "it is restored"
    )
    stage.eventually(
        lambda: condition(stage.get("PodCliqueSet", "broken"), CONDITION)[0] == "False", "and the condition with it"
    )
    assert {name: stage.uids("Pod", name) for name in ("drift", "broken")} == before
    bad = {"drift": "ClusterTopologyLevelsUnavailable", "broken": "ClusterTopologyNotFound"}
    for name, reason in bad.items():
        reasons = [found for found, _ in stage.events("PodCliqueSet", name)]
        assert reasons == ["TopologyConstraintsApplied", reason, "TopologyConstraintsApplied"]
