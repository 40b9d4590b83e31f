"""R15: whatever an API server accepts ends no role, hides nobody else and is read in no time.

Two ways: very many objects that no server was asked about, which folds and readers survive whatever a server would
say; and fewer that a real kube-apiserver accepts, of which everything can be read without a complaint.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import spinney
from fuzz.objects import BASES, Json, Source
from fuzz.oracle import FOREIGN, Oracle, oracle
from fuzz.roles import Roles
from fuzz.runs import SLOWEST_S, furnish, generated, survive

OBJECTS = 10_000
ASKED = 60
ASKED_LONG = 10_000
SEED = 15
_SOURCES = Path(spinney.__file__).parents[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with oracle(tmp_path_factory.mktemp("oracle")) as found:
        yield found


@pytest.mark.parametrize("plural", BASES)
def test_r15_every_role_survives_objects_of_any_shape(plural: str) -> None:
    roles = _roles()
    count = asyncio.run(survive(roles, plural, generated(plural, SEED, OBJECTS)))
    _print(plural, count, roles)
    _judge(roles)


@pytest.mark.real
@pytest.mark.parametrize("plural", BASES)
def test_r15_what_a_real_server_accepts_is_read_without_a_complaint(plural: str, server: Oracle) -> None:
    _ask(plural, server, SEED, ASKED)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.real
@pytest.mark.parametrize("plural", BASES)
def test_r15_what_a_real_server_accepts_of_ten_thousand_fresh_objects(
    plural: str, server: Oracle, request: pytest.FixtureRequest
) -> None:
    if "long" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long suite runs with -m long")
    fresh = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.rglob("*.py")))).digest()
    _ask(plural, server, int.from_bytes(fresh[:4], "big"), ASKED_LONG)  # other objects for each state of the code


def _ask(plural: str, server: Oracle, seed: int, count: int) -> None:
    roles = _roles()
    print(f"{plural}: seed {seed}")
    accepted = [found for found in (server.stored(plural, each) for each in _many(plural, seed, count)) if found]
    asyncio.run(survive(roles, plural, accepted, thought=200))
    print(f"{plural}: {len(accepted)} of {count} accepted by the real server")
    _print(plural, len(accepted), roles)
    _judge(roles)
    assert roles.noted.complaints == []
    assert plural in FOREIGN or roles.noted.undecodable == []
    assert accepted, f"the real server accepted nothing of {count}: the generator has lost its way"


def _many(plural: str, seed: int, count: int) -> Iterator[Json]:
    return Source(plural, seed).objects(count)


def _roles() -> Roles:
    roles = Roles()
    furnish(roles)
    return roles


def _print(plural: str, count: int, roles: Roles) -> None:
    found = roles.figures
    print(
        f"{plural}: {count} objects, seed {SEED}; {found.reconciled} reconciled, {found.reviewed} reviewed, "
        f"{len(roles.noted.undecodable)} undecodable, {len(roles.noted.complaints)} complaints, "
        f"slowest {1000 * found.slowest_s:.0f} ms"
    )


def _judge(roles: Roles) -> None:
    assert roles.noted.failures == []
    assert roles.figures.slowest_s <= SLOWEST_S, roles.figures.slowest
