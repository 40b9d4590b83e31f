"""Whatever is read, the engine understands, and what it places are pods that wait."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import Node, Options, Topology
from spinney.api.placement.result import Decision
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine
from spinney.core.placement.gang.running_gangs import PlacedGang
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang
from unit.scheduling.reading_kit import RESOURCES, member, members, reading, subgroup

TOPOLOGY = Topology("t", ("zone", "rack"))
GATED = {"schedulingGates": [{"name": "g"}]}
LEAVES = ("a", "b", "c")


def cluster(nodes: int = 8, gpus: int = 8) -> Inventory:
    inventory = Inventory(RESOURCES, [TOPOLOGY])
    for index in range(nodes):
        labels = {"zone": "z", "rack": f"r{index // 4}"}
        room = (64_000, 2**40, 110, gpus)
        inventory.put_node(Node(f"n{index}", labels, room, (0,) * 4, (0,) * 4))
    return inventory


def context(inventory: Inventory) -> Context:
    has_node = lambda name: inventory.find(name) is not None  # noqa: E731
    return Context(RESOURCES, topologies={"t": TOPOLOGY}, has_node=has_node)


def decided(inventory: Inventory, found: ParsedGang) -> Decision:
    """As the scheduler asks: members that run hold their room already."""
    engine = Engine(inventory, {"t": TOPOLOGY}, Options())
    live = [(run.pods, inventory.slot(run.node)) for run in found.gang.running]
    engine.placed_gangs[found.gang.name] = PlacedGang(found.gang, live)
    return engine.decide(found.gang)


states = st.sampled_from(["waits", "waits", "waits", "runs", "lost", "gated", "done", "failed", "leaves"])


@st.composite
def gangs(draw: st.DrawFn) -> tuple[dict[str, Any], list[Pod], dict[str, str]]:
    groups = [subgroup(name, draw(st.integers(0, 3))) for name in LEAVES]
    if draw(st.booleans()):
        inner = subgroup("inner", minSubGroup=draw(st.none() | st.integers(0, 1)))
        groups = [inner, {**groups[0], "parent": "inner"}, *groups[1:]]
    spec: dict[str, Any] = {"subGroups": groups, "minSubGroup": draw(st.none() | st.integers(0, 2))}
    spec = {key: value for key, value in spec.items() if value is not None}
    pods = [_pod(draw, f"p{index}") for index in range(draw(st.integers(0, 12)))]
    annotations: dict[str, str] = {}
    if draw(st.booleans()):
        annotations = {
            "kai.scheduler/segment-size": str(draw(st.integers(1, 3))),
            "kai.scheduler/segment-topology-preferred-placement": "rack",
            "kai.scheduler/topology": "t",
        }
    return spec, pods, annotations


def _pod(draw: st.DrawFn, name: str) -> Pod:
    leaf, gpus, state = draw(st.sampled_from(LEAVES)), draw(st.integers(1, 2)), draw(states)
    index = draw(st.none() | st.integers(0, 9))
    labels = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    match state:
        case "runs":
            return member(name, leaf, draw(st.sampled_from(["n0", "n5"])), gpus, labels)
        case "lost":
            return member(name, leaf, "gone", gpus, labels)
        case "gated":
            return member(name, leaf, gpus=gpus, labels=labels, spec=GATED)
        case "done":
            return member(name, leaf, "n0", gpus, labels, status={"phase": "Succeeded"})
        case "failed":
            return member(name, leaf, "n0", gpus, labels, status={"phase": "Failed"})
        case "leaves":
            return member(name, leaf, "n0", gpus, labels, deletionTimestamp="2026-01-01T00:00:00Z")
        case _:
            return member(name, leaf, gpus=gpus, labels=labels)


@given(gangs())
def test_k14_every_reading_is_understood_and_with_room_everybody_who_takes_part_is_placed(
    asked: tuple[dict[str, Any], list[Pod], dict[str, str]],
) -> None:
    spec, pods, annotations = asked
    inventory = cluster()
    found = reading(spec, pods, context(inventory), annotations=annotations)
    assert not found.mistake
    waits = [each.uid for each in (*found.held, *(pod for some in found.waiting.values() for pod in some))]  # type: ignore[attr-defined]
    live = [pod for pod in pods if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp]
    assert sorted(waits) == sorted(pod.metadata.uid for pod in live if not pod.spec.scheduling_gates)
    decision = decided(inventory, found)
    assert decision.outcome == "placed", decision.explanation
    seated = [found.waiting[each.pods][each.index].uid for each in decision.placements]
    assert sorted(seated) == sorted(set(waits) - {held.uid for held in found.held})


@given(gangs())
def test_k14_a_gang_that_did_not_start_is_held_as_long_as_a_leaf_it_needs_is_not_complete(
    asked: tuple[dict[str, Any], list[Pod], dict[str, str]],
) -> None:
    spec, pods, _ = asked
    fresh = [pod for pod in pods if not pod.spec.node_name]
    found = reading(spec, fresh, context(cluster()))
    assert found.ready == (not found.not_ready)
    minima = {group["name"]: group.get("minMember", 1) for group in spec["subGroups"]}
    parents = {group["name"]: group.get("parent") for group in spec["subGroups"]}

    def complete(name: str | None) -> bool:
        kids = [kid for kid, parent in parents.items() if parent == name]
        if not kids:
            assert name is not None
            here = [pod for pod in fresh if pod.metadata.labels["kai.scheduler/subgroup-name"] == name]
            ready = [pod for pod in here if not pod.spec.scheduling_gates and not pod.metadata.deletion_timestamp]
            return len(ready) >= minima[name]
        group = next((each for each in spec["subGroups"] if each["name"] == name), spec)
        needed = group.get("minSubGroup", len(kids))
        return sum(map(complete, kids)) >= needed

    assert found.ready == complete(None)


def test_g12_a_replacement_comes_back_into_the_domain_of_its_gang() -> None:
    inventory = cluster()
    spec = {"minMember": 2, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}
    found = reading(spec, [member("r", node="n5"), *members(1)], context(inventory))
    (placement,) = decided(inventory, found).placements
    assert placement.node in ("n4", "n5", "n6", "n7")


def test_k13_each_segment_is_in_one_rack() -> None:
    inventory = cluster(gpus=1)
    annotations = {
        "kai.scheduler/segment-size": "3",
        "kai.scheduler/segment-topology-required-placement": "rack",
        "kai.scheduler/topology": "t",
    }
    found = reading({"minMember": 6}, members(6), context(inventory), annotations=annotations)
    racks: dict[int, set[int]] = {}
    for placement in decided(inventory, found).placements:
        uid = found.waiting[placement.pods][placement.index].uid
        racks.setdefault(found.segments[uid], set()).add(int(placement.node[1:]) // 4)
    assert [len(rack) for rack in racks.values()] == [1, 1]


def test_k8_pods_of_different_gangs_keep_apart_on_hosts() -> None:
    inventory = cluster(nodes=2)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = []
    for name in ("one", "two", "three"):
        pod = member(name, labels={"app": "web"}, spec={"affinity": affinity})
        found = reading({}, [pod], context(inventory), name=name)
        decision = decided(inventory, found)
        nodes.append([placement.node for placement in decision.placements])
    assert sorted(nodes) == [[], ["n0"], ["n1"]]
