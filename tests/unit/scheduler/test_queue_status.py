"""The status of queues in a world at work: true at rest, and written only when it was not."""

from __future__ import annotations

from typing import Any

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.scheduler.scheduler_world import bound, in_world, pod, podgroup, pods
from unit.scheduler.test_queue_shares import FOUR_HOSTS, hosts, later
from unit.scheduler.test_queue_shares import queue as shared_queue
from unit.scheduler.test_queues_at_work import queue
from unit.scheduler.watched_world import patch, watched

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
FIELDS = ("requested", "allocated", "allocatedNonPreemptible")


async def gpus(world: World, name: str) -> tuple[str, ...]:
    """Requested, allocated, and not preemptible of it."""
    found = await world.get("Queue", name)
    status = (found or {}).get("status") or {}
    return tuple(status.get(field, {}).get(GPU, "0") for field in FIELDS)


def watch_queues(world: World) -> list[str]:
    """Names of queues, one for each time that one is written."""
    written: list[str] = []

    def look(collection: str, event: Any) -> None:
        if collection.endswith("/queues") and event.new is not None:
            written.append(event.new.key[1])

    world.on_write(look)
    return written


def test_k16_a_queue_and_its_parent_say_what_is_asked_for_and_held() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("team", 24), podgroup("a", 1, queue="team"), *pods("a", 4)])
        await world.settle()
        assert len(await bound(world)) == 3
        assert await gpus(world, "team") == ("32", "24", "0")
        assert await gpus(world, "default-parent-queue") == ("32", "24", "0")
        parent = await world.get("Queue", "default-parent-queue")
        assert parent is not None
        assert parent["status"]["childQueues"] == ["default-queue", "team"]

    watched(scenario)


def test_k16_what_is_not_preemptible_is_said_for_itself_and_everything_goes_with_its_pods() -> None:
    async def scenario(world: World) -> None:
        group = podgroup("a", 2, queue="team", preemptibility="non-preemptible")
        free = queue("team", -1)
        await world.apply([free, group, *pods("a", 2), podgroup("b", queue="team"), pod("b", "b", 1)])
        await world.settle()
        assert await gpus(world, "team") == ("17", "17", "16")
        for name in ("a-0", "a-1", "b"):
            await world.delete("Pod", name)
        await world.settle()
        assert await gpus(world, "team") == ("0", "0", "0")

    watched(scenario)


def test_k16_a_gang_that_changes_its_queue_is_counted_in_the_new_one_only() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("one", -1), queue("two", -1), podgroup("a", queue="one"), *pods("a", 1)])
        await world.settle()
        assert await gpus(world, "one") == ("8", "8", "0")
        await patch(world, "PodGroup", "a", {"spec": {"queue": "two"}})
        await world.settle()
        assert (await gpus(world, "one"), await gpus(world, "two")) == (("0", "0", "0"), ("8", "8", "0"))

    watched(scenario)


def test_k16_a_status_that_is_true_is_not_written_and_a_false_one_is_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("team", -1), podgroup("a", queue="team"), *pods("a", 1)])
        await world.settle()
        written = watch_queues(world)
        await patch(world, "Pod", "a-0", {"metadata": {"labels": {"touched": "yes"}}})
        await world.settle()
        assert written == []
        await patch(world, "Queue", "team", {"status": {"allocated": {GPU: "99"}}}, subresource="status")
        await world.settle()
        assert written == ["team", "team"]
        assert await gpus(world, "team") == ("8", "8", "0")

    watched(scenario)


def test_k16_many_changes_of_one_moment_are_one_write() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        written = watch_queues(world)
        gangs = [(podgroup(f"g{number}"), pod(f"g{number}", f"g{number}", 1)) for number in range(40)]
        await world.apply([each for gang in gangs for each in gang])
        await world.settle()
        assert await gpus(world, "default-queue") == ("40", "40", "0")
        assert len(written) <= 2 * 2

    watched(scenario)


