"""The pages against a cluster: views, and a listener. Nobody leads: pages only look."""

from __future__ import annotations

import asyncio

import click

from spinney.cli.dashboard import dashboard
from spinney.cli.roles import Told
from spinney.drive.client.transport import Transport
from spinney.drive.client.unreadable import Unreadable
from spinney.drive.client.unreadable import figures as unreadable_figures


def create(told: Told) -> DashboardRole:
    return DashboardRole(told, told.connect())


class DashboardRole:
    """One process. Its address is told once, when everything has been read."""

    def __init__(self, told: Told, transport: Transport) -> None:
        self._told = told
        self._transport = transport
        self._address = ""
        self._unreadable = Unreadable()

    def trouble(self) -> str:
        return "" if self._address else "views are not synced"

    def figures(self) -> dict[str, float]:
        return unreadable_figures(self._unreadable)

    async def run(self) -> None:
        try:
            told, seen = self._told, self._unreadable
            async with dashboard(self._transport, told.dashboard, told.configuration, unreadable=seen) as address:
                self._address = address
                click.echo(f"pages    {address}")
                await asyncio.get_running_loop().create_future()
        finally:
            await self._transport.close()
