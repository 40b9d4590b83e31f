"""A world that is watched: whatever a scenario does, no promise is broken on the way, and nothing is left at rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World
from unit.scheduler.scheduler_world import in_world

T = TypeVar("T")
Json = dict[str, Any]


def watched(scenario: Callable[[World], Awaitable[T]], **told: Any) -> T:
    """Run a scenario, then let the world come to rest and ask what was broken."""

    async def main(world: World) -> T:
        dog = Watchdog.over(world)
        answer = await scenario(world)
        await world.settle()
        assert dog.check_at_rest() == []
        return answer

    return in_world(main, **told)


async def patch(world: World, kind: str, name: str, body: Json, *, subresource: str = "") -> None:
    """As a user would, with a merge patch."""
    found = await world.get(kind, name)
    assert found is not None
    written(await world.door.merge_patch(world.ref(found), body, ANY, subresource=subresource))


async def lose_node(world: World, name: str) -> None:
    """A node is gone with everything on it, and its pods are gone as well."""
    await world.delete("Node", name)
    for pod in await world.list("Pod"):
        if pod["spec"].get("nodeName") == name:
            await world.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)
