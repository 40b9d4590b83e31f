"""Genuine plans of an earlier leader, judged again by the next: what no decision may say now is given up and told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.affinity.gang_affinity import NO_MATCHING_POD
from spinney.core.scheduling.cycle.recorded_plans import PlanReview
from spinney.core.scheduling.plan import Assignment, Move, Plan
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.write import ANY, Precondition
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import HOST, RACK
from unit.scheduler.preemption_world import CLASSES, TWO_RACKS, budget, gang
from unit.scheduler.record_forging import Successor, annotate, node_names, rejections, signed_by, to_bind, uids
from unit.scheduler.scheduler_world import QUEUES, TOPOLOGY, bound, plan_of, pod, pods
from unit.scheduler.test_affinity import apart, labelled, near, resident

Json = dict[str, Any]
Scene = Callable[[World, list[str]], Awaitable[Plan]]
"""Makes a world, given the names of its nodes, and answers with the plan that the gang `mine` has been found with."""


def taken_over(
    scene: Scene, settings: Settings | None = None, *, is_over: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Who is bound where once a successor has been at work, and what it said of the plan of `mine`.

    `is_over`: nothing of the plan may be left.
    """

    async def main(sim: Sim) -> tuple[dict[str, str], list[str]]:
        parts = Parts(nodes=load_nodes(TWO_RACKS), behaviour=NodeBehaviour(heartbeat_s=0), controllers=("disruption",))
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, *QUEUES, *CLASSES])
            nodes = await node_names(world)
            plan = await scene(world, nodes)
            await annotate(world, "mine", await signed_by(world.record_keys[0], world, "mine", plan))
            await world.settle()
            async with Successor(world, epoch=plan.epoch + 1, settings=settings or Settings(staleness_grace_s=-1)):
                await world.settle()
            assert await plan_of(world, "mine") is None or (plan.state == "wait" and not is_over)
            return await bound(world), [text.partition("not used: ")[2] for text in await rejections(world)]

    return run(main, limit_s=10_000)


async def mine(world: World, count: int, priority: str = "mid", minimum: int = 0, **spec: Any) -> dict[str, str]:
    """The gang whose plan is found: uids of its pods by name."""
    told = {key: spec.pop(key) for key in ("required", "annotations") if key in spec}
    await world.apply([gang("mine", minimum or count, priority, **told), *pods("mine", count, **spec)])
    return await uids(world, "mine")


async def standing(world: World, name: str, priority: str, nodes: list[str], **told: Any) -> dict[str, str]:
    """A gang that runs, each of its pods on one of the nodes; uids by name."""
    labels = told.pop("labels", {})
    minimum = told.pop("minimum", len(nodes))
    made = [each | {"metadata": each["metadata"] | {"labels": labels}} for each in pods(name, len(nodes))]
    if told.pop("owned", True):
        (made_by,) = await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made_by["metadata"]["uid"]}
        owner |= {"controller": True}
        made = [each | {"metadata": each["metadata"] | {"ownerReferences": [owner]}} for each in made]
    await world.apply([gang(name, minimum, priority, **told), *made])
    for number, node in enumerate(nodes):
        found = await world.get("Pod", f"{name}-{number}")
        assert found is not None
        await world.door.bind(world.ref(found), node, Precondition(found["metadata"]["uid"]))
    return await uids(world, name)


def to_wait(seated: dict[str, str], nodes: list[str], **leaving: Any) -> Plan:
    return msgspec.structs.replace(to_bind(seated, nodes), state="wait", **leaving)


# Seats


def test_a_seat_on_a_node_that_the_node_selector_excludes_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        only = {"kubernetes.io/hostname": nodes[0]}
        return to_bind(await mine(world, 1, nodeSelector=only), [nodes[3]])

    placed, said = taken_over(scene)
    assert placed["mine-0"].endswith("r0-h0")
    assert said == ["node z0-b0-r1-h1: node selector kubernetes.io/hostname=z0-b0-r0-h0"]


def test_a_seat_behind_a_taint_that_is_not_tolerated_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        found = await world.get("Node", nodes[0])
        assert found is not None
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        await world.apply({**_bare(found), "spec": {"taints": [taint]}})
        return to_bind(await mine(world, 1), [nodes[0]])

    placed, said = taken_over(scene)
    assert not placed["mine-0"].endswith("r0-h0")
    assert said == ["node z0-b0-r0-h0: untolerated taint k=v:NoSchedule"]


