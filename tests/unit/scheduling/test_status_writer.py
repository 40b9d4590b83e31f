"""Reports carried out on an API server: what is written, and above all what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.crds import all_crds
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, PLACEMENT_SCORE
from spinney.core.scheduling.reporting import Event, PodReport, Report, messages, ungrouped_reports
from spinney.core.scheduling.reporting.report import State
from spinney.drive.apply.door import Door
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.execution.api_writer import ApiWriter
from spinney.drive.scheduler.status_writer import RateLimits, StatusWriter
from spinney.sim.event_loop import Sim, run
from spinney.sim.stack import Parts
from spinney.sim.world import World
from unit.placement.refusal_kit import RACK, gang, nodes, pods
from unit.scheduling.reporting_kit import told

Json = dict[str, Any]
GROUP = ("ns", "a")


async def _nothing() -> None:
    pass


class Stage:
    """A PodGroup with pods on a server, reports at work, and views that are looked at anew when asked."""

    def __init__(self, world: World, rate_limits: RateLimits | None = None) -> None:
        self.world = world
        self.groups: dict[Key, PodGroup] = {}
        self.pods: dict[Key, Pod] = {}
        self.written: list[str] = []
        self.rate_limits = rate_limits
        self.reports = self.begin()
        world.on_write(lambda collection, event: self.written.append(collection))

    def begin(self) -> StatusWriter:
        """A process that remembers nothing."""
        door = Door(self.world.transport("reports"), self.world.dice, field_manager="kai-scheduler")
        api_writer = ApiWriter(door, self.world.clock, self.world.dice, _nothing)
        return StatusWriter(api_writer, self.groups.get, self.pods.get, rate_limits=self.rate_limits)

    async def look(self) -> None:
        for one in await self.world.list("PodGroup"):
            self.groups[GROUP] = msgspec.convert(one, PodGroup)
        for one in await self.world.list("Pod"):
            pod = msgspec.convert(one, Pod)
            self.pods[pod.metadata.namespace, pod.metadata.name] = pod

    async def told(self, *reports: Report, seconds: float = 1.0) -> list[str]:
        """Which collections were written to when these were put."""
        self.written.clear()
        work = asyncio.create_task(self.reports.run())
        for report in reports:
            self.reports.put(GROUP, self.here(report))
        await asyncio.sleep(seconds)
        work.cancel()
        await asyncio.wait([work])
        await self.look()
        return list(self.written)

    def here(self, report: Report) -> Report:
        """The report with the uids that the server gave."""
        return replace(report, pods=tuple(replace(one, uid=self.pods[one.key].metadata.uid) for one in report.pods))

    async def events(self, kind: str) -> list[tuple[str, str]]:
        found = await self.world.list("Event")
        return [(one["type"], one["reason"]) for one in found if one["involvedObject"]["kind"] == kind]


def on_stage(
    scenario: Callable[[Stage], Awaitable[None]], members: int = 3, rate_limits: RateLimits | None = None
) -> None:
    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await world.apply([each for each in all_crds() if each["spec"]["names"]["kind"] == "PodGroup"])
            await world.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}, podgroup()])
            await world.apply([pod(f"w-{at}") for at in range(members)])
            await world.settle(quiet_s=5.0)
            stage = Stage(world, rate_limits)
            await stage.look()
            await scenario(stage)

    run(main)


def podgroup() -> Json:
    metadata = {"name": GROUP[1], "namespace": GROUP[0]}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": {}}


def pod(name: str) -> Json:
    spec = {"containers": [{"name": "main", "image": "work"}], "schedulerName": "kai-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def refusal(more: int = 0) -> Report:
    """With one node more other figures are told, and the same story."""
    return told(nodes({"b0/r0": [8, 8], "b0/r1": [8] + [8] * more}), gang(required=RACK, pods=[pods("w", 3, 8)]))


SCHEDULED = Report(State.SCHEDULED, "", clears=True, score=0.75)


def test_k15_a_refusal_is_on_the_group_on_its_pods_and_in_events() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.told(refusal())
        group = stage.groups[GROUP]
        (said,) = group.status.scheduling_conditions
        assert (said.type, said.transition_id, said.message) == ("UnschedulableOnNodePool", "1", refusal().message)
        assert EXPLANATION in group.metadata.annotations
        for one in stage.pods.values():
            marked = one.condition("PodScheduled")
            assert marked is not None
            assert (marked.status, marked.reason, marked.message) == ("False", "Unschedulable", refusal().message)
        assert await stage.events("PodGroup") == [("Normal", "Unschedulable")]
        assert await stage.events("Pod") == [("Warning", "Unschedulable")] * 3

    on_stage(scenario)


def test_live1_what_has_been_told_is_not_written_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.told(refusal())
        assert await stage.told(refusal(), refusal()) == []

    on_stage(scenario)


def test_live1_another_process_does_not_tell_it_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.told(refusal())
        stage.reports = stage.begin()
        assert await stage.told(refusal()) == []

    on_stage(scenario)


def test_new_figures_come_later_and_without_events() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.told(refusal())
        assert await stage.told(refusal(1)) == []
        group = "scheduling.run.ai/podgroups"
        assert await stage.told(seconds=31.0) == [group, group]
        assert stage.groups[GROUP].status.scheduling_conditions[0].message == refusal(1).message

    on_stage(scenario)


def test_a_story_that_is_over_before_it_is_told_is_not_told() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.told(refusal(), replace(SCHEDULED, score=None)) == []

    on_stage(scenario)


def test_k15_a_scheduled_gang_loses_condition_and_explanation_and_has_its_score() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.told(refusal())
        await stage.told(SCHEDULED)
        group = stage.groups[GROUP]
        assert group.status.scheduling_conditions == ()
        assert EXPLANATION not in group.metadata.annotations
        assert group.metadata.annotations[PLACEMENT_SCORE] == "0.7500"

    on_stage(scenario)


def test_the_same_refusal_after_a_success_is_news_again() -> None:
    async def scenario(stage: Stage) -> None:
        for report in (refusal(), SCHEDULED, refusal()):
            await stage.told(report)
        assert await stage.events("PodGroup") == [("Normal", "Unschedulable")] * 2

    on_stage(scenario)


def test_a_pod_that_joins_a_waiting_gang_is_told_and_nobody_else() -> None:
    async def scenario(stage: Stage) -> None:
        first = refusal()
        await stage.told(replace(first, pods=first.pods[:2]))
        assert await stage.told(first) == ["/pods", "/events"]

    on_stage(scenario)


def test_a_pod_that_has_its_node_or_is_another_one_is_not_marked() -> None:
    async def scenario(stage: Stage) -> None:
        uid = stage.pods["ns", "w-0"].metadata.uid
        stage.pods["ns", "w-0"] = msgspec.structs.replace(
            stage.pods["ns", "w-0"], spec=msgspec.structs.replace(stage.pods["ns", "w-0"].spec, node_name="n0")
        )
        marks = ("Unschedulable", "no room")
        reports = (PodReport(uid, ("ns", "w-0"), marks), PodReport("somebody else", ("ns", "w-1"), marks))
        stage.reports.put(GROUP, Report(State.NOT_READY, "x", pods=reports))
        assert await stage.told() == []

    on_stage(scenario)


def test_writes_keep_to_their_rate() -> None:
    async def scenario(stage: Stage) -> None:
        for at in range(20):
            about = stage.pods["ns", "w-0"].metadata
            stage.reports.note("v1", "Pod", about, Event("Normal", "Scheduled", f"event {at}"))
        assert len(await stage.told(seconds=1.01)) == 2 + 5

    on_stage(scenario, rate_limits=RateLimits(rate_per_s=5.0, burst=2))


def test_an_event_of_the_group_carries_its_annotations() -> None:
    async def scenario(stage: Stage) -> None:
        about = stage.groups[GROUP].metadata
        stage.reports.note("scheduling.run.ai/v2alpha2", "PodGroup", about, messages.preempted("w-0", ("ns", "big"), 2))
        await stage.told()
        (found,) = await stage.world.list("Event")
        assert found["metadata"]["annotations"]["evictor-pod-group-name"] == "big"
        assert (found["involvedObject"]["kind"], found["source"]["component"]) == ("PodGroup", "kai-scheduler")

    on_stage(scenario)


def test_a_group_that_is_gone_is_forgotten() -> None:
    async def scenario(stage: Stage) -> None:
        stage.groups.clear()
        assert await stage.told(refusal()) == []
        assert stage.reports.backlog == 0

    on_stage(scenario)


def test_inv12_a_story_about_an_older_version_is_not_told_and_comes_again_with_the_newer_one() -> None:
    async def scenario(stage: Stage) -> None:
        old = dict(stage.groups)
        await stage.world.apply({**podgroup(), "spec": {"queue": "other"}})
        stage.groups.update(old)
        assert await stage.told(refusal(), seconds=0.3) == []
        assert "scheduling.run.ai/podgroups" in await stage.told(seconds=5.0)

    on_stage(scenario)


def test_a_story_that_is_over_before_it_was_told_is_not_told() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reports.put(GROUP, stage.here(refusal()))
        stage.reports.forget(GROUP)
        assert await stage.told() == []

    on_stage(scenario)


def test_inv5_pods_without_a_group_are_told_once() -> None:
    async def scenario(stage: Stage) -> None:
        pods = [stage.pods["ns", f"w-{at}"] for at in range(2)]
        stage.reports.put_ungrouped(ungrouped_reports(("ns", "x"), pods))
        assert await stage.told() == ["/pods", "/pods", "/events", "/events"]
        stage.reports.put_ungrouped(ungrouped_reports(("ns", "x"), pods))
        assert await stage.told() == []

    on_stage(scenario)
