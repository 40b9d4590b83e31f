"""The pages against a cluster: views, and a listener. Nobody leads: pages only look."""

from __future__ import annotations

import asyncio

import click

from spinney.cli.wiring.dashboard import dashboard
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.informers.unreadable import figures as unreadable_figures


def create(role_config: RoleConfig) -> DashboardRole:
    return DashboardRole(role_config, role_config.connect())


class DashboardRole:
    """One process. Its address is told once, when everything has been read."""

    def __init__(self, role_config: RoleConfig, transport: Transport) -> None:
        self._config = role_config
        self._transport = transport
        self._address = ""
        self._unreadable = Unreadable()

    def trouble(self) -> str:
        return "" if self._address else "views are not synced"

    def figures(self) -> dict[str, float]:
        return unreadable_figures(self._unreadable)

    async def run(self) -> None:
        try:
            role_config, seen = self._config, self._unreadable
            async with dashboard(
                self._transport, role_config.dashboard, role_config.configuration, unreadable=seen
            ) as address:
                self._address = address
                click.echo(f"pages    {address}")
                await asyncio.get_running_loop().create_future()
        finally:
            await self._transport.close()
