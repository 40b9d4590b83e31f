"""A journal in SQLite: what was acknowledged is there after a kill -9.

Every write is committed before it becomes visible. Nothing is ever read from here but at start.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from kube_embedded.base.store import Key, Record

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
