"""A cache of one resource, built from a list and the watch events after it; many readers share it.

Never goes back in time: objects older than the cached ones are ignored. Never blocks the event loop for long: long work
is split. Only a watcher writes to it; everybody else reads. One bad object never breaks the cache: an object that
cannot be decoded, or that makes a subscriber or an index function raise, is `broken` until it changes; all other
objects are delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from spinney.drive.client.codec import Broken, WatchEvent
from spinney.drive.client.errors import StaleView
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.paths import Key, Ref, ResourcePath

# Own writes that the watch has not delivered yet (expectations). Never guesses: a write whose outcome is unknown
# stays unsure until the object is read from the server.


class Pending(msgspec.Struct, frozen=True):
    """What a cache must show before decisions may use it.

    `at_least`: the object's version, or the view's; with `is_older` the write itself has some later version, so that
    only the object tells. `absent_uid`: this very object must be gone. `unsure`: read first.
    """

    at_least: int = 0
    is_older: bool = False
    absent_uid: str = ""
    unsure: bool = False


class Expectations:
    """Own writes to one resource, by object. Entries are removed when the cache shows them."""

    def __init__(self) -> None:
        self.pending: dict[Key, Pending] = {}

    def wrote(self, key: Key, version: str) -> None:
        """The write gave the object this version."""
        self._raise_to(key, version_number(version))

    def wrote_after(self, key: Key, version: str) -> None:
        """The write came after this version (the answer did not contain the new version)."""
        before = self.pending.get(key, Pending())
        self.pending[key] = Pending(max(before.at_least, version_number(version) + 1), is_older=True)

    def removed(self, key: Key, uid: str) -> None:
        """The object of this uid is gone from the server; without a uid there is nothing left to wait for."""
        before = self.pending.get(key, Pending())
        self.pending[key] = replace(before, absent_uid=uid, unsure=False)

    def unsure(self, key: Key) -> None:
        """The write may or may not have been carried out."""
        self.pending[key] = replace(self.pending.get(key, Pending()), unsure=True)

    def forget(self, key: Key, seen: Pending) -> None:
        """Drop an entry that was seen, unless a newer one took its place."""
        if self.pending.get(key) == seen:
            del self.pending[key]

    def _raise_to(self, key: Key, number: int) -> None:
        before = self.pending.get(key, Pending())
        self.pending[key] = Pending(max(before.at_least, number))


class OwnWrites:
    """All own writes: the door tells, and every cache that asked for a ledger has to show them.

    A cache that selects by labels or fields may only be given a ledger if what we write matches its selectors.
    """

    def __init__(self) -> None:
        self._expectations: dict[ResourcePath, list[tuple[str, Expectations]]] = {}

    def expectations(self, resource: ResourcePath, namespace: str = "") -> Expectations:
        """A new ledger of the writes to a resource, or to one namespace of it, from now on."""
        expectations = Expectations()
        self._expectations.setdefault(resource, []).append((namespace, expectations))
        return expectations

    def concerned(self, ref: Ref) -> list[Expectations]:
        """The ledgers that a write to this object belongs into."""
        found = self._expectations.get(ref.resource, ())
        return [expectations for namespace, expectations in found if namespace in ("", ref.namespace)]


# The identity of an object: namespace, name, uid and version, read from Structs and from plain JSON values alike.
# Never compares versions as text: they are numbers that grow with every write to the store.

T_contra = TypeVar("T_contra", contravariant=True)


class Meta(Protocol):
    """The part of `metadata` that every cached Struct has."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class Named(Protocol):
    """A Struct with metadata."""

    @property
    def metadata(self) -> Meta: ...


Identify = Callable[[T_contra], tuple[str, str, str, str]]
"""From an object to (namespace, name, uid, version)."""


def of_struct(item: Named) -> tuple[str, str, str, str]:
    meta = item.metadata
    return (meta.namespace, meta.name, meta.uid, meta.resource_version)


def of_dict(item: dict[str, Any]) -> tuple[str, str, str, str]:
    meta = item["metadata"]
    return (meta.get("namespace", ""), meta["name"], meta.get("uid", ""), meta.get("resourceVersion", ""))


