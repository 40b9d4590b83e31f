"""What the scheduler says about a gang is seen on its PodGang and on the PodCliqueSet that the user wrote."""

from __future__ import annotations

from typing import Any

from spinney.sim.world import World
from unit.operator.operator_world import clique, podcliqueset
from unit.operator.topologies import packed, settings
from unit.scheduler.scheduler_world import in_world, said

Json = dict[str, Any]


def asking(gpus: int) -> Json:
    amounts = {"nvidia.com/gpu": str(gpus)}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}


async def scheduled(world: World, name: str) -> tuple[str, str]:
    """Status and message of the gang, which are those that its set shows."""
    gang, whole = await world.get("PodGang", f"{name}-0"), await world.get("PodCliqueSet", name)
    assert gang is not None
    assert whole is not None
    (shown,) = whole["status"]["podGangStatuses"]
    told: list[Json] = [each for each in gang["status"]["conditions"] if each["type"] == "Scheduled"]
    assert told == [each for each in shown["conditions"] if each["type"] == "Scheduled"]
    return told[0]["status"], told[0]["message"]


def test_k16_a_queue_that_is_missing_is_seen_on_the_set_until_it_comes() -> None:
    async def scenario(world: World) -> None:
        labels = {"kai.scheduler/queue": "team"}
        await world.apply(podcliqueset("llm", [clique("w", 2, podSpec=asking(8))], metadata={"labels": labels}))
        await world.settle()
        sentence = "Queue 'team' does not exist"
        assert await said(world, "llm-0") == sentence
        expected = f"fewer pods scheduled than the minimum: llm-0-w 0/2. {sentence}"
        assert await scheduled(world, "llm") == ("False", expected)
        free = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
        spec = {"parentQueue": "default-parent-queue", "resources": free}
        queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": spec}
        await world.apply(queue)
        await world.settle()
        assert await scheduled(world, "llm") == ("True", "every pod group has its minimum of pods scheduled")

    in_world(scenario, operator=settings())


def test_s3_k15_a_gang_that_does_not_fit_says_on_the_set_what_cannot_be_met() -> None:
    async def scenario(world: World) -> None:
        whole = podcliqueset("llm", [clique("w", 3, podSpec=asking(8))], topologyConstraint=packed("rack"))
        await world.apply(whole)
        await world.settle()
        status, message = await scheduled(world, "llm")
        assert status == "False"
        assert message.endswith("requirement example.com/rack couldn't be satisfied for job default/llm-0.")

    in_world(scenario, operator=settings())
