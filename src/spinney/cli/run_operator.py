"""The operator against a cluster: configuration, connection, leader election, probes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import click
import structlog

from spinney.api.operator_configuration import ConfigurationError, OperatorConfiguration
from spinney.cli.foreground import causes, loop_factory, note, on_signal, until_stopped
from spinney.cli.health import probed
from spinney.cli.logs import log_to_stderr
from spinney.cli.operator_settings import read_configuration
from spinney.cli.stack_options import ConfigurationError as OptionError
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.client.connection import Connection
from spinney.drive.client.errors import ClientError, ConfigError, CredentialError
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.election import LEASES, Election, Leadership, Terms
from spinney.drive.loop.operator.configured import concurrency_of, settings_of
from spinney.drive.loop.operator.running import Operator
from spinney.drive.loop.operator.start_up import StartUpFailed

OK, FAILED, USAGE = 0, 1, 2
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}


def run_operator(kubeconfig: Path | None, config: Path | None) -> int:
    """Until a signal comes; the exit status."""
    on_signal(signal.default_int_handler)
    try:
        configuration = read_configuration(config, otherwise="")
        log_to_stderr(_LEVELS[configuration.log_level])
        connection = find_connection(SystemClock(), kubeconfig=kubeconfig)
        factory = loop_factory()
        on_signal(note)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(until_stopped(_work(configuration, connection)))
    except KeyboardInterrupt:
        return OK
    except Exception as error:
        return _failed(error)
    return OK


def _failed(error: Exception) -> int:
    """Say what is wrong; the exit status says of which kind it is."""
    found = list(causes(error))
    known = (OptionError, ConfigurationError, StartUpFailed, ClientError, OSError)
    if not all(isinstance(cause, known) for cause in found):
        structlog.get_logger("operator").error("the operator failed by our own fault", exc_info=error)
    click.echo(f"spinney run operator: {'; '.join(str(cause) or repr(cause) for cause in found)}", err=True)
    first = found[0]
    if isinstance(first, StartUpFailed):
        return first.status
    return USAGE if isinstance(first, (OptionError, ConfigurationError, ConfigError, CredentialError)) else FAILED


async def _work(configuration: OperatorConfiguration, connection: Connection) -> None:
    transport = connect(connection)
    role = _Role(configuration, transport)
    probes = configuration.server.health_probes
    try:
        async with probed(probes.bind_address or "127.0.0.1", probes.port, role.trouble):
            if configuration.leader_election.enabled:
                await role.elect(connection.namespace or "default")
            else:
                await role.operate(lambda: None)
    finally:
        await transport.close()


class _Role:
    """One operator process: at most one operator at work in it."""

    def __init__(self, configuration: OperatorConfiguration, transport: Transport) -> None:
        self._configuration = configuration
        self._transport = transport
        self._clock, self._dice = SystemClock(), system_dice()
        self._operator: Operator | None = None

    def trouble(self) -> str:
        """Waiting for leadership is well; a leader is ready when its views are."""
        if self._operator is None:
            return "" if self._configuration.leader_election.enabled else "starting"
        if not self._operator.ready.is_set():
            return "views are not synced"
        return "; ".join(self._operator.caches.troubles)

    async def operate(self, may_write: Callable[[], None]) -> None:
        settings = settings_of(self._configuration)
        workers = concurrency_of(self._configuration)
        self._operator = Operator(
            self._transport, self._clock, self._dice, settings, concurrency=workers, may_write=may_write
        )
        await self._operator.run()

    async def elect(self, namespace: str) -> None:
        told = self._configuration.leader_election
        lease = LEASES.ref(told.resource_name, told.resource_namespace or namespace)
        terms = Terms(int(told.lease_duration_s), told.renew_deadline_s, told.retry_period_s)
        door = Door(self._transport, self._dice, field_manager="grove-operator")
        client = ApiClient(self._transport, self._dice)
        identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        election = Election(client, door, lease, identity, self._clock, self._dice, terms=terms)

        async def lead(leadership: Leadership) -> None:
            await self.operate(leadership.check)

        await election.run(lead)
