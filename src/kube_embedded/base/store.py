"""All objects, in memory: versions, history and watchers; and the journal in SQLite that outlives a kill -9.

One revision counter for everything, as in etcd. A record is never changed, only replaced. The store knows nothing of
kinds, rules or HTTP; it keeps bytes, what selectors look at, and who owns whom. With a journal every write is committed
before it becomes visible; nothing is read from there but at start.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

MAX_HISTORY_EVENTS = 20_000
MAX_HISTORY_BYTES = 48 * 1024 * 1024
MAX_PENDING_EVENTS = 20_000

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class Record(msgspec.Struct, gc=False, frozen=True):
    """One version of one object: its JSON, and what lists, watches and the collector ask about."""

    body: bytes
    revision: int
    uid: str
    namespace: str
    name: str
    labels: dict[str, str]
    fields: dict[str, str]
    owners: tuple[str, ...] = ()  # uids
    deleting: bool = False

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class Event(msgspec.Struct, gc=False, frozen=True):
    """A change: `new` is None for a deletion, `old` for a creation; `last` is the final state of what was deleted."""

    revision: int
    old: Record | None
    new: Record | None
    last: Record | None = None


class Journal(Protocol):
    """Where acknowledged writes survive the process; called before a write becomes visible."""

    def write(self, collection: str, record: Record) -> None: ...

    def erase(self, collection: str, key: Key, revision: int) -> None: ...


class Expired(Exception):
    """The history does not reach back to the version that was asked for."""


@dataclass(slots=True)
class Watcher:
    """Events that one client has not read yet."""

    pending: deque[Event]
    wake: asyncio.Event
    overflow: bool = False
    closed: bool = False

    def push(self, event: Event) -> None:
        if len(self.pending) >= MAX_PENDING_EVENTS:
            self.overflow = True
        else:
            self.pending.append(event)
        self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()


class Collection:
    """The objects of one group and plural, in whatever versions they are served."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[Key, Record] = {}
        self.history: deque[Event] = deque()
        self.history_bytes = 0
        self.compacted = 0  # events up to this revision are gone
        self.watchers: list[Watcher] = []
        self._sorted: list[Key] | None = None

    def keys(self) -> list[Key]:
        """All keys in the order of lists: by namespace, then name."""
        if self._sorted is None:
            self._sorted = sorted(self.records)
        return self._sorted

    def put(self, event: Event) -> None:
        record = event.new
        if record is not None:
            if event.old is None:
                self._sorted = None
            self.records[record.key] = record
        elif event.old is not None:
            del self.records[event.old.key]
            self._sorted = None
        self._remember(event)
        for watcher in self.watchers:
            watcher.push(event)

    def _remember(self, event: Event) -> None:
        self.history.append(event)
        self.history_bytes += _weight(event)
        while len(self.history) > MAX_HISTORY_EVENTS or self.history_bytes > MAX_HISTORY_BYTES:
            gone = self.history.popleft()
            self.history_bytes -= _weight(gone)
            self.compacted = gone.revision

    def since(self, revision: int) -> list[Event]:
        """Every event after the revision, oldest first."""
        if revision < self.compacted:
            raise Expired
        if not self.history or self.history[-1].revision <= revision:
            return []
        events: list[Event] = []
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            events.append(event)
        events.reverse()
        return events

    def at(self, revision: int) -> Iterator[Record]:
        """The records as they were at a revision, in the order of lists."""
        later = self.since(revision)
        if not later:
            for key in self.keys():
                yield self.records[key]
            return
        then: dict[Key, Record] = dict(self.records)
        for event in reversed(later):
            if event.old is not None:
                then[event.old.key] = event.old
            elif event.new is not None:
                then.pop(event.new.key, None)
        for key in sorted(then):
            yield then[key]

    def after(self, start: Key | None) -> Iterator[Record]:
        """The records of now, in the order of lists, beginning behind a key."""
        keys = self.keys()
        begin = bisect_right(keys, start) if start is not None else 0
        for key in keys[begin:]:
            yield self.records[key]


def _weight(event: Event) -> int:
    return 200 + (len(event.new.body) if event.new is not None else 0)


