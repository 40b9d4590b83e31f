"""Fair shares (Q1): a table of cases computed by hand, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.core.scheduling.queues.fair_share import MILLION, UNLIMITED, QueueClaim, fair_shares


def q(
    name: str,
    asked: int = 0,
    *children: QueueClaim,
    quota: int = 0,
    limit: int = UNLIMITED,
    weight: int = 1,
    priority: int = 100,
) -> QueueClaim:
    asked += sum(child.wanted for child in children)
    return QueueClaim(name, asked, quota, limit, weight, priority, children)


Case = tuple[str, int, list[QueueClaim], dict[str, int]]

QUOTAS: list[Case] = [
    ("nobody asks", 32, [q("a", quota=16), q("b", quota=16)], {"a": 0, "b": 0}),
    ("each asks for its quota", 32, [q("a", 16, quota=16), q("b", 16, quota=16)], {"a": 16, "b": 16}),
    ("one asks for less", 32, [q("a", 5, quota=16), q("b", 16, quota=16)], {"a": 5, "b": 16}),
    ("one borrows all that is left", 32, [q("a", 40, quota=16), q("b", quota=16)], {"a": 32, "b": 0}),
    ("the lender takes it back", 32, [q("a", 40, quota=16), q("b", 16, quota=16)], {"a": 16, "b": 16}),
    ("the lender takes a part back", 32, [q("a", 40, quota=16), q("b", 8, quota=16)], {"a": 24, "b": 8}),
    ("both ask for more than there is", 32, [q("a", 40, quota=16), q("b", 40, quota=16)], {"a": 16, "b": 16}),
    ("quotas below the capacity leave a rest", 32, [q("a", 32, quota=8), q("b", 32, quota=8)], {"a": 16, "b": 16}),
    ("one queue alone has everything it asks for", 32, [q("a", 20)], {"a": 20}),
    ("one queue alone has no more than there is", 32, [q("a", 50)], {"a": 32}),
    ("no capacity", 0, [q("a", 5, quota=5), q("b", 5)], {"a": 0, "b": 0}),
    ("an unlimited quota is all of it", 32, [q("a", 40, quota=UNLIMITED), q("b", 40)], {"a": 32, "b": 0}),
    ("an unlimited quota that is not needed", 32, [q("a", 10, quota=UNLIMITED), q("b", 40)], {"a": 10, "b": 22}),
    ("a quota larger than the cluster", 32, [q("a", 40, quota=64), q("b", 40)], {"a": 32, "b": 0}),
]

WEIGHTS: list[Case] = [
    ("worked case 3", 32, [q("a", 32, quota=8), q("b", 32, quota=8, weight=3)], {"a": 12, "b": 20}),
    ("by weight alone", 40, [q("a", 40), q("b", 40, weight=3)], {"a": 10, "b": 30}),
    ("three weights", 60, [q("a", 60), q("b", 60, weight=2), q("c", 60, weight=3)], {"a": 10, "b": 20, "c": 30}),
    ("what one does not need goes to the others", 40, [q("a", 40), q("b", 6, weight=3)], {"a": 34, "b": 6}),
    (
        "what two do not need goes to the third",
        60,
        [q("a", 60), q("b", 5, weight=2), q("c", 10, weight=3)],
        {"a": 45, "b": 5, "c": 10},
    ),
    (
        "what one does not need is divided by weight",
        60,
        [q("a", 60), q("b", 60, weight=2), q("c", 15, weight=3)],
        {"a": 15, "b": 30, "c": 15},
    ),
    ("no weight, no rest", 40, [q("a", 40, weight=0), q("b", 40)], {"a": 0, "b": 40}),
    ("no weight, but the quota", 40, [q("a", 40, quota=10, weight=0), q("b", 40)], {"a": 10, "b": 30}),
    ("nobody has a weight: the rest is nobody's", 40, [q("a", 40, quota=10, weight=0)], {"a": 10}),
    ("a weight without demand", 40, [q("a", weight=100), q("b", 40)], {"a": 0, "b": 40}),
    ("quota and weight", 30, [q("a", 30, quota=10, weight=2), q("b", 30, quota=5)], {"a": 20, "b": 10}),
    ("large weights", 1000, [q("a", 1000, weight=10**9), q("b", 1000, weight=10**9)], {"a": 500, "b": 500}),
]

LAST_UNITS: list[Case] = [
    ("the last unit goes by name", 3, [q("b", 3), q("a", 3)], {"a": 2, "b": 1}),
    ("two last units", 5, [q("c", 5), q("b", 5), q("a", 5)], {"a": 2, "b": 2, "c": 1}),
    ("one unit for three", 1, [q("a", 5), q("b", 5), q("c", 5)], {"a": 1, "b": 0, "c": 0}),
    ("the larger weight comes first", 1, [q("a", 5), q("b", 5, weight=2)], {"a": 0, "b": 1}),
    ("three units at 1 to 2", 3, [q("a", 5), q("b", 5, weight=2)], {"a": 1, "b": 2}),
    ("four units at 1 to 2", 4, [q("a", 9), q("b", 9, weight=2)], {"a": 1, "b": 3}),
    ("two units at 1 to 3", 2, [q("a", 9), q("b", 9, weight=3)], {"a": 0, "b": 2}),
    ("a need bounds what rounding gives", 5, [q("a", 1), q("b", 9), q("c", 9)], {"a": 1, "b": 2, "c": 2}),
    ("a need bounds the last units too", 5, [q("a", 5), q("b", 4, weight=5)], {"a": 1, "b": 4}),
    ("seven units for three", 7, [q("a", 9), q("b", 9), q("c", 9)], {"a": 3, "b": 2, "c": 2}),
]

LIMITS: list[Case] = [
    ("a limit bounds what is left", 32, [q("a", 40, limit=10), q("b", 40)], {"a": 10, "b": 22}),
    ("a limit below the quota bounds it", 32, [q("a", 40, quota=16, limit=4), q("b", 40)], {"a": 4, "b": 28}),
    ("a limit above the demand is no limit", 32, [q("a", 6, limit=10), q("b", 40)], {"a": 6, "b": 26}),
    ("a limit of nothing", 32, [q("a", 40, quota=16, limit=0), q("b", 40)], {"a": 0, "b": 32}),
    ("limits of all leave a rest", 32, [q("a", 40, limit=10), q("b", 40, limit=10)], {"a": 10, "b": 10}),
    ("limit and quota", 32, [q("a", 40, quota=8, limit=12), q("b", 40, quota=8)], {"a": 12, "b": 20}),
    (
        "what a limit cuts off is divided by weight",
        40,
        [q("a", 40, limit=4), q("b", 40), q("c", 40, weight=2)],
        {"a": 4, "b": 12, "c": 24},
    ),
]

PRIORITIES: list[Case] = [
    ("higher priority takes the rest first", 32, [q("a", 32), q("b", 32, priority=200)], {"a": 0, "b": 32}),
    ("the rest of the rest", 32, [q("a", 32), q("b", 20, priority=200)], {"a": 12, "b": 20}),
    (
        "priority does not touch a quota",
        32,
        [q("a", 32, quota=16), q("b", 32, quota=8, priority=200)],
        {"a": 16, "b": 16},
    ),
    (
        "priority outweighs weight",
        32,
        [q("a", 32, weight=9), q("b", 32, weight=1, priority=101)],
        {"a": 0, "b": 32},
    ),
    (
        "weights within one priority",
        40,
        [q("a", 40), q("b", 40, weight=3), q("c", 8, priority=200)],
        {"a": 8, "b": 24, "c": 8},
    ),
    (
        "three priorities",
        30,
        [q("a", 10, priority=1), q("b", 15, priority=2), q("c", 10, priority=3)],
        {"a": 5, "b": 15, "c": 10},
    ),
    ("priority with a limit", 32, [q("a", 32), q("b", 32, limit=6, priority=200)], {"a": 26, "b": 6}),
    ("priority without a weight", 32, [q("a", 32), q("b", 32, weight=0, priority=200)], {"a": 32, "b": 0}),
    ("negative priorities are lower", 10, [q("a", 10, priority=-5), q("b", 6, priority=0)], {"a": 4, "b": 6}),
]

SCARCITY: list[Case] = [
    ("equal quotas that do not fit", 16, [q("a", 16, quota=16), q("b", 16, quota=16)], {"a": 8, "b": 8}),
    ("quotas that do not fit, 1 to 3", 16, [q("a", 8, quota=8), q("b", 24, quota=24)], {"a": 4, "b": 12}),
    ("what is not asked is not promised", 16, [q("a", 4, quota=16), q("b", 12, quota=16)], {"a": 4, "b": 12}),
    (
        "priority does not break promises",
        16,
        [q("a", 16, quota=16), q("b", 16, quota=16, priority=200)],
        {"a": 8, "b": 8},
    ),
    ("nothing is left for who has no quota", 16, [q("a", 20, quota=20), q("b", 9)], {"a": 16, "b": 0}),
    ("who asks for less leaves the rest", 16, [q("a", 4, quota=16), q("b", 16, quota=16)], {"a": 4, "b": 12}),
    ("odd units of scarcity go by name", 7, [q("b", 7, quota=7), q("a", 7, quota=7)], {"a": 4, "b": 3}),
    (
        "three promises",
        12,
        [q("a", 6, quota=6), q("b", 6, quota=6), q("c", 12, quota=12)],
        {"a": 3, "b": 3, "c": 6},
    ),
    ("two unlimited quotas", 16, [q("a", 20, quota=UNLIMITED), q("b", 20, quota=UNLIMITED)], {"a": 8, "b": 8}),
    (
        "an unlimited quota beside a small one",
        20,
        [q("a", 40, quota=UNLIMITED), q("b", 5, quota=5)],
        {"a": 16, "b": 4},
    ),
]

TREES: list[Case] = [
    (
        "a parent passes its share on",
        32,
        [q("p", 0, q("a", 10, quota=8), q("b", 10, quota=8), quota=16), q("r", 32, quota=16)],
        {"p": 16, "a": 8, "b": 8, "r": 16},
    ),
    (
        "worked case 5: what q lends goes to the only one who asks",
        32,
        [
            q("p", 0, q("p1", 0, quota=16), q("p2", 0), quota=16),
            q("q", 0, q("q1", 32, quota=16), quota=16),
        ],
        {"p": 0, "p1": 0, "p2": 0, "q": 32, "q1": 32},
    ),
    (
        "worked case 5: p1 asks",
        32,
        [
            q("p", 0, q("p1", 16, quota=16), q("p2", 0), quota=16),
            q("q", 0, q("q1", 32, quota=16), quota=16),
        ],
        {"p": 16, "p1": 16, "p2": 0, "q": 16, "q1": 16},
    ),
    (
        "worked case 5: p2 borrows from its sibling as long as that does not ask",
        32,
        [q("p", 0, q("p1", 4, quota=16), q("p2", 20), quota=16), q("q", 0, q("q1", 32, quota=16), quota=16)],
        {"p": 16, "p1": 4, "p2": 12, "q": 16, "q1": 16},
    ),
    (
        "a child's promise is bounded by its parent's share",
        32,
        [q("p", 0, q("a", 30, quota=30), quota=8), q("r", 24, quota=24)],
        {"p": 8, "a": 8, "r": 24},
    ),
    (
        "a parent without a quota divides what is left",
        32,
        [q("p", 0, q("a", 30, weight=3), q("b", 30)), q("r", 16, quota=16)],
        {"p": 16, "a": 12, "b": 4, "r": 16},
    ),
    (
        "the limit of a parent bounds its children",
        32,
        [q("p", 0, q("a", 30), q("b", 30), limit=10), q("r", 32)],
        {"p": 10, "a": 5, "b": 5, "r": 22},
    ),
    (
        "the limit of a child bounds what its parent asks for",
        32,
        [q("p", 0, q("a", 30, limit=4), q("b", 3), quota=16), q("r", 32, quota=16)],
        {"p": 7, "a": 4, "b": 3, "r": 25},
    ),
    (
        "a priority counts among siblings only",
        32,
        [q("p", 0, q("a", 30, priority=900), priority=1), q("r", 20, priority=2)],
        {"p": 12, "a": 12, "r": 20},
    ),
    (
        "three levels",
        64,
        [
            q("x", 0, q("y", 0, q("a", 40, quota=8), q("b", 8, quota=8), quota=16), q("c", 40, quota=16), quota=32),
            q("z", 40, quota=32),
        ],
        {"x": 32, "y": 16, "a": 8, "b": 8, "c": 16, "z": 32},
    ),
    (
        "three levels with a rest",
        64,
        [
            q("x", 0, q("y", 0, q("a", 40, quota=8), q("b", 8, quota=8), quota=16), q("c", 10, quota=16), quota=32),
            q("z", 12, quota=32),
        ],
        {"x": 52, "y": 42, "a": 34, "b": 8, "c": 10, "z": 12},
    ),
    (
        "scarcity below a parent whose children are promised more than it is",
        32,
        [q("p", 0, q("a", 16, quota=16), q("b", 16, quota=16), quota=8), q("r", 32, quota=24)],
        {"p": 8, "a": 4, "b": 4, "r": 24},
    ),
    (
        "a parent with an unlimited quota among parents",
        20,
        [q("p", 0, q("a", 12, quota=UNLIMITED), quota=UNLIMITED), q("r", 20)],
        {"p": 12, "a": 12, "r": 8},
    ),
]

CASES = QUOTAS + WEIGHTS + LAST_UNITS + LIMITS + PRIORITIES + SCARCITY + TREES


@pytest.mark.parametrize(("amount", "claims", "shares"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_q1_fair_share(amount: int, claims: list[QueueClaim], shares: dict[str, int]) -> None:
    assert fair_shares(claims, amount) == shares


def test_q1_the_table_is_long_enough() -> None:
    assert len(CASES) >= 60 and len({case[0] for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("amount", "claims", "shares"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_q1_the_order_of_queues_does_not_matter(amount: int, claims: list[QueueClaim], shares: dict[str, int]) -> None:
    assert fair_shares(claims[::-1], amount) == shares


# Properties

amounts = st.integers(0, 12)


bounds = st.one_of(st.just(UNLIMITED), amounts)


def leaf(name: str, quotas: st.SearchStrategy[int]) -> st.SearchStrategy[QueueClaim]:
    rest = st.integers(0, 4), st.sampled_from([1, 2]), st.just(())
    return st.builds(QueueClaim, st.just(name), amounts, quotas, bounds, *rest)


def parent(name: str, quotas: st.SearchStrategy[int]) -> st.SearchStrategy[QueueClaim]:
    def above(claim: QueueClaim, below: tuple[QueueClaim, ...]) -> QueueClaim:
        return claim._replace(asked=sum(child.wanted for child in below), children=below)

    return st.builds(above, leaf(name, quotas), st.tuples(leaf(f"{name}0", quotas), leaf(f"{name}1", quotas)))


def forests(quotas: st.SearchStrategy[int]) -> st.SearchStrategy[list[QueueClaim]]:
    """Three queues, of which the last may be left out and the first two may have children."""
    queues = st.tuples(
        st.one_of(leaf("a", quotas), parent("a", quotas)), parent("b", quotas), st.one_of(st.none(), leaf("c", quotas))
    )
    return queues.map(lambda found: [claim for claim in found if claim is not None])


trees = forests(bounds)
capacities = st.integers(0, 40)


def every(claims: Sequence[QueueClaim], amount: int) -> Iterator[tuple[Sequence[QueueClaim], int]]:
    """Each level of a tree, with what it divides."""
    shares = fair_shares(claims, amount)
    yield claims, amount
    for claim in claims:
        if claim.children:
            yield from every(claim.children, shares[claim.name])


@given(trees, capacities)
def test_q1_shares_sum_to_at_most_the_parents(claims: list[QueueClaim], amount: int) -> None:
    for level, most in every(claims, amount):
        shares = fair_shares(level, most)
        assert sum(shares[claim.name] for claim in level) <= most


@given(trees, capacities)
def test_q1_nobody_gets_more_than_it_asks_for_or_its_limit(claims: list[QueueClaim], amount: int) -> None:
    for level, most in every(claims, amount):
        shares = fair_shares(level, most)
        assert all(0 <= shares[claim.name] <= claim.wanted for claim in level)


@given(trees, capacities)
def test_q1_nobody_is_below_its_promise_while_promises_fit(claims: list[QueueClaim], amount: int) -> None:
    for level, most in every(claims, amount):
        promised = {
            claim.name: min(claim.wanted, most if claim.quota == UNLIMITED else min(claim.quota, most))
            for claim in level
        }
        if sum(promised.values()) <= most:
            shares = fair_shares(level, most)
            assert all(shares[name] >= least for name, least in promised.items())


@given(trees, capacities)
def test_q1_nothing_is_left_over_while_somebody_with_a_weight_wants_it(claims: list[QueueClaim], amount: int) -> None:
    for level, most in every(claims, amount):
        shares = fair_shares(level, most)
        left = most - sum(shares[claim.name] for claim in level)
        assert left == 0 or all(shares[claim.name] == claim.wanted or not claim.weight for claim in level)


@given(trees, capacities, st.data())
def test_q1_who_asks_for_more_never_adds_to_the_share_of_another(
    claims: list[QueueClaim], amount: int, data: st.DataObject
) -> None:
    leaves = [(at, None) for at, claim in enumerate(claims) if not claim.children]
    leaves += [(at, below) for at, claim in enumerate(claims) for below in range(len(claim.children))]  # type: ignore[misc]
    at, below = data.draw(st.sampled_from(leaves))
    more = data.draw(st.integers(1, 10))
    claim = claims[at]
    if below is None:
        asking, changed = {claim.name}, claim._replace(asked=claim.asked + more)
    else:
        child = claim.children[below]
        children = list(claim.children)
        children[below] = child._replace(asked=child.asked + more)
        asked = sum(each.wanted for each in children)
        asking, changed = {claim.name, child.name}, claim._replace(asked=asked, children=tuple(children))
    before = fair_shares(claims, amount)
    after = fair_shares([*claims[:at], changed, *claims[at + 1 :]], amount)
    assert [name for name in before if name not in asking and after[name] > before[name]] == []
    assert all(after[name] >= before[name] for name in asking)


@given(forests(amounts), capacities)
def test_q1_more_capacity_takes_from_nobody(claims: list[QueueClaim], amount: int) -> None:
    """Where quotas are numbers: the promise of an unlimited one is larger the more there is."""
    before, after = fair_shares(claims, amount), fair_shares(claims, amount + 1)
    assert [name for name in before if after[name] < before[name]] == []


# Shares that remember past use


def held(name: str, asked: int, part: float, weight: int = 1, **more: int) -> QueueClaim:
    return q(name, asked, weight=weight, **more)._replace(held=round(part * MILLION))


PAST: list[Case] = [
    ("nobody held anything", 32, [held("a", 32, 0), held("b", 32, 0)], {"a": 16, "b": 16}),
    ("both held the same", 32, [held("a", 32, 0.5), held("b", 32, 0.5)], {"a": 16, "b": 16}),
    ("one held a quarter more than its part", 32, [held("a", 32, 0.75), held("b", 32, 0.25)], {"a": 8, "b": 24}),
    ("one held everything: nothing is due to it", 32, [held("a", 32, 1), held("b", 32, 0)], {"a": 0, "b": 32}),
    ("and it gets what the other leaves", 32, [held("a", 32, 1), held("b", 10, 0)], {"a": 22, "b": 10}),
    ("its quota stays its own", 32, [held("a", 32, 1, quota=8), held("b", 32, 0)], {"a": 8, "b": 24}),
    ("by weight", 40, [held("a", 40, 0.25), held("b", 40, 0.75, weight=3)], {"a": 10, "b": 30}),
    ("whoever held less than by weight", 40, [held("a", 40, 0), held("b", 40, 1, weight=3)], {"a": 20, "b": 20}),
    (
        "of higher priority first",
        32,
        [held("a", 32, 1, priority=200), held("b", 32, 0)],
        {"a": 32, "b": 0},
    ),
    ("nothing is due to anybody", 30, [held(name, 30, 1) for name in "abc"], {"a": 10, "b": 10, "c": 10}),
]


@pytest.mark.parametrize(("title", "amount", "claims", "expected"), PAST, ids=[case[0] for case in PAST])
def test_q1_past_use_counts_against_a_queue(
    title: str, amount: int, claims: list[QueueClaim], expected: dict[str, int]
) -> None:
    assert fair_shares(claims, amount, past=MILLION) == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(0, MILLION)), min_size=1, max_size=6))
def test_q1_with_past_use_nothing_is_left_that_somebody_asks_for(rows: list[tuple[int, int, int]]) -> None:
    claims = [q(f"q{at}", asked, weight=weight)._replace(held=part) for at, (asked, weight, part) in enumerate(rows)]
    shares = fair_shares(claims, 32, past=2 * MILLION)
    assert sum(shares.values()) == min(32, sum(asked for asked, _, _ in rows))
    assert all(shares[f"q{at}"] <= asked for at, (asked, _, _) in enumerate(rows))
