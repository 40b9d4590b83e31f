"""What `spinney up` wires together: an API server (embedded or real), simulated nodes, and the manifests given."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import uvloop

from spinney.api.crds import all_crds
from spinney.cli.manifest_files import ManifestError, apply_all, read_manifests
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.client.errors import ClientError
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.serve import tls
from spinney.serve.apiserver.access.identity import ADMIN, AUTHENTICATED, MASTERS, Identity, Nobody, role_identity
from spinney.serve.apiserver.embedded import Embedded, build
from spinney.serve.apiserver.running import Listen, listening
from spinney.sim.kubernetes.control_plane import DEFAULT_CONTROLLERS, WORKLOAD_CONTROLLERS, ControlPlane, Settings
from spinney.sim.kubernetes.errors import AssetsUnavailable, StartFailed
from spinney.sim.kubernetes.kubeconfig import write_kubeconfig
from spinney.sim.nodes.describe import NodesError, load_nodes
from spinney.sim.stack import Parts, Stack
from spinney.sim.transport import InProcessTransport

ROLES = ("operator", "scheduler", "dynamo", "webhook", "dashboard")
OK, USAGE, START_FAILED = 0, 2, 3


@dataclass(frozen=True, slots=True)
class StackOptions:
    nodes_file: Path | None
    kubeconfig: Path
    host: str
    port: int
    data_dir: Path | None
    real: bool
    manifests: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Api:
    """A running API server: where it is, and a way in for our own parts."""

    url: str
    transport: Transport


def run(options: StackOptions) -> int:
    """Until a signal comes; the exit status."""
    try:
        nodes = load_nodes(options.nodes_file)
        manifests = read_manifests(options.manifests)
    except (NodesError, ManifestError) as error:
        return _failed(str(error), USAGE)
    try:
        uvloop.run(_up(options, nodes, manifests))
    except (OSError, ValueError, RuntimeError, AssetsUnavailable, StartFailed, ClientError) as error:
        return _failed(str(error), START_FAILED)
    except BaseExceptionGroup as group:
        return _failed("; ".join(str(one) for one in group.exceptions), START_FAILED)
    return OK


def _failed(message: str, status: int) -> int:
    click.echo(f"spinney up: {message}", err=True)
    return status


async def _up(options: StackOptions, nodes: list[dict[str, Any]], manifests: list[dict[str, Any]]) -> None:
    stopped = _stop_event()
    started = time.monotonic()
    parts = Parts(nodes=nodes, binds=lambda scheduler: True)
    if options.real:
        parts = replace(parts, controllers=())
    async with _real(options) if options.real else _embedded(options) as api:
        await _install(api.transport)
        stack = Stack(api.transport, SystemClock(), system_dice(), parts)
        running = asyncio.create_task(stack.run(), name="stack")
        try:
            if await _first(stack.registered, running, stopped):
                applied = await apply_all(ApiClient(api.transport, system_dice()), _door(api.transport), manifests)
                _announce(options, api, len(nodes), applied, time.monotonic() - started)
                await _first(stopped, running)
        finally:
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled() and running.exception() is not None:
            await running


async def _first(event: asyncio.Event, running: asyncio.Task[None], stopped: asyncio.Event | None = None) -> bool:
    """Wait for the event; False when we are told to stop first. A part that fails is an error at once."""
    waits = [asyncio.create_task(one.wait()) for one in (event, stopped) if one is not None]
    try:
        await asyncio.wait([running, *waits], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if running.done():
        await running
    return event.is_set()


def _stop_event() -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stopped.set)
    return stopped


def _announce(options: StackOptions, api: _Api, nodes: int, applied: int, seconds: float) -> None:
    extra = f", {applied} objects applied" if applied else ""
    click.echo(f"ready  {api.url}  {nodes} nodes{extra}  ({seconds:.1f} s)")
    click.echo(f"       export KUBECONFIG={options.kubeconfig}")
    click.echo("       Ctrl-C stops it")
    sys.stdout.flush()


def _door(transport: Transport) -> Door:
    return Door(transport, system_dice(), field_manager="spinney-up")


async def _install(transport: Transport) -> None:
    """The kinds of ours, before anything that uses them."""
    await apply_all(ApiClient(transport, system_dice()), _door(transport), all_crds())


@contextlib.asynccontextmanager
async def _embedded(options: StackOptions) -> AsyncIterator[_Api]:
    listen = Listen(options.host, options.port)
    token = secrets.token_urlsafe(24)
    tokens = {token: Identity("admin", groups=(MASTERS, AUTHENTICATED))}
    tokens |= {secrets.token_urlsafe(24): role_identity(role) for role in ROLES}
    nobody = Nobody.ADMIN_ON_LOOPBACK if listen.is_loopback else Nobody.REFUSED
    with tempfile.TemporaryDirectory(prefix="spinney-") as scratch:
        authority: Path | None = None
        if not listen.is_loopback:
            listen, authority = _with_tls(listen, options.data_dir or Path(scratch))
        server = build(Embedded(tokens=tokens, nobody=nobody, data_dir=options.data_dir))
        async with listening(server, listen) as url:
            _write_kubeconfig(options.kubeconfig, url, authority, token)
            yield _Api(url, InProcessTransport(server, ADMIN))


def _with_tls(listen: Listen, directory: Path) -> tuple[Listen, Path]:
    """Certificates of our own for an address that others can reach."""
    directory.mkdir(parents=True, exist_ok=True)
    now = time.time()
    authority = tls.create_authority("spinney", now_s=now)
    leaf = tls.issue(authority, [listen.host, "localhost", "127.0.0.1"], now_s=now)
    tls.save(authority, directory / "ca.crt", directory / "ca.key")
    tls.save(leaf, directory / "server.crt", directory / "server.key")
    secure = replace(listen, certificate=directory / "server.crt", key=directory / "server.key")
    return secure, directory / "ca.crt"


def _write_kubeconfig(path: Path, url: str, authority: Path | None, token: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_kubeconfig(path, name="spinney", url=url, authority=authority, user="admin", token=token)


@contextlib.asynccontextmanager
async def _real(options: StackOptions) -> AsyncIterator[_Api]:
    from spinney.sim.kubernetes.assets import find_or_build_assets

    if options.host not in ("127.0.0.1", "localhost"):
        raise ValueError(f"--real listens on loopback only, found --host {options.host}")
    assets = await asyncio.to_thread(find_or_build_assets)
    with tempfile.TemporaryDirectory(prefix="spinney-real-") as scratch:
        directory = (options.data_dir or Path(scratch)).resolve()
        settings = Settings(assets, directory, DEFAULT_CONTROLLERS + WORKLOAD_CONTROLLERS, port=options.port)
        plane = ControlPlane(settings)
        await asyncio.to_thread(plane.start)
        try:
            options.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            options.kubeconfig.touch(mode=0o600)
            options.kubeconfig.write_text(plane.kubeconfig.read_text())
            transport = connect(find_connection(SystemClock(), kubeconfig=plane.kubeconfig))
            try:
                yield _Api(plane.url, transport)
            finally:
                await transport.close()
        finally:
            await asyncio.to_thread(plane.stop)
