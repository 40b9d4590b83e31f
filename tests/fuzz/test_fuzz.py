"""R15: whatever an API server accepts ends no role, hides nobody else and is read in no time.

Two ways: very many objects that no server was asked about, which folds and readers survive whatever a server would
say; and fewer that a real kube-apiserver accepts, of which everything can be read without a complaint.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import spinney
from fuzz.objects import BASES, Source, valid
from fuzz.oracle import FOREIGN, Oracle, oracle
from fuzz.owners import OWNERS, answers
from fuzz.reviews import CONVERTED
from fuzz.roles import Roles
from fuzz.runs import SLOWEST_S, furnish, generated, survive
from spinney.api.dynamo_conversion import to_alpha
from spinney.core.grouping.podgroups import DesiredPodGroup

_SOURCES = Path(spinney.__file__).parents[1]


def _fresh() -> int:
    """Other objects for each state of the code; the same ones for everybody who has it."""
    found = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.rglob("*.py"))))
    return int.from_bytes(found.digest()[:4], "big")


OBJECTS = 10_000
OBJECTS_LONG = 100_000
ASKED = 250
ASKED_LONG = 10_000
SEED = int(os.environ.get("SPINNEY_SEED") or 15)
"""The same objects in every run: nobody's change is held up by a fault that was there before."""
FRESH = int(os.environ.get("SPINNEY_SEED") or _fresh())
"""Of the long suite."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with oracle(tmp_path_factory.mktemp("oracle")) as found:
        yield found


def test_r15_every_kind_that_a_role_caches_has_a_base() -> None:
    cached = Roles().cached
    assert set(cached) <= set(BASES), f"without a base in bases.yaml: {sorted(set(cached) - set(BASES))}"
    versions = {plural: frozenset({BASES[plural]["apiVersion"]}) for plural in cached}
    assert cached == versions


@pytest.mark.parametrize("plural", OWNERS)
def test_r15_pods_of_a_valid_owner_are_grouped(plural: str) -> None:
    assert any(isinstance(each, DesiredPodGroup) for each in answers(plural)), answers(plural)


@pytest.mark.parametrize("plural", BASES)
def test_r15_every_role_survives_objects_of_any_shape(plural: str) -> None:
    _survive(plural, OBJECTS, SEED)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("plural", BASES)
def test_r15_every_role_survives_a_hundred_thousand_objects_of_any_shape(plural: str) -> None:
    _survive(plural, OBJECTS_LONG, FRESH)


def test_r15_the_webhook_survives_deployments_of_the_older_version() -> None:
    roles, base = Roles(), to_alpha(valid(CONVERTED))
    before = base
    for found in Source(CONVERTED, SEED, base).objects(OBJECTS):
        roles.review(CONVERTED, found, (base, before))
        before = found
    _judge(roles)


@pytest.mark.real
@pytest.mark.parametrize("plural", BASES)
def test_r15_what_a_real_server_accepts_is_read_without_a_complaint(plural: str, server: Oracle) -> None:
    _ask(plural, server, ASKED, SEED)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.real
@pytest.mark.parametrize("plural", BASES)
def test_r15_what_a_real_server_accepts_of_ten_thousand_fresh_objects(plural: str, server: Oracle) -> None:
    _ask(plural, server, ASKED_LONG, FRESH)


def _survive(plural: str, count: int, seed: int) -> None:
    print(f"{plural}: again with SPINNEY_SEED={seed}")
    roles = _roles(plural)
    asyncio.run(survive(roles, plural, generated(plural, seed, count)))
    _print(plural, count, roles)
    _judge(roles)


def _ask(plural: str, server: Oracle, count: int, seed: int) -> None:
    print(f"{plural}: again with SPINNEY_SEED={seed}")
    roles = _roles(plural)
    base = server.stored(plural, valid(plural))
    assert base, f"the real server does not accept the base of {plural}"
    many = (server.stored(plural, each) for each in generated(plural, seed, count))
    accepted = [found for found in many if found]
    asyncio.run(survive(roles, plural, accepted, thought=200, base=base))
    print(f"{plural}: {len(accepted)} of {count} accepted by the real server")
    _print(plural, len(accepted), roles)
    _judge(roles)
    assert roles.noted.complaints == []
    assert plural in FOREIGN or roles.noted.undecodable == []
    assert accepted, f"the real server accepted nothing of {count}: the generator has lost its way"


def _roles(plural: str) -> Roles:
    roles = Roles()
    furnish(roles, plural)
    return roles


def _print(plural: str, count: int, roles: Roles) -> None:
    found = roles.figures
    print(
        f"{plural}: {count} objects; {found.reconciled} reconciled, {found.reviewed} reviewed, "
        f"{len(roles.noted.undecodable)} undecodable, {len(roles.noted.complaints)} complaints, "
        f"slowest {1000 * found.slowest_s:.0f} ms"
    )


def _judge(roles: Roles) -> None:
    assert roles.noted.failures == []
    assert roles.figures.slowest_s <= SLOWEST_S, f"{roles.figures.slowest}"
