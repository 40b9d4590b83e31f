"""The metrics of all roles of this process on a port: plain, or over TLS for those alone who may read them.

Who that is says the API server: its TokenReview who comes, its SubjectAccessReview whether he may get `/metrics`, as
with controller-runtime. Nobody gets in while it cannot be asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from ssl import SSLContext
from typing import Any

from kube_apimachinery import tls
from kube_apimachinery.clock import Clock
from kube_apimachinery.system_clock import SystemClock
from spinney.cli.wiring.addresses import certificate_hosts
from spinney.cli.wiring.roles.probe_server import closed, listening
from spinney.cli.wiring.roles.registry import HasMetrics, Role
from spinney.drive import process_metrics
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.client.errors import ClientError
from spinney.drive.client.paths import Ref, ResourcePath
from spinney.serve.webhook.certificates import (
    CertificateRotation,
    InMemoryStore,
    Merge,
    MountedCertificates,
    Schedule,
    SelfSigned,
)

_TOKENS = ResourcePath("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
_ACCESS = ResourcePath("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
_PATH = "/metrics"
_KEPT_S = 30.0
_MOST_KEPT = 64
_MAY, _UNKNOWN, _FORBIDDEN = "", "401 Unauthorized", "403 Forbidden"


class MetricsGuard:
    """Who may read metrics. An answer of the API server is good for half a minute; questions are asked one by one."""

    def __init__(self, door: Door, clock: Clock) -> None:
        self._door = door
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}
        self._turn = asyncio.Lock()

    async def refusal(self, token: str) -> str:
        """The status to answer with; empty if the owner of the token may come in."""
        if not token:
            return _UNKNOWN
        digest = hashlib.sha256(token.encode()).hexdigest()
        async with self._turn:
            until, found = self._known.get(digest, (0.0, _UNKNOWN))
            if self._clock.monotonic() >= until:
                try:
                    found = await self._reviewed(token)
                except ClientError:
                    return "503 Service Unavailable"
                self._keep(digest, found)
        return found

    async def _reviewed(self, token: str) -> str:
        told = await self._asked(_TOKENS, "TokenReview", {"token": token})
        if not told.get("authenticated"):
            return _UNKNOWN
        user = told.get("user") or {}
        wanted = {key: user[key] for key in ("groups", "uid", "extra") if user.get(key)}
        path = {"path": _PATH, "verb": "get"}
        spec = {"user": user.get("username", ""), "nonResourceAttributes": path, **wanted}
        allowed = (await self._asked(_ACCESS, "SubjectAccessReview", spec)).get("allowed")
        return _MAY if allowed else _FORBIDDEN

    async def _asked(self, resource: ResourcePath, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
        status: dict[str, Any] = written(await self._door.create(Ref(resource, ""), body)).object.get("status") or {}
        return status

    def _keep(self, digest: str, found: str) -> None:
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[digest] = (self._clock.monotonic() + _KEPT_S, found)


@contextlib.asynccontextmanager
async def measured(
    host: str, port: int, metrics: Callable[[], str], guard: MetricsGuard | None = None
) -> AsyncIterator[int]:
    """While it lasts `/metrics` is served; gives the port. With a guard over TLS, by a certificate of our own."""

    async def answer(path: str, token: str) -> tuple[str, str]:
        refusal = await guard.refusal(token) if guard is not None else ""
        if refusal:
            return refusal, "for bearers of a token who may get the path /metrics\n"
        return ("200 OK", metrics()) if path == _PATH else ("404 Not Found", "only /metrics\n")

    async with contextlib.AsyncExitStack() as held:
        context = await held.enter_async_context(serving_context(host, None)) if guard is not None else None
        server = await listening(host, port, answer, context)
        held.push_async_callback(closed, server)
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def serving_context(host: str, directory: Path | None) -> AsyncIterator[SSLContext]:
    """TLS with the certificate of a directory, followed when it changes, or with one of our own, replaced in time."""
    schedule = Schedule()
    own = SelfSigned(InMemoryStore(), certificate_hosts(host), schedule)
    source = own if directory is None else MountedCertificates(directory)
    rotation = CertificateRotation(source, _nobody, SystemClock(), schedule.settle_s)
    context = tls.server_context(await rotation.begin())
    task = asyncio.create_task(rotation.run(lambda certificate: tls.show(context, certificate)), name="certificates")
    try:
        yield context
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _nobody(merge: Merge) -> None:
    """Clients are told by others whom to trust."""


def metrics_text(roles: dict[str, Role]) -> str:
    """The figures of all roles in the text format of Prometheus.

    Not by its library, as the page of the scheduler is: it sorts labels, and `role` comes first in what scripts and
    tests have read since these figures exist. Values of labels are words of ours.
    """
    found: dict[str, list[str]] = {}
    for name, role in roles.items():
        figures = {"ready": float(not role.trouble()), **role.figures()}
        for figure, value in figures.items():
            metric, _, labels = figure.partition("{")
            shown = f'{{role="{name}"' + (f",{labels}" if labels else "}")
            found.setdefault(f"spinney_{metric}", []).append(f"spinney_{metric}{shown} {value:g}")
    lines = []
    for metric, samples in sorted(found.items()):
        lines += [f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}", *samples]
    pages = [role.page() for role in roles.values() if isinstance(role, HasMetrics)]
    return "\n".join(lines) + "\n" + "".join((*pages, process_metrics.page()))
