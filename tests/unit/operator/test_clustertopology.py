"""ClusterTopologies: finalizer, deletion that waits, the twin of the scheduler, what nodes make of the levels."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from spinney.drive.apply.write import ANY
from spinney.drive.client.http.transport import Response
from spinney.drive.operator.startup import StartupFailed
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, in_world, podcliqueset, writes_at_rest
from unit.operator.topologies import BLOCK, HOST, LEVELS, RACK, ZONE, events, packed, restarted, settings, topology

FINALIZER = "grove.io/clustertopology"
USER = podcliqueset("d", [clique("w")], clusterTopologyName="a", topologyConstraint=packed("block"))


def _keys(twin: dict[str, Any] | None) -> list[str]:
    return [level["nodeLabel"] for level in (twin or {})["spec"]["levels"]]


def test_l1_every_topology_gets_the_finalizer() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", LEVELS))
        await world.settle()
        for name in ("a", "grove-topology"):
            assert (await world.get("ClusterTopology", name) or {})["metadata"]["finalizers"] == [FINALIZER]

    in_world(scenario, settings())


def test_l2_deletion_waits_for_the_last_user_and_an_event_names_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply([topology("a", LEVELS), USER])
        await world.settle()
        await world.delete("ClusterTopology", "a")
        await world.settle()
        assert await world.get("ClusterTopology", "a") is not None
        found = [each for each in await world.list("Event") if each["reason"] == "DeletionBlocked"]
        assert [each["message"] for each in found] == ["deletion waits: it is used by PodCliqueSets default/d"]
        await world.delete("PodCliqueSet", "d")
        await world.settle()
        assert await world.get("ClusterTopology", "a") is None
        assert await world.get("Topology", "a") is None

    in_world(scenario, settings())


def test_l2_an_unused_topology_goes_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.apply([topology("a", LEVELS), podcliqueset("d", [clique("w")])])
        await world.settle()
        await world.delete("ClusterTopology", "a")
        await world.settle()
        assert await world.get("ClusterTopology", "a") is None

    in_world(scenario, settings())


def test_l2_use_by_omission_counts_for_the_default_topology() -> None:
    implicit = podcliqueset("d", [clique("w")], topologyConstraint=packed("block"))
    admin_made = settings(LEVELS, default_topology="mine")

    async def scenario(world: World) -> None:
        await world.apply(implicit)
        await world.settle()
        await restarted(world, settings(None, default_topology="mine"))
        await world.apply(topology("mine", LEVELS))
        await world.settle()
        await world.delete("ClusterTopology", "mine")
        await world.settle()
        assert await world.get("ClusterTopology", "mine") is not None

    in_world(scenario, admin_made)


def test_l3_the_default_topology_stays_while_topology_is_enabled() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.delete("ClusterTopology", "grove-topology")
        await world.settle()
        assert await world.get("ClusterTopology", "grove-topology") is not None
        assert ("Warning", "DeletionBlocked") in await events(world, "ClusterTopology")

    in_world(scenario, settings())


def test_c3_the_default_topology_is_written_at_start_and_manual_changes_are_overwritten() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        found = await world.get("ClusterTopology", "grove-topology") or {}
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "grove-operator"
        assert [level["domain"] for level in found["spec"]["levels"]] == ["zone", "block", "rack", "host"]
        changed = {"metadata": {"labels": None}, "spec": {"levels": found["spec"]["levels"][:1]}}
        await world.door.merge_patch(world.ref(found), changed, ANY)
        await world.settle()
        await restarted(world, settings())
        again = await world.get("ClusterTopology", "grove-topology") or {}
        assert again["spec"] == found["spec"]
        assert again["metadata"]["labels"] == found["metadata"]["labels"]
        assert _keys(await world.get("Topology", "grove-topology")) == [ZONE, BLOCK, RACK, HOST]

    in_world(scenario, settings(dict(reversed(LEVELS.items()))))


def test_c3_a_foreign_scheduler_topology_of_that_name_ends_the_start_and_is_not_touched() -> None:
    foreign = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "grove-topology"},
        "spec": {"levels": [{"nodeLabel": "theirs"}]},
    }

    async def scenario(world: World) -> None:
        await world.apply(foreign)
        with pytest.raises(BaseExceptionGroup) as raised:
            await restarted(world, settings())
        found = raised.value.subgroup(StartupFailed)
        assert found is not None
        (failure,) = found.exceptions
        assert isinstance(failure, StartupFailed)
        assert failure.status == 3
        assert "is not owned by ClusterTopology grove-topology" in str(failure)
        assert _keys(await world.get("Topology", "grove-topology")) == ["theirs"]
        await restarted(world, settings(None))

    in_world(scenario, settings(None))


class WebhookAway:
    """A server whose webhook for topologies cannot be called the first few times, as API servers tell it."""

    def __init__(self, inner: Any, calls: int) -> None:
        self._inner = inner
        self.left = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def request(self, method: str, path: str, **more: Any) -> Response:
        if method != "GET" and "/clustertopologies" in path and self.left:
            self.left -= 1
            message = 'failed calling webhook "validate.clustertopologies": no endpoints available for service'
            told = {"kind": "Status", "code": 500, "reason": "InternalError", "message": f"Internal error: {message}"}
            return Response(500, {}, json.dumps(told).encode())
        answer: Response = await self._inner.request(method, path, **more)
        return answer


def test_c3_a_webhook_that_is_not_up_yet_is_waited_for_and_told_once() -> None:
    """In a new installation everything starts at once: the operator does not end for it."""

    async def scenario(world: World) -> None:
        assert await world.get("ClusterTopology", "grove-topology") is None
        away = WebhookAway(None, 60)

        def wrap(inner: Any) -> WebhookAway:
            away._inner = inner
            return away

        world._parts = replace(world._parts, operator=settings())
        with capture_logs() as told:
            await world.restart(wrap)
            await asyncio.sleep(90)
        assert away.left == 0
        assert _keys(await world.get("Topology", "grove-topology")) == [ZONE, BLOCK, RACK, HOST]
        assert len([each for each in told if "webhook" in each["event"]]) == 1

    in_world(scenario, settings(None))


def test_c4_off_deletes_only_the_default_topology_of_ours() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", LEVELS))
        await world.settle()
        await restarted(world, settings(None))
        assert await world.get("ClusterTopology", "grove-topology") is None
        assert await world.get("ClusterTopology", "a") is not None
        await world.apply(topology("grove-topology", LEVELS))
        await restarted(world, settings(None))
        assert await world.get("ClusterTopology", "grove-topology") is not None

    in_world(scenario, settings())


def test_c2_without_levels_there_is_no_topology_of_the_operator_and_sets_name_theirs() -> None:
    async def scenario(world: World) -> None:
        await restarted(world, replace(settings(), levels=(), needs_default=False))
        assert await world.list("ClusterTopology") == []
        await world.apply([topology("a", LEVELS), USER])
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "a"

    in_world(scenario, settings(None))


def test_c6_a_configured_topology_must_exist_at_start() -> None:
    admin_made = replace(settings(), levels=(), default_topology="mine")

    async def scenario(world: World) -> None:
        with pytest.raises(BaseExceptionGroup) as raised:
            await restarted(world, admin_made)
        found = raised.value.subgroup(StartupFailed)
        assert found is not None
        assert getattr(found.exceptions[0], "status", 0) == 2
        await restarted(world, settings(None))
        await world.apply(topology("mine", LEVELS))
        await restarted(world, admin_made)
        await world.apply(podcliqueset("d", [clique("w")], topologyConstraint=packed("block")))
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "mine"

    in_world(scenario, settings(None))


def test_c5_l5_a_changed_topology_gets_a_new_twin() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", {"zone": ZONE, "host": HOST}))
        await world.settle()
        before = await world.get("Topology", "a") or {}
        assert _keys(before) == [ZONE, HOST]
        assert before["metadata"]["ownerReferences"][0]["kind"] == "ClusterTopology"
        await world.apply(topology("a", {"zone": ZONE, "rack": RACK, "host": HOST}))
        await world.settle()
        after = await world.get("Topology", "a") or {}
        assert _keys(after) == [ZONE, RACK, HOST]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

    in_world(scenario, settings())


def test_c5_numa_is_no_level_of_the_twin() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", {"host": HOST, "numa": "example.com/numa"}))
        await world.settle()
        assert _keys(await world.get("Topology", "a")) == [HOST]

    in_world(scenario, settings())


def test_c5_a_twin_that_somebody_deleted_comes_back() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", LEVELS))
        await world.settle()
        await world.delete("Topology", "a")
        await world.settle()
        assert await world.get("Topology", "a") is not None

    in_world(scenario, settings())


def test_l6_drift_is_told_where_the_twin_is_not_ours() -> None:
    foreign = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "a"},
        "spec": {"levels": [{"nodeLabel": "theirs"}]},
    }

    async def scenario(world: World) -> None:
        await world.apply([foreign, topology("a", LEVELS)])
        await world.settle()
        found = await world.get("ClusterTopology", "a") or {}
        assert condition(found, "SchedulerTopologyDrift") == ("True", "Drift")
        (twin,) = found["status"]["schedulerTopologyStatuses"]
        assert twin["inSync"] is False
        assert "observedGeneration" not in found["status"]
        assert _keys(await world.get("Topology", "a")) == ["theirs"]
        await world.delete("Topology", "a")
        await world.settle()
        found = await world.get("ClusterTopology", "a") or {}
        assert condition(found, "SchedulerTopologyDrift") == ("False", "InSync")
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert ("Normal", "TopologyInSync") in await events(world, "ClusterTopology")

    in_world(scenario, settings())


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ({"numa": "example.com/numa"}, "none of its levels is a node label"),
        ({"zone": HOST, "rack": RACK}, f"{HOST} can only be the key of the narrowest level"),
    ],
    ids=["numa only", "hosts above racks"],
)
def test_l6_drift_is_told_where_the_scheduler_cannot_have_such_a_topology(levels: dict[str, str], why: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("a", levels))
        await world.settle()
        found = await world.get("ClusterTopology", "a") or {}
        assert condition(found, "SchedulerTopologyDrift") == ("True", "Drift")
        (twin,) = found["status"]["schedulerTopologyStatuses"]
        assert twin["message"] == f'KAI Topology "a" cannot be made: {why}'
        assert [each["domain"] for each in found["status"]["levels"]] == list(levels)
        assert ("Warning", "TopologyDriftDetected") in await events(world, "ClusterTopology")
        await world.apply(topology("a", LEVELS))
        await world.settle()
        assert condition(await world.get("ClusterTopology", "a"), "SchedulerTopologyDrift") == ("False", "InSync")

    in_world(scenario, settings())


def test_l6_the_status_tells_what_the_nodes_make_of_each_level() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        node = (await world.list("Node"))[0]
        labels = {RACK: None, BLOCK: "torn"}
        await world.door.merge_patch(world.ref(node), {"metadata": {"labels": labels}}, ANY)
        other = (await world.list("Node"))[-1]
        await world.door.merge_patch(world.ref(other), {"metadata": {"labels": {BLOCK: "torn"}}}, ANY)
        await world.settle()
        found = await world.get("ClusterTopology", "grove-topology") or {}
        levels = {level["domain"]: level for level in found["status"]["levels"]}
        assert (levels["zone"]["nodes"], levels["zone"]["domains"]) == (16, 2)
        assert levels["block"]["notNested"] == ["torn"]
        assert (levels["rack"]["nodes"], levels["rack"]["nodesMissing"]) == (15, 1)
        assert levels["host"]["domains"] == 16

    in_world(scenario, settings())


def test_live1_topologies_are_left_alone_when_all_is_well() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([topology("a", LEVELS), topology("b", {"zone": ZONE})])
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario, settings()) == []