def _bare(found: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": found["metadata"]["name"]}}


def test_inv3_seats_in_two_racks_are_not_taken_where_one_is_required() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        return to_bind(await mine(world, 2, required=RACK), [nodes[0], nodes[2]])

    placed, said = taken_over(scene)
    assert len({node[:-1] for node in placed.values()}) == 1
    assert said == [f"required level {RACK}: not in one domain with the others"]


def test_inv3_the_rest_of_a_half_bound_gang_is_repaired_where_its_members_are() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        seated = await mine(world, 2, required=RACK)
        found = await world.get("Pod", "mine-0")
        assert found is not None
        await world.door.bind(world.ref(found), nodes[0], Precondition(found["metadata"]["uid"]))
        return to_bind(seated, [nodes[0], nodes[2]])

    placed, said = taken_over(scene)
    assert sorted(placed.values()) == ["z0-b0-r0-h0", "z0-b0-r0-h1"]
    assert len(said) == 1


def test_inv1_a_seat_on_a_full_node_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        await standing(world, "other", "mid", [nodes[0]])
        return to_bind(await mine(world, 1), [nodes[0]])

    placed, _ = taken_over(scene)
    assert placed["mine-0"] != placed["other-0"]


def test_a_seat_for_a_pod_of_another_gang_or_on_a_node_that_is_not_there_is_nobodys() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        seated = await mine(world, 2)
        await world.apply([gang("other", 2, "mid"), pod("other-0", "other")])
        other = (await uids(world, "other"))["other-0"]
        first, second = seated.values()
        return Plan(
            1, "bind", (Assignment(first, nodes[0]), Assignment(second, "nowhere"), Assignment(other, nodes[1]))
        )

    placed, said = taken_over(scene)
    assert sorted(placed) == ["mine-0", "mine-1"]
    assert said == ["node nowhere: is not there"]


# Affinity to other pods


async def resident_on(world: World, node: str, app: str, **spec: Any) -> None:
    """A pod of nobody we schedule, which says of itself that it is of an app."""
    await world.apply(resident("there", node, app, **spec))


def test_k8_a_seat_beside_a_pod_that_the_anti_affinity_excludes_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        await resident_on(world, nodes[0], "db")
        return to_bind(await mine(world, 1, affinity=apart(RACK, "db")), [nodes[1]])

    placed, said = taken_over(scene)
    assert "-r1-" in placed["mine-0"]
    assert said == ["node z0-b0-r0-h1: pod anti-affinity"]


def test_k8_a_seat_beside_a_pod_that_keeps_others_off_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        await resident_on(world, nodes[0], "db", affinity=apart(RACK, "web"))
        seated = await mine(world, 1)
        found = await world.get("Pod", "mine-0")
        assert found is not None
        await world.door.merge_patch(world.ref(found), {"metadata": {"labels": {"app": "web"}}}, ANY)
        return to_bind(seated, [nodes[1]])

    placed, said = taken_over(scene)
    assert "-r1-" in placed["mine-0"]
    assert said == ["node z0-b0-r0-h1: pod anti-affinity"]


def test_k8_a_seat_away_from_the_pods_that_the_affinity_requires_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        await resident_on(world, nodes[0], "db")
        return to_bind(await mine(world, 1, affinity=near(RACK, "db")), [nodes[2]])

    placed, said = taken_over(scene)
    assert "-r0-" in placed["mine-0"]
    assert said == ["node z0-b0-r1-h0: pod affinity"]


def test_k8_a_seat_is_not_taken_while_no_pod_that_the_affinity_requires_has_a_node() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        return to_bind(await mine(world, 1, affinity=near(RACK, "db")), [nodes[2]])

    placed, said = taken_over(scene)
    assert (placed, said) == ({}, [NO_MATCHING_POD])


def test_k8_nobody_is_evicted_for_a_seat_that_the_anti_affinity_excludes() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "low")
        for node in nodes:
            await world.apply(resident(f"db-{node}", node, "db"))
        seated = await mine(world, 4, affinity=apart(HOST, "db"))
        return to_wait(seated, nodes, victims=tuple(others.values()))

    _evicts_nobody(scene, "node z0-b0-r0-h0: pod anti-affinity")


async def alike(world: World, wants: Json) -> dict[str, str]:
    """The gang of two pods of one GPU each, which say something about each other."""
    await world.apply(
        [gang("mine", 2, "mid"), *(labelled(f"mine-{number}", "mine", "mine", affinity=wants) for number in range(2))]
    )
    return await uids(world, "mine")


