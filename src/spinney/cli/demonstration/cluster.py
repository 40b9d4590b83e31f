"""The cluster of a demonstration as its script uses it: what it applies (demo_files, also examples/demo), scale, read,
wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import resources
from typing import Any, TypeVar

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.documents import read_documents
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgroup import PodGroup
from spinney.cli.topology_sources import Needs, TopologyInputs, read_cluster
from spinney.core.view.explanation import Member, WorkloadExplanation
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.clock import system_dice
from spinney.drive.scheduler.caches import NODES, PODGROUPS, PODS
from spinney.whatif.inputs.manifests import apply_all, manifests_of
from spinney.whatif.inputs.nodes import parse_nodes
from spinney.whatif.workloads import WorkloadNotFound, read_story


def text_of(name: str) -> str:
    return resources.files("spinney.cli").joinpath("demo_files", f"{name}.yaml").read_text(encoding="utf-8")


def manifests(name: str) -> list[dict[str, Any]]:
    """The objects of a file; nodes are expanded from their description."""
    if name == "nodes":
        return parse_nodes(text_of(name), "nodes")
    return read_documents(text_of(name), name)


T = TypeVar("T")
NAMESPACE = "default"
TIMEOUT_S = 25.0
_POLL_S = 0.1
_GROUPS = ResourcePath(
    PodCliqueScalingGroup.GROUP, PodCliqueScalingGroup.VERSION, PodCliqueScalingGroup.PLURAL, namespaced=True
)


class DemoCluster:
    def __init__(self, transport: Transport) -> None:
        self._client = ApiClient(transport, system_dice())
        self._door = Door(transport, system_dice(), field_manager="spinney-demo")
        self._labels: dict[str, Mapping[str, str]] = {}

    async def apply(self, name: str) -> None:
        await apply_all(self._client, self._door, manifests_of(manifests(name), f"{name}.yaml"))

    async def scale(self, scaling_group: str, replicas: int) -> None:
        """By the scale subresource, as kubectl does."""
        written(await self._door.scale(_GROUPS.ref(scaling_group, NAMESPACE), replicas, ANY))

    async def story(self, name: str, kind: str) -> WorkloadExplanation | None:
        """What `spinney explain` would tell; None: there is nothing to tell yet."""
        try:
            return await read_story(self._client, NAMESPACE, name, kind)
        except WorkloadNotFound:
            return None

    async def status_of(self, gang: str) -> str:
        """What the PodGroup of a gang says in its status; empty: nothing."""
        group = await self._client.get(PODGROUPS.ref(gang, NAMESPACE), PodGroup)
        return next((said.message for said in reversed(group.status.scheduling_conditions)), "")

    async def running(self) -> set[str]:
        """Pods whose containers run."""
        pods = (await self._client.list(Selection(PODS, NAMESPACE), Pod)).items
        return {pod.metadata.name for pod in pods if pod.status.phase == "Running"}

    async def domains(self, members: Iterable[Member], key: str) -> set[str]:
        """Values of a label of the nodes that they run on."""
        if not self._labels:
            nodes = (await self._client.list(Selection(NODES), Node)).items
            self._labels = {node.metadata.name: node.metadata.labels for node in nodes}
        return {self._labels[member.node].get(key, "") for member in members}

    async def cluster(self) -> TopologyInputs:
        return await read_cluster(self._client, TopologyInputs(), Needs(pods=True))


async def wait_until(look: Callable[[], Awaitable[T | None]]) -> T | None:
    """What a look finds, repeated until it finds something; None: it took too long."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while (found := await look()) is None:  # noqa: ASYNC110 - several kinds are looked at, of which none tells
                await asyncio.sleep(_POLL_S)
            return found
    except TimeoutError:
        return None
