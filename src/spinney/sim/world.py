"""A world in a box: embedded API server, simulated nodes and small controllers in one process, on one clock.

In simulated time (`spinney.sim.event_loop.run`) the same seed gives the same world; on the real clock it is what
`spinney up` stands on. It opens no socket.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import msgspec

from kube_apimachinery.admission import AdmissionPlugin
from kube_apimachinery.clock import Clock, Dice
from kube_embedded.base.identity import AUTHENTICATED, MASTERS, Identity
from kube_embedded.base.store import Event
from kube_embedded.server.api_server import ApiServer
from spinney.api.documents import read_documents
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import NotFound
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import Ref, ResourcePath
from spinney.drive.roles import RoleTransports
from spinney.sim.event_loop import SimulationError
from spinney.sim.installed_roles import ActingAs, RefusalRecorder, Refusals, install_rights
from spinney.sim.nodes.simulated_nodes import SimulatedNodes
from spinney.sim.objects import Json
from spinney.sim.stack import Parts, Stack
from spinney.sim.transport import InProcessTransport

Wrap = Callable[[Transport], Transport]
"""Puts a transport before another one: faults, traces."""

WriteHook = Callable[[str, Event], None]
"""Is called after every write with the collection (`group/plural`) and the change."""

RECORD_KEYS = (b"the key of every simulated world, known to all",)
"""What schedulers in worlds sign their plans with, unless they are given something else."""

_RECENT = 20


class Unsettled(SimulationError):
    """The world keeps changing; the message shows its last writes."""


class Forbidden(SimulationError):
    """The server forbade one of our roles something: rights or rules as shipped are not what the role needs."""


class World:
    """`async with World(clock, dice, parts) as world:` gives a running cluster.

    Operator, scheduler and Dynamo part act as their service accounts, with the rights that are shipped; what the server
    forbids them is in `refusals`, and leaving the world raises `Forbidden`. `rules` are those of admission.
    """

    def __init__(
        self,
        clock: Clock,
        dice: Dice,
        parts: Parts | None = None,
        *,
        server: ApiServer | None = None,
        rules: Sequence[AdmissionPlugin] = (),
        wrap: Wrap = lambda transport: transport,
    ) -> None:
        self.clock = clock
        self.dice = dice
        self.server = server or ApiServer(clock, dice, plugins=rules)
        self.refusals = Refusals()
        self._parts = parts or Parts()
        self.record_keys = self._parts.record_keys or RECORD_KEYS
        self._parts = replace(self._parts, record_keys=self.record_keys)
        self.stack = self._stack(wrap)
        own = self.transport("world")
        self.client = ApiClient(own, dice)
        self.door = Door(own, dice, field_manager="world")
        self.writes = 0
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._running: asyncio.Task[None] | None = None

    @property
    def nodes(self) -> SimulatedNodes:
        """The nodes, to make them fail."""
        return self.stack.nodes

    def transport(self, name: str) -> InProcessTransport:
        """A way into the server for one more client, as somebody who may do everything."""
        return InProcessTransport(self.server, Identity(name, groups=(MASTERS, AUTHENTICATED)))

    def as_role(self, role: str) -> Transport:
        """A way into the server for one more process of a role, with the rights of that role."""
        return ActingAs(RefusalRecorder(self.transport(role), self.refusals), role)

    def on_write(self, hook: WriteHook) -> Callable[[], None]:
        """Call the hook after every write to the store; returns how to stop it."""
        listeners = self.server.kernel.store.listeners
        listeners.append(hook)
        return lambda: listeners.remove(hook)

    async def __aenter__(self) -> Self:
        await self.server.start()
        await install_rights(self.server.kernel, self.transport("installer"))
        self.on_write(self._count)
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = await self._halt()
        await self.server.stop()
        if error is None and not ended.cancelled():
            ended.result()
        if error is None and self.refusals.found:
            raise Forbidden("; ".join(self.refusals.found[:_RECENT]))

    async def restart(self, wrap: Wrap = lambda transport: transport) -> None:
        """End whatever beside the server still runs, crashed or not, and begin anew with nothing remembered."""
        ended = await self._halt()
        if not ended.cancelled():
            ended.exception()
        self.stack = self._stack(wrap)
        await self._begin()

    def _stack(self, wrap: Wrap) -> Stack:
        """All of it has one line to the server, on which each role acts as itself."""
        line = wrap(RefusalRecorder(self.transport("spinney-sim"), self.refusals))
        roles = RoleTransports(*(ActingAs(line, role) for role in ("operator", "scheduler", "dynamo")))
        return Stack(line, self.clock, self.dice, self._parts, roles)

    async def _begin(self) -> None:
        self._running = asyncio.create_task(self.stack.run(), name="world")
        registered = asyncio.create_task(self.stack.registered.wait(), name="registered")
        await asyncio.wait([self._running, registered], return_when=asyncio.FIRST_COMPLETED)
        registered.cancel()
        if self._running.done():
            await self._running

    async def _halt(self) -> asyncio.Task[None]:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])
        return self._running

    async def apply(self, manifests: str | Json | Sequence[Json]) -> list[Json]:
        """Apply manifests (or YAML text) in order, as `kubectl apply --server-side --force-conflicts` would."""
        applied = []
        for manifest in _documents(manifests):
            ref = self.ref(manifest)
            outcome = await self.door.apply(ref, manifest, ANY)
            applied.append(written(outcome).object)
        return applied

    async def delete(self, kind: str, name: str, namespace: str = "default", *, grace_s: int | None = None) -> None:
        """Delete one object, as a user would."""
        ref = self._resource(kind).ref(name, self._place(kind, namespace))
        outcome = await self.door.delete(ref, ANY, grace_s=grace_s)
        if not isinstance(outcome, Deleted):
            written(outcome)

    async def get(self, kind: str, name: str, namespace: str = "default") -> Json | None:
        """One object by the name of its kind, or None."""
        try:
            return await self.client.get(self._resource(kind).ref(name, self._place(kind, namespace)))
        except NotFound:
            return None

    async def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        """All objects of a kind, of one namespace or of all."""
        found = await self.client.list(Selection(self._resource(kind), namespace, labels))
        return [*found.items]

    async def settle(self, quiet_s: float = 30.0, limit_s: float = 3600.0) -> None:
        """Until nothing has been written for a while, heartbeats aside. Raises `Unsettled` at the limit."""
        deadline_s = self.clock.monotonic() + limit_s
        seen = -1
        while seen != self.writes:
            if self.clock.monotonic() > deadline_s:
                raise Unsettled(f"still changing after {limit_s:g} s; last writes: {'; '.join(self._recent)}")
            seen = self.writes
            await self._check_alive(quiet_s)

    def ref(self, manifest: Json) -> Ref:
        """Where a manifest belongs; a namespaced object without a namespace belongs into `default`."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        resource = self.server.kernel.registry.by_kind(group, manifest["kind"], version)
        if resource is None:
            raise ValueError(f"{manifest['apiVersion']} {manifest['kind']}: found a kind that the server does not have")
        path = ResourcePath(group, version, resource.plural, resource.namespaced)
        namespace = manifest["metadata"].get("namespace") or "default" if resource.namespaced else ""
        return path.ref(manifest["metadata"]["name"], namespace)

    async def _check_alive(self, quiet_s: float) -> None:
        """Let time pass; if the parts have failed meanwhile, fail with them."""
        assert self._running is not None
        await asyncio.wait([self._running], timeout=quiet_s)
        if self._running.done():
            await self._running

    def _count(self, collection: str, event: Event) -> None:
        record = event.new or event.last or event.old
        if collection == "coordination.k8s.io/leases" or record is None:
            return
        self.writes += 1
        what = "delete" if event.new is None else "create" if event.old is None else "update"
        self._recent.append(f"{what} {collection} {record.namespace}/{record.name}")

    def _resource(self, kind: str) -> ResourcePath:
        found = next((each for each in self.server.kernel.registry.all() if each.kind == kind), None)
        if found is None:
            raise ValueError(f"{kind}: found a kind that the server does not have")
        return ResourcePath(found.group, found.version, found.plural, found.namespaced)

    def _place(self, kind: str, namespace: str) -> str:
        return namespace if self._resource(kind).namespaced else ""


def _documents(manifests: str | Json | Sequence[Json]) -> list[Json]:
    if isinstance(manifests, str):
        found: list[Any] = read_documents(manifests)
    else:
        found = [manifests] if isinstance(manifests, dict) else list(manifests)
    documents = [item for each in found if each for item in (each["items"] if each.get("kind") == "List" else [each])]
    return msgspec.json.decode(msgspec.json.encode(documents), type=list[Json])
