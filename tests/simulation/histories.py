"""What happens to a world, drawn by seeded dice: workloads come and go, nodes fail, schedulers die and pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from simulation.gangs import CLASSES, Drawn, draw_gang, draw_set
from simulation.processes import SchedulerProcess
from spinney.drive.apply.write import ANY
from spinney.drive.client.errors import ClientError
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, HOST, LEVELS, RACK
from unit.scheduler.scheduler_world import GPU, TOPOLOGY, pod, podgroup

Json = dict[str, Any]
Step = Callable[[], Awaitable[None]]
MOST_GANGS = 9


LENT = {"a": ("left", 4), "b": ("left", 12), "c": ("right", 8), "left": ("top", 16), "right": ("top", 8)}
"""Queues that lend to each other: the parent, and how many GPUs are promised."""


class History:
    """Steps in a world; `done` counts them by name.

    `lending`: dice of their own, by which gangs are in queues that lend to each other; None: there are no such queues.
    """

    def __init__(
        self,
        world: World,
        dice: Random,
        processes: list[SchedulerProcess],
        *,
        sets: bool,
        lending: Random | None = None,
    ) -> None:
        self._world = world
        self._dice = dice
        self._lending = lending
        self._processes = processes
        self._gangs: dict[str, Drawn] = {}
        self._sets: list[str] = []
        self._lost: dict[str, Json] = {}
        self._born = 0
        self.done: Counter[str] = Counter()
        self._steps: list[tuple[int, Step]] = [
            (12, self.create_gang),
            (3, self.grow),
            (3, self.shrink_gang),
            (2, self.delete_gang),
            (1, self.ask_for_more),
            (1, self.ungate),
            (2, self.lose_node),
            (2, self.bring_back),
            (1, self.delete_node),
            (1, self.shrink_node),
            (1, self.cordon),
            (1, self.relabel),
            (1, self.add_node),
            (1, self.change_topology),
            (1, self.change_queue),
            (2, self.kill),
            (2, self.pause),
            *([(6, self.create_set), (3, self.scale_set), (2, self.delete_set)] if sets else []),
        ]

    async def prepare(self) -> None:
        """Queues and priorities; the default queue is the grouper's."""
        for name, value in CLASSES.items():
            metadata = {"name": name}
            await self._world.apply(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
            )
        await self._world.apply([_queue("top", -1, parent=""), _queue("small", 12), _queue("wide", 48)])
        if self._lending is not None:
            await self._world.apply([_lent(self._lending, name) for name in ("left", "right", "a", "b", "c")])
            await self._borrow(self._lending)

    async def _borrow(self, dice: Random) -> None:
        """Most hosts are held by gangs of one queue, whoever comes later; some of them are elastic."""
        hosts, queue = len(await self._world.list("Node")), dice.choice("abc")
        for number in range(hosts // 2):
            name, count = f"lent{number}", dice.choice((1, 2, 2))
            group = podgroup(name, dice.choice((1, count)), queue=queue)
            await self._world.apply([group, *(pod(f"{name}-{each}", name) for each in range(count))])

    async def step(self) -> None:
        """One thing happens; what the server refuses did not."""
        weights, steps = zip(*self._steps, strict=True)
        chosen = self._dice.choices(steps, weights)[0]
        self.done[chosen.__name__] += 1
        with suppress(ClientError):
            await chosen()

    async def heal(self) -> None:
        """Faults of the world end as well: half of the times lost nodes come back."""
        if self._dice.random() < 0.5:
            await self.bring_back()
        if await self._world.get("Topology", "tree") is None:
            await self._world.apply(TOPOLOGY)

    # Workloads

    async def create_gang(self) -> None:
        if len(self._gangs) >= MOST_GANGS:
            return await self.delete_gang()
        self._born += 1
        drawn, objects = draw_gang(self._dice, f"g{self._born}", list(self._gangs.values()))
        self._gangs[drawn.name] = drawn
        if self._lending is not None:
            for each in objects:
                if each["kind"] == "PodGroup" and self._lending.random() < 0.9:
                    each["spec"]["queue"] = self._lending.choice("abc")
        await self._world.apply(objects)
        return None

    async def grow(self) -> None:
        drawn = self._any_gang()
        if drawn is not None:
            leaf = self._dice.choice(sorted(drawn.sizes))
            await self._world.apply([drawn.next_pod(leaf) for _ in range(self._dice.choice((1, 2)))])

    async def shrink_gang(self) -> None:
        """A pod goes; some are made anew under the same name."""
        drawn = self._any_gang()
        found = [each for each in await self._world.list("Pod") if drawn is not None and _group(each) == drawn.name]
        if not found:
            return
        victim = self._dice.choice(found)
        name, again = victim["metadata"]["name"], self._dice.random() < 0.6
        await self._world.delete("Pod", name, grace_s=self._dice.choice((0, 0, 5)))
        if again:
            await asyncio.sleep(self._dice.choice((0.0, 1.0)))
            await self._world.apply(_anew(victim))

    async def delete_gang(self) -> None:
        drawn = self._any_gang()
        if drawn is None:
            return
        del self._gangs[drawn.name]
        names = [each["metadata"]["name"] for each in await self._world.list("Pod") if _group(each) == drawn.name]
        first = self._dice.random() < 0.5
        if first:
            await self._world.delete("PodGroup", drawn.name)
        for name in names:
            with suppress(ClientError):
                await self._world.delete("Pod", name, grace_s=self._dice.choice((0, 5)))
        if not first:
            await self._world.delete("PodGroup", drawn.name)

    async def ask_for_more(self) -> None:
        drawn = self._any_gang()
        found = await self._world.get("PodGroup", drawn.name) if drawn is not None else None
        if found is not None and not found["spec"].get("subGroups"):
            await self._patch("PodGroup", found, {"spec": {"minMember": self._dice.choice((1, 2, 3))}})

    async def ungate(self) -> None:
        for drawn in self._gangs.values():
            while drawn.gated:
                found = await self._world.get("Pod", drawn.gated.pop())
                if found is not None:
                    await self._patch("Pod", found, {"spec": {"schedulingGates": None}})

    async def create_set(self) -> None:
        if len(self._sets) < 2:
            self._born += 1
            self._sets.append(f"s{self._born}")
            await self._world.apply(draw_set(self._dice, self._sets[-1]))

    async def scale_set(self) -> None:
        groups = await self._world.list("PodCliqueScalingGroup")
        if groups and self._dice.random() < 0.6:
            chosen = self._dice.choice(groups)
            await self._patch("PodCliqueScalingGroup", chosen, {"spec": {"replicas": self._dice.choice((1, 2, 3))}})
        elif self._sets:
            found = await self._world.get("PodCliqueSet", self._dice.choice(self._sets))
            if found is not None:
                await self._patch("PodCliqueSet", found, {"spec": {"replicas": self._dice.choice((1, 2))}})

    async def delete_set(self) -> None:
        if self._sets:
            await self._world.delete("PodCliqueSet", self._sets.pop(0))

    # Nodes and topologies

    async def lose_node(self) -> None:
        node = await self._any_node()
        if node is not None:
            await self._world.nodes.lose(node["metadata"]["name"])

    async def bring_back(self) -> None:
        """All nodes are well, and those that were deleted are there again."""
        for name in sorted(self._lost):
            await self._world.apply(self._lost.pop(name))
        for node in await self._world.list("Node"):
            await self._world.nodes.recover(node["metadata"]["name"])
            if node["spec"].get("unschedulable"):
                await self._world.nodes.cordon(node["metadata"]["name"], False)

    async def delete_node(self) -> None:
        node = await self._any_node()
        if node is None:
            return
        name = node["metadata"]["name"]
        self._lost[name] = _node(name, node)
        await self._world.delete("Node", name)

    async def shrink_node(self) -> None:
        node = await self._any_node()
        if node is None:
            return
        amounts = {**node["status"]["allocatable"], GPU: str(self._dice.choice((0, 4, 6, 8)))}
        await self._world.nodes.shrink(node["metadata"]["name"], amounts)

    async def cordon(self) -> None:
        node = await self._any_node()
        if node is not None:
            await self._world.nodes.cordon(node["metadata"]["name"])

    async def relabel(self) -> None:
        """A node moves to another rack of the same block, or to no rack at all."""
        node, twin = await self._any_node(), await self._any_node()
        if node is None or twin is None:
            return
        keys = [key for key in LEVELS.values() if key != HOST]
        labels = {key: twin["metadata"]["labels"].get(key) for key in keys}
        if self._dice.random() < 0.3:
            labels[RACK] = None
        await self._patch("Node", node, {"metadata": {"labels": labels}})

    async def add_node(self) -> None:
        model = await self._any_node()
        if model is None:
            return
        self._born += 1
        name = f"late-{self._born}"
        twin = _node(name, model)
        twin["metadata"]["labels"][HOST] = name
        await self._world.apply(twin)

    async def change_topology(self) -> None:
        """It goes and comes again, sometimes without its blocks."""
        await self._world.delete("Topology", "tree")
        await asyncio.sleep(self._dice.choice((0.0, 0.5, 20.0)))
        levels = [
            each for each in TOPOLOGY["spec"]["levels"] if each["nodeLabel"] != BLOCK or self._dice.random() < 0.7
        ]
        await self._world.apply({**TOPOLOGY, "spec": {"levels": levels}})

    async def change_queue(self) -> None:
        await self._world.apply(_queue("small", self._dice.choice((4, 12, 32))))
        if self._lending is not None:
            await self._world.apply(_lent(self._lending, self._lending.choice(sorted(LENT))))

    # Schedulers

    async def kill(self) -> None:
        await self._dice.choice(self._processes).kill()

    async def pause(self) -> None:
        """As SIGSTOP does; past the lease, sometimes."""
        process = self._dice.choice(self._processes)
        process.pause()
        await asyncio.sleep(self._dice.choice((2.0, 15.0, 45.0)))
        process.resume()

    def _any_gang(self) -> Drawn | None:
        return self._dice.choice(list(self._gangs.values())) if self._gangs else None

    async def _any_node(self) -> Json | None:
        """None when the history has deleted all of them."""
        nodes = await self._world.list("Node")
        return self._dice.choice(nodes) if nodes else None

    async def _patch(self, kind: str, found: Json, change: Json) -> None:
        await self._world.door.merge_patch(self._world.ref({**found, "kind": kind}), change, ANY)


def _queue(name: str, gpus: int, parent: str = "top") -> Json:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": share, "memory": share, "gpu": {**share, "quota": gpus, "limit": gpus}}
    spec: Json = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _lent(dice: Random, name: str) -> Json:
    """A queue that may borrow, with more or less than it is promised elsewhere."""
    parent, gpus = LENT[name]
    found = _queue(name, dice.choice((0, gpus, gpus, gpus * 2)), parent)
    gpu = found["spec"]["resources"]["gpu"]
    gpu.update(limit=-1 if dice.random() < 0.8 else gpus * 3, overQuotaWeight=dice.choice((0, 1, 1, 3)))
    if dice.random() < 0.2:
        found["spec"]["reclaimMinRuntime"] = dice.choice(("5s", "1m"))
    found["spec"]["priority"] = dice.choice((100, 100, 200))
    return found


def _group(found: Json) -> str:
    return str((found["metadata"].get("annotations") or {}).get("pod-group-name", ""))


def _anew(found: Json) -> Json:
    """The same pod for somebody who does not know that there was one."""
    metadata, spec = found["metadata"], found["spec"]
    annotations = {key: value for key, value in metadata["annotations"].items() if not key.startswith("spinney.dev/")}
    kept = {key: spec[key] for key in ("schedulerName", "containers") if key in spec}
    body = {"name": metadata["name"], "namespace": metadata["namespace"], "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**body, "labels": metadata.get("labels") or {}},
        "spec": kept,
    }


def _node(name: str, like: Json) -> Json:
    amounts = {key: like["status"][key] for key in ("capacity", "allocatable")}
    labels = dict(like["metadata"]["labels"])
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": amounts}
