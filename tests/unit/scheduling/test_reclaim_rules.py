"""What a gang may take from other queues (Q5), as a table of cases and as properties of random trees."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.api.placement.result import Victim
from spinney.core.scheduling.queues.reclaim import Holder, Reclaim, Standard, Unit, units_of
from spinney.core.scheduling.queues.tree import Queues, Shares
from unit.scheduling.reading_kit import RESOURCES
from unit.scheduling.test_queue_order import gpus, quota


@dataclass
class State:
    """Queues with a cluster of so many GPUs, what they hold, and what else they wait for."""

    capacity: int
    queues: Queues
    waits: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, capacity: int, held: dict[str, int], **quotas: int | tuple[int, str]) -> State:
        """A queue by its quota, or by quota and parent."""
        made = []
        for name, stated in quotas.items():
            amount, parent = stated if isinstance(stated, tuple) else (stated, "")
            made.append(quota(name, amount, parent=parent))
        queues = Queues(RESOURCES, made)
        for name, count in held.items():
            queues.allocate(name, gpus(count), True)
        return cls(capacity, queues)

    def asks(self, queue: str, count: int) -> Reclaim:
        asked = self.queues.shares_of(gpus(count))
        self.queues.ask(queue, asked)
        shares = self.queues.fair_shares(gpus(self.capacity))
        return Reclaim(self.queues, shares, self.queues.shares_of(gpus(self.capacity)), queue, asked)


def units(queue: str, *sizes: int) -> list[Unit]:
    return [Unit(queue, Shares(gpu_m=1000 * size)) for size in sizes]


def test_q5_as_much_as_the_other_queue_is_above_its_share_may_be_taken() -> None:
    reclaim = State.of(32, {"a": 32}, a=16, b=16).asks("b", 16)
    assert reclaim.is_entitled
    assert reclaim.is_lawful(units("a", 8, 8))
    assert not reclaim.is_lawful(units("a", 8, 8, 8))


def test_q5_the_last_one_may_leave_its_queue_below_its_share_whoever_is_named_last() -> None:
    reclaim = State.of(32, {"a": 32}, a=16, b=16).asks("b", 16)
    assert reclaim.is_lawful(units("a", 12, 12))
    assert reclaim.is_lawful(units("a", 32))
    assert reclaim.is_lawful(units("a", 4, 24))
    assert reclaim.is_lawful(units("a", 24, 4))
    assert reclaim.is_lawful(units("a", 8, 8, 1)), "the smallest may have been the first"


@pytest.mark.parametrize(
    ("held", "asks", "is_entitled"),
    [(0, 16, True), (8, 8, True), (8, 9, False), (16, 1, False), (0, 17, False)],
)
def test_q5_who_gets_above_its_own_share_and_quota_takes_nothing(held: int, asks: int, is_entitled: bool) -> None:
    reclaim = State.of(32, {"a": 32 - held, "b": held}, a=16, b=16).asks("b", asks)
    assert reclaim.is_entitled == is_entitled
    assert reclaim.may_take_from("a") == (is_entitled and held < 16)


def test_q5_a_queue_within_its_quota_loses_nothing_to_one_within_its_quota() -> None:
    reclaim = State.of(32, {"a": 16, "c": 16}, a=16, b=16, c=0).asks("b", 16)
    assert not reclaim.may_take_from("a")
    assert reclaim.may_take_from("c")
    assert not reclaim.is_lawful([*units("c", 16), *units("a", 1)])


def test_q5_a_promise_is_kept_where_promises_do_not_fit_by_quotas_alone() -> None:
    """Shares are 8 and 24 then; a gang of 16 is within the quota of its queue and above its share."""
    state = State.of(32, {"a": 32}, a=16, b=48)
    reclaim = state.asks("b", 32)
    assert reclaim.is_within("b", Standard.QUOTA)
    assert not reclaim.is_within("b", Standard.FAIR_SHARE)
    assert reclaim.is_lawful(units("a", 8, 8))
    assert not reclaim.is_lawful(units("a", 32)), "b would be the higher one of the two: a would take it back"
    assert State.of(32, {"a": 32}, a=16, b=48).asks("b", 24).is_lawful(units("a", 32))


@pytest.mark.parametrize(
    ("held", "open_"),
    [({"q1": 32}, {"q1"}), ({"q1": 16, "p2": 16}, {"p2"}), ({"q1": 24, "p2": 8}, {"q1", "p2"})],
    ids=["all is q's", "p2 has what is p1's", "both have some"],
)
def test_q5_queues_are_compared_where_their_paths_part(held: dict[str, int], open_: set[str]) -> None:
    state = State.of(32, held, p=16, q=16, p1=(16, "p"), p2=(0, "p"), q1=(16, "q"))
    reclaim = state.asks("p1", 8)
    assert {name for name in ("p2", "q1") if reclaim.may_take_from(name)} == open_
    assert (reclaim.parting("p2"), reclaim.parting("q1")) == ("p2", "q")


def test_q5_a_queue_within_its_own_share_loses_nothing_though_its_parent_is_above() -> None:
    state = State.of(32, {"q1": 8, "q2": 24}, p=16, q=16, q1=(8, "q"), q2=(8, "q"))
    reclaim = state.asks("p", 16)
    assert not reclaim.may_take_from("q1")
    assert reclaim.is_lawful(units("q2", 8, 8))


def test_q5_a_queue_above_its_share_of_something_that_is_not_short_loses_nothing() -> None:
    """GPUs are short, and cores are not: a has many of these, and no more GPUs than it should."""
    made = [quota("a", 16), quota("b", 16), quota("c", 0)]
    queues = Queues(RESOURCES, made)
    queues.allocate("a", (64_000, 0, 0, 16), True)
    queues.allocate("c", (1_000, 0, 0, 16), True)
    asked = queues.shares_of((1_000, 0, 0, 8))
    queues.ask("b", asked)
    capacity = (128_000, 2**40, 110, 32)
    reclaim = Reclaim(queues, queues.fair_shares(capacity), queues.shares_of(capacity), "b", asked)
    assert reclaim.short == (0,)
    assert not reclaim.may_take_from("a")
    assert reclaim.may_take_from("c")


def test_q5_nothing_is_taken_from_the_own_queue_or_from_one_that_is_above_it_or_not_there() -> None:
    state = State.of(32, {"p": 32}, p=16, b=(16, "p"))
    reclaim = state.asks("b", 8)
    assert not any(reclaim.may_take_from(name) for name in ("b", "p", "none"))


def test_q5_what_is_carried_out_is_judged_as_it_was_when_it_was_decided() -> None:
    state = State.of(32, {"a": 32}, a=16, b=16)
    asked = state.asks("b", 16)
    assert asked.is_lawful(units("a", 12, 12))
    state.queues.release("a", gpus(24), True)
    state.queues.ask("a", Shares(24_000))
    state.queues.ask("b", asked.asks, -1)
    state.queues.allocate("b", gpus(16), True)
    shares = state.queues.fair_shares(gpus(32))
    later = Reclaim(state.queues, shares, state.queues.shares_of(gpus(32)), "b", asked.asks, is_charged=True)
    assert later.is_lawful(units("a", 12, 12), are_charged=False)
    assert not later.is_lawful(units("a", 4), are_charged=False)


def test_q6_pods_of_a_gang_leave_one_by_one_unless_none_of_it_stays() -> None:
    holders = {"ns/a": Holder("q", {"x": Shares(1000), "y": Shares(4000)}, 3)}
    pods = [Victim("ns/a", "x", "n0"), Victim("ns/a", "x", "n1"), Victim("ns/a", "y", "n1")]
    assert units_of(pods[:2], holders) == units("q", 1, 1)
    assert units_of(pods, holders) == units("q", 6)


@st.composite
def states(draw: st.DrawFn) -> tuple[State, str, int, list[Unit]]:
    """Two levels of queues that use up a cluster, a request, and gangs that might leave."""
    parents = [f"p{number}" for number in range(draw(st.integers(1, 3)))]
    amounts = st.integers(0, 16)
    leaves = {f"{parent}{kid}": parent for parent in parents for kid in "ab"[: draw(st.integers(1, 2))]}
    quotas: dict[str, int | tuple[int, str]] = {parent: draw(st.integers(-1, 24)) for parent in parents}
    quotas |= {leaf: (draw(st.integers(-1, 16)), parent) for leaf, parent in leaves.items()}
    held = {leaf: draw(amounts) for leaf in leaves}
    state = State.of(sum(held.values()) + draw(st.integers(0, 8)), held, **quotas)
    taker = draw(st.sampled_from(sorted(leaves)))
    lost = []
    for leaf in leaves:
        left = held[leaf]
        while left > 0 and draw(st.booleans()):
            size = draw(st.integers(1, left))
            lost += units(leaf, size)
            left -= size
    return state, taker, draw(st.integers(1, 16)), lost


@given(states())
def test_q5_no_more_may_leave_than_what_is_lawful(drawn: tuple[State, str, int, list[Unit]]) -> None:
    """A part of a lawful set is lawful: the search may stop at the first set that is not."""
    state, taker, count, lost = drawn
    reclaim = state.asks(taker, count)
    if reclaim.is_lawful(lost):
        for at in range(len(lost)):
            assert reclaim.is_lawful(lost[:at] + lost[at + 1 :])


@given(states())
def test_q5_after_it_nobody_is_below_by_more_than_one_gang_and_the_taker_is_not_above(
    drawn: tuple[State, str, int, list[Unit]],
) -> None:
    state, taker, count, lost = drawn
    reclaim = state.asks(taker, count)
    if not lost or not reclaim.is_lawful(lost):
        return
    for leaf in {unit.queue for unit in lost}:
        top = reclaim.parting(leaf)
        inside = [unit.amounts.gpu_m for unit in lost if unit.queue == top or top in state.queues.above(unit.queue)]
        left = state.queues.usage(top).allocated.gpu_m - sum(inside)
        floors = [reclaim.shares.of(top).gpu_m, state.queues.quota(top).gpu_m]
        assert any(left > floor - max(inside) for floor in floors if floor >= 0)
    own = state.queues.usage(taker).allocated.gpu_m + 1000 * count
    quota_ = state.queues.quota(taker).gpu_m
    assert own <= reclaim.shares.of(taker).gpu_m or quota_ < 0 or own <= quota_


@given(states())
def test_q5_what_is_taken_by_share_is_not_taken_back(drawn: tuple[State, str, int, list[Unit]]) -> None:
    """No ping-pong: the gangs that left, asking at once for the same, may not take from the queue that got it."""
    state, taker, count, lost = drawn
    reclaim = state.asks(taker, count)
    if not lost or not reclaim.is_lawful(lost) or not reclaim.is_within(taker, Standard.FAIR_SHARE):
        return
    queues = state.queues
    for queue, amounts in lost:
        queues.release(queue, gpus(amounts.gpu_m // 1000), True)
        queues.ask(queue, amounts)
    queues.ask(taker, reclaim.asks, -1)
    queues.allocate(taker, gpus(count), True)
    capacity = gpus(state.capacity)
    for queue, amounts in lost:
        back = Reclaim(queues, queues.fair_shares(capacity), queues.shares_of(capacity), queue, amounts)
        assert not (back.is_within(queue, Standard.FAIR_SHARE) and back.may_take_from(taker))
