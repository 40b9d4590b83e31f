"""The pages over a cluster: caches kept up to date by watches, planning, and a listener. Nobody leads.

Only lists and watches: whoever serves pages never writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import click

from kube_apimachinery.clock import Dice
from kube_apimachinery.system_clock import system_dice
from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.wiring.addresses import reachable_host
from spinney.cli.wiring.roles.registry import DEFAULT_PORT, DashboardOptions, RoleConfig
from spinney.core.view.plan_result import PlanResult
from spinney.core.view.topology_usage import TopologyUse, topology_uses
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.cache import Cache, OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.informers.unreadable import figures as unreadable_figures
from spinney.drive.scheduler.caches import (
    CLUSTER_TOPOLOGIES,
    EVENTS,
    NODES,
    PODGROUPS,
    PODS,
    QUEUES,
    TOPOLOGIES,
    TOPOLOGY_BINDINGS,
    path_of,
)
from spinney.serve.dashboard.data_sources import ClusterEvent, Key, PlanRefused, Questions, Views
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.server import serving
from spinney.whatif.inputs.manifests import ManifestError
from spinney.whatif.request import planner

_SETS = path_of(PodCliqueSet)
_MOST_PODS = 8
_MOST_EVENTS = 50


class ClusterViews:
    """`run` keeps them up to date. Kinds that the cluster does not have are seen when it gets them."""

    def __init__(self, transport: Transport, dice: Dice, unreadable: Unreadable | None = None) -> None:
        unreadable = unreadable or Unreadable()
        self.client = ApiClient(transport, dice, unreadable=unreadable)
        own_writes = OwnWrites()
        self._caches = SharedCaches(self.client, own_writes, dice, unreadable=unreadable)
        self._latecomers = OptionalCaches(self.client, own_writes, dice, self._caches.unreadable)
        nodes = self._caches.cache(Selection(NODES), Node)
        pods = self._caches.cache(Selection(PODS), Pod)
        groups = self._latecomers.expect(PODGROUPS, PodGroup)
        kai = self._latecomers.expect(TOPOLOGIES, Topology)
        grove = self._latecomers.expect(CLUSTER_TOPOLOGIES, ClusterTopology)
        bound = self._latecomers.expect(TOPOLOGY_BINDINGS, ClusterTopologyBinding)
        self._sets: Cache[dict[str, Any]] = self._latecomers.expect(_SETS, dict)
        queues = self._latecomers.expect(QUEUES, Queue)
        self._all: tuple[Cache[Any], ...] = (nodes, pods, groups, kai, grove, bound, self._sets, queues)
        self.views = Views(nodes, pods, groups, kai, grove, bound, self._sets, queues)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._caches.run(), name="dashboard-watches")
            await self._latecomers.refresh()
            group.create_task(self._latecomers.run(), name="dashboard-latecomers")

    async def wait_synced(self) -> None:
        for cache in self._all:
            await cache.wait_synced()

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self._all)

    def trouble(self) -> str:
        """Why what is seen may be old or not all there is."""
        found = [*self._caches.troubles, *self._latecomers.troubles]
        return "; ".join(found) if found or self.synced else "not everything has been read yet"

    def uses(self) -> list[TopologyUse]:
        return topology_uses(self._sets)

    async def events(self, gang: Key, pods: Sequence[str]) -> list[ClusterEvent]:
        """About a gang and the first of its pods, newest first; none where they may not be read."""
        names = [gang[1], *pods[:_MOST_PODS]]
        found = await asyncio.gather(*(self._events_about(gang[0], name) for name in names))
        every = sorted((one for each in found for one in each), key=lambda one: one.when, reverse=True)
        return every[:_MOST_EVENTS]

    async def _events_about(self, namespace: str, name: str) -> list[ClusterEvent]:
        try:
            found = await self.client.list(Selection(EVENTS, namespace, fields=f"involvedObject.name={name}"))
        except ClientError:
            return []
        return [_happening(one) for one in found.items]


def _happening(event: dict[str, Any]) -> ClusterEvent:
    about = event.get("involvedObject") or {}
    times = (event.get("eventTime"), event.get("lastTimestamp"), event.get("firstTimestamp"))
    return ClusterEvent(
        when=next((str(one)[:19] + "Z" for one in times if one), ""),
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        about=f"{about.get('kind', '')} {about.get('name', '')}",
        message=str(event.get("message") or ""),
        count=event["count"] if isinstance(event.get("count"), int) else 1,
    )


@contextlib.asynccontextmanager
async def dashboard(
    transport: Transport,
    options: DashboardOptions,
    configuration: OperatorConfiguration,
    metrics: Callable[[], str] | None = None,
    unreadable: Unreadable | None = None,
) -> AsyncIterator[str]:
    """Pages are served while the block runs; gives the address to tell people, once: a new token is a part of it.

    `metrics` are served beside them, under `/metrics`. `unreadable` learns of objects that can not be shown.
    """
    token = options.token()
    seen = ClusterViews(transport, system_dice(), unreadable)
    plan = answering(planner(seen.client, configuration))
    questions = Questions(seen.events, seen.uses, plan, seen.trouble, metrics)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(seen.run(), name="dashboard-views")
        try:
            await seen.wait_synced()
            ports = (DEFAULT_PORT, 0) if options.port is None else (options.port,)
            async with serving(Model(seen.views), questions, options.host, ports, token) as url:
                shown = url.replace(options.host, reachable_host(options.host), 1)
                yield f"{shown}/?token={token}" if token and options.token_file is None else shown
        finally:
            watching.cancel()


def answering(plan: Callable[[str], Awaitable[PlanResult]]) -> Callable[[str], Awaitable[PlanResult | PlanRefused]]:
    """A text that is no manifest, or a cluster that cannot be read, is a sentence. One is answered after another."""
    turn = asyncio.Lock()

    async def answer(text: str) -> PlanResult | PlanRefused:
        try:
            async with turn:
                return await plan(text)
        except (ManifestError, ClientError) as error:
            return PlanRefused(str(error))

    return answer


def create(role_config: RoleConfig) -> DashboardRole:
    return DashboardRole(role_config, role_config.connect())


class DashboardRole:
    """One process. Its address is told once, when everything has been read."""

    def __init__(self, role_config: RoleConfig, transport: Transport) -> None:
        role_config.dashboard.token()  # a file that cannot be used is told before anything starts
        self._config = role_config
        self._transport = transport
        self._address = ""
        self._unreadable = Unreadable()

    def trouble(self) -> str:
        return "" if self._address else "views are not synced"

    def figures(self) -> dict[str, float]:
        return unreadable_figures(self._unreadable)

    async def run(self) -> None:
        try:
            role_config, seen = self._config, self._unreadable
            async with dashboard(
                self._transport, role_config.dashboard, role_config.configuration, unreadable=seen
            ) as address:
                self._address = address
                click.echo(f"pages    {address}")
                await asyncio.get_running_loop().create_future()
        finally:
            await self._transport.close()
