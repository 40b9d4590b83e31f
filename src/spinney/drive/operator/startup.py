"""Checks before the controllers start, and synchronisation of the default topology with the configuration (C3, C4, C6).

Reads from the server, not from a cache. A failure here ends the operator, except for a failed clean-up.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import structlog

from spinney.api.changes import Change, Json, Resource, resource_of
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding, in_force
from spinney.api.labels import FINALIZER_CLUSTERTOPOLOGY
from spinney.core.expansion.clustertopology import default_topology, is_managed, twins_of
from spinney.core.expansion.objects import (
    CLAIMS,
    CLUSTERTOPOLOGIES,
    COMPUTE_DOMAINS,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    SCALING_GROUPS,
    TOPOLOGY_BINDINGS,
    delete,
    without_finalizer,
)
from spinney.core.expansion.settings import Settings
from spinney.drive.apply.change_applier import ChangeApplier, path_of
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError, Conflict, NotFound, ServerError, TransportError

MISSING, FAILED, NO_BACKEND, NO_COMPUTE_DOMAINS = 2, 3, 5, 7
_TRIES = 5
_PAUSE_S = 1.0
_PATIENCE_S = 60
_TOPOLOGIES = (CLUSTERTOPOLOGIES, TOPOLOGY_BINDINGS)
_KINDS = (PODCLIQUESETS, PODCLIQUES, SCALING_GROUPS, PODGANGS)

_log = structlog.get_logger(__name__)

T = TypeVar("T", ClusterTopology, ClusterTopologyBinding)


class StartupFailed(Exception):
    """The operator cannot start; `status` is its exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


async def served(client: ApiClient, settings: Settings) -> None:
    """Wait until the server serves our kinds, for a minute at most: the CRDs may be applied shortly after we start."""
    watched = {resource for backend in settings.backends.values() for resource in backend.watches}
    for either in [_TOPOLOGIES, *((resource,) for resource in (*_KINDS, *sorted(watched, key=str)))]:
        for _ in range(_PATIENCE_S):
            if any([await _is_served(client, resource) for resource in either]):
                break
            await asyncio.sleep(1.0)
        else:
            resource = either[0]
            raise StartupFailed(f"{resource.plural}.{resource.group} is not served: apply the CRDs first", FAILED)


async def has_claims(client: ApiClient) -> bool:
    """Whether the server serves ResourceClaims; only sets with resource sharing need them."""
    try:
        return await _is_served(client, CLAIMS)
    except StartupFailed as refused:
        _log.warning("resource claims are left alone", reason=str(refused))
        return False


async def has_compute_domains(client: ApiClient, settings: Settings) -> bool:
    """Whether the server serves ComputeDomains; it has to if the configuration enables auto MNNVL."""
    try:
        found = await _is_served(client, COMPUTE_DOMAINS)
    except StartupFailed as refused:
        if settings.mnnvl_enabled:
            raise StartupFailed(str(refused), NO_COMPUTE_DOMAINS) from refused
        _log.warning("compute domains are left alone", reason=str(refused))
        return False
    if settings.mnnvl_enabled and not found:
        name = f"{COMPUTE_DOMAINS.plural}.{COMPUTE_DOMAINS.group}"
        raise StartupFailed(
            f"network.autoMNNVLEnabled: {name} is not served: install the driver that brings it, or switch it off",
            NO_COMPUTE_DOMAINS,
        )
    return found


async def _is_served(client: ApiClient, resource: Resource) -> bool:
    try:
        await client.read(path_of(resource).collection(), {"limit": "1"})
    except (NotFound, TransportError):
        return False
    except ClientError as error:
        raise StartupFailed(f"{resource.plural}.{resource.group} cannot be read: {error}", FAILED) from error
    return True


async def synchronise(client: ApiClient, change_applier: ChangeApplier, settings: Settings) -> None:
    """Create, update or delete the default topology as configured. Raises `StartupFailed`."""
    name = settings.default_topology
    if not settings.topology_enabled:
        await _clean_up(client, change_applier, name)
    elif not settings.levels:
        if settings.needs_default and await _repeated(lambda: _topology(client, name)) is None:
            raise StartupFailed(f'ClusterTopology "{name}" not found: it is configured as the default', MISSING)
    else:
        await _repeated(lambda: _write(client, change_applier, settings))


