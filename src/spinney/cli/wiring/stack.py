"""What `spinney up` wires together: an API server (embedded or real), simulated nodes, and the manifests given."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import click
import structlog

from spinney.api.operator_configuration import ConfigurationError as OperatorConfigurationError
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.wiring.api_servers import ApiServer, embedded, real
from spinney.cli.wiring.dashboard import dashboard
from spinney.cli.wiring.dashboard_options import DashboardOptions
from spinney.cli.wiring.foreground import causes, loop_factory, note, on_signal, until_stopped
from spinney.cli.wiring.local_roles import running_roles
from spinney.cli.wiring.logs import LEVELS, log_to_stderr
from spinney.cli.wiring.stack_options import StackOptions, only_user_of
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.clock import system_dice
from spinney.drive.operator.startup import StartupFailed
from spinney.sim.controllers.manager import ALL
from spinney.sim.kubernetes.assets import AssetsUnavailable, StartFailed, find_or_build_assets
from spinney.whatif.inputs.manifests import Manifest, ManifestError, apply_all, read_manifests
from spinney.whatif.inputs.nodes import NodesError, load_nodes
from spinney.whatif.inputs.operator_settings import (
    ConfigurationError,
    admission_of,
    dynamo_admission_of,
    given_in,
    read_configuration,
)

OK, USAGE, START_FAILED = 0, 2, 3
_THEIRS = (ConfigurationError, OperatorConfigurationError, NodesError, ManifestError)
_EXPECTED = (OSError, RuntimeError, ClientError, AssetsUnavailable, StartFailed, StartupFailed)
_MAX_OPEN_FILES = 65_536
_OF_PROCESSES = ("controllers", "debugging", "leaderElection", "runtimeClientConnection", "server")
"""Fields of a configuration that are about the processes of `spinney run`."""


def run(options: StackOptions) -> int:
    """Until a signal comes; the exit status."""
    on_signal(signal.default_int_handler)
    log_to_stderr()
    _allow_many_connections()
    try:
        options.check()
        nodes = load_nodes(options.nodes_file)
        manifests = read_manifests(options.manifests)
        configuration = read_configuration(options.config)
        _heed(configuration, options)
        rules = (admission_of(configuration), dynamo_admission_of(configuration))
        server = real(options, find_or_build_assets(), configuration) if options.real else embedded(options, rules)
        factory = loop_factory()
        on_signal(note)
        with only_user_of(options.data_dir), asyncio.Runner(loop_factory=factory) as runner:
            runner.run(until_stopped(_up(options, server, nodes, manifests, configuration)))
    except KeyboardInterrupt:
        return OK
    except Exception as error:
        return _failed(error)
    return OK


def _heed(configuration: OperatorConfiguration, options: StackOptions) -> None:
    """Logs as the file says; what it says of processes that are not there is told to be without effect."""
    given = given_in(options.config)
    if given & {"logLevel", "logFormat"}:
        log_to_stderr(LEVELS[configuration.log_level], configuration.log_format)
    vain = sorted(given & set(_OF_PROCESSES))
    if vain:
        click.echo(f"spinney up: --config {options.config}: {', '.join(vain)}: no effect, all is one process", err=True)


def _failed(error: Exception) -> int:
    """Say what is wrong; the exit status says whose fault it is."""
    found = list(causes(error))
    if all(isinstance(cause, _THEIRS + _EXPECTED) for cause in found):
        click.echo(f"spinney up: {'; '.join(str(cause) for cause in found)}", err=True)
        if all(isinstance(cause, _THEIRS) for cause in found):
            return USAGE
        return next((cause.status for cause in found if isinstance(cause, StartupFailed)), START_FAILED)
    structlog.get_logger("up").error("the stack failed by our own fault", exc_info=error)
    click.echo(f"spinney up: failed by our own fault: {'; '.join(repr(cause) for cause in found)}", err=True)
    return START_FAILED


def _allow_many_connections() -> None:
    """A thousand watches need more files than many shells allow by themselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _up(
    options: StackOptions,
    server: AbstractAsyncContextManager[ApiServer],
    nodes: list[dict[str, Any]],
    manifests: list[Manifest],
    configuration: OperatorConfiguration,
) -> None:
    started = time.monotonic()
    async with server as api:
        await api.judged()
        controllers = () if options.real else ALL
        async with running_roles(api, nodes, configuration, controllers) as stack:
            applied = await _apply(api.transport, manifests)
            pages = DashboardOptions(options.host, options.dashboard_port)
            metrics = stack.scheduler.metrics.page if stack.scheduler is not None else None
            async with dashboard(api.as_role("dashboard"), pages, configuration, metrics) as page:
                _announce(options, api, len(nodes), applied, time.monotonic() - started, page)
                await asyncio.get_running_loop().create_future()


async def _apply(transport: Transport, manifests: list[Manifest]) -> int:
    door = Door(transport, system_dice(), field_manager="spinney-up")
    return await apply_all(ApiClient(transport, system_dice()), door, manifests)


def _announce(options: StackOptions, api: ApiServer, nodes: int, applied: int, seconds: float, page: str) -> None:
    extra = f", {applied} objects applied" if applied else ""
    lines = (
        f"ready  {api.url}  {nodes} nodes{extra}  ({seconds:.1f} s)",
        f"       pages    {page}",
        f"       export KUBECONFIG={options.kubeconfig.resolve()}",
        "       Ctrl-C stops it",
    )
    click.echo("\n".join(lines))
    sys.stdout.flush()
