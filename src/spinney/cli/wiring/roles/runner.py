"""Roles in the foreground: configuration and connection first, then probes, metrics and the roles themselves.

Never ends a role because its metrics cannot be served.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
import structlog

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.operator_configuration import ConfigurationError
from spinney.cli.wiring.process import LEVELS, causes, log_to_stderr, on_signal, run_until_stopped
from spinney.cli.wiring.roles.metrics_server import MetricsGuard, measured, metrics_text
from spinney.cli.wiring.roles.probe_server import closed, listening
from spinney.cli.wiring.roles.registry import (
    DashboardOptions,
    Role,
    RoleConfig,
    WatchdogOptions,
    WebhookOptions,
    create,
)
from spinney.cli.wiring.scheduler_choices import NOTHING_SAID, SchedulerChoices, scheduler_settings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.kubeconfig import find_connection
from spinney.drive.client.errors import ApiStatusError, ClientError, ConfigError, CredentialError, TransportError
from spinney.drive.client.http.transport import Transport
from spinney.drive.election.lease_thread import Heartbeat, LoopThread, loop_thread
from spinney.drive.operator.startup import StartupFailed
from spinney.whatif.inputs.operator_settings import ConfigurationError as OptionError
from spinney.whatif.inputs.operator_settings import read_configuration

_MAIN_S = 2.0

Probe = Callable[[], str]
"""What is wrong at the moment; empty if nothing is."""


@contextlib.asynccontextmanager
async def probed(thread: LoopThread, host: str, port: int, alive: Probe, ready: Probe) -> AsyncIterator[int]:
    """While it lasts the probes are answered, by a thread: also while the main loop is busy. Gives the port.

    `alive` is asked in the thread, `ready` on the main loop.
    """
    main = asyncio.get_running_loop()

    async def asked() -> str:
        return ready()

    async def answer(path: str, _: str) -> tuple[str, str]:
        if path == "/healthz":
            return _probe_answer(alive())
        if path != "/readyz":
            return "404 Not Found", "only /healthz and /readyz\n"
        try:
            async with asyncio.timeout(_MAIN_S):
                return _probe_answer(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked(), main)))
        except TimeoutError:
            return _probe_answer(alive() or f"the main loop did not answer within {_MAIN_S:g} s")

    server = await thread.run(listening(host, port, answer))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await thread.run(closed(server))


def _probe_answer(trouble: str) -> tuple[str, str]:
    return ("503 Service Unavailable", f"{trouble}\n") if trouble else ("200 OK", "ok\n")


OK, FAILED, USAGE = 0, 1, 2
_POLL_S = 0.05


def run_roles(
    names: Sequence[str],
    kubeconfig: Path | None,
    config: Path | None,
    webhook: WebhookOptions | None = None,
    scheduler: SchedulerSettings | None = None,
    dashboard: DashboardOptions | None = None,
    choices: SchedulerChoices = NOTHING_SAID,
    watchdog: WatchdogOptions | None = None,
    metrics_secure: bool = False,
) -> int:
    """Until a signal comes; the exit status."""
    on_signal(signal.default_int_handler)
    try:
        configuration = read_configuration(config, otherwise="")
        log_to_stderr(LEVELS[configuration.log_level], configuration.log_format)
        clock = SystemClock()
        role_config = RoleConfig(
            configuration,
            find_connection(clock, kubeconfig=kubeconfig),
            webhook or WebhookOptions(),
            scheduler_settings(scheduler or SchedulerSettings(), configuration, choices, honours_requests=False),
            dashboard or DashboardOptions(),
            watchdog or WatchdogOptions(),
            lease_connection=find_connection(clock, kubeconfig=kubeconfig),
            heartbeat=Heartbeat(clock),
            metrics_secure=metrics_secure,
        )
        run_until_stopped(lambda: _work(names, role_config))
    except KeyboardInterrupt:
        return OK
    except Exception as error:
        return _failed(names[0] if len(names) == 1 else "all", error)
    return OK


def _failed(shown: str, error: Exception) -> int:
    """Say what is wrong; the exit status says of which kind it is."""
    found = list(causes(error))
    known = (OptionError, ConfigurationError, StartupFailed, ClientError, OSError)
    if not all(isinstance(cause, known) for cause in found):
        structlog.get_logger("run").error("a role failed by our own fault", roles=shown, exc_info=error)
    click.echo(f"spinney run {shown}: {'; '.join(str(cause) or repr(cause) for cause in found)}", err=True)
    first = found[0]
    if isinstance(first, StartupFailed):
        return first.status
    return USAGE if isinstance(first, (OptionError, ConfigurationError, ConfigError, CredentialError)) else FAILED


async def _work(names: Sequence[str], role_config: RoleConfig) -> None:
    roles = {name: create(name, role_config) for name in names}
    server = role_config.configuration.server
    async with AsyncExitStack() as held:
        host, port = server.health_probes.bind_address or "127.0.0.1", server.health_probes.port
        thread = await held.enter_async_context(loop_thread("probes"))
        alive = role_config.heartbeat.stuck if role_config.heartbeat is not None else lambda: ""
        await held.enter_async_context(probed(thread, host, port, alive, lambda: _trouble(roles)))
        await _measured(held, role_config, roles)
        if role_config.heartbeat is not None:
            held.callback(asyncio.create_task(role_config.heartbeat.run(), name="heartbeat").cancel)
        await until_reachable(role_config.connect, names[0] if len(names) == 1 else "all")
        group = await held.enter_async_context(asyncio.TaskGroup())
        for name, role in roles.items():
            group.create_task(role.run(), name=name)
            while len(roles) > 1 and role.trouble():  # noqa: ASYNC110 - whoever comes next may need this one
                await asyncio.sleep(_POLL_S)


_ANSWER_S = 4.0
_AGAIN_S = 2.0


async def until_reachable(connect: Callable[[], Transport], shown: str) -> None:
    """Wait until the API server answers anything at all; while it does not, that is told within five seconds."""
    log, logged, transport = structlog.get_logger("run"), "", connect()
    try:
        while trouble := await _no_answer(ApiClient(transport, system_dice())):
            if trouble != logged:
                log.warning("the API server cannot be reached, it is tried again", role=shown, error=trouble)
                logged = trouble
            await asyncio.sleep(_AGAIN_S)
    finally:
        await transport.close()
    if logged:
        log.warning("the API server answers", role=shown)


async def _no_answer(client: ApiClient) -> str:
    """Why there is none; whatever a server says is an answer."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            await client.read("/version")
    except TimeoutError:
        return f"no answer within {_ANSWER_S:g} s"
    except TransportError as error:
        return str(error)
    except ApiStatusError:
        return ""
    return ""


def _trouble(roles: dict[str, Role]) -> str:
    return "; ".join(f"{name}: {trouble}" for name, role in roles.items() if (trouble := role.trouble()))


async def _measured(held: AsyncExitStack, role_config: RoleConfig, roles: dict[str, Role]) -> None:
    """Metrics are not worth dying for: a port that is taken is told and left."""
    metrics = role_config.configuration.server.metrics
    host = metrics.bind_address or "127.0.0.1"
    guard = None
    if role_config.metrics_secure:
        transport = role_config.connect()
        held.push_async_callback(transport.close)
        guard = MetricsGuard(Door(transport, system_dice(), field_manager="spinney-metrics"), SystemClock())
    try:
        await held.enter_async_context(measured(host, metrics.port, lambda: metrics_text(roles), guard))
    except OSError as error:
        structlog.get_logger("run").warning("metrics are not served", host=host, port=metrics.port, error=str(error))
