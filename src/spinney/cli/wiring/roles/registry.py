"""The roles that `spinney run` knows, and what each of them is given. Another role is another line of the table."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.wiring.dashboard_options import DashboardOptions
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.client.config.connection import Connection
from spinney.drive.client.config.loader import connect
from spinney.drive.client.http.rate_limit import RateLimitedTransport
from spinney.drive.client.http.transport import Transport
from spinney.drive.clock import SystemClock
from spinney.drive.election.lease_thread import Heartbeat

MODULES = {
    "webhook": "spinney.cli.wiring.roles.webhook",
    "operator": "spinney.cli.wiring.roles.operator",
    "scheduler": "spinney.cli.wiring.roles.scheduler",
    "dynamo": "spinney.cli.wiring.roles.dynamo",
    "dashboard": "spinney.cli.wiring.roles.dashboard",
}
"""In the order in which `spinney run all` starts them. Each module has `create(told) -> Role`."""


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What only the webhook is told. `service`: `namespace/name` under which API servers find it."""

    bind_address: str = ""
    port: int | None = None
    cert_dir: Path | None = None
    service: str = ""
    operator_user: str = ""


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
    role: Role = importlib.import_module(MODULES[name]).create(role_config)
    return role
