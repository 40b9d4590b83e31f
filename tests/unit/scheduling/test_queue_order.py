"""The order of waiting gangs (Q2): a walk over the tree of queues, in which each answer counts what was decided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.api.kinds.queue import Queue
from spinney.core.scheduling.queues.tree import BELOW_MINIMUM, QueueOrder, Queues, WaitingGang, leaf_rank
from unit.scheduling.reading_kit import RESOURCES, queue


def gpus(count: int) -> tuple[int, ...]:
    return (0, 0, 0, count)


class Waiting:
    """Queues with a cluster of so many GPUs, what they use, and the gangs that wait: `a1` waits in queue `a`."""

    def __init__(self, capacity: int, *queues: Queue, **used: int) -> None:
        self.queues = Queues(RESOURCES, queues)
        self.capacity = capacity
        self.gangs: list[WaitingGang[str]] = []
        for name, count in used.items():
            self.queues.allocate(name, gpus(count), True)

    def gang(
        self, name: str, asks: int = 4, priority: int = 50, created: str = "t", queue: str = "", grows: bool = False
    ) -> Waiting:
        queue, shares = queue or name[:1], self.queues.shares_of(gpus(asks))
        self.gangs.append(
            WaitingGang(name, queue, shares, (leaf_rank(priority, 0 if grows else BELOW_MINIMUM, created, name), 0))
        )
        self.queues.ask(queue, shares)
        return self

    def order(self, *placed: str) -> list[str]:
        """The gangs in order; those named get what they ask for when it is their turn."""
        shares = self.queues.fair_shares(gpus(self.capacity))
        order, found = QueueOrder(self.queues, lambda: shares, self.gangs), []
        by_name = {gang.key: gang for gang in self.gangs}
        while (name := order.pop()) is not None:
            found.append(name)
            if name in placed or "*" in placed:
                self.queues.allocate(by_name[name].queue, gpus(by_name[name].asks.gpu_m // 1000), True)
        return found


def quota(name: str, gpus: int, weight: float = 1, **more: object) -> Queue:
    return queue(name, gpu={"quota": gpus, "overQuotaWeight": weight}, **more)  # type: ignore[arg-type]


def test_q2_a_queue_under_its_share_comes_before_one_that_is_not_whatever_the_ages() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16), a=16)
    waiting.gang("a1", created="s", priority=100).gang("b1", created="t")
    assert waiting.order() == ["b1", "a1"]


def test_q2_of_two_under_their_share_the_one_within_its_quota_with_the_gang_comes_first() -> None:
    waiting = Waiting(64, quota("a", 4), quota("b", 16), a=4, b=4)
    waiting.gang("a1", created="s").gang("b1", created="t")
    assert waiting.order() == ["b1", "a1"]


def test_q2_then_the_queue_of_higher_priority() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16, priority=200))
    assert waiting.gang("a1", created="s", priority=100).gang("b1", created="t").order() == ["b1", "a1"]


def test_q2_then_the_queue_that_uses_less_of_its_share_with_the_gang() -> None:
    waiting = Waiting(40, quota("a", 10), quota("b", 30), a=4, b=4)
    waiting.gang("a1", created="s").gang("a2", 8).gang("b1", created="t").gang("b2", 24)
    assert waiting.order()[0] == "b1"


def test_q2_then_age_and_then_the_name() -> None:
    waiting = Waiting(48, quota("a", 16), quota("b", 16), quota("c", 16))
    waiting.gang("c1", created="t").gang("b1", created="t").gang("a1", created="u")
    waiting.gang("a2", 12, created="v").gang("b2", 12, created="v").gang("c2", 12, created="v")
    assert waiting.order()[:3] == ["b1", "c1", "a1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 100, "created": "z"}, {"priority": 50, "created": "a"}),
        ({"grows": False, "created": "z"}, {"grows": True, "created": "a"}),
        ({"created": "a"}, {"created": "b"}),
        ({"priority": 100, "grows": True}, {"priority": 50}),
    ],
    ids=["priority", "below its minimum before one that grows", "age", "priority before the minimum"],
)
def test_q2_inside_a_leaf(first: dict[str, object], second: dict[str, object]) -> None:
    waiting = Waiting(32, quota("a", 16)).gang("a2", **second).gang("a1", **first)  # type: ignore[arg-type]
    assert waiting.order() == ["a1", "a2"]


def test_q2_room_goes_to_queues_in_turns_and_not_to_all_gangs_of_one() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16))
    for number in range(4):
        waiting.gang(f"a{number}", created="s").gang(f"b{number}", created="t")
    assert waiting.order("*") == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_q2_what_does_not_fit_does_not_count() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16))
    waiting.gang("a1", created="s").gang("a2", created="s").gang("b1", created="t").gang("b2", created="t")
    assert waiting.order() == ["a1", "a2", "b1", "b2"]
    assert waiting.order("a1") == ["a1", "b1", "b2", "a2"]


def test_q2_worked_case_3_shares_of_12_and_20_are_filled_by_gangs_of_4() -> None:
    waiting = Waiting(32, quota("a", 8), quota("b", 8, weight=3))
    for number in range(8):
        waiting.gang(f"a{number}", created="s").gang(f"b{number}", created="t")
    first_eight = waiting.order("*")[:8]
    assert sorted(name[0] for name in first_eight) == ["a"] * 3 + ["b"] * 5


def test_q2_worked_case_8_freed_room_goes_to_the_queue_under_its_share() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16), a=24)
    waiting.gang("a5", 8, created="a").gang("a6", 8, created="b").gang("b1", 8, created="c").gang("b2", 8, created="d")
    assert waiting.order("b1")[:2] == ["b1", "b2"]


def test_q2_siblings_are_compared_at_each_level() -> None:
    tree = [quota("p", 16), quota("q", 16), quota("a", 0, parent="p"), quota("b", 16, parent="p")]
    waiting = Waiting(32, *tree, quota("c", 16, parent="q"), a=14, c=4)
    waiting.gang("a1", created="r").gang("b1", created="s").gang("c1", created="t")
    assert waiting.order() == ["c1", "b1", "a1"], "q stays within its quota and p does not; of p's, b does"


def test_q2_the_priority_of_a_parent_outweighs_that_of_its_children() -> None:
    tree = [queue("p", priority=1), queue("q", priority=2), queue("a", "p", priority=9), queue("b", "q", priority=1)]
    waiting = Waiting(32, *tree).gang("a1", created="s").gang("b1", created="t")
    assert waiting.order() == ["b1", "a1"]


def test_q2_a_queue_without_a_priority_has_100() -> None:
    waiting = Waiting(32, queue("a"), queue("b", priority=101), queue("c", priority=99))
    assert waiting.gang("a1").gang("b1").gang("c1").order() == ["b1", "a1", "c1"]


def test_q2_what_is_given_back_counts_at_once() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16), a=16, b=8)
    waiting.gang("a1", created="s").gang("b1", created="t").gang("b2", created="u")
    shares = waiting.queues.fair_shares(gpus(32))
    order = QueueOrder(waiting.queues, lambda: shares, waiting.gangs)
    assert order.pop() == "b1"
    waiting.queues.release("a", gpus(16), True)
    assert [order.pop(), order.pop(), order.pop()] == ["a1", "b2", None]


def test_q2_gangs_of_unknown_and_circular_queues_have_a_place_in_the_order() -> None:
    tree = [queue("x", "y"), queue("y", "z"), queue("z", "y"), queue("o", "nowhere"), quota("a", 16)]
    waiting = Waiting(32, *tree).gang("u1").gang("x1").gang("y1").gang("z1").gang("o1").gang("a1")
    found = waiting.order()
    assert found[0] == "a1" and sorted(found) == ["a1", "o1", "u1", "x1", "y1", "z1"]


def test_q2_shares_are_not_computed_for_gangs_of_one_queue() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16)).gang("a1").gang("a2")
    order = QueueOrder(waiting.queues, lambda: pytest.fail("nobody to compare with"), waiting.gangs)
    assert [order.pop(), order.pop(), order.pop()] == ["a1", "a2", None]


def test_q2_a_queue_that_joins_later_is_compared_with_the_first() -> None:
    waiting = Waiting(32, quota("a", 16), quota("b", 16), a=16).gang("a1").gang("b1")
    shares = waiting.queues.fair_shares(gpus(32))
    first, second = waiting.gangs
    order = QueueOrder(waiting.queues, lambda: shares, [first])
    order.add(second)
    assert [order.pop(), order.pop(), order.pop()] == ["b1", "a1", None]


def test_a_tree_as_deep_as_its_author_likes_is_read() -> None:
    chain = [queue("q0"), *[queue(f"q{depth}", f"q{depth - 1}") for depth in range(1, 3000)]]
    waiting = Waiting(32, *chain, quota("a", 16)).gang("deep", queue="q2999").gang("a1")
    assert waiting.order() == ["a1", "deep"]


names = st.sampled_from("abcde")


@given(st.lists(st.tuples(names, st.integers(0, 9), st.booleans()), max_size=25))
def test_q2_each_answer_is_that_of_an_order_made_anew(gangs: list[tuple[str, int, bool]]) -> None:
    """Kept up to date or computed from the beginning: the next gang is the same."""
    tree = [quota("p", 12, priority=2), quota("a", 4, parent="p"), quota("b", 8, parent="p"), quota("c", 8, weight=3)]
    waiting = Waiting(32, *tree, quota("d", 0, priority=3), queue("e"))
    for number, (name, asks, _) in enumerate(gangs):
        waiting.gang(f"{name}{number}", asks, created=str(number % 3))
    shares = waiting.queues.fair_shares(gpus(32))
    left = list(waiting.gangs)
    placed = {f"{name}{number}" for number, (name, _, is_placed) in enumerate(gangs) if is_placed}
    order = QueueOrder(waiting.queues, lambda: shares, left)
    while left:
        changed = set(waiting.queues.changed)
        anew = QueueOrder(waiting.queues, lambda: shares, left).pop()
        waiting.queues.changed |= changed
        found = order.pop()
        assert found == anew
        gang = next(each for each in left if each.key == found)
        left.remove(gang)
        if found in placed:
            waiting.queues.allocate(gang.queue, gpus(gang.asks.gpu_m // 1000), True)
    assert order.pop() is None


steps = st.one_of(
    st.tuples(st.just("use"), names, st.integers(1, 9)),
    st.tuples(st.just("ask"), names, st.integers(1, 9)),
    st.tuples(st.just("put"), names, st.integers(0, 9)),
    st.tuples(st.just("remove"), names, st.just(0)),
)


@given(st.lists(steps, max_size=25))
def test_q1_shares_kept_up_to_date_equal_shares_computed_anew(history: list[tuple[str, str, int]]) -> None:
    tree = [quota("p", 12, priority=2), quota("a", 4, parent="p"), quota("b", 8, parent="p"), quota("c", 8, weight=3)]
    kept = Queues(RESOURCES, tree)
    for number in range(len(history)):
        verb, name, count = history[number]
        _play(kept, verb, name, count)
        anew = Queues(RESOURCES, tree)
        for step in history[: number + 1]:
            _play(anew, *step)
        found, expected = kept.fair_shares(gpus(20)), anew.fair_shares(gpus(20))
        assert [found.of(queue) for queue in "pabcde"] == [expected.of(queue) for queue in "pabcde"]


def _play(queues: Queues, verb: str, name: str, count: int) -> None:
    match verb:
        case "use":
            queues.allocate(name, gpus(count), True)
        case "ask":
            queues.ask(name, queues.shares_of(gpus(count)))
        case "put":
            queues.put(quota(name, count, parent="" if count % 2 else "p"))
        case _:
            queues.remove(name)
