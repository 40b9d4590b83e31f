"""One installation for all attacks of a run; each attack leaves the attacker's namespace empty."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

import pytest
import urllib3

from attack.harm import Before, look
from attack.installation import TENANT, Installation, installed
from attack.tenants import ATTACKER, CLIQUES, GANGS, GROUPS, SCALED, SETS, Attempt, settle
from cluster_kit.server import eventually
from cluster_kit.space import Space

REFUSALS_S: list[float] = []


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("attacked")) as found:
        settle(found)
        yield found
        _print_figures(found)


def _print_figures(found: Installation) -> None:
    if REFUSALS_S:
        print(
            f"\n{len(REFUSALS_S)} refusals, median {statistics.median(REFUSALS_S) * 1000:.0f} ms, "
            f"longest {max(REFUSALS_S) * 1000:.0f} ms"
        )
    if found.bind_s:
        print(
            f"{len(found.bind_s)} gangs of another tenant after attacks, bound within "
            f"{statistics.median(found.bind_s):.2f} s (median), {max(found.bind_s):.2f} s (longest)"
        )


@pytest.fixture
def before(installation: Installation) -> Before:
    """An attack that brought a role down fails alone: the next one finds everybody at work."""
    installation.heal()
    return look(installation)


@pytest.fixture
def attempt(installation: Installation, before: Before) -> Iterator[Attempt]:
    """The attacker, and an empty namespace before and after it."""
    admin = Space(installation.server, ATTACKER)
    found = Attempt(admin.as_user(TENANT), admin, installation)
    yield found
    REFUSALS_S.extend(taken for status, taken in found.taken_s if status >= 400)
    sweep(admin)


def sweep(admin: Space) -> None:
    """What the attacker left, whatever holds it."""
    collections = (SETS, "jobs", SCALED, CLIQUES, GANGS, "pods", GROUPS)

    def is_empty() -> bool:
        left = 0
        for collection in collections:
            items = admin.list(collection)["items"]
            left += len(items)
            if items:
                with contextlib.suppress(urllib3.exceptions.TimeoutError):  # ten thousand take longer than one request
                    admin.delete(collection, gracePeriodSeconds=0, propagationPolicy="Background")
            for item in items:
                if item["metadata"].get("finalizers"):
                    admin.patch(collection, item["metadata"]["name"], {"metadata": {"finalizers": None}})
        return not left

    eventually(is_empty, "the attacker's namespace is empty", 300)
