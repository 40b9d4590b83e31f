"""When an authority takes over from another: each step is seen by everybody before the next."""

from __future__ import annotations

import time

import pytest

from kube_apimachinery import tls
from spinney.serve.webhook.certificates import (
    Authorities,
    InMemoryStore,
    OutpacedError,
    Schedule,
    SelfSigned,
    leaf_for,
    rotated,
    signer,
)

DAY_S = 86_400.0
NOW = float(int(time.time()))
SCHEDULE = Schedule()


def authority(age_s: float = 0.0, days: int = SCHEDULE.authority_days) -> tls.Certificate:
    return tls.create_authority("webhook", now_s=NOW - age_s, days=days)


def test_without_an_authority_one_is_made_and_signs_at_once() -> None:
    found = rotated((), NOW, SCHEDULE)
    assert len(found) == 1
    assert signer(found, NOW, SCHEDULE) == found[0]


def test_an_authority_stays_until_it_is_due() -> None:
    young = (authority(),)
    due_s = (SCHEDULE.authority_days * DAY_S) - SCHEDULE.authority_margin_s
    assert rotated(young, NOW + due_s - 1, SCHEDULE) == young
    assert len(rotated(young, NOW + due_s + 1, SCHEDULE)) == 2


def test_a_new_authority_is_trusted_first_then_signs_and_then_is_alone() -> None:
    old, new = authority(300 * DAY_S), authority()
    both: Authorities = (old, new)
    settle_s = SCHEDULE.settle_s
    steps = {
        after: (rotated(both, NOW + after, SCHEDULE), signer(both, NOW + after, SCHEDULE))
        for after in (0.0, settle_s - 1, settle_s, 3 * settle_s - 1, 3 * settle_s)
    }
    assert steps == {
        0.0: (both, old),
        settle_s - 1: (both, old),
        settle_s: (both, new),
        3 * settle_s - 1: (both, new),
        3 * settle_s: ((new,), new),
    }


def test_authorities_that_expired_are_forgotten() -> None:
    dead, alive = authority(400 * DAY_S), authority()
    assert rotated((dead, alive), NOW, SCHEDULE) == (alive,)
    (fresh,) = rotated((dead,), NOW, SCHEDULE)
    assert fresh.expires_s > NOW


def test_a_leaf_is_kept_while_it_is_good_and_its_signer_signs() -> None:
    old, new = authority(300 * DAY_S), authority()
    leaf = leaf_for(None, (old,), ["h"], NOW, SCHEDULE)
    assert leaf_for(leaf, (old,), ["h"], NOW, SCHEDULE) == leaf
    assert leaf_for(leaf, (old, new), ["h"], NOW, SCHEDULE) == leaf
    late = leaf_for(leaf, (old, new), ["h"], NOW + SCHEDULE.settle_s, SCHEDULE)
    assert tls.is_issued_by(late, new)
    worn_s = SCHEDULE.leaf_days * DAY_S - SCHEDULE.leaf_margin_s + 1
    assert leaf_for(leaf, (old,), ["h"], NOW + worn_s, SCHEDULE) != leaf


async def test_papers_are_the_same_while_nothing_has_to_change() -> None:
    source = SelfSigned(InMemoryStore(), ["h"], SCHEDULE)
    assert await source.read(NOW) == await source.read(NOW + 60)


async def test_who_was_outpaced_takes_what_the_other_made() -> None:
    theirs = authority()

    class Contended(InMemoryStore):
        async def write(self, authorities: Authorities) -> None:
            await super().write((theirs,))
            raise OutpacedError("somebody was quicker")

    found = await SelfSigned(Contended(), ["h"], SCHEDULE).read(NOW)
    assert found.bundle == theirs.certificate_pem
    assert tls.is_issued_by(found.leaf, theirs)


async def test_who_is_always_outpaced_gives_up() -> None:
    class Unruly(InMemoryStore):
        async def write(self, authorities: Authorities) -> None:
            raise OutpacedError("somebody was quicker")

    with pytest.raises(OutpacedError, match="5 times"):
        await SelfSigned(Unruly(), ["h"], SCHEDULE).read(NOW)
