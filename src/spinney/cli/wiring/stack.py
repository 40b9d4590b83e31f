"""What `spinney up` wires together: an API server, simulated nodes, our roles, and the manifests given."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import click
import structlog

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import ConfigurationError as OperatorConfigurationError
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import NAMESPACE
from spinney.cli.wiring.api_servers import ApiServer, StackOptions, embedded, find_or_build_real, only_user_of, real
from spinney.cli.wiring.process import LEVELS, causes, log_to_stderr, on_signal, run_until_stopped
from spinney.cli.wiring.roles.dashboard import dashboard
from spinney.cli.wiring.roles.registry import DashboardOptions
from spinney.cli.wiring.scheduler_choices import NOTHING_SAID, SchedulerChoices, scheduler_settings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive import process_metrics
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.operator.settings_from_config import settings_of
from spinney.drive.operator.startup import StartupFailed
from spinney.drive.roles import Roles, RoleSettings, RoleTransports, record_keys
from spinney.sim.controllers.manager import ALL, THIRD_PARTY
from spinney.sim.kubernetes.assets import AssetsUnavailable, StartFailed
from spinney.sim.stack import Parts, Stack
from spinney.whatif.inputs.manifests import Manifest, ManifestError, apply_all, read_manifests
from spinney.whatif.inputs.nodes import NodesError, load_nodes
from spinney.whatif.inputs.operator_settings import (
    ConfigurationError,
    admission_of,
    dynamo_admission_of,
    dynamo_settings_of,
    given_in,
    read_configuration,
)

_CHECK_INTERVAL_S = 0.5
_MANY_NODES = 500
"""With so many the start takes longer than people wait without a word."""


@asynccontextmanager
async def running_roles(
    api: ApiServer,
    nodes: Sequence[dict[str, Any]],
    configuration: OperatorConfiguration,
    controllers: Sequence[str] = ALL,
    choices: SchedulerChoices = NOTHING_SAID,
    beside_kubelets: bool = False,
) -> AsyncIterator[Roles]:
    """From the moment everybody is at work until the block ends. A server that ends by itself ends the block."""
    clock, dice = SystemClock(), system_dice()
    transports = RoleTransports(*(api.as_role(role) for role in ("operator", "scheduler", "dynamo")))
    settings = RoleSettings(
        operator=settings_of(configuration),
        scheduler=scheduler_settings(
            SchedulerSettings(frozenset({SCHEDULER_KAI, SCHEDULER_DEFAULT})),
            configuration,
            choices,
            honours_requests=True,
        ),
        record_keys=await record_keys(transports.scheduler, NAMESPACE, dice),
        dynamo=dynamo_settings_of(configuration),
    )
    parts = Parts(nodes=nodes, controllers=controllers, beside_kubelets=beside_kubelets)
    simulation = Stack(api.transport, clock, dice, parts)
    roles = Roles(transports, clock, dice, settings)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(simulation.run(), name="simulation"),
            *roles.start(group),
            group.create_task(_watch_over(api), name="server"),
        ]
        for ready in (simulation.registered, roles.operating, roles.scheduling, roles.deploying):
            await ready.wait()
        yield roles
        for task in tasks:
            task.cancel()


async def _watch_over(api: ApiServer) -> None:
    while (ended := api.ended()) is None:  # noqa: ASYNC110 - a process tells nobody that it ended
        await asyncio.sleep(_CHECK_INTERVAL_S)
    raise StartFailed(f"{ended} ended by itself")


OK, USAGE, START_FAILED = 0, 2, 3
_THEIRS = (ConfigurationError, OperatorConfigurationError, NodesError, ManifestError)
_EXPECTED = (OSError, RuntimeError, ClientError, AssetsUnavailable, StartFailed, StartupFailed)
_MAX_OPEN_FILES = 65_536
_OF_PROCESSES = ("controllers", "debugging", "leaderElection", "runtimeClientConnection", "server")
"""Fields of a configuration that are about the processes of `spinney run`."""
_NOT_UPSTREAM = ("claim",)
"""Beside a real controller manager: volumes are made by nobody there, for provisioners are not part of Kubernetes."""


def run(options: StackOptions) -> int:
    """Until a signal comes; the exit status."""
    on_signal(signal.default_int_handler)
    log_to_stderr()
    _allow_many_connections()
    try:
        options.check()
        nodes = load_nodes(options.nodes_file) if options.nodes_file or not options.kubelets else []
        manifests = read_manifests(options.manifests)
        configuration = read_configuration(options.config)
        _heed(configuration, options)
        rules = (admission_of(configuration), dynamo_admission_of(configuration))
        programs = find_or_build_real(options.kubelets) if options.real else None
        server = real(options, programs, configuration) if programs else embedded(options, rules)
        with only_user_of(options.data_dir):
            run_until_stopped(lambda: _up(options, server, nodes, manifests, configuration))
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
    announce_start(len(nodes))
    async with server as api:
        await api.judged()
        controllers = [*(_NOT_UPSTREAM if options.real else ALL), *(THIRD_PARTY if options.third_party else ())]
        beside = options.kubelets > 0
        async with running_roles(api, nodes, configuration, controllers, options.scheduler, beside) as roles:
            applied = await _apply(api.transport, manifests)
            pages = DashboardOptions(options.host, options.dashboard_port)
            scheduling = roles.scheduler.metrics.page if roles.scheduler is not None else lambda: ""

            def metrics() -> str:
                return scheduling() + process_metrics.page()

            async with dashboard(api.as_role("dashboard"), pages, configuration, metrics) as page:
                _announce(options, api, len(nodes) + options.kubelets, applied, time.monotonic() - started, page)
                await asyncio.get_running_loop().create_future()


def announce_start(nodes: int) -> None:
    if nodes >= _MANY_NODES:
        click.echo(f"spinney up: starting with {nodes} nodes; a line with 'ready' follows", err=True)


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