@pytest.mark.parametrize("wants", [apart(HOST, "mine"), near(RACK, "mine")], ids=["apart", "together"])
def test_k8_members_that_are_bound_already_do_not_speak_against_the_rest_of_their_plan(wants: Json) -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        seated = await alike(world, wants)
        found = await world.get("Pod", "mine-0")
        assert found is not None
        await world.door.bind(world.ref(found), nodes[2], Precondition(found["metadata"]["uid"]))
        return to_bind(seated, nodes[2:])

    placed, said = taken_over(scene)
    assert (sorted(placed.values()), said) == (["z0-b0-r1-h0", "z0-b0-r1-h1"], [])


@pytest.mark.parametrize(("level", "last"), [(HOST, 0), (RACK, 1)])
def test_k8_two_seats_of_members_that_keep_apart_are_not_taken_in_one_domain(level: str, last: int) -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        return to_bind(await alike(world, apart(level, "mine")), [nodes[0], nodes[last]])

    placed, said = taken_over(scene)
    assert len({node if level == HOST else node[:-3] for node in placed.values()}) == 2
    assert said == [f"node z0-b0-r0-h{last}: pod anti-affinity or a host port that is in use"]


@pytest.mark.parametrize("level", [HOST, RACK])
def test_k8_seats_of_members_that_keep_apart_are_taken_where_they_are_apart(level: str) -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        return to_bind(await alike(world, apart(level, "mine")), [nodes[1], nodes[3]])

    placed, said = taken_over(scene)
    assert (sorted(placed.values()), said) == (["z0-b0-r0-h1", "z0-b0-r1-h1"], [])


def with_port(made: Json) -> Json:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def test_a_seat_on_a_node_where_a_host_port_is_in_use_is_not_taken() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        there = with_port(resident("there", nodes[0], "db"))
        await world.apply([there, gang("mine", 1, "mid"), with_port(pod("mine-0", "mine", 1))])
        return to_bind(await uids(world, "mine"), [nodes[0]])

    placed, said = taken_over(scene)
    assert placed["mine-0"] not in ("z0-b0-r0-h0", "")
    assert said == ["node z0-b0-r0-h0: pod anti-affinity or a host port that is in use"]


def test_a_host_port_that_a_victim_holds_is_waited_for() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        for name, priority in (("other", "low"), ("mine", "mid")):
            made = with_port(pod(f"{name}-0", name, 1, nodeSelector={HOST: nodes[0]}))
            await world.apply([gang(name, 1, priority), made])
        found = await world.get("Pod", "other-0")
        assert found is not None
        await world.door.bind(world.ref(found), nodes[0], Precondition(found["metadata"]["uid"]))
        victims = tuple((await uids(world, "other")).values())
        return to_wait(await uids(world, "mine"), [nodes[0]], victims=victims)

    placed, said = taken_over(scene)
    assert (placed, said) == ({"mine-0": "z0-b0-r0-h0"}, [])


# Those who would have to leave


async def full(world: World, nodes: list[str], priority: str, **told: Any) -> dict[str, str]:
    return await standing(world, "other", priority, nodes, **told)


def _evicts_nobody(scene: Scene, why: str, settings: Settings | None = None, names: int = 4) -> None:
    placed, said = taken_over(scene, settings)
    assert [name for name in placed if name.startswith("other")] == [f"other-{number}" for number in range(names)]
    assert said == [why]


def test_inv7_nobody_is_moved_where_consolidation_is_off() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "mid")
        moves = tuple(Move(uid, nodes[0]) for uid in others.values())
        return to_wait(await mine(world, 1), nodes[:1], moves=moves)

    _evicts_nobody(scene, "nothing may be moved for default/mine", Settings(consolidate=None))


def test_inv7_no_more_gpus_are_moved_than_may_be_moved_for_the_gang() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "mid")
        moves = tuple(Move(uid, nodes[0]) for uid in others.values())
        return to_wait(await mine(world, 1), nodes[:1], moves=moves)

    settings = Settings(consolidate=Consolidate(max_moves=4, max_gpus=31))
    _evicts_nobody(scene, "32 GPUs would be moved, allowed are 31", settings)


def test_inv7_no_more_are_moved_than_may_be_moved_for_the_gang() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "mid")
        moves = tuple(Move(uid, nodes[0]) for uid in others.values())
        return to_wait(await mine(world, 1), nodes[:1], moves=moves)

    settings = Settings(staleness_grace_s=-1, consolidate=Consolidate(max_moves=3))
    _evicts_nobody(scene, "4 pods would be moved, allowed are 3", settings)


def test_inv7_a_pod_that_nobody_makes_anew_is_not_moved() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "mid", owned=False)
        return to_wait(await mine(world, 1), nodes[:1], moves=(Move(others["other-0"], nodes[1]),))

    settings = Settings(staleness_grace_s=-1, consolidate=Consolidate(max_moves=3))
    _evicts_nobody(scene, "pod default/other-0 would not be recreated", settings)