async def _write(client: ApiClient, change_applier: ChangeApplier, settings: Settings) -> None:
    """Where somebody has made a binding of that name, that one is brought in line: it is the one that counts (T8)."""
    live = await _topology(client, settings.default_topology)
    served = CLUSTERTOPOLOGIES if await _is_served(client, CLUSTERTOPOLOGIES) else TOPOLOGY_BINDINGS
    resource = resource_of(type(live)) if live is not None else served
    await change_applier.carry_out(default_topology(resource, settings, live))
    # Read again: the twins below are owned by uid, which only the server knows.
    live = await _topology(client, settings.default_topology)
    if live is None:
        raise StartupFailed(f'ClusterTopology "{settings.default_topology}" vanished while it was written', FAILED)
    await _write_twins(client, change_applier, settings, live)


async def _write_twins(client: ApiClient, change_applier: ChangeApplier, settings: Settings, live: AnyTopology) -> None:
    found: dict[tuple[Resource, str], Json | None] = {}
    bindings = live.spec.scheduler_topology_bindings if isinstance(live, ClusterTopologyBinding) else ()
    names = {live.metadata.name, *(each.topology_reference for each in bindings)}
    for backend in settings.backends.values():
        for resource in backend.watches:
            if not resource.namespaced:
                found |= {(resource, name): await _get(client, resource, name) for name in sorted(names)}

    def find(resource: Resource, namespace: str, name: str) -> Json | None:
        return found.get((resource, name))

    for scheduler, twin in twins_of(live, settings, find):
        changes: tuple[Change, ...] = twin.changes
        manages = scheduler in settings.backends and settings.backends[scheduler].manages_topologies
        if not twin.in_sync and not changes and manages and not _is_bound(live, scheduler):
            raise StartupFailed(twin.message, FAILED)
        await change_applier.carry_out(changes)


async def _clean_up(client: ApiClient, change_applier: ChangeApplier, name: str) -> None:
    """Delete the default topology if the operator created it on an earlier start; errors here are not fatal."""
    try:
        await _remove(client, change_applier, ClusterTopologyBinding, name)
        await _remove(client, change_applier, ClusterTopology, name)
    except ClientError as error:
        _log.warning("the default topology could not be removed", topology=name, error=str(error))


async def _repeated(attempt: Any) -> Any:
    """Retry while the server is unreachable or fails, or another client has changed the object (conflict).

    A webhook that cannot be called is waited for, with a line in the log for each reason: in a new installation ours
    may start after the operator.
    """
    left, reason = _TRIES, ""
    while True:
        try:
            return await attempt()
        except ClientError as error:
            if _is_webhook_away(error):
                if str(error) != reason:
                    reason = str(error)
                    _log.warning("the default topology waits for a webhook that cannot be called", reason=reason)
            else:
                left -= 1
                if not left or not isinstance(error, (TransportError, Conflict, ServerError)):
                    raise StartupFailed(f"topology synchronisation failed: {error}", FAILED) from error
            await asyncio.sleep(_PAUSE_S)


def _is_webhook_away(error: ClientError) -> bool:
    """As API servers tell it where the failure policy is Fail; a refusal by a webhook is something else."""
    return isinstance(error, ServerError) and "failed calling webhook" in error.status.message


async def _remove(client: ApiClient, change_applier: ChangeApplier, kind: type[T], name: str) -> None:
    resource, live = resource_of(kind), await _of_kind(client, kind, name)
    if live is None or not is_managed(live):
        return
    await change_applier.carry_out(delete(resource, live.metadata))
    live = await _of_kind(client, kind, name)
    if live is not None:
        await change_applier.carry_out(without_finalizer(resource, live.metadata, FINALIZER_CLUSTERTOPOLOGY))


async def _topology(client: ApiClient, name: str) -> AnyTopology | None:
    binding = await _of_kind(client, ClusterTopologyBinding, name)
    return in_force(binding, await _of_kind(client, ClusterTopology, name))


async def _of_kind(client: ApiClient, kind: type[T], name: str) -> T | None:
    try:
        return await client.get(path_of(resource_of(kind)).ref(name), kind)
    except NotFound:
        return None


def _is_bound(topology: AnyTopology, scheduler: str) -> bool:
    return isinstance(topology, ClusterTopologyBinding) and bool(topology.reference(scheduler))


async def _get(client: ApiClient, resource: Resource, name: str) -> Json | None:
    try:
        return await client.get(path_of(resource).ref(name))
    except NotFound:
        return None
