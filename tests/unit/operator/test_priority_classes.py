"""The PriorityClass of a set is on its pods too, so that quotas and kubelets see it."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.sim.event_loop import Sim
from spinney.sim.world import World
from unit.operator.operator_world import clique, in_world, podcliqueset, writes_at_rest

Json = dict[str, Any]
HIGH, OWN = (
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("own", 7))
)
CONTAINERS = [{"name": "main", "image": "serve"}]


async def classes(world: World) -> dict[str, tuple[str, int]]:
    """By clique: the class of its pods, and what the server made of it."""
    return {
        each["metadata"]["labels"]["grove.io/podclique"]: (
            each["spec"].get("priorityClassName", ""),
            each["spec"].get("priority", 0),
        )
        for each in await world.list("Pod")
    }


def test_the_class_that_a_set_names_is_on_its_pods_and_one_of_their_own_wins() -> None:
    async def scenario(world: World) -> dict[str, tuple[str, int]]:
        await world.apply([HIGH, OWN])
        cliques = [clique("a"), clique("b", podSpec={"containers": CONTAINERS, "priorityClassName": "own"})]
        await world.apply([podcliqueset("d", cliques, priorityClassName="high"), podcliqueset("e", [clique("c")])])
        await world.settle()
        return await classes(world)

    assert in_world(scenario) == {"d-0-a": ("high", 1000), "d-0-b": ("own", 7), "e-0-c": ("", 0)}


class MakesPodsWithoutClass:
    """As an operator did it that put the class on gangs alone."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if method == "POST" and path.endswith("/pods"):
            body = msgspec.json.decode(rest["body"])
            body["spec"].pop("priorityClassName", None)
            rest["body"] = msgspec.json.encode(body)
        return await self._inner.request(method, path, **rest)


def test_live1_pods_from_before_stay_and_their_replacements_have_the_class() -> None:
    async def scenario(world: World) -> None:
        await world.apply(HIGH)
        await world.apply(podcliqueset("d", [clique("a", 2)], priorityClassName="high"))
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod")}
        assert await classes(world) == {"d-0-a": ("", 0)}
        assert await writes_at_rest(world) == []
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before
        gone = (await world.list("Pod"))[0]["metadata"]["name"]
        await world.delete("Pod", gone, grace_s=0)
        await world.settle()
        found = [each["spec"].get("priorityClassName", "") for each in await world.list("Pod")]
        assert sorted(found) == ["", "high"]

    def older(sim: Sim) -> Any:
        return MakesPodsWithoutClass

    in_world(scenario, wrap=older)


def test_a_class_that_does_not_exist_is_told_and_its_pods_come_with_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("a")], priorityClassName="high"))
        await world.settle()
        assert await world.list("Pod") == []
        told = [each["message"] for each in await world.list("Event") if "high" in each.get("message", "")]
        assert any("no PriorityClass with name high was found" in each for each in told), told
        world.refusals.found.clear()  # they were meant
        await world.apply(HIGH)
        await world.settle()
        assert await classes(world) == {"d-0-a": ("high", 1000)}

    in_world(scenario)
