"""The two API servers that a stack can stand on: the embedded one, and a real control plane.

Neither is reachable from elsewhere without TLS and a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spinney.api.admission import AdmissionPlugin
from spinney.api.dynamo_conversion import convert
from spinney.cli.addresses import certificate_hosts, reachable_host
from spinney.cli.stack_options import StackOptions
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock
from spinney.serve import tls
from spinney.serve.apiserver.access.identity import ADMIN, AUTHENTICATED, MASTERS, Identity, Nobody, role_identity
from spinney.serve.apiserver.embedded import Embedded, build
from spinney.serve.apiserver.running import Listen, listening
from spinney.sim.kubernetes.assets import Assets
from spinney.sim.kubernetes.control_plane import DEFAULT_CONTROLLERS, WORKLOAD_CONTROLLERS, ControlPlane, Settings
from spinney.sim.kubernetes.errors import StartFailed
from spinney.sim.kubernetes.kubeconfig import write_kubeconfig
from spinney.sim.transport import InProcessTransport

ROLES = ("operator", "scheduler", "dynamo", "webhook", "dashboard")
CONVERTERS = {("nvidia.com", "DynamoGraphDeployment"): convert}
"""Kinds whose versions the embedded server converts in process, whatever their definition says of conversion."""


@dataclass(frozen=True, slots=True)
class Api:
    """A running API server: where it is, a way in for our own parts, and what of it has ended by itself."""

    url: str
    transport: Transport
    ended: Callable[[], str | None]
    operator: Transport


@contextlib.asynccontextmanager
async def embedded(options: StackOptions, plugins: Sequence[AdmissionPlugin] = ()) -> AsyncIterator[Api]:
    listen = Listen(options.host, options.port)
    token = _admin_token(options.data_dir)
    tokens = {token: Identity("admin", groups=(MASTERS, AUTHENTICATED))}
    tokens |= {secrets.token_urlsafe(24): role_identity(role) for role in ROLES}
    nobody = Nobody.ADMIN_ON_LOOPBACK if listen.is_loopback else Nobody.REFUSED
    with _directory(options.data_dir) as directory:
        authority: Path | None = None
        if not listen.is_loopback:
            listen, authority = _with_tls(listen, directory)
        server = build(Embedded(tokens, nobody, options.data_dir, plugins, CONVERTERS))
        async with listening(server, listen) as url:
            shown = url.replace(options.host, reachable_host(options.host))
            write_kubeconfig(
                options.kubeconfig, name="spinney", url=shown, authority=authority, user="admin", token=token
            )
            as_operator = replace(role_identity("operator"), groups=(MASTERS, AUTHENTICATED))
            operator = InProcessTransport(server, as_operator)
            yield Api(shown, InProcessTransport(server, ADMIN), lambda: None, operator)


def _admin_token(data_dir: Path | None) -> str:
    """Kept with the data: a kubeconfig in use elsewhere outlives a restart."""
    if data_dir is None:
        return secrets.token_urlsafe(24)
    path = data_dir / "admin.token"
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text()


def _with_tls(listen: Listen, directory: Path) -> tuple[Listen, Path]:
    """Certificates of our own for an address that others can reach; the authority is kept, the leaf is new."""
    now = time.time()
    root, root_key = directory / "ca.crt", directory / "ca.key"
    if not root_key.exists():
        tls.save(tls.create_authority("spinney", now_s=now), root, root_key)
    leaf = tls.issue(tls.load(root, root_key), certificate_hosts(listen.host), now_s=now)
    tls.save(leaf, directory / "server.crt", directory / "server.key")
    return replace(listen, certificate=directory / "server.crt", key=directory / "server.key"), root


@contextlib.contextmanager
def _directory(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="spinney-") as scratch:
        yield Path(scratch)


@contextlib.asynccontextmanager
async def real(options: StackOptions, assets: Assets) -> AsyncIterator[Api]:
    _check_port(options.port)
    with _directory(options.data_dir) as parent:
        controllers = DEFAULT_CONTROLLERS + WORKLOAD_CONTROLLERS
        plane = ControlPlane(Settings(assets, parent / "control-plane", controllers, port=options.port))
        try:
            await _to_the_end(plane.start)
            shutil.copyfile(plane.kubeconfig, options.kubeconfig)
            transport = connect(find_connection(SystemClock(), kubeconfig=plane.kubeconfig))
            try:
                yield Api(plane.url, transport, plane.ended, transport)
            finally:
                await transport.close()
        finally:
            await _to_the_end(plane.stop)


def _check_port(port: int) -> None:
    """Say that a port is taken before a program fails by it."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartFailed(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None


async def _to_the_end(work: Callable[[], None]) -> None:
    """In a thread, which cannot be stopped half way: who is cancelled meanwhile waits for it."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
