"""Either half may be upstream's: what Grove and KAI's pod-grouper write is what we write, and our scheduler reads it.

The objects are in tests/golden/upstream, derived from upstream's sources. A field that differs is in a table here with
the reason, or is a bug.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from spinney.api.changes import Create, Patch
from spinney.api.kinds.podgang import PodGang
from spinney.core.expansion.backends.kai import Kai
from spinney.core.grouping.owner_chain import Pod, owner_of
from spinney.core.grouping.podgroups import keep, mark
from spinney.sim.world import World
from unit.grouping.grouping_kit import Cluster, wanted
from unit.operator.topologies import LEVELS
from unit.scheduler.scheduler_world import GPU, QUEUES, bound, domains, in_world, said

Json = dict[str, Any]

RECORDED: dict[str, Json] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "golden" / "upstream").glob("*.yaml"))
}
GROUP, PART = "pod-group-name", "kai.scheduler/subgroup-name"

FOLLOWED = "keys that follow the owner are recorded, so that they go when the owner no longer has them"
ONE_TOPOLOGY = "the topology of a gang is that of its set; another name on its PodGroup would be read for segments"
ALONE = "the group of one pod belongs to that pod and goes with it, not with the Job"
GANG = "a Job that asks for topology is one gang: topology of pods that are placed one by one would mean nothing (K2)"
SEGMENTS = "segments are formed by the scheduler, from annotations (K13)"
CLUSTER = "each RayCluster is a gang of its own: a RayJob that tries again makes another one"
WORKERS_SAY = ("segment-size", "segment-topology-required-placement", "topology")
DIFFERENCES: dict[str, dict[str, str]] = {
    "grove-podgang": {"metadata.annotations[kai.scheduler/topology]": ONE_TOPOLOGY},
    "job": {"metadata.ownerReferences": ALONE},
    "job-with-topology": {"metadata.name": GANG, "spec.minMember": GANG, f"pod[{GROUP}]": GANG},
    "leaderworkerset": {},
    "leaderworkerset-in-segments": {
        **{f"metadata.annotations[kai.scheduler/{key}]": SEGMENTS for key in WORKERS_SAY},
        "spec.subGroups": SEGMENTS,
        f"pod[{PART}]": SEGMENTS,
    },
    "pytorchjob": {},
    "pytorchjob-in-segments": {"spec.subGroups": SEGMENTS, f"pod[{PART}]": SEGMENTS},
    "rayjob": {"metadata.name": CLUSTER, "metadata.ownerReferences": CLUSTER, f"pod[{GROUP}]": CLUSTER},
}
"""Of what the pod-grouper or the operator writes for the same workload."""


def group_of(case: Json, member: Json) -> Json:
    """The recorded PodGroup that a pod was put into."""
    named = member["marks"]["annotations"][GROUP]
    return next(each for each in case["podgroups"] if each["metadata"]["name"] == named)


def ours(case: Json, member: Json) -> tuple[Json, Json]:
    """The PodGroup that we write, and the marks on the pod."""
    if "gang" in case:
        gang = msgspec.convert(case["gang"], PodGang)
        (change,) = Kai().sync_gang(gang, lambda resource, namespace, name: None)
        marks = Kai().mark_pod(gang.metadata.name, member["marks"]["labels"][PART])
        assert isinstance(change, Create)
        return change.body, {"annotations": dict(marks.annotations), "labels": dict(marks.labels)}
    cluster = Cluster({"tree": list(LEVELS.values())}, {}, {"default-queue"}, {"train", "inference"})
    metadata = {key: member.get(key, {}) for key in ("labels", "annotations")}
    metadata |= {"name": member["name"], "namespace": "default", "uid": f"uid-{member['name']}"}
    asking = msgspec.convert({"metadata": metadata, "spec": {"schedulerName": "kai-scheduler"}, "status": {}}, Pod)
    answer = wanted(asking, *map(owner_of, case["owners"]), cluster=cluster)
    (change,) = keep(answer, None, cluster.lookups())  # type: ignore[misc]
    (patch,) = mark(answer, asking)
    assert isinstance(change, Create)
    return change.body, patch.patch["metadata"]


def fields(podgroup: Json, marks: Json) -> Iterator[tuple[str, Any]]:
    """What is compared: each label and annotation, each field of the spec; nothing that is empty."""
    metadata = podgroup["metadata"]
    places = {f"metadata.{key}": metadata.get(key, {}) for key in ("labels", "annotations")}
    places |= {"pod": {**marks.get("annotations", {}), **marks.get("labels", {})}}
    for place, entries in places.items():
        yield from ((f"{place}[{key}]", value) for key, value in entries.items())
    yield from ((f"metadata.{key}", metadata.get(key)) for key in ("name", "namespace", "ownerReferences"))
    yield from ((f"spec.{key}", value) for key, value in podgroup["spec"].items() if value)
    yield from ((key, podgroup[key]) for key in ("apiVersion", "kind"))


@pytest.mark.parametrize("name", RECORDED)
def test_what_we_write_is_what_upstream_writes(name: str) -> None:
    """But for the differences in the table: one that is gone has to leave it."""
    case, different = RECORDED[name], set[str]()
    for member in case["pods"]:
        theirs, own = dict(fields(group_of(case, member), member["marks"])), dict(fields(*ours(case, member)))
        different |= {key for key in theirs.keys() | own.keys() if theirs.get(key) != own.get(key)}
    grouper = set() if "gang" in case else {"metadata.annotations[spinney.dev/mirrored]"}
    assert different == DIFFERENCES[name].keys() | grouper, FOLLOWED


KEPT: dict[str, Json] = {
    "as it was written": {},
    "the scheduler is done with it": {"spec": {"markUnschedulable": True, "schedulingBackoff": 1}},
    "another queue": {"spec": {"queue": "research"}, "metadata": {"labels": {"kai.scheduler/queue": "research"}}},
    "another node pool": {"metadata": {"labels": {"kai.scheduler/node-pool": "b"}}},
}


@pytest.mark.parametrize("changed", KEPT)
def test_g11_what_upstreams_kai_changes_on_a_group_is_kept_by_our_operator(changed: str) -> None:
    case = RECORDED["grove-podgang"]
    gang = msgspec.convert(case["gang"], PodGang)
    gang.metadata.labels["kai.scheduler/node-pool"] = "a"
    live = copy.deepcopy(case["podgroups"][0])
    live["metadata"]["labels"] |= {"kai.scheduler/node-pool": "a"}
    live["metadata"]["labels"] |= KEPT[changed].get("metadata", {}).get("labels", {})
    live["spec"] |= KEPT[changed].get("spec", {})
    find = lambda resource, namespace, name: live if resource.kind == "PodGroup" else None  # noqa: E731
    assert Kai().sync_gang(gang, find) == ()


def test_g11_a_group_without_a_node_pool_gets_that_of_its_set() -> None:
    case = RECORDED["grove-podgang"]
    gang = msgspec.convert(case["gang"], PodGang)
    gang.metadata.labels["kai.scheduler/node-pool"] = "a"
    live = case["podgroups"][0]
    (change,) = Kai().sync_gang(gang, lambda resource, namespace, name: live if resource.kind == "PodGroup" else None)
    assert isinstance(change, Patch)
    assert change.patch == {"metadata": {"labels": {"kai.scheduler/node-pool": "a"}}}


def stored(podgroup: Json) -> Json:
    """Without owners: those are not in the world."""
    metadata = {key: value for key, value in podgroup["metadata"].items() if key != "ownerReferences"}
    return {**podgroup, "metadata": metadata}


def pod_of(member: Json) -> Json:
    """A pod that fills a host, with what upstream wrote on it."""
    marks, amounts = member["marks"], {GPU: "8"}
    metadata: Json = {"name": member["name"], "namespace": "default"}
    for key in ("labels", "annotations"):
        metadata[key] = {**member.get(key, {}), **marks.get(key, {})}
    containers = [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]
    spec = {"schedulerName": "kai-scheduler", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def parts_below(podgroup: Json, part: str) -> set[str]:
    """A sub-group with those below it."""
    parts = podgroup["spec"].get("subGroups", ())
    below = (parts_below(podgroup, each["name"]) for each in parts if each.get("parent") == part)
    return {part}.union(*below)


def required_levels(case: Json, podgroup: Json) -> Iterator[tuple[str, list[str]]]:
    """Each required level, with the pods that must be in one domain of it."""
    name, spec = podgroup["metadata"]["name"], podgroup["spec"]
    members = [each for each in case["pods"] if each["marks"]["annotations"][GROUP] == name]
    if level := spec["topologyConstraint"].get("requiredTopologyLevel"):
        yield level, [each["name"] for each in members]
    for part in spec.get("subGroups", ()):
        if level := part.get("topologyConstraint", {}).get("requiredTopologyLevel"):
            below = parts_below(podgroup, part["name"])
            yield level, [each["name"] for each in members if each["marks"]["labels"][PART] in below]


@pytest.mark.parametrize("name", RECORDED)
def test_our_scheduler_places_the_pods_of_upstreams_groups_as_they_ask(name: str) -> None:
    case = RECORDED[name]

    async def scenario(world: World) -> None:
        await world.apply([*map(stored, case["podgroups"]), *map(pod_of, case["pods"])])
        await world.settle()
        nodes = await bound(world)
        assert nodes.keys() == {each["name"] for each in case["pods"]}
        for podgroup in case["podgroups"]:
            for level, members in required_levels(case, podgroup):
                assert len(members) > 0
                assert len(await domains(world, (nodes[each] for each in members), level)) == 1, (level, members)

    in_world(scenario)


GANGS = [name for name, case in RECORDED.items() if case["podgroups"][0]["spec"]["minMember"] > 1]


@pytest.mark.parametrize("name", GANGS)
@pytest.mark.parametrize("missing", [0, -1], ids=["the first", "the last"])
def test_our_scheduler_waits_for_every_pod_of_upstreams_gang(name: str, missing: int) -> None:
    case = RECORDED[name]
    absent = case["pods"][missing]
    others = [each for each in case["pods"] if each is not absent]

    async def scenario(world: World) -> None:
        await world.apply([*QUEUES, *map(stored, case["podgroups"]), *map(pod_of, others)])
        await world.settle()
        assert await bound(world) == {}
        await world.apply(pod_of(absent))
        await world.settle()
        assert len(await bound(world)) == len(case["pods"])

    in_world(scenario)


def test_a_topology_without_a_level_is_said_on_the_group_that_upstream_makes_of_it() -> None:
    """KAI's pod-grouper writes what the owner names; its scheduler does not place it either, and tells only its log."""
    case = RECORDED["leaderworkerset"]
    (podgroup,) = map(stored, case["podgroups"])
    podgroup = {**podgroup, "spec": {**podgroup["spec"], "topologyConstraint": {"topology": "tree"}}}

    async def scenario(world: World) -> None:
        await world.apply([podgroup, *map(pod_of, case["pods"])])
        await world.settle()
        assert await bound(world) == {}
        what = "no topology constraints were found for workload, with topology name tree"
        assert what in await said(world, podgroup["metadata"]["name"])

    in_world(scenario)
