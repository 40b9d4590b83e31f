"""What `spinney up` wires together: an API server (embedded or real), simulated nodes, and the manifests given."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import click
import structlog

from spinney.api.crds import all_crds
from spinney.cli.api_servers import CONVERTERS, Api, embedded, real
from spinney.cli.logs import log_to_stderr
from spinney.cli.manifest_files import Manifest, ManifestError, apply_all, manifests_of, read_manifests
from spinney.cli.stack_options import ConfigurationError, StackOptions, only_user_of
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.sim.kubernetes.assets import find_or_build_assets
from spinney.sim.kubernetes.errors import AssetsUnavailable, StartFailed
from spinney.sim.nodes.describe import NodesError, load_nodes
from spinney.sim.stack import Parts, Stack

OK, USAGE, START_FAILED = 0, 2, 3
_THEIRS = (ConfigurationError, NodesError, ManifestError)
_EXPECTED = (OSError, RuntimeError, ClientError, AssetsUnavailable, StartFailed)
_MAX_OPEN_FILES = 65_536
_LOOK_INTERVAL_S = 0.5


def run(options: StackOptions) -> int:
    """Until a signal comes; the exit status."""
    _on_signal(signal.default_int_handler)
    log_to_stderr()
    _allow_many_connections()
    try:
        options.check()
        nodes = load_nodes(options.nodes_file)
        manifests = read_manifests(options.manifests)
        server = real(options, find_or_build_assets()) if options.real else embedded(options)
        factory = _loop_factory()
        _on_signal(_note)
        with only_user_of(options.data_dir), asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_until_stopped(_up(options, server, nodes, manifests)))
    except KeyboardInterrupt:
        return OK
    except Exception as error:
        return _failed(error)
    return OK


_asked: list[int] = []
"""Signals that came before the loop could be told of them."""


def _on_signal(handler: Callable[[int, Any], Any]) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, handler)


def _note(number: int, frame: Any) -> None:
    """While the loop is made an exception could be swallowed in C code: it is noted, and obeyed a moment later."""
    _asked.append(number)


def _failed(error: Exception) -> int:
    """Say what is wrong; the exit status says whose fault it is."""
    causes = list(_causes(error))
    if all(isinstance(cause, _THEIRS + _EXPECTED) for cause in causes):
        click.echo(f"spinney up: {'; '.join(str(cause) for cause in causes)}", err=True)
        return USAGE if all(isinstance(cause, _THEIRS) for cause in causes) else START_FAILED
    structlog.get_logger("up").error("the stack failed by our own fault", exc_info=error)
    click.echo(f"spinney up: failed by our own fault: {'; '.join(repr(cause) for cause in causes)}", err=True)
    return START_FAILED


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _causes(one)
    else:
        yield error


def _loop_factory() -> Any:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def _allow_many_connections() -> None:
    """A thousand watches need more files than many shells allow by themselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Work until it fails or a signal comes; whatever was started is stopped before this returns."""
    stopping = asyncio.create_task(_stop_signal().wait(), name="stop")
    working = asyncio.create_task(work, name="up")
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled():
        working.result()


def _stop_signal() -> asyncio.Event:
    """Set by the first signal; a second one does not wait for anything."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop, one)
    if _asked:
        stopped.set()
    return stopped


async def _up(
    options: StackOptions,
    server: AbstractAsyncContextManager[Api],
    nodes: list[dict[str, Any]],
    manifests: list[Manifest],
) -> None:
    started = time.monotonic()
    parts = Parts(nodes=nodes, binds=lambda scheduler: True)
    if options.real:
        parts = replace(parts, controllers=())
    async with server as api:
        await _apply(api.transport, manifests_of(_definitions(options), "our own kinds"))
        stack = Stack(api.transport, SystemClock(), system_dice(), parts)
        async with asyncio.TaskGroup() as group:
            group.create_task(stack.run(), name="stack")
            group.create_task(_watch_over(api), name="server")
            await stack.registered.wait()
            applied = await _apply(api.transport, manifests)
            _announce(options, api, len(nodes), applied, time.monotonic() - started)


def _definitions(options: StackOptions) -> list[dict[str, Any]]:
    """The kinds of ours; where versions are converted in process, all of them can be served."""
    found = all_crds()
    for crd in found:
        spec = crd["spec"]
        if not options.real and (spec["group"], spec["names"]["kind"]) in CONVERTERS:
            spec["versions"] = [{**version, "served": True} for version in spec["versions"]]
    return found


async def _watch_over(api: Api) -> None:
    """A server that ended by itself ends the stack."""
    while (ended := api.ended()) is None:  # noqa: ASYNC110 - a process tells nobody that it ended
        await asyncio.sleep(_LOOK_INTERVAL_S)
    raise StartFailed(f"{ended} ended by itself")


async def _apply(transport: Transport, manifests: list[Manifest]) -> int:
    door = Door(transport, system_dice(), field_manager="spinney-up")
    return await apply_all(ApiClient(transport, system_dice()), door, manifests)


def _announce(options: StackOptions, api: Api, nodes: int, applied: int, seconds: float) -> None:
    extra = f", {applied} objects applied" if applied else ""
    click.echo(f"ready  {api.url}  {nodes} nodes{extra}  ({seconds:.1f} s)")
    click.echo(f"       export KUBECONFIG={options.kubeconfig.resolve()}")
    click.echo("       Ctrl-C stops it")
    sys.stdout.flush()
