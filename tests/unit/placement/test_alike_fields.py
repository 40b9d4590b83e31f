"""Domains that differ only in their names are searched once, and that changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from placement_oracle.instances import Profile, instance
from spinney.core.placement.fit import counting
from unit.placement.engine_kit import decided
from unit.placement.problem_kit import BLOCK, HOST, answer, gang, node, pods

CHUNK = 40


def everything(found: Iterator[list[int]], *_: object) -> Iterator[list[int]]:
    return found


@pytest.mark.parametrize("profile", ["core", "hard", "full"])
@pytest.mark.parametrize("start", range(0, 120, CHUNK))
def test_the_answers_are_those_of_a_search_through_all_domains(
    profile: Profile, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [instance(seed, profile) for seed in range(start, start + CHUNK)]
    monkeypatch.setattr(counting, "SMALL", 0)
    short = [decided(problem) for problem in problems]
    monkeypatch.setattr(counting, "_distinct", everything)
    assert short == [decided(problem) for problem in problems]


def searched(nodes: list[Any], monkeypatch: pytest.MonkeyPatch, **wish: Any) -> int:
    """In how many blocks a gang of two groups was looked for that likes to be on one host, and cannot."""
    monkeypatch.setattr(counting, "SMALL", 0)
    seen: list[int] = []
    distinct = counting._distinct

    def tally(*given: Any) -> Iterator[list[int]]:
        for slots in distinct(*given):
            seen.append(len(slots))
            yield slots

    monkeypatch.setattr(counting, "_distinct", tally)
    parts = [pods("a", 2, 8, **wish), pods("b", 1, 4)]
    found = answer(nodes, gang(*parts, topology="t", required=BLOCK, preferred=HOST))
    assert found["outcome"] == "placed"
    return len(seen)


def blocks(count: int, gpus: int = 8) -> list[Any]:
    return [node(f"n{b}-{h}", f"z/b{b}/b{b}r{h // 2}", gpus) for b in range(count) for h in range(4)]


def test_equal_blocks_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(blocks(10), monkeypatch) == 1


def test_a_block_with_other_room_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [node(f"m{h}", f"z/c/r{h // 2}", 8, 1 if h == 3 else 0) for h in range(4)]
    assert searched([*blocks(5), *used], monkeypatch) == 2


def test_a_block_that_is_cut_otherwise_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    uneven = [node(f"m{h}", f"z/c/r{h // 3}") for h in range(4)]
    assert searched([*blocks(5), *uneven], monkeypatch) == 2


def test_neighbours_and_ports_make_every_block_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(blocks(3), monkeypatch, hostPorts=[80]) == 3
