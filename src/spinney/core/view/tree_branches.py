"""One topology while its tree grows: where each node sits, and the values of branches that have not changed since.

A branch is summed up from what is right below it, never from its nodes again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spinney.core.view.tree import Domain, Host, Level, Outside, Tree, most_of, natural, sum_of


class _Branch:
    """A domain while it grows. `value` is what it was last told as; None: something below it is new."""

    __slots__ = ("below", "hosts", "parent", "path", "value")

    def __init__(self, path: tuple[str, ...], parent: _Branch | None) -> None:
        self.path = path
        self.parent = parent
        self.below: dict[str, _Branch] = {}
        self.hosts: set[str] = set()
        self.value: Domain | None = None

    def touch(self) -> None:
        branch: _Branch | None = self
        while branch is not None:
            branch.value = None
            branch = branch.parent


class Growth:
    """One topology: where each node sits."""

    def __init__(self, name: str, levels: tuple[Level, ...], kinds: tuple[str, ...]) -> None:
        self._name = name
        self._levels = levels
        self._kinds = kinds
        self._root = _Branch((), None)
        self._seats: dict[str, _Branch] = {}
        self._misses: dict[str, tuple[str, ...]] = {}

    def seat(self, name: str, labels: Mapping[str, str]) -> None:
        """A node that lacks a key is in no domain at all."""
        self.remove(name)
        misses = tuple([level.key for level in self._levels if level.key not in labels])
        if misses:
            self._misses[name] = misses
            return
        branch = self._root
        for level in self._levels:
            value = labels[level.key]
            below = branch.below.get(value)
            if below is None:
                below = branch.below[value] = _Branch((*branch.path, value), branch)
            branch = below
        branch.hosts.add(name)
        branch.touch()
        self._seats[name] = branch

    def remove(self, name: str) -> None:
        self._misses.pop(name, None)
        branch = self._seats.pop(name, None)
        if branch is None:
            return
        branch.hosts.discard(name)
        branch.touch()
        while branch.parent is not None and not (branch.hosts or branch.below):
            del branch.parent.below[branch.path[-1]]
            branch = branch.parent

    def touch(self, name: str) -> None:
        branch = self._seats.get(name)
        if branch is not None:
            branch.touch()

    def tree(self, hosts: Mapping[str, Host], resources: int) -> Tree:
        root = _told(self._root, hosts, resources)
        outside = [Outside(hosts[name], misses) for name, misses in self._misses.items()]
        outside.sort(key=lambda one: natural(one.host.name))
        return Tree(self._name, self._levels, root, most_of(root.rooms), tuple(outside), self._kinds)


def _told(branch: _Branch, hosts: Mapping[str, Host], resources: int) -> Domain:
    if branch.value is None:
        below = [_told(branch.below[name], hosts, resources) for name in _in_order(branch.below)]
        here = [hosts[name] for name in _in_order(branch.hosts)]
        parts: Sequence[Domain | Host] = below or here
        branch.value = Domain(
            path=branch.path,
            rooms=parts[0].rooms if len(parts) == 1 else sum_of(parts, resources),
            nodes=sum(one.nodes for one in below) + len(here),
            unusable=sum(one.unusable for one in below) + sum(bool(host.state) for host in here),
            gangs=parts[0].gangs if len(parts) == 1 else _gangs(parts),
            loose=sum([one.loose for one in parts]),
            domains=tuple(below),
            hosts=tuple(here),
        )
    return branch.value


def _gangs(parts: Sequence[Domain | Host]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.gangs.items():
            found[name] = found.get(name, 0) + count
    return dict(sorted(found.items()))


def _in_order(names: Collection[str]) -> list[str]:
    return sorted(names, key=natural) if len(names) > 1 else list(names)
