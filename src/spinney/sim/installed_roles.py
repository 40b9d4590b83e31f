"""Our roles as they are installed: each acts as its own service account, with the rights that are shipped.

A request of theirs that the server forbids breaks a promise: it is remembered, and the world fails by it at its end.
Never widens a right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Unpack

from kube_embedded.requests.kernel import Kernel
from spinney.api.roles import NAMESPACE, rbac_objects, user_of
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Exists, written
from spinney.drive.client.codec import read_status
from spinney.drive.client.http.transport import RequestOptions, Response, Stream, StreamOptions, Transport
from spinney.drive.client.paths import ResourcePath
from spinney.sim.objects import Json

_ACTS_AS = "impersonate-user"
_FORBIDDEN = 403
_TERMINATING = "NamespaceTerminating"
_QUOTA = "exceeded quota"
_AROUND = frozenset({"world", "spinney-sim"})
"""The administrator of a world, and its nodes and controllers."""
_HOME: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


@dataclass(slots=True)
class Refusals:
    """What the server forbade our roles; a namespace that ends and a quota of a user are no fault of theirs."""

    found: list[str] = field(default_factory=list)

    def look(self, user: str, method: str, path: str, code: int, body: bytes) -> None:
        status = read_status(code, body)
        if not status.has_cause(_TERMINATING) and _QUOTA not in status.message:
            self.found.append(f"{user} was refused {method} {path}: {status.message}")


class ActingAs:
    """A transport whose requests are those of a role; what lies behind it has to be allowed to impersonate."""

    def __init__(self, inner: Transport, role: str) -> None:
        self._inner = inner
        self._user = user_of(role)

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        options["headers"] = self._as_role(options.get("headers"))
        return await self._inner.request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        options["headers"] = self._as_role(options.get("headers"))
        async with self._inner.stream(path, **options) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()

    def _as_role(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        return {**(headers or {}), _ACTS_AS: self._user}


class RefusalRecorder:
    """A transport next to the server: what it forbids to whoever acts as a role is remembered."""

    def __init__(self, inner: Transport, refusals: Refusals) -> None:
        self._inner = inner
        self._refusals = refusals

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        reply = await self._inner.request(method, path, **options)
        user = _acts_as(options)
        if reply.status == _FORBIDDEN and user:
            self._refusals.look(user, method, path, reply.status, reply.body)
        return reply

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        async with self._inner.stream(path, **options) as stream:
            user = _acts_as(options)
            if stream.status == _FORBIDDEN and user:
                self._refusals.look(user, "WATCH", path, stream.status, await stream.read())
            yield stream

    async def close(self) -> None:
        await self._inner.close()


def _acts_as(options: StreamOptions) -> str:
    return (options.get("headers") or {}).get(_ACTS_AS, "")


def installed_rules(*, topology: bool = True) -> OperatorAdmission:
    """Admission as it is installed, with the authorizer on; whoever plays the cluster around our roles is exempt.

    `topology`: whether the operator is told to heed it.
    """
    admission_settings = AdmissionSettings(topology_enabled=topology, protects_managed=True, exempt_users=_AROUND)
    return OperatorAdmission(admission_settings)


async def install_rights(kernel: Kernel, administrator: Transport) -> None:
    """Namespace, accounts and rights as `spinney manifests` prints them.

    Their uids come from dice of their own: the dice of the world roll as if nobody had installed anything.
    """
    worlds, kernel.dice = kernel.dice, Random(NAMESPACE)
    try:
        door = Door(administrator, kernel.dice, field_manager="installer")
        for manifest in (_HOME, *rbac_objects()):
            group, _, version = manifest["apiVersion"].rpartition("/")
            resource = kernel.registry.by_kind(group, manifest["kind"], version)
            assert resource is not None
            path = ResourcePath(group, version, resource.plural, resource.namespaced)
            metadata = manifest["metadata"]
            outcome = await door.create(path.ref(metadata["name"], metadata.get("namespace", "")), manifest)
            if not isinstance(outcome, Exists):
                written(outcome)
    finally:
        kernel.dice = worlds