def identify(item: Any) -> tuple[str, str, str, str]:
    """The identity of a Struct or a JSON value, by type."""
    return of_dict(item) if isinstance(item, dict) else of_struct(item)


def version_number(version: str) -> int:
    """The version as a number for comparison; 0 if it is missing or not numeric."""
    return int(version) if version.isdecimal() else 0


T = TypeVar("T")

_PIECE = 500
_TOMBSTONES = 4096


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Added (no old), deleted (no new) or changed. An object that was recreated is deleted, then added."""

    key: Key
    old: T | None
    new: T | None


Subscriber = Callable[[Change[T]], None]
IndexKeys = Callable[[T], tuple[str, ...]]
BrokenSubscriber = Callable[[Broken | None, Broken | None], None]
"""Receives the old and the new broken state of an object (None: it was, or is, not broken)."""


class StaleList(StaleView):
    """A list that is older than the cache it should replace."""


class Cache(Generic[T]):
    """Objects by (namespace, name), with indexes and subscribers."""

    def __init__(
        self,
        resource: ResourcePath,
        *,
        indexes: Mapping[str, IndexKeys[T]] | None = None,
        expectations: Expectations | None = None,
        identity: Identify[T] = identify,
        unreadable: Unreadable | None = None,
    ) -> None:
        self.resource = resource
        self.synced = False
        self.broken: dict[Key, Broken] = {}
        self._unreadable = unreadable or Unreadable()
        self._broken_subscribers: tuple[BrokenSubscriber, ...] = ()
        self.expectations = expectations or Expectations()
        self._identity = identity
        self._items: dict[Key, T] = {}
        self._indexes: dict[str, tuple[IndexKeys[T], dict[str, dict[Key, None]]]] = {}
        self._subscribers: tuple[Subscriber[T], ...] = ()
        self._complete_to = 0  # everything up to this version is in the cache
        self._latest = 0  # the newest version seen
        self._newest = 0  # no cached object or tombstone is newer
        self._tombstones: dict[Key, int] = {}
        self._listed: set[Key] = set()
        self._renewing = False  # the server's history was reset: old and new versions are not comparable
        self._waiters: list[asyncio.Future[None]] = []
        for name, keys_of in (indexes or {}).items():
            self.add_index(name, keys_of)

    # Reading

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Key) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, key: Key) -> T | None:
        return self._items.get(key)

    def uid_of(self, key: Key) -> str:
        """The uid of the cached object; empty if there is none."""
        item = self._items.get(key)
        return self._identity(item)[2] if item is not None else ""

    def keys(self) -> list[Key]:
        return sorted(self._items)

    def by(self, index: str, value: str) -> list[T]:
        """The objects that an index holds under a value, ordered by key."""
        keys = self._indexes[index][1].get(value, {})
        return [self._items[key] for key in sorted(keys)]

    def add_index(self, name: str, keys_of: IndexKeys[T]) -> None:
        """Index objects by the values that a function returns for them; the same name means the same function."""
        if name in self._indexes:
            return
        index: dict[str, dict[Key, None]] = {}
        self._indexes[name] = (keys_of, index)
        for key, item in self._items.items():
            _list_under(index, self._values(keys_of, key, item), key)

    @property
    def resource_version(self) -> str:
        """The version to continue a watch from."""
        return str(self._latest) if self._latest else ""

    def subscribe(self, subscriber: Subscriber[T]) -> Callable[[], None]:
        """Deliver every change from now on, and cached objects as added. Returns a function that unsubscribes."""
        for key in self.keys():
            self._guarded(subscriber, Change(key, None, self._items[key]))
        self._subscribers += (subscriber,)
        return lambda: self._unsubscribe(subscriber)

    def subscribe_broken(self, subscriber: BrokenSubscriber) -> None:
        """Deliver changes of broken objects from now on, and those that are broken already."""
        for key in sorted(self.broken):
            subscriber(None, self.broken[key])
        self._broken_subscribers += (subscriber,)

    def complain(self, key: Key, error: Exception) -> None:
        """Report that processing a cached object failed and will be retried; the object stays in the cache."""
        thing = self._failed_of(key, error)
        if thing is not None:
            self._unreadable.add(self.resource, thing, error)

    def recover(self, key: Key) -> None:
        """Withdraw the report of `complain`: processing the object succeeded."""
        if self._unreadable.has_any and key not in self.broken:
            self._unreadable.remove(self.resource, key)

    # Waiting

    async def wait_synced(self) -> None:
        await self._until(lambda: self.synced)

    async def wait_for(self, version: str) -> None:
        """Wait until the cache is synced and at least as new as this version."""
        number = version_number(version)
        await self._until(lambda: self.synced and self._latest >= number)

    def unseen(self) -> dict[Key, Pending]:
        """Own writes that the cache does not show yet; expectations that it meets are removed."""
        for key, pending in list(self.expectations.pending.items()):
            if self.shows(key, pending):
                self.expectations.forget(key, pending)
        return dict(self.expectations.pending)

    async def wait_shown(self, writes: Mapping[Key, Pending]) -> None:
        """Wait until the cache shows these own writes and forget them; later writes do not prolong the wait."""
        left, pending = list(writes.items()), self.expectations.pending

        def shown() -> bool:
            while left and (left[-1][0] not in pending or self.shows(*left[-1])):
                self.expectations.forget(*left.pop())
            return self.synced and not left

        await self._until(shown)

    def shows(self, key: Key, pending: Pending) -> bool:
        if pending.unsure:
            return False
        item = self._items.get(key)
        _, _, uid, version = self._identity(item) if item is not None else ("", "", "", "")
        view = self._complete_to if item is None or not pending.is_older else 0
        known = max(version_number(version), self._tombstones.get(key, 0), view)
        return known >= pending.at_least and not (pending.absent_uid and uid == pending.absent_uid)

    # Folding

    def begin_list(self, version: str, *, renew: bool = False) -> None:
        """Start a list. A list older than the cache is refused, unless the server's history was reset (`renew`)."""
        if not renew and 0 < version_number(version) < self._latest:
            raise StaleList(f"{self.resource}: list is of version {version}, the view of {self._latest}")
        self.synced = False
        self._listed = set()
        self._renewing = renew
        if renew:
            self._newest = 0

    def fold_page(self, items: Sequence[T], broken: Sequence[Broken] = ()) -> None:
        for item in items:
            namespace, name, uid, version = self._identity(item)
            key, number = (namespace, name), version_number(version)
            self._listed.add(key)
            if number > self._newest:
                self._newest = number
            elif 0 < number <= self._known(key) and not self._renewing:
                continue
            self._put(key, item, uid)
        for thing in broken:
            self._listed.add(thing.key)
            self._break(thing)

    async def end_list(self, version: str) -> None:
        """Remove objects that the list did not contain, in pieces; then the cache equals the list."""
        missing: list[Key] = []
        async for keys in _in_pieces(list(self._items), 10 * _PIECE):
            missing.extend(key for key in keys if key not in self._listed)
        async for keys in _in_pieces(sorted(missing), _PIECE):
            for key in keys:
                self._remove(key)
        for key in [key for key in self.broken if key not in self._listed]:
            self._mend(key)
        if self._renewing:
            self.expectations.pending.clear()
        self._listed = set()
        self._renewing = False
        self._tombstones.clear()
        self._complete_to = self._latest = version_number(version)
        self.synced = True
        self._wake()

    def fold(self, events: Sequence[WatchEvent[T]]) -> None:
        """Apply watch events in any order, also repeated ones: only objects newer than the cached ones count."""
        identity = self._identity
        for event in events:
            item = event.object
            namespace, name, uid, version = identity(item)
            key, number = (namespace, name), version_number(version)
            if 0 < number <= self._complete_to:
                continue
            if event.type == "DELETED":
                self._bury(key, number)
            elif number > self._newest:
                self._newest = number
                self._put(key, item, uid)
            elif number > self._known(key) or not number:
                self._put(key, item, uid)
        self._latest = max(self._latest, self._newest)
        self._wake()

    def fold_broken(self, things: Sequence[Broken]) -> None:
        """Record objects that cannot be decoded in `broken`; their last good state stays in the cache."""
        for thing in things:
            number = version_number(thing.version)
            self._latest = max(self._latest, number)
            if thing.deleted:
                self._bury(thing.key, number)
            elif number > self._known(thing.key):
                self._break(thing)
        self._wake()

    def bookmark(self, version: str) -> None:
        """All events up to this version have been delivered."""
        number = version_number(version)
        if number > self._complete_to:
            self._complete_to = number
            self._latest = max(self._latest, number)
            self._tombstones = {key: dead for key, dead in self._tombstones.items() if dead > number}
        self._wake()

    # Inside

    def _put(self, key: Key, item: T, uid: str) -> None:
        old = self._items.get(key)
        if old is not None and self._identity(old)[2] != uid:
            self._remove(key)
            old = None
        self._items[key] = item
        if self.broken:
            self._mend(key)
        if self._indexes:
            self._reindex(key, old, item)
        if self._subscribers:
            self._notify(Change(key, old, item))

    def _bury(self, key: Key, number: int) -> None:
        if 0 < number < self._known(key):
            return
        self._newest = max(self._newest, number)
        self._tombstones.pop(key, None)
        self._tombstones[key] = number
        if len(self._tombstones) > _TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]
        self._remove(key)

    def _known(self, key: Key) -> int:
        item = self._items.get(key)
        if item is None:
            return self._tombstones.get(key, 0)
        return version_number(self._identity(item)[3])

    def _remove(self, key: Key) -> None:
        self._mend(key)
        old = self._items.pop(key, None)
        if old is None:
            return
        self._reindex(key, old, None)
        self._notify(Change(key, old, None))

    def _reindex(self, key: Key, old: T | None, new: T | None) -> None:
        for keys_of, index in self._indexes.values():
            before = self._values(keys_of, key, old) if old is not None else ()
            after = self._values(keys_of, key, new) if new is not None else ()
            if before == after:
                continue
            for value in before:
                if value not in after:
                    _unlist(index, value, key)
            _list_under(index, after, key)

    def _notify(self, change: Change[T]) -> None:
        for subscriber in self._subscribers:
            self._guarded(subscriber, change)

    def _guarded(self, subscriber: Subscriber[T], change: Change[T]) -> None:
        """Call a subscriber; an object that makes it raise is marked broken and does not affect other subscribers."""
        try:
            subscriber(change)
        except Exception as error:
            self._break_by(change.key, error)

    def _values(self, keys_of: IndexKeys[T], key: Key, item: T) -> tuple[str, ...]:
        """The index values; an object whose index function raises is marked broken and not indexed."""
        try:
            return keys_of(item)
        except Exception as error:
            self._break_by(key, error)
            return ()

    def _failed_of(self, key: Key, error: Exception) -> Broken | None:
        item = self._items.get(key)
        if item is None:
            return None
        _, _, uid, version = self._identity(item)
        return Broken(key, version, False, f"{type(error).__name__}: {error}", uid)

    def _break_by(self, key: Key, error: Exception) -> None:
        thing = self._failed_of(key, error)
        if thing is not None:
            self._break(thing, error)

    def _break(self, thing: Broken, error: Exception | None = None) -> None:
        before = self.broken.get(thing.key)
        self.broken[thing.key] = thing
        self._unreadable.add(self.resource, thing, error)
        for subscriber in self._broken_subscribers:
            subscriber(before, thing)

    def _mend(self, key: Key) -> None:
        before = self.broken.pop(key, None)
        if before is not None:
            self._unreadable.remove(self.resource, key)
            for subscriber in self._broken_subscribers:
                subscriber(before, None)

    def _unsubscribe(self, subscriber: Subscriber[T]) -> None:
        self._subscribers = tuple(one for one in self._subscribers if one is not subscriber)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


def _list_under(index: dict[str, dict[Key, None]], values: Iterable[str], key: Key) -> None:
    for value in values:
        keys = index.get(value)
        if keys is None:
            index[value] = {key: None}
        else:
            keys[key] = None


def _unlist(index: dict[str, dict[Key, None]], value: str, key: Key) -> None:
    keys = index.get(value, {})
    keys.pop(key, None)
    if not keys:
        index.pop(value, None)


async def _in_pieces(keys: list[Key], size: int) -> AsyncIterator[list[Key]]:
    """The keys in chunks; the event loop runs other tasks in between."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
        await asyncio.sleep(0)