class Store:
    """Collections by name, one revision for all of them."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.revision = 1
        self._forgotten = 0  # what a journal kept has no history
        self.collections: dict[str, Collection] = {}
        self.by_uid: dict[str, tuple[str, Key]] = {}
        self.dependents: dict[str, set[tuple[str, Key]]] = {}
        self.listeners: list[Callable[[str, Event], None]] = []
        self._journal = journal

    def collection(self, name: str) -> Collection:
        found = self.collections.get(name)
        if found is None:
            found = self.collections[name] = Collection(name)
            found.compacted = self._forgotten
        return found

    def get(self, collection: str, namespace: str, name: str) -> Record | None:
        found = self.collections.get(collection)
        return found.records.get((namespace, name)) if found is not None else None

    def next_revision(self) -> int:
        """The revision that the next write must carry in its body."""
        return self.revision + 1

    def write(self, collection: str, record: Record) -> Event:
        """Create or replace; the record's revision is `next_revision()`."""
        target = self.collection(collection)
        old = target.records.get(record.key)
        if self._journal is not None:
            self._journal.write(collection, record)
        event = Event(record.revision, old, record)
        self._commit(target, event)
        return event

    def erase(self, collection: str, last: Record) -> Event:
        """Delete; `last` is the final state that watchers are shown, at `next_revision()`."""
        target = self.collection(collection)
        old = target.records[last.key]
        if self._journal is not None:
            self._journal.erase(collection, last.key, last.revision)
        event = Event(last.revision, old, None, last)
        self._commit(target, event)
        return event

    def load(self, collection: str, record: Record) -> None:
        """Put back what a journal kept; no event is seen by anybody."""
        target = self.collection(collection)
        target.records[record.key] = record
        target._sorted = None
        self._index(collection, None, record)

    def start_at(self, revision: int) -> None:
        """Continue behind a journal's last revision; older watches must list again."""
        self.revision = max(self.revision, revision)
        self._forgotten = self.revision
        for collection in self.collections.values():
            collection.compacted = self.revision

    def _commit(self, target: Collection, event: Event) -> None:
        self.revision = event.revision
        self._index(target.name, event.old, event.new)
        target.put(event)
        for listener in self.listeners:
            listener(target.name, event)

    def _index(self, collection: str, old: Record | None, new: Record | None) -> None:
        if old is not None and (new is None or old.uid != new.uid):
            self.by_uid.pop(old.uid, None)
        if new is not None and (old is None or old.uid != new.uid):
            self.by_uid[new.uid] = (collection, new.key)
        before = old.owners if old is not None else ()
        after = new.owners if new is not None else ()
        if before == after:
            return
        entry = (collection, (new or old).key)  # type: ignore[union-attr]
        for uid in before:
            if uid not in after:
                held = self.dependents.get(uid)
                if held is not None:
                    held.discard(entry)
                    if not held:
                        del self.dependents[uid]
        for uid in after:
            self.dependents.setdefault(uid, set()).add(entry)

    def watch(self, collection: str, after: int | None) -> Watcher:
        """A watcher that first gets the events after a revision (None: only those to come)."""
        target = self.collection(collection)
        watcher = Watcher(deque(), asyncio.Event())
        if after is not None:
            watcher.pending.extend(target.since(after))
            if watcher.pending:
                watcher.wake.set()
        target.watchers.append(watcher)
        return watcher

    def unwatch(self, collection: str, watcher: Watcher) -> None:
        watchers = self.collection(collection).watchers
        if watcher in watchers:
            watchers.remove(watcher)


_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (collection, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_LOCK_WAIT_S = 0.5
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE collection = ? AND namespace = ? AND name = ?"
_REVISION = "INSERT OR REPLACE INTO state VALUES ('revision', ?)"


class SqliteJournal:
    """One file in a directory of its own; a second process on the same file is refused."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / "objects.db"
        with contextlib.suppress(OSError):  # whatever is wrong with the place, SQLite says it better
            path.touch(mode=0o600)  # Secrets are among the objects; the files beside it get the same mode
        self._db = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except sqlite3.Error as error:
            self._db.close()
            raise RuntimeError(_explain(path, error)) from error

    def _open(self) -> None:
        """The lock is taken with the first write and never given up."""
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("COMMIT")

    def write(self, collection: str, record: Record) -> None:
        row = (collection, record.namespace, record.name, record.revision, record.body)
        self._commit(_PUT, row, record.revision)

    def erase(self, collection: str, key: Key, revision: int) -> None:
        self._commit(_DROP, (collection, *key), revision)

    def _commit(self, statement: str, values: tuple[object, ...], revision: int) -> None:
        """Both or neither; a disk that is full fails this write and not the next one."""
        execute = self._db.execute
        execute("BEGIN")
        try:
            execute(statement, values)
            execute(_REVISION, (revision,))
            execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                execute("ROLLBACK")
            raise

    def replay(self, load: Callable[[str, bytes], None]) -> int:
        """Hand over every object; the last revision is returned."""
        for collection, body in self._db.execute("SELECT collection, body FROM objects ORDER BY revision"):
            load(collection, body)
        row = self._db.execute("SELECT value FROM state WHERE key = 'revision'").fetchone()
        return int(row[0]) if row else 0

    def close(self) -> None:
        self._db.close()


def _explain(path: Path, error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"{path.parent}: another process is using this data directory"
    return f"{path}: cannot be used as a journal of objects: {error}"
