"""A gang whose pods are still being made is seen without reading it."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.scheduling.gang.parsed_gang import is_gathering, read_gang
from unit.scheduling.reading_kit import CONTEXT, member, members, podgroup, subgroup

FOUR: dict[str, Any] = {"minMember": 4}
TWO_LEAVES: dict[str, Any] = {"subGroups": [subgroup("all"), subgroup("a", 2, "all"), subgroup("b", 2, "all")]}
ONE_OF_TWO: dict[str, Any] = {"minSubGroup": 1, "subGroups": [subgroup("a", 2), subgroup("b", 2)]}


@pytest.mark.parametrize("spec", [FOUR, TWO_LEAVES], ids=["one pod set", "two leaves"])
def test_too_few_pods_are_gathering_and_no_reading_would_say_they_are_ready(spec: dict[str, Any]) -> None:
    group, pods = podgroup(spec), members(3, None if spec is FOUR else "a")
    assert is_gathering(group.spec, pods)
    assert not read_gang(group, pods, CONTEXT).ready


def test_as_many_pods_as_the_minimum_are_read() -> None:
    assert not is_gathering(podgroup(FOUR).spec, members(4))


def test_a_gang_that_has_begun_is_read_however_few_are_left() -> None:
    assert not is_gathering(podgroup(FOUR).spec, [member("p-0", node="n")])
    assert not is_gathering(podgroup(FOUR).spec, [member("p-0", status={"phase": "Succeeded"})])


def test_a_gang_that_needs_only_some_of_its_sub_groups_is_read() -> None:
    assert not is_gathering(podgroup(ONE_OF_TWO).spec, members(2, "a"))
