"""The pages over a cluster, wired together: views, planning, and a listener on a socket of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.wiring.addresses import reachable_host
from spinney.cli.wiring.dashboard_options import DEFAULT_PORT, DashboardOptions
from spinney.cli.wiring.dashboard_sources import ClusterViews
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.clock import system_dice
from spinney.serve.dashboard.data_sources import PlanRefused, Questions
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.server import serving
from spinney.whatif.inputs.manifests import ManifestError
from spinney.whatif.request import planner


@contextlib.asynccontextmanager
async def dashboard(
    transport: Transport,
    options: DashboardOptions,
    configuration: OperatorConfiguration,
    metrics: Callable[[], str] | None = None,
    unreadable: Unreadable | None = None,
) -> AsyncIterator[str]:
    """Pages are served while the block runs; gives the address to tell people, once: a new token is a part of it.

    `metrics` are served beside them, under `/metrics`. `unreadable` learns of objects that can not be shown.
    """
    token = options.token()
    seen = ClusterViews(transport, system_dice(), unreadable)
    plan = answering(planner(seen.client, configuration))
    questions = Questions(seen.events, seen.uses, plan, seen.trouble, metrics)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(seen.run(), name="dashboard-views")
        try:
            await seen.wait_synced()
            ports = (DEFAULT_PORT, 0) if options.port is None else (options.port,)
            async with serving(Model(seen.views), questions, options.host, ports, token) as url:
                shown = url.replace(options.host, reachable_host(options.host), 1)
                yield f"{shown}/?token={token}" if token and options.token_file is None else shown
        finally:
            watching.cancel()


def answering(plan: Callable[[str], Awaitable[PlanResult]]) -> Callable[[str], Awaitable[PlanResult | PlanRefused]]:
    """A text that is no manifest, or a cluster that cannot be read, is a sentence. One is answered after another."""
    turn = asyncio.Lock()

    async def answer(text: str) -> PlanResult | PlanRefused:
        try:
            async with turn:
                return await plan(text)
        except (ManifestError, ClientError) as error:
            return PlanRefused(str(error))

    return answer
