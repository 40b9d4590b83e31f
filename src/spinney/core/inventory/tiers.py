"""One level of a topology tree: its domains and who sits where.

Knows only its own level: parents and children are ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
NOWHERE = -1
FEW = 1024


class Tier:
    """Domain ids are dense. `ids` is the truth of who sits where; member lists follow it on demand."""

    __slots__ = (
        "_array",
        "_members",
        "_names",
        "_narrowest",
        "_spare",
        "_stale",
        "_untidy",
        "below",
        "ids",
        "parents",
        "seated",
        "sizes",
        "values",
    )

    def __init__(self, names: Sequence[str], narrowest: bool) -> None:
        self._names = names
        self.values: list[str] = []
        self.parents: list[int] = []
        self.below: list[dict[str, int]] = []
        self._narrowest = narrowest
        self.sizes: list[int] = []
        self.seated = 0
        self.ids: list[int] = []
        self._members: list[list[int]] = []
        self._untidy: list[bool] = []
        self._spare: list[int] = []
        self._stale: list[int] = []
        self._array: Ids = np.zeros(0, np.int32)

    def reserve(self, slots: int) -> None:
        self.ids.extend([NOWHERE] * (slots - len(self.ids)))

    def open(self, parent: int, value: str) -> int:
        """A new id."""
        self.values.append(value)
        self.parents.append(parent)
        if not self._narrowest:
            self.below.append({})
        self.sizes.append(0)
        self._members.append([])
        self._untidy.append(False)
        return len(self.values) - 1

    def spare(self) -> int | None:
        """The id of an emptied domain that may be renamed."""
        while self._spare:
            domain = self._spare.pop()
            if not self.sizes[domain]:
                return domain
        return None

    def rename(self, domain: int, parent: int, value: str) -> None:
        self.values[domain] = value
        self.parents[domain] = parent

    def enter(self, slot: int, domain: int) -> None:
        self.ids[slot] = domain
        if len(self._stale) <= FEW:
            self._stale.append(slot)
        if domain == NOWHERE:
            return
        self.seated += 1
        self.sizes[domain] += 1
        if self.sizes[domain] == 1:
            self._members[domain] = [slot]
            return
        members = self._loosen(domain)
        members.append(slot)
        if len(members) > 2 * self.sizes[domain] + 16:
            self._tidy(domain)

    def leave(self, slot: int) -> None:
        domain = self.ids[slot]
        self.ids[slot] = NOWHERE
        if len(self._stale) <= FEW:
            self._stale.append(slot)
        if domain == NOWHERE:
            return
        self.seated -= 1
        self.sizes[domain] -= 1
        if self.sizes[domain]:
            self._loosen(domain)
        else:
            self._members[domain] = []
            self._untidy[domain] = False
            self._spare.append(domain)

    def members(self, domain: int) -> list[int]:
        """Sorted by name. A list once given out is never changed."""
        if self._untidy[domain]:
            self._tidy(domain)
        return self._members[domain]

    def array(self) -> Ids:
        """`ids`, brought up to date; not to be kept over the next move."""
        missing = len(self.ids) - len(self._array)
        if len(self._stale) > FEW:
            self._array = np.array(self.ids, np.int32)
        else:
            if missing:
                self._array = np.concatenate((self._array, np.full(missing, NOWHERE, np.int32)))
            for slot in self._stale:
                self._array[slot] = self.ids[slot]
        self._stale.clear()
        return self._array

    def _loosen(self, domain: int) -> list[int]:
        """A member list that may become untidy, not the one given out."""
        if not self._untidy[domain]:
            self._members[domain] = self._members[domain][:]
            self._untidy[domain] = True
        return self._members[domain]

    def _tidy(self, domain: int) -> None:
        """Member lists only grow in between: drop who left, or came twice, and sort."""
        ids, names = self.ids, self._names
        present = {slot for slot in self._members[domain] if ids[slot] == domain}
        self._members[domain] = sorted(present, key=names.__getitem__)
        self._untidy[domain] = False
