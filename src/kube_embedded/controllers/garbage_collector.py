"""Garbage collection by ownerReferences: background, foreground and orphan.

The collector only acts on what the store says now; an event merely tells it where to look. An owner is looked for by
uid, never by name alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError
from kube_embedded.base.resource import Resource
from kube_embedded.base.store import Event, Key, Record
from kube_embedded.controllers.internal_writer import InternalWriter
from kube_embedded.requests.deletion import FOREGROUND, ORPHAN
from kube_embedded.requests.kernel import Kernel

Place = tuple[str, Key]
"""A collection and a key in it."""

_REMEMBERED = 10_000


class GarbageCollector:
    """Places to look at; `process` looks at them until none is left."""

    def __init__(self, kernel: Kernel, writer: InternalWriter) -> None:
        self._kernel = kernel
        self._writer = writer
        self._places: deque[Place] = deque()
        self._known: set[Place] = set()
        self._gone: dict[str, None] = {}

    def observe(self, collection: str, event: Event) -> bool:
        """Remember what an event concerns; whether there is work now."""
        store = self._kernel.store
        if event.new is None:
            gone = event.last or event.old
            if gone is not None:
                self._remember(gone.uid)
                for place in sorted(store.dependents.get(gone.uid, ())):
                    self._add(place)
                for uid in gone.owners:
                    self._add_owner(uid)
        else:
            if event.new.deleting or (event.new.owners and self._owners_changed(event)):
                self._add((collection, event.new.key))
            if event.new.deleting:
                for uid in event.new.owners:
                    self._add_owner(uid)
        return bool(self._places)

    @staticmethod
    def _owners_changed(event: Event) -> bool:
        return event.old is None or event.new is None or event.old.owners != event.new.owners

    def _add_owner(self, uid: str) -> None:
        place = self._kernel.store.by_uid.get(uid)
        if place is not None:
            self._add(place)

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _add(self, place: Place) -> None:
        if place not in self._known:
            self._known.add(place)
            self._places.append(place)

    async def process(self) -> bool:
        """Whether something was refused and is to be tried again."""
        refused: list[Place] = []
        while self._places:
            place = self._places.popleft()
            self._known.discard(place)
            try:
                await self._process(place)
            except ApiError:
                refused.append(place)
        for place in refused:
            self._add(place)
        return bool(refused)

    async def _process(self, place: Place) -> None:
        collection, key = place
        record = self._kernel.store.get(collection, *key)
        resource = self._writer.resource_of(collection)
        if record is None or resource is None:
            return
        obj = self._kernel.decode(record, resource)
        finalizers = obj["metadata"].get("finalizers") or ()
        if record.deleting and ORPHAN in finalizers:
            await self._orphan(resource, record)
        elif record.deleting and FOREGROUND in finalizers:
            await self._foreground(resource, record)
        elif record.owners:
            await self._check_owners(resource, record, obj)

    async def _orphan(self, resource: Resource, record: Record) -> None:
        """Cut the ties of all dependents, then let the owner go."""
        for collection, key in sorted(self._kernel.store.dependents.get(record.uid, ())):
            kind = self._writer.resource_of(collection)
            if kind is not None:
                await self._writer.change(kind, key, lambda obj: _without_owners(obj, {record.uid}))
        await self._writer.change(resource, record.key, lambda obj: _without_finalizer(obj, ORPHAN))

    async def _foreground(self, resource: Resource, record: Record) -> None:
        """Delete what blocks first; the owner goes when nothing blocks any more."""
        blocking = False
        for collection, key in sorted(self._kernel.store.dependents.get(record.uid, ())):
            kind = self._writer.resource_of(collection)
            dependent = self._kernel.store.get(collection, *key)
            if kind is None or dependent is None:
                continue
            if _blocks(self._kernel.decode(dependent, kind), record.uid):
                blocking = True
            if not dependent.deleting:
                await self._check_owners(kind, dependent, self._kernel.decode(dependent, kind))
        if not blocking:
            await self._writer.change(resource, record.key, lambda obj: _without_finalizer(obj, FOREGROUND))

    async def _check_owners(self, resource: Resource, record: Record, obj: Object) -> None:
        """A dependent lives while one of its owners does; ties to those that are gone are cut."""
        if record.deleting:
            return
        references = obj["metadata"].get("ownerReferences") or ()
        if not all(self._knows_owner_kind(ref) for ref in references):
            return
        solid, waiting, absent = set(), set(), set()
        for ref in references:
            owner = self._owner(ref, record.namespace)
            if owner is None:
                absent.add(ref["uid"])
            elif self._waits_for_dependents(owner):
                waiting.add(ref["uid"])
            else:
                solid.add(ref["uid"])
        if solid and (absent or waiting):
            await self._writer.change(resource, record.key, lambda obj: _without_owners(obj, absent | waiting))
        elif not solid and (absent or waiting):
            # In the foreground like its owner: otherwise dependents of its own would outlive both.
            policy = "Foreground" if waiting and self._kernel.store.dependents.get(record.uid) else "Background"
            await self._writer.remove(resource, record, policy)

    def _knows_owner_kind(self, ref: dict[str, Any]) -> bool:
        """Whether an owner is of a kind that is served, or was seen to go; of any other nobody knows if it lives."""
        group, _, version = str(ref.get("apiVersion", "")).rpartition("/")
        known = self._kernel.registry.by_kind(group, str(ref.get("kind", "")), version)
        return known is not None or ref["uid"] in self._gone

    def _owner(self, ref: dict[str, Any], namespace: str) -> Record | None:
        """The living owner: right uid, right kind, and in the same namespace or in none."""
        place = self._kernel.store.by_uid.get(ref["uid"])
        if place is None:
            return None
        collection, key = place
        resource = self._writer.resource_of(collection)
        if resource is None or resource.kind != ref.get("kind") or key[1] != ref.get("name"):
            return None
        if key[0] not in ("", namespace):
            return None
        return self._kernel.store.get(collection, *key)

    def _waits_for_dependents(self, owner: Record) -> bool:
        return owner.deleting and b'"%s"' % FOREGROUND.encode() in owner.body


def _blocks(obj: Object, uid: str) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in references)


def _without_owners(obj: Object, uids: set[str]) -> Object:
    meta = obj["metadata"]
    kept = [ref for ref in meta.get("ownerReferences") or () if ref["uid"] not in uids]
    if kept:
        meta["ownerReferences"] = kept
    else:
        meta.pop("ownerReferences", None)
    return obj


def _without_finalizer(obj: Object, name: str) -> Object:
    meta = obj["metadata"]
    kept = [one for one in meta.get("finalizers") or () if one != name]
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)
    return obj
