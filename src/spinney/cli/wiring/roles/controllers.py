"""The roles that are controllers, against a cluster: leader election, and the controllers while they lead.

The operator and the Dynamo part. What differs between them is which Lease they hold and what they build.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.roles.catalog import DYNAMO_LEASE
from spinney.cli.wiring.roles.leader import Candidate
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive import dynamo as dynamo_controllers
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.informers.unreadable import figures as unreadable_figures
from spinney.drive.election.leader_election import Elect
from spinney.drive.operator import operator as operator_controllers
from spinney.drive.operator.settings_from_config import concurrency_of, settings_of
from spinney.whatif.inputs.operator_settings import dynamo_settings_of


class Controllers(Protocol):
    """What a role builds when it is elected. `ready` is set once its caches are synced."""

    ready: asyncio.Event
    caches: SharedCaches

    async def run(self) -> None: ...


Build = Callable[[Transport, Callable[[], None]], Controllers]
"""From a transport, and what is called before each write: it raises when the leadership is lost."""


def create_operator(role_config: RoleConfig) -> ControllerRole:
    return operator_role(role_config, role_config.connect())


def create_dynamo(role_config: RoleConfig) -> ControllerRole:
    return dynamo_role(role_config, role_config.connect())


def operator_role(
    role_config: RoleConfig, transport: Transport, lease_transport: Transport | None = None
) -> ControllerRole:
    """`lease_transport`: for the Lease alone; None: a connection of its own to the same cluster."""
    configuration = role_config.configuration
    lease = configuration.leader_election.resource_name
    settings, workers = settings_of(configuration), concurrency_of(configuration)

    def build(transport: Transport, may_write: Callable[[], None]) -> Controllers:
        clock, dice = SystemClock(), system_dice()
        return operator_controllers.Operator(transport, clock, dice, settings, concurrency=workers, may_write=may_write)

    manager = operator_controllers.FIELD_MANAGER
    return ControllerRole(
        Candidate(role_config, lease, manager, transport=lease_transport),
        transport,
        build,
        elects=configuration.leader_election.enabled,
    )


def dynamo_role(
    role_config: RoleConfig, transport: Transport, lease_transport: Transport | None = None
) -> ControllerRole:
    """`lease_transport`: for the Lease alone; None: a connection of its own to the same cluster."""
    settings = dynamo_settings_of(role_config.configuration)

    def build(transport: Transport, may_write: Callable[[], None]) -> Controllers:
        return dynamo_controllers.Dynamo(transport, SystemClock(), system_dice(), settings, may_write=may_write)

    manager = dynamo_controllers.FIELD_MANAGER
    return ControllerRole(
        Candidate(role_config, DYNAMO_LEASE, manager, transport=lease_transport),
        transport,
        build,
        elects=role_config.configuration.leader_election.enabled,
    )


class ControllerRole:
    """One process of a role: at most one set of controllers at work in it."""

    def __init__(self, candidate: Candidate, transport: Transport, build: Build, *, elects: bool) -> None:
        self._candidate = candidate
        self._transport = transport
        self._build = build
        self._elects = elects
        self._controllers: Controllers | None = None

    def trouble(self) -> str:
        """A standby is ready while somebody leads; a leader when its caches are synced and their watches run."""
        controllers = self._controllers
        if controllers is None:
            return self._candidate.trouble() if self._elects else "starting"
        troubles = "; ".join(controllers.caches.troubles)
        if controllers.ready.is_set():
            return troubles
        return f"views are not synced: {troubles}" if troubles else "views are not synced"

    def figures(self) -> dict[str, float]:
        unreadable = [self._controllers.caches.unreadable] if self._controllers is not None else []
        return {**self._candidate.figures(), **unreadable_figures(*unreadable)}

    async def run(self) -> None:
        await self._candidate.run(self._work, self._transport)

    async def _work(self, elect: Elect) -> None:
        leadership = await elect()
        self._controllers = self._build(self._transport, leadership.check)
        try:
            await self._controllers.run()
        finally:
            self._controllers = None
