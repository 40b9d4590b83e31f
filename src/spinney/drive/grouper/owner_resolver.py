"""Walks from a pod up its owner references to the object that the user created; pods of one owner share one walk.

Owners are read from the server and never cached for longer than `FRESH_S`, so that decisions use their current state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from kube_apimachinery.clock import Clock
from spinney.api.documents import DocumentError, read_json_as
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import PODGANG
from spinney.api.meta import OwnerReference
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, Pod, chain_of, owner_of
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Forbidden, NotFound, Undecodable
from spinney.drive.client.paths import ResourcePath

FRESH_S = 1.0
_KINDS_FRESH_S = 30.0
_DEPTH = 16
_REMEMBERED = 4096
_GROVE = "grove.io"


_Claim = tuple[str, ...]
"""All that a pod says of its owner, with the pod's namespace: whoever claims another's uid hears of nobody's read but
its own.
"""


class Expired(Exception):
    """An owner is gone, or another object has its name: the garbage collector is going to delete the pod."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An owner as it was read, and when; None for an owner that we are not allowed to read."""

    at_s: float
    owner: Owner | None


class OwnerResolver:
    """Reads owners with the client; `clock` decides which cached reads are still fresh."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[_Claim, _Known] = {}
        self._kinds: dict[str, tuple[float, dict[str, ResourcePath]]] = {}
        self._reading: WeakValueDictionary[_Claim, asyncio.Lock] = WeakValueDictionary()

    async def chain(self, pod: Pod) -> OwnerChain:
        """The pod with its owners. Raises `Expired`, or an `InvalidFieldError` if the owner cannot be determined."""
        references = pod.metadata.owner_references
        reference = pod.metadata.controller or (references[0] if references else None)
        owners: list[Owner] = []
        hidden = ""
        while reference is not None:
            owner = await self._owner(reference, pod.metadata.namespace)
            if owner is None:
                hidden = f"{reference.kind} {reference.name}"
                break
            owners.append(owner)
            if len(owners) == _DEPTH:
                raise InvalidFieldError(pod.title, "metadata.ownerReferences", None, f"an end within {_DEPTH} owners")
            reference = _above(owner)
        return chain_of(pod, tuple(owners), await self._gang(pod, owners), hidden)

    def forget_gang(self, pod: Pod) -> None:
        """Drop the cached PodGang of a pod: it may have been changed because of this pod."""
        self._known.pop(_gang_key(pod), None)

    async def _owner(self, reference: OwnerReference, namespace: str) -> Owner | None:
        claim = (namespace, reference.api_version, reference.kind, reference.name, reference.uid)
        return await self._fresh(claim, lambda: self._read(reference, namespace))

    async def _fresh(self, key: _Claim, read: Callable[[], Awaitable[Owner | None]]) -> Owner | None:
        """The cached owner while it is fresh, else a new read; concurrent callers wait for the read in flight."""
        async with self._reading.setdefault(key, asyncio.Lock()):
            known = self._known.get(key)
            if known is None or self._clock.monotonic() - known.at_s >= FRESH_S:
                known = _Known(self._clock.monotonic(), await read())
                self._remember(key, known)
            return known.owner

    async def _read(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """None if reading is forbidden or the kind is no longer served."""
        path = await self._path_of(reference.api_version, reference.kind)
        if path is None:
            return None
        title = f"{reference.kind} {reference.name}"
        try:
            body = await self._client.get(path.ref(reference.name, namespace if path.namespaced else ""))
        except Forbidden:
            return None
        except NotFound:
            raise Expired(f"{title} is gone") from None
        found = _as_owner(body, reference.api_version, reference.kind)
        if found.uid != reference.uid:
            raise Expired(f"{title} is another object now")
        return found

    async def _gang(self, pod: Pod, owners: list[Owner]) -> Owner | None:
        """The PodGang that a Grove pod names in its label."""
        name, namespace = pod.metadata.labels.get(PODGANG), pod.metadata.namespace
        if not name or not any(owner.group == _GROVE for owner in owners):
            return None
        return await self._fresh(_gang_key(pod), lambda: self._read_gang(name, namespace))

    async def _read_gang(self, name: str, namespace: str) -> Owner | None:
        path = ResourcePath(PodGang.GROUP, PodGang.VERSION, PodGang.PLURAL)
        try:
            body = await self._client.get(path.ref(name, namespace))
        except (Forbidden, NotFound):
            return None
        return _as_owner(body, path.api_version, PodGang.KIND)

    async def _path_of(self, api_version: str, kind: str) -> ResourcePath | None:
        """The resource path of a kind, from the server's discovery."""
        now = self._clock.monotonic()
        known = self._kinds.get(api_version)
        if known is None or now - known[0] >= (_KINDS_FRESH_S if kind in known[1] else FRESH_S):
            known = self._kinds[api_version] = (now, await self._served(api_version))
        return known[1].get(kind)

    async def _served(self, api_version: str) -> dict[str, ResourcePath]:
        group, _, version = api_version.rpartition("/")
        try:
            body = await self._client.read(f"/apis/{api_version}" if group else f"/api/{version}")
        except (Forbidden, NotFound):
            return {}
        return {
            each.kind: ResourcePath(group, version, each.name, each.namespaced)
            for each in _listed(body, api_version)
            if "/" not in each.name
        }

    def _remember(self, key: _Claim, known: _Known) -> None:
        """Store a read; beyond the limit the oldest entries are dropped first."""
        self._known.pop(key, None)
        self._known[key] = known
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


class _Served(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _Listed(msgspec.Struct):
    resources: tuple[_Served, ...] | None = ()


def _listed(body: bytes, api_version: str) -> tuple[_Served, ...]:
    try:
        return read_json_as(body, _Listed).resources or ()
    except DocumentError as error:
        raise Undecodable(f"the kinds of {api_version}: {error}") from None


def _gang_key(pod: Pod) -> _Claim:
    return (pod.metadata.namespace, PodGang.GROUP, PodGang.KIND, pod.metadata.labels.get(PODGANG, ""))


def _above(owner: Owner) -> OwnerReference | None:
    """The controller of an owner, or its only owner reference."""
    references = owner.body["metadata"].get("ownerReferences") or []
    if len(references) > 1:
        names = [f"{each['kind']} {each['name']}" for each in references]
        raise InvalidFieldError(owner, "metadata.ownerReferences", names, "one owner")
    return msgspec.convert(references[0], OwnerReference) if references else None


def _as_owner(body: dict[str, Any], api_version: str, kind: str) -> Owner:
    body["metadata"].pop("managedFields", None)
    return owner_of({**body, "apiVersion": api_version, "kind": kind})