@pytest.mark.parametrize("theirs", ["mid", "high"])
def test_inv7_nobody_is_preempted_by_a_gang_that_is_not_more_important(theirs: str) -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, theirs)
        return to_wait(await mine(world, 4), nodes, victims=tuple(others.values()))

    _evicts_nobody(scene, "pod default/other-0 is not less important, or can not be preempted")


def test_inv7_a_gang_that_can_not_be_preempted_stays() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "low", preemptibility="non-preemptible")
        return to_wait(await mine(world, 4), nodes, victims=tuple(others.values()))

    _evicts_nobody(scene, "pod default/other-0 is not less important, or can not be preempted")


def test_inv7_pods_of_no_gang_stay() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        for number, node in enumerate(nodes):
            other = pod(f"other-{number}", "", nodeName=node, priorityClassName="low")
            other["spec"]["schedulerName"] = "somebody"
            await world.apply(other)
        others = await uids(world, "other")
        return to_wait(await mine(world, 4, "high"), nodes, victims=tuple(others.values()))

    _evicts_nobody(scene, "pod default/other-0 is in no other gang")


def test_inv7_no_gang_is_left_below_its_minimum() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "low")
        return to_wait(await mine(world, 1), nodes[:1], victims=(others["other-0"],))

    placed, said = taken_over(scene)
    assert said == ["gang default/other would be left below its minimum"]
    assert sorted(placed) == ["mine-0"], "it is decided anew, and the other gang goes whole"


def test_inv7_pods_that_a_budget_protects_stay() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        await world.apply(budget("b", {"app": "x"}, maxUnavailable=0))
        others = await full(world, nodes, "low", labels={"app": "x"})
        await world.settle()
        return to_wait(await mine(world, 4), nodes, victims=tuple(others.values()))

    _evicts_nobody(scene, "4 pods are protected by a disruption budget")


def test_inv2_a_lawful_plan_of_an_earlier_leader_is_carried_out() -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "low")
        return to_wait(await mine(world, 4), nodes, victims=tuple(others.values()))

    placed, said = taken_over(scene)
    assert (sorted(placed), said) == ([f"mine-{number}" for number in range(4)], [])
    assert sorted(placed.values()) == sorted(set(placed.values()))


# Old genuine records that are put back while nobody leads


@pytest.mark.parametrize("state", ["bind", "victims", "moves"])
def test_inv7_a_record_that_was_carried_out_and_is_put_back_while_nobody_leads_does_nothing(state: str) -> None:
    """Its pods have their nodes: whoever had to leave for them may be lawful prey, and stays."""
    placed_before: dict[str, str] = {}

    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes[1:], "low")
        await standing(world, "mine", "mid", nodes[:1])
        plan = to_bind(await uids(world, "mine"), nodes[1:2])
        placed_before.update(await bound(world))
        if state == "victims":
            return msgspec.structs.replace(plan, state="wait", victims=tuple(others.values()))
        moves = tuple(Move(uid, nodes[0]) for uid in others.values())
        return msgspec.structs.replace(plan, state="wait", moves=moves) if state == "moves" else plan

    settings = Settings(staleness_grace_s=-1, consolidate=Consolidate(max_moves=8))
    placed, _ = taken_over(scene, settings, is_over=True)
    assert len(placed) == 4
    assert placed == placed_before


@pytest.mark.parametrize("state", ["bind", "victims", "moves"])
def test_inv7_a_record_that_was_given_up_and_is_put_back_while_nobody_leads_does_what_is_lawful_now(state: str) -> None:
    """The gang waits again; another one that is more important stands on its places, and stays there."""

    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "high")
        plan = to_bind(await mine(world, 1), nodes[:1])
        if state == "victims":
            return msgspec.structs.replace(plan, state="wait", victims=(others["other-0"],))
        moves = (Move(others["other-0"], nodes[1]),)
        return msgspec.structs.replace(plan, state="wait", moves=moves) if state == "moves" else plan

    settings = Settings(staleness_grace_s=-1, consolidate=Consolidate(max_moves=8))
    placed, _ = taken_over(scene, settings, is_over=True)
    assert sorted(placed) == [f"other-{number}" for number in range(4)]


def test_r13_where_plans_are_not_judged_again_the_unlawful_one_is_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World, nodes: list[str]) -> Plan:
        others = await full(world, nodes, "mid")
        moves = tuple(Move(uid, nodes[0]) for uid in others.values())
        return to_wait(await mine(world, 1), nodes[:1], moves=moves)

    monkeypatch.setattr(PlanReview, "leaving", lambda *_: "")
    assert len(taken_over(scene)[0]) < 4
