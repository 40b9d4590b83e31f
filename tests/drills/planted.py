"""All planted bugs by name; `plant` puts one into the process that serves."""

from __future__ import annotations

from drills import endings, fields, gates, pods, races, reads, writes
from drills.bug import Bug

_FOUND = [
    bug
    for module in (writes, races, reads, endings, pods, fields, gates)
    for bug in vars(module).values()
    if isinstance(bug, Bug)
]
BUGS: dict[str, Bug] = {bug.name: bug for bug in _FOUND}
assert len(BUGS) == len(_FOUND), "two planted bugs have the same name"


def plant(name: str) -> None:
    BUGS[name].plant()