def test_k16_a_status_is_no_reason_to_decide_gangs_again() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("big", 17), *pods("big", 17), podgroup("a"), *pods("a", 1)])
        await world.settle()
        assert world.stack.roles.scheduler is not None
        big = world.stack.roles.scheduler.session.scheduling_queue.entries["default", "big"]
        before = big.decided
        await patch(world, "Queue", "default-queue", {"status": {"allocated": {GPU: "99"}}}, subresource="status")
        await world.settle()
        assert big.decided == before > 0

    watched(scenario, settings=Settings(consolidate=None))


async def figures(world: World, name: str) -> tuple[str, ...]:
    """Fair share, asked, held and borrowed GPUs of it."""
    found = await world.get("Queue", name)
    status = (found or {}).get("status") or {}
    fields = ("fairShare", "asked", "allocated", "borrowed")
    return tuple(status.get(field, {}).get(GPU, "0") for field in fields)


def test_q8_a_queue_and_its_parent_say_their_share_what_is_asked_for_and_what_is_borrowed() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shared_queue("a", 16), shared_queue("b", 16), *hosts(["a1", "a2", "a3", "a4"], "a")])
        await later(world)
        assert await figures(world, "a") == ("32", "32", "32", "16")
        assert await figures(world, "b") == ("0", "0", "0", "0")
        await world.apply([podgroup("b1", 2, queue="b"), *pods("b1", 2), *hosts(["b2"], "b")])
        await world.settle()
        assert await figures(world, "a") == ("16", "16", "16", "0"), "what asked for it went away"
        assert await figures(world, "b") == ("16", "24", "16", "0"), "one gang waits"
        parent = await world.get("Queue", "default-parent-queue")
        assert parent is not None
        assert parent["status"]["asked"] == {GPU: "40", "cpu": "0", "memory": "0"}
        assert parent["status"]["fairShare"][GPU] == "32"

    watched(scenario, nodes=FOUR_HOSTS)


def test_q8_shares_are_told_anew_when_the_cluster_grows_though_no_pod_changes() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shared_queue("a", 0), *hosts(["a1", "a2", "a3"], "a")])
        await world.settle()
        await world.apply([podgroup("big", 9, queue="a"), *pods("big", 9)])
        await world.settle()
        before = int((await figures(world, "a"))[0])
        await world.delete("Node", (await world.list("Node"))[-1]["metadata"]["name"])
        await world.settle()
        assert int((await figures(world, "a"))[0]) == before - 8

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q8_a_server_that_drops_our_fields_is_each_once() -> None:
    """As with upstream's CRD."""

    async def scenario(world: World) -> None:
        crd = await world.get("CustomResourceDefinition", "queues.scheduling.run.ai")
        assert crd is not None
        for version in crd["spec"]["versions"]:
            status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
            for field in ("fairShare", "asked", "borrowed"):
                del status[field]
        await patch(world, "CustomResourceDefinition", crd["metadata"]["name"], {"spec": crd["spec"]})
        assert world.stack.roles.scheduler is not None
        door = world.stack.roles.scheduler._door
        send = door.status
        sent: list[str] = []

        async def counted(ref: Any, changed: Json, given: Any) -> Any:
            sent.extend([ref.name] if "fairShare" in changed else [])
            return await send(ref, changed, given)

        door.status = counted  # type: ignore[method-assign, assignment]
        await world.apply([shared_queue("a", 0), *hosts(["a1"], "a")])
        await world.settle()
        assert await figures(world, "a") == ("0", "0", "8", "0")
        assert sent == ["a", "default-parent-queue"]
        await world.apply(hosts(["a2"], "a"))
        await world.settle()
        assert await figures(world, "a") == ("0", "0", "16", "0"), "upstream's fields are written as ever"
        assert sent == ["a", "default-parent-queue"]

    watched(scenario)
