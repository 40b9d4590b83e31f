"""Before the views: which of the kinds we look at the server has."""

from __future__ import annotations

import asyncio

from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import NotFound, TransportError
from spinney.drive.client.paths import ResourcePath
from spinney.drive.loop.scheduler.views import CLUSTER_TOPOLOGIES, NEEDED

_PAUSE_S = 1.0


async def served(client: ApiClient) -> None:
    """Until the server has the kinds that we cannot do without: they may be applied after us."""
    for resource in NEEDED:
        while not await _is_served(client, resource):  # noqa: ASYNC110 - a server tells nobody what it serves
            await asyncio.sleep(_PAUSE_S)


async def has_cluster_topologies(client: ApiClient) -> bool:
    """Whether the operator's kinds are there; without them only the scheduler's own topologies count."""
    return await _is_served(client, CLUSTER_TOPOLOGIES)


async def _is_served(client: ApiClient, resource: ResourcePath) -> bool:
    try:
        await client.read(resource.collection(), {"limit": "1"})
    except (NotFound, TransportError):
        return False
    return True
