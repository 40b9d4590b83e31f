"""Own writes that the watch has not delivered yet (expectations).

Never guesses: a write whose outcome is unknown stays unsure until the object is read from the server.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from spinney.drive.client.informers.identity import version_number
from spinney.drive.client.paths import Key, Ref, ResourcePath


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
