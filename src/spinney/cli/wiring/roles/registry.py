"""The roles that `spinney run` knows, and what each of them is given. Another role is another line of the table.

What is wrong with an option is said before anything starts.
"""

from __future__ import annotations

import importlib
import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from kube_apimachinery.loopback import is_loopback
from kube_apimachinery.system_clock import SystemClock
from spinney.api.labels import SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.client.config.credentials import Connection
from spinney.drive.client.config.kubeconfig import connect
from spinney.drive.client.http.retries import RateLimitedTransport
from spinney.drive.client.http.transport import Transport
from spinney.drive.election.lease_thread import Heartbeat
from spinney.whatif.inputs.operator_settings import ConfigurationError

SHORTEST_TOKEN = 16
DEFAULT_PORT = 8088


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Where the pages are served. `port` None: the usual one, or a free one where that is taken.

    `token_file`: its content is asked for; without it a token is asked for anywhere but on loopback.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    token_file: Path | None = None

    def token(self) -> str:
        """Empty on loopback, unless a file is named; generated where there is none."""
        if self.token_file is not None:
            return _read_token(self.token_file)
        return "" if is_loopback(self.host) else secrets.token_urlsafe(24)


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT of IPv6, or :PORT, which is loopback."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    known = not bare or bare == "localhost" or _is_address(bare)
    if not colon or not port.isdecimal() or int(port) > 65535 or not known or (":" in bare and bare == host):
        raise ConfigurationError(f"--address {text}: HOST:PORT is expected, HOST being an IP address or localhost")
    return bare or "127.0.0.1", int(port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"--token-file {path}: cannot be read: {reason}") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"--token-file {path}: a token has at least {SHORTEST_TOKEN} printable characters, found {len(token)}"
        )
    return token


MAKERS = {
    "webhook": "spinney.cli.wiring.roles.webhook:create",
    "operator": "spinney.cli.wiring.roles.controllers:create_operator",
    "scheduler": "spinney.cli.wiring.roles.scheduler:create",
    "dynamo": "spinney.cli.wiring.roles.controllers:create_dynamo",
    "dashboard": "spinney.cli.wiring.roles.dashboard:create",
}
"""In the order in which `spinney run all` starts them. Each is a function from what the role is given to the role."""

BESIDE = {"watchdog": "spinney.cli.wiring.roles.watchdog:create"}
"""Roles that are run for themselves only."""


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What only the webhook is told. `service`: `namespace/name` under which API servers find it."""

    bind_address: str = ""
    port: int | None = None
    cert_dir: Path | None = None
    service: str = ""
    operator_user: str = ""


@dataclass(frozen=True, slots=True)
class WatchdogOptions:
    """Whose pods are judged, and whether broken invariants become events."""

    schedulers: frozenset[str] = frozenset({SCHEDULER_KAI})
    events: bool = False


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """What a role was told at its start; it is never read again (C7).

    `lease_connection`: credentials for the thread that keeps the lease, which shares nothing with the main loop.
    `heartbeat`: of the main loop, if somebody keeps it.
    """

    configuration: OperatorConfiguration
    connection: Connection
    webhook: WebhookOptions = WebhookOptions()
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    dashboard: DashboardOptions = field(default_factory=DashboardOptions)
    watchdog: WatchdogOptions = WatchdogOptions()
    lease_connection: Connection | None = None
    heartbeat: Heartbeat | None = None

    def connect(self) -> Transport:
        """A transport to the cluster, as fast as the configuration allows."""
        transport = connect(self.connection)
        limit = self.configuration.runtime_client_connection.limit
        return transport if limit is None else RateLimitedTransport(transport, SystemClock(), *limit)


class Role(Protocol):
    """One role at work in this process."""

    def trouble(self) -> str:
        """What is wrong at the moment; empty if it is ready."""
        ...

    def figures(self) -> dict[str, float]:
        """What a monitoring system may want to know, by the name of the metric."""
        ...

    async def run(self) -> None:
        """Until cancelled, or until it fails."""
        ...


@runtime_checkable
class HasMetrics(Protocol):
    """A role that has figures of its own beside those that every role has."""

    def page(self) -> str:
        """In the text format of Prometheus."""
        ...


def create(name: str, role_config: RoleConfig) -> Role:
    """The role of that name; its module is imported only now."""
    module, _, maker = (MAKERS | BESIDE)[name].partition(":")
    role: Role = getattr(importlib.import_module(module), maker)(role_config)
    return role
