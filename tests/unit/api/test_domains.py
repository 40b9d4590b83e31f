"""T1: seven domains in one order."""

from __future__ import annotations

import itertools

from spinney.api import domains


def test_t1_the_seven_domains_are_ordered_broad_to_narrow() -> None:
    assert domains.DOMAINS == ("region", "zone", "datacenter", "block", "rack", "host", "numa")


def test_t1_each_domain_is_narrower_than_the_one_before() -> None:
    for broad, narrow in itertools.pairwise(domains.DOMAINS):
        assert domains.is_narrower(narrow, broad)
        assert not domains.is_narrower(broad, narrow)
        assert not domains.is_narrower(broad, broad)


def test_t1_nothing_else_is_a_domain() -> None:
    assert not domains.is_domain("pod")
    assert all(domains.is_narrower("pod", than=known) for known in domains.DOMAINS)
