"""Which tests of a parallel run share a worker, and which of them come first.

Tests that share an installation run on one worker, so that it is set up once; a module that is tried on two servers
has two installations. Tests that share nothing are handed out one by one. What takes long comes first, so that all
workers end at the same time.

The groups of pytest-xdist itself are not used: xdist 3.8 writes them where pytest 9.2 does not look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ONE_INSTALLATION = ("attack",)
"""Folders with one installation for all their modules."""

APART = ("clients", "drills", "durability", "fuzz", "kubectl", "simulation")
"""Folders whose tests share nothing but the servers of a worker."""

ORDER = ("node", "attack", "fuzz", "up", "docs", "browser", "simulation", "durability", "drills", "contract")
"""Folders, those with the longest units first. The others come last: their many small units even the workers out."""

_SERVER = re.compile(r"\[(?:.*-)?(embedded|real)(?:-.*)?\]$")


class ByInstallation(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out one installation after the other, in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def make_scheduler(config: pytest.Config, log: Any) -> ByInstallation:
    config.option.loadscopereorder = False
    return ByInstallation(config, log)


def scope_of(nodeid: str) -> str:
    """The unit that a test is handed out with."""
    module, _, _ = nodeid.partition("::")
    folder = _folder_of(nodeid)
    if folder in ONE_INSTALLATION:
        return folder
    if folder in APART:
        return nodeid
    server = _SERVER.search(nodeid)
    return f"{module}@{server[1]}" if server else module


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of long folders first, otherwise as they were."""
    ranks = {folder: rank for rank, folder in enumerate(ORDER)}
    return sorted(items, key=lambda item: ranks.get(_folder_of(item.nodeid), len(ORDER)))


def _folder_of(nodeid: str) -> str:
    """The folder below `tests` that a test is in."""
    return nodeid.removeprefix("tests/").partition("/")[0]
