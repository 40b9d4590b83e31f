"""Binds and evictions that the API server refuses: told everywhere, tried again with patience, nobody else harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import structlog.testing

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.scheduling.reporting.report import decode
from spinney.core.view.explanation import explain_gang
from spinney.drive.client.http.transport import Response
from spinney.sim.event_loop import Sim
from spinney.sim.world import World
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, gang
from unit.scheduler.scheduler_world import bound, in_world, plan_of, pod, podgroup, pods, said
from unit.scheduler.test_metrics_at_work import figures

Json = dict[str, Any]
NO = 'admission webhook "quota.example.com" denied the request: the department is over its budget'
TOLD = f"Failed to bind pod default/a-0 to node {{}}. {NO}"


class Guard:
    """A server that refuses requests whose path and body match, while `stands`; it counts what it saw of them."""

    def __init__(self, matches: Callable[[str, str], bool], code: int = 403, reason: str = "Forbidden") -> None:
        self.stands = True
        self.asked = 0
        self._matches = matches
        self._code = code
        self._reason = reason

    def wrap(self, _: Sim) -> Callable[[Any], Any]:
        return lambda inner: _Guarded(inner, self)

    def refuses(self, method: str, path: str) -> Response | None:
        if method == "GET" or not self._matches(method, path):
            return None
        self.asked += 1
        if not self.stands:
            return None
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": self._reason}
        body = {**status, "message": NO, "code": self._code}
        return Response(self._code, {"content-type": "application/json"}, msgspec.json.encode(body))


class _Guarded:
    def __init__(self, inner: Any, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard
        self.stream = inner.stream
        self.close = inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        return self._guard.refuses(method, path) or await self._inner.request(method, path, **rest)


def binds_of(gang: str) -> Callable[[str, str], bool]:
    return lambda method, path: f"/pods/{gang}-" in path and path.endswith("/binding")


def evictions_of(gang: str) -> Callable[[str, str], bool]:
    return lambda method, path: f"/pods/{gang}-" in path and path.endswith("/eviction")


async def events(world: World, about: str, reason: str) -> list[str]:
    found = [each for each in await world.list("Event") if each["involvedObject"]["name"] == about]
    return [each["message"] for each in found if each["reason"] == reason]


async def explained(world: World, name: str) -> Json:
    group = await world.get("PodGroup", name)
    assert group is not None
    told = decode((group["metadata"].get("annotations") or {}).get("spinney.dev/explanation", ""))
    return told or {}


async def shown(world: World, name: str) -> tuple[str, tuple[str, ...]]:
    """State and lines as `spinney explain`, the list of gangs and the pages have them."""
    group = msgspec.convert(await world.get("PodGroup", name), PodGroup)
    members = [msgspec.convert(each, Pod) for each in await world.list("Pod")]
    story = explain_gang(group, [each for each in members if each.metadata.name.startswith(f"{name}-")], {}, {})
    return story.state, story.lines


def test_a_bind_that_is_refused_is_told_on_the_pod_the_group_the_log_and_the_metrics() -> None:
    guard = Guard(binds_of("a"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(5)
        assert await bound(world) == {}
        first = (await world.list("Pod"))[0]
        (condition,) = [one for one in first["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "BindingError")
        assert condition["message"].startswith("Failed to bind pod default/a-0 to node ")
        assert condition["message"].endswith(NO)
        assert await events(world, "a-0", "FailedBinding") == [condition["message"]]
        told = await explained(world, "a")
        assert (told["state"], told["lines"][0]) == ("BindingError", condition["message"])
        assert (await said(world, "a")).startswith(condition["message"])
        assert await shown(world, "a") == ("BindingError", tuple(told["lines"]))
        assert world.stack.roles.scheduler is not None
        found = figures(world.stack.roles.scheduler.metrics.page())
        assert found['kai_refused_writes_total{code="403",write="bind"}'] >= 2
        assert found['kai_pending_podgroups{reason="BindingError"}'] == 1

    with structlog.testing.capture_logs() as lines:
        in_world(scenario, wrap=guard.wrap)
    (line,) = [each for each in lines if each["event"] == "a write was refused"]
    assert (line["log_level"], line["gang"], line["write"], line["writes"]) == ("warning", "default/a", "bind", 2)


def test_live1_a_gang_that_is_refused_for_good_is_tried_with_patience_and_without_writes() -> None:
    guard = Guard(binds_of("a"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(60)
        asked, writes = guard.asked, world.writes
        await asyncio.sleep(3600)
        assert 100 <= (guard.asked - asked) / 2 <= 130
        assert world.writes == writes
        assert await plan_of(world, "a") is None
        assert len(await events(world, "a-0", "FailedBinding")) == 1

    in_world(scenario, wrap=guard.wrap)


def test_live3_a_gang_is_bound_when_nobody_refuses_it_any_more_and_nothing_is_left_told() -> None:
    guard = Guard(binds_of("a"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(100)
        guard.stands = False
        await asyncio.sleep(40)
        assert len(await bound(world)) == 2
        assert await explained(world, "a") == {}
        assert await said(world, "a") == ""

    in_world(scenario, wrap=guard.wrap)


def test_a_webhook_that_fails_is_told_as_well_while_the_plan_stays_recorded() -> None:
    guard = Guard(binds_of("a"), 500, "InternalError")

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(60)
        assert await plan_of(world, "a") is not None
        assert (await shown(world, "a"))[0] == "BindingError"
        guard.stands = False
        await asyncio.sleep(40)
        assert len(await bound(world)) == 2
        assert await explained(world, "a") == {}

    in_world(scenario, wrap=guard.wrap)


def test_inv2_after_a_refusal_nobody_of_a_gang_is_bound_unless_all_would_be() -> None:
    guard = Guard(lambda method, path: path.endswith("/pods/a-1/binding"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), pod("a-1", "a")])
        await asyncio.sleep(1)
        await world.apply(pod("a-0", "a"))
        await asyncio.sleep(20)
        before = await bound(world)
        for name in before:
            await world.delete("Pod", name, grace_s=0)
        await world.apply(pod("a-2", "a"))
        await asyncio.sleep(100)
        assert await bound(world) == {}

    in_world(scenario, wrap=guard.wrap)


def test_other_gangs_are_placed_in_the_room_that_a_refused_gang_would_have() -> None:
    guard = Guard(binds_of("a"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(5)
        await world.apply([podgroup("b", 2), *pods("b", 2)])
        await asyncio.sleep(5)
        assert sorted(await bound(world)) == ["b-0", "b-1"]

    in_world(scenario, nodes=ONE_RACK, wrap=guard.wrap)


def test_inv7_nobody_is_evicted_again_for_a_gang_whose_binds_are_refused() -> None:
    guard = Guard(binds_of("high"))
    evicted: list[str] = []

    async def scenario(world: World) -> None:
        def look(collection: str, event: Any) -> None:
            if collection == "/pods" and event.new is None:
                evicted.append(event.old.name)

        await world.apply([*CLASSES, gang("high", 2, "high"), *pods("high", 2)])
        await asyncio.sleep(5)
        world.on_write(look)
        await world.apply([gang("low", 2, "low"), *pods("low", 2)])
        await asyncio.sleep(300)
        assert sorted(await bound(world)) == ["low-0", "low-1"]
        assert evicted == []
        guard.stands = False
        await asyncio.sleep(90)  # the longest backoff, a minute between searches
        assert sorted(await bound(world)) == ["high-0", "high-1"]

    in_world(scenario, nodes=ONE_RACK, wrap=guard.wrap)


def test_evictions_that_are_refused_are_told_to_the_gang_that_needs_the_room() -> None:
    guard = Guard(evictions_of("low"))

    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await asyncio.sleep(10)
        state, lines = await shown(world, "high")
        assert state == "EvictionError"
        assert lines[0].startswith("Failed to evict pod default/low-")
        assert lines[0].endswith(NO)
        assert len(await events(world, "high", "FailedEviction")) == 1
        assert world.stack.roles.scheduler is not None
        assert (
            figures(world.stack.roles.scheduler.metrics.page())['kai_refused_writes_total{code="403",write="evict"}']
            >= 1
        )
        asked = guard.asked
        await asyncio.sleep(600)
        assert guard.asked - asked <= 2 * 25
        guard.stands = False
        await asyncio.sleep(60)
        assert sorted(await bound(world)) == ["high-0", "high-1"]
        assert await explained(world, "high") == {}

    in_world(scenario, nodes=ONE_RACK, wrap=guard.wrap)


def test_a_recorded_place_that_cannot_be_released_is_told() -> None:
    def touches(method: str, path: str) -> bool:
        return "/pods/a-" in path and (path.endswith("/binding") or (method == "PATCH" and path.endswith(("-0", "-1"))))

    guard = Guard(touches)

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(10)
        state, lines = await shown(world, "a")
        assert (state, lines[1]) == ("BindingError", "3 other writes for it failed as well.")
        guard.stands = False
        await asyncio.sleep(60)
        assert len(await bound(world)) == 2

    in_world(scenario, wrap=guard.wrap)


def test_a_gang_that_failed_a_thousand_times_is_still_tried() -> None:
    guard = Guard(binds_of("a"))

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(5)
        assert world.stack.roles.scheduler is not None
        world.stack.roles.scheduler.session.scheduling_queue.entries["default", "a"].failures = 5000
        asked = guard.asked
        await asyncio.sleep(100)
        assert guard.asked > asked

    in_world(scenario, wrap=guard.wrap)


def test_a_plan_that_cannot_be_recorded_is_told_and_nothing_is_bound() -> None:
    guard = Guard(lambda method, path: path.endswith("/podgroups/a"))

    async def scenario(world: World) -> None:
        with structlog.testing.capture_logs() as log:
            await world.apply([podgroup("a", 2), *pods("a", 2), podgroup("b", 2), *pods("b", 2)])
            await asyncio.sleep(60)
        assert set(await bound(world)) == {"b-0", "b-1"}
        assert [each["reason"] for each in log if each["event"] == "a write was refused"] == [
            f"Failed to record the plan on PodGroup default/a. {NO}"
        ]
        assert NO in await said(world, "a")
        assert set(await events(world, "a", "FailedRecord")) == {
            f"Failed to record the plan on PodGroup default/a. {NO}"
        }
        state, lines = await shown(world, "a")
        assert NO in lines[0], (state, lines)
        guard.stands = False
        await world.settle()
        assert len(await bound(world)) == 4
        assert await said(world, "a") == ""

    in_world(scenario, wrap=guard.wrap)
