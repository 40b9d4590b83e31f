"""Records that the scheduler did not write, or did not write now and here: never acted on, taken away, told."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from spinney.core.scheduling import plan_records
from spinney.core.scheduling.plan import Assignment, Move, Plan, encode
from spinney.core.scheduling.plan_records import Mark, Term
from spinney.drive.apply.write import Precondition
from spinney.drive.election.leader_election import LeadershipLost
from spinney.sim.event_loop import Sim, run
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import guarded
from unit.scheduler.record_forging import (
    OTHER_KEY,
    RECORD,
    Successor,
    annotate,
    counted,
    full_of_others,
    node_names,
    notes_of,
    rejections,
    signed_by,
    to_bind,
    uids,
)
from unit.scheduler.scheduler_world import (
    NODES,
    QUEUES,
    TOPOLOGY,
    bound,
    domains,
    in_world,
    plan_of,
    pod,
    podgroup,
    pods,
)
from unit.scheduler.watched_world import watched

Json = dict[str, Any]


ZEROS = "0" * 64


def _unsigned(plan: Plan, signature: str | None = f"v1 - 1 {ZEROS}") -> Json:
    """A record as somebody without a key can write it."""
    return {
        "spinney.dev/plan": encode(plan),
        "spinney.dev/epoch": str(plan.epoch),
        "spinney.dev/plan-signature": signature,
    }


# The attacks that were seen


@pytest.mark.parametrize("epoch", ["4000000000", "2147483647", "9" * 5000, "-1", "1e9", "٣", ""])
def test_inv10_an_epoch_that_somebody_writes_on_a_podgroup_ends_no_leadership(epoch: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("bad", 2, annotations={"spinney.dev/epoch": epoch}), *pods("bad", 1)])
        await world.apply([podgroup("good", 2), *pods("good", 2)])
        await world.settle()
        assert len(await bound(world, "good")) == 2
        await world.apply(pod("bad-1", "bad"))
        await world.settle()
        assert len(await bound(world, "bad")) == 2
        assert (await notes_of(world, "PodGroup", "bad"))["spinney.dev/epoch"] == "1"

    watched(scenario)


async def _the_forged_plan(world: World) -> set[str]:
    """A full cluster, equal priorities, consolidation off, and a plan that would have everybody else moved."""
    await full_of_others(world, 16)
    before = await bound(world, "other", "others")
    assert len(before) == 16
    nodes = await node_names(world)
    victims = await uids(world, "other", "others")
    await world.apply([podgroup("mine", 1), pod("mine-0", "mine", nodeSelector={"kubernetes.io/hostname": nodes[0]})])
    await world.settle()
    mine = (await uids(world, "mine"))["mine-0"]
    moves = tuple(Move(uid, nodes[1]) for uid in victims.values())
    plan = Plan(4, "wait", (Assignment(mine, nodes[3]),), moves=moves)
    await annotate(world, "mine", _unsigned(plan))
    await world.settle()
    assert await bound(world, "other", "others") == before
    assert await bound(world, "mine") == {}
    return set(await notes_of(world, "PodGroup", "mine"))


def test_inv7_a_forged_plan_evicts_nobody_and_binds_nobody_and_is_taken_away() -> None:
    async def scenario(world: World) -> None:
        guarded(world)
        assert "spinney.dev/plan" not in await _the_forged_plan(world)
        said = await rejections(world)
        assert len(said) == 1
        assert said[0].startswith("mine: The recorded plan (annotation spinney.dev/plan) was removed and not used: its")
        assert counted(world, "signature") == 1

    watched(scenario)


def test_a_gang_whose_record_was_forged_is_decided_as_any_other() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 1)])
        nodes = await node_names(world)
        forged = to_bind(await uids(world, "a"), [nodes[-1]])
        await annotate(world, "a", {"spinney.dev/plan": encode(forged)})
        await world.settle()
        assert await bound(world) == {}
        await world.apply(pod("a-1", "a"))
        await world.settle()
        assert len(await domains(world, (await bound(world)).values(), RACK)) == 1

    watched(scenario)


TEXTS = ["", "{}", "[" * 60_000, '{"v":' + "[" * 60_000, "9" * 5000, '{"v":1}', "\u0000", "é" * 1000]


@pytest.mark.parametrize("text", TEXTS, ids=[each[:6] + str(len(each)) for each in TEXTS])
def test_inv6_a_record_that_is_no_plan_is_taken_away(text: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 1, annotations={"spinney.dev/plan": text}), *pods("a", 1)])
        await world.settle()
        assert len(await bound(world)) == 1
        assert await plan_of(world, "a") is None
        assert len(await rejections(world)) == 1

    watched(scenario)


SIGNATURES = (None, "", "v1", f"v1 - 1 {ZEROS}", f"v1 - 1 {ZEROS[1:]}", f"v2 - 1 {ZEROS}", "é" * 64, "v1 - 9" * 9999)


@pytest.mark.parametrize("signature", SIGNATURES, ids=[str(each)[:12] for each in SIGNATURES])
def test_a_plan_without_the_schedulers_signature_is_not_carried_out(signature: str | None) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 1)])
        plan = to_bind(await uids(world, "a"), (await node_names(world))[:1])
        await annotate(world, "a", _unsigned(plan, signature))
        await world.settle()
        assert (await bound(world), await plan_of(world, "a")) == ({}, None)

    watched(scenario)


# Copies


def test_a_genuine_record_copied_to_another_podgroup_is_not_a_plan_there() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 2), podgroup("b", 3), *pods("b", 2)])
        plan = to_bind(await uids(world, "a"), (await node_names(world))[:2])
        genuine = await signed_by(world.record_keys[0], world, "a", plan)
        await annotate(world, "b", genuine)
        await world.settle()
        assert await bound(world) == {}
        assert counted(world, "signature") == 1

    watched(scenario)


def test_a_podgroup_made_anew_under_the_same_name_inherits_no_record() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 1)])
        genuine = await signed_by(
            world.record_keys[0], world, "a", to_bind(await uids(world, "a"), (await node_names(world))[:1])
        )
        await world.delete("PodGroup", "a")
        await world.apply(podgroup("a", 2, annotations=genuine))
        await world.settle()
        assert await bound(world) == {}

    watched(scenario)


@pytest.mark.parametrize("part", RECORD)
def test_no_part_of_a_record_can_be_changed(part: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 2)])
        nodes = await node_names(world)
        seated = await uids(world, "a")
        plans = [to_bind(seated, nodes[:2], 1), to_bind(seated, nodes[2:4], 2)]
        first, second = [await signed_by(world.record_keys[0], world, "a", plan) for plan in plans]
        await annotate(world, "a", {**first, part: second[part]})
        await world.settle()
        assert (await bound(world), await plan_of(world, "a")) == ({}, None)

    watched(scenario)


# Replays


async def _kept_record(world: World, name: str = "a") -> Json:
    """The record of a gang that was carried out and dropped, as somebody who watches has kept it."""
    kept: list[Json] = []

    def keep(collection: str, event: Any) -> None:
        notes = msgspec.json.decode(event.new.body)["metadata"].get("annotations") or {} if event.new else {}
        if collection == "scheduling.run.ai/podgroups" and event.new.name == name and "spinney.dev/plan" in notes:
            kept.append({key: notes[key] for key in RECORD})

    stop = world.on_write(keep)
    await world.apply([podgroup(name, 1), pod(f"{name}-0", name)])
    await world.settle()
    stop()
    assert len(await bound(world, name)) == 1
    return kept[0]


def test_a_record_that_was_carried_out_is_not_carried_out_again() -> None:
    async def scenario(world: World) -> None:
        record = await _kept_record(world)
        await annotate(world, "a", record)
        await world.settle()
        assert await plan_of(world, "a") is None
        assert counted(world, "replay") == 1
        assert "carried out or given up before" in (await rejections(world))[0]

    in_world(scenario)


def test_a_record_of_an_earlier_leader_that_appears_later_is_not_a_plan() -> None:
    async def scenario(world: World) -> None:
        record = await _kept_record(world)
        await world.restart()
        await world.settle()
        await annotate(world, "a", record)
        await world.settle()
        assert await plan_of(world, "a") is None
        assert counted(world, "replay") == 1
        assert "of an earlier leader (epoch 1)" in (await rejections(world))[0]

    in_world(scenario)


def test_a_record_of_a_later_leader_ends_the_leadership() -> None:
    async def main(sim: Sim) -> None:
        parts = Parts(nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, *QUEUES, podgroup("a", 3), *pods("a", 2)])
            leader = Successor(world, epoch=3, lease="l")
            async with leader:
                plan = to_bind(await uids(world, "a"), (await node_names(world))[:2], 4)
                record = await signed_by(world.record_keys[0], world, "a", plan, Mark(Term("l", 4), 1))
                await annotate(world, "a", record)
                await asyncio.sleep(5)
                assert leader.task is not None and leader.task.done()
                error = leader.task.exception()
                assert isinstance(error, BaseExceptionGroup) and error.subgroup(LeadershipLost) is not None
            assert await bound(world) == {}

    run(main, limit_s=1000)


# Keys


async def _half_bound(world: World, keys: tuple[bytes, ...]) -> str:
    """A gang of two with one member bound and a record signed with the first key; the node of the other one."""
    await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
    nodes = await node_names(world)
    plan = to_bind(await uids(world, "a"), nodes[:2])
    await annotate(world, "a", await signed_by(keys[0], world, "a", plan))
    found = await world.get("Pod", "a-0")
    assert found is not None
    await world.door.bind(world.ref(found), nodes[0], Precondition(found["metadata"]["uid"]))
    return nodes[1]


def _taken_over(keys: tuple[bytes, ...], occupied: bool = False) -> tuple[dict[str, str], str, list[str]]:
    """Where a half-bound gang of an earlier leader ends under one with these keys, where its record wanted it, events.

    The record is signed with the key `OTHER_KEY`.
    """

    async def main(sim: Sim) -> tuple[dict[str, str], str, list[str]]:
        parts = Parts(nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, *QUEUES])
            wanted = await _half_bound(world, (OTHER_KEY,))
            if occupied:
                other = pod("x", "", nodeName=wanted)
                other["spec"]["schedulerName"] = "other"
                await world.apply(other)
            async with Successor(world, epoch=2, record_keys=keys):
                await world.settle(quiet_s=90)
            assert await plan_of(world, "a") is None
            return await bound(world, "a"), wanted, await rejections(world)

    return run(main, limit_s=10_000)


def test_inv2_a_half_bound_gang_whose_key_was_lost_is_made_whole() -> None:
    placed, wanted, said = _taken_over((b"n" * 32,))
    assert len(placed) == 2
    assert len(said) == 1
    assert placed["a-1"] == wanted, "the only other node of the rack"


def test_inv2_a_half_bound_gang_whose_key_was_lost_and_which_has_no_room_is_ended_and_begins_anew() -> None:
    """K14: what is left below the minimum goes when its time is over. Nobody makes the pod anew here."""
    placed, _, _ = _taken_over((b"n" * 32,), occupied=True)
    assert placed == {}


def test_a_record_signed_with_the_previous_key_is_carried_out() -> None:
    placed, wanted, said = _taken_over((b"n" * 32, OTHER_KEY))
    assert (placed["a-1"], said) == (wanted, [])


@pytest.mark.parametrize("keys", [(), (b"",), (b"k" * 31,), (b"k" * 32, b"short")])
def test_a_scheduler_without_a_key_or_with_a_short_one_does_not_begin(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="expected at least one, each of 32 or more"):
        plan_records.PlanRecords(keys, Term("", 1))


# Everything else that only the scheduler writes

OURS = (
    *(
        "spinney.dev/" + name
        for name in ("fenced", "released", "members", "mirrored", "placement-score", "explanation")
    ),
    "kai.scheduler/stale-podgroup-timestamp",
    "kai.scheduler/last-start-timestamp",
    "spinney.dev/consolidate",
)
ON_PODS = tuple("spinney.dev/" + name for name in ("rank", "domain", "segment", "zone", "released"))
HOSTILE = (
    "9" * 5000,
    "-1",
    "nan",
    "inf",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "=,=,=",
    "[" * 9000,
    "é٣\u0000",
    ",",
)


@pytest.mark.parametrize("value", HOSTILE, ids=[each[:10] for each in HOSTILE])
def test_a_note_of_any_value_on_a_gang_or_its_pods_harms_nobody(value: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("bad", 2, annotations=dict.fromkeys(OURS, value)), *pods("bad", 1)])
        await world.apply([podgroup("good", 2), *pods("good", 2)])
        await world.settle()
        more = pod("bad-1", "bad")
        more["metadata"]["annotations"] |= dict.fromkeys(ON_PODS, value)
        await world.apply(more)
        await world.settle()
        assert len(await bound(world)) == 4
        await annotate(world, "bad", dict.fromkeys(OURS, value))
        running = await world.get("Pod", "bad-0")
        assert running is not None
        notes = {"metadata": {"annotations": dict.fromkeys(ON_PODS, value)}}
        await world.door.merge_patch(world.ref(running), notes, Precondition(running["metadata"]["uid"]))
        await world.apply(pod("bad-2", "bad"))
        await world.settle(quiet_s=120)
        assert len(await bound(world)) == 5

    watched(scenario)


# The tests can fail


def test_r13_where_records_are_not_verified_a_forged_one_is_seen_to_be_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([podgroup("a", 2), *pods("a", 1)])
        await world.settle()
        dog = Watchdog.over(world)
        plan = to_bind(await uids(world, "a"), (await node_names(world))[:1])
        await annotate(world, "a", _unsigned(plan))
        await world.settle()
        return dog.check_at_rest()

    assert not [text for text in in_world(scenario) if "INV4" in text]
    monkeypatch.setattr(
        plan_records.PlanRecords, "read", lambda self, group: plan_records.UnverifiedReader().read(group)
    )
    assert [text for text in in_world(scenario) if "INV4" in text]
