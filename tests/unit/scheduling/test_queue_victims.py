"""Who has to go so that a queue has room for a gang: lawful, the least important, and nobody in vain."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from spinney.api.kinds.queue import Queue, QueueResource, QueueResources, QueueSpec
from spinney.api.meta import ObjectMeta
from spinney.api.placement.problem import Gang, Group, PodSet
from spinney.api.placement.result import Victim
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods
from spinney.core.scheduling.queues.preemption import Candidate, allows, select_victims
from spinney.core.scheduling.queues.tree import Queues, QueueUsage

RESOURCES = ("nvidia.com/gpu", "cpu")
FREE = QueueResource(quota=-1, limit=-1)


def queue(name: str, gpus: float, parent: str = "") -> Queue:
    resources = QueueResources(gpu=QueueResource(quota=-1, limit=gpus), cpu=FREE, memory=FREE)
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent_queue=parent, resources=resources))


def candidate(
    name: str, count: int, priority: int, *, least: int | None = None, gpus: int = 1, of: str = "team"
) -> Candidate:
    """A gang of so many pods, each on a node of its own; all of them are its minimum if nothing else is said."""
    pods = PodSet("w", (gpus, 0), count, count if least is None else least)
    gang = Gang(name, Group("", pods=(pods,)), priority)
    held = [RunningPods("w", f"n{number}", "", number, pods, 1) for number in range(count)]
    return Candidate(RunningGang(gang, held, Counter({"w": count})), of)


def full(limit: float, *candidates: Candidate) -> Queues:
    queues = Queues(RESOURCES, [queue("top", -1), queue("team", limit, "top"), queue("other", -1, "top")])
    for each in candidates:
        queues.allocate(*each.charge(tuple(held.count for held in each.holder.held)))
    return queues


def asking(gpus: int) -> QueueUsage:
    return QueueUsage("team", (gpus, 0), True)


def gone(victims: tuple[Victim, ...] | None) -> Counter[str] | None:
    return None if victims is None else Counter(victim.gang for victim in victims)


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        pytest.param(1, {"a": 1}, id="the smallest that is enough"),
        pytest.param(2, {"b": 2}, id="one gang rather than two"),
        pytest.param(3, {"a": 1, "b": 2}, id="two less important ones rather than one"),
        pytest.param(4, {"c": 4}, id="a more important one if the others are not enough, and then nobody else"),
        pytest.param(7, {"a": 1, "b": 2, "c": 4}, id="everybody"),
        pytest.param(8, None, id="more than there is"),
    ],
)
def test_k16_the_least_important_go_and_as_few_as_suffice(asks: int, expected: dict[str, int] | None) -> None:
    candidates = [candidate("a", 1, 10), candidate("b", 2, 10), candidate("c", 4, 20)]
    assert gone(select_victims(full(7, *candidates), asking(asks), candidates)) == expected


def test_k16_pods_above_a_minimum_go_before_whole_gangs() -> None:
    candidates = [candidate("a", 2, 10), candidate("b", 4, 10, least=1)]
    queues = full(6, *candidates)
    assert gone(select_victims(queues, asking(2), candidates)) == {"b": 2}
    assert gone(select_victims(queues, asking(4), candidates)) == {"a": 2, "b": 2}


def test_k16_of_a_gang_that_has_to_stay_only_those_above_the_minimum_go() -> None:
    stays = Candidate(candidate("a", 3, 10, least=2).holder, "team", stays=True)
    queues = full(3, stays)
    assert gone(select_victims(queues, asking(1), [stays])) == {"a": 1}
    assert select_victims(queues, asking(2), [stays]) is None


def test_k16_nobody_goes_whose_queue_is_not_the_one_at_its_limit() -> None:
    candidates = [candidate("a", 2, 5, of="other"), candidate("b", 2, 10)]
    assert gone(select_victims(full(2, *candidates), asking(2), candidates)) == {"b": 2}


def test_k16_what_is_asked_leaves_no_trace_in_the_usage() -> None:
    candidates = [candidate("a", 1, 10), candidate("b", 5, 10, least=2), candidate("c", 4, 20)]
    queues = full(10, *candidates)
    before = {name: queues.usage(name) for name in ("top", "team", "other")}
    for asks in range(12):
        select_victims(queues, asking(asks), candidates)
        allows(queues, asking(asks), candidates, candidates[0].victims((1,)))
    with queues.supposing(gone=[candidates[0].charge((1,))], there=[asking(3)]):
        assert queues.usage("team") != before["team"]
    assert {name: queues.usage(name) for name in before} == before


@pytest.mark.parametrize("seed", range(40))
def test_inv7_k16_sets_are_lawful_and_nobody_in_them_could_stay(seed: int) -> None:
    """Against all that could be chosen: the highest priority is as low as can be, and nobody goes in vain."""
    dice = Random(seed)
    candidates = [
        candidate(name, count, dice.choice((10, 20, 30)), least=dice.randint(1, count), gpus=dice.choice((1, 2, 4)))
        for name, count in zip("abcd", (dice.randint(1, 3) for _ in range(4)), strict=True)
    ]
    used = sum(each.holder.size * each.holder.held[0].pods.request[0] for each in candidates)
    asked = asking(dice.randint(1, used + 1))
    queues = full(used, *candidates)
    lawful = [_losses(each) for each in candidates]
    enough = [
        chosen
        for chosen in product(*lawful)
        if allows(queues, asked, candidates, [each for one in chosen for each in one])
    ]
    found = select_victims(queues, asked, candidates)
    if found is None:
        assert enough == []
        return
    lost = Counter(victim.gang for victim in found)
    assert all(lost[each.name] in {len(one) for one in mine} for each, mine in zip(candidates, lawful, strict=True))
    assert _highest(candidates, lost) == min(
        _highest(candidates, Counter(each.gang for one in chosen for each in one)) for chosen in enough
    )
    for name in lost:
        assert not allows(queues, asked, candidates, [victim for victim in found if victim.gang != name])


def _losses(one: Candidate) -> list[list[Victim]]:
    """What a gang may lose: what is above its minimum, or all."""
    size, least = one.holder.size, one.holder.held[0].pods.min
    sizes = [*range(size - least + 1), size]
    return [one.victims(tuple([1] * count + [0] * (size - count))) for count in sizes]


def _highest(candidates: list[Candidate], lost: Counter[str]) -> int:
    return max((each.priority for each in candidates if lost[each.name]), default=0)
