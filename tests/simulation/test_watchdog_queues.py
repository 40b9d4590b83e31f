"""INV7 between queues on small records of a server (Q5, Q7): what may be taken, and what is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.test_watchdog import Record
from spinney.sim.invariants.queue_shares import QueueFacts, fair_shares, read_queue
from spinney.sim.invariants.watchdog import QUEUES

Json = dict[str, Any]


def queue(name: str, quota: int = -1, limit: int = -1, parent: str = "", weight: int = 1) -> Json:
    free = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}, "cpu": free, "memory": free}
    return {"metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": resources}}


def lent(late_s: float = 0.0, **quotas: int) -> Record:
    """Of four hosts queue `a` holds three or four."""
    record = Record(late_s)
    for name, quota in quotas.items():
        record.write(QUEUES, queue(name, quota))
    for number in range(4):
        record.bind(f"a{number}", (f"a{number}-0", f"n{number}"), minimum=1, queue="a")
    return record


def takes(record: Record, *victims: str, hosts: int = 1, by: str = "b") -> list[str]:
    """What is said of a gang that takes so many hosts."""
    pods = [f"taker-{number}" for number in range(hosts)]
    for name in pods:
        record.pod(name, "taker")
    record.gang(
        "taker",
        *[(name, f"n{3 - number}") for number, name in enumerate(pods)],
        minimum=hosts,
        victims=victims,
        queue=by,
    )
    return [text for text in record.dog.violations if "INV7" in text]


@pytest.mark.parametrize("late_s", [0.0, 60.0], ids=["fresh", "late"])
def test_inv7_q5_what_is_above_the_quota_may_be_taken(late_s: float) -> None:
    assert takes(lent(late_s, a=16, b=16), "a3-0") == []
    assert takes(lent(late_s, a=16, b=16), "a3-0", "a2-0", hosts=2) == []


@pytest.mark.parametrize("late_s", [0.0, 60.0], ids=["fresh", "late"])
def test_inv7_q5_what_is_within_the_quota_may_not(late_s: float) -> None:
    assert takes(lent(late_s, a=32, b=0), "a3-0")
    assert takes(lent(late_s, a=24, b=16), "a3-0", "a2-0", "a1-0", hosts=2)


def test_inv7_q5_the_queue_that_takes_stays_within_its_share_and_quota() -> None:
    assert takes(lent(a=16, b=8), "a3-0", "a2-0", hosts=2)
    assert takes(lent(a=8, b=8), "a3-0", "a2-0", hosts=2) == [], "its share is 16"


def test_inv7_q5_a_view_that_is_late_may_have_seen_other_queues() -> None:
    record = lent(60.0, a=16, b=16)
    record.write(QUEUES, queue("a", 32))
    assert takes(record, "a3-0") == []
    record = lent(60.0, a=16, b=16)
    record.write(QUEUES, queue("a", 32))
    record.now += 100
    assert takes(record, "a3-0") == [], "32 and 16 do not fit into 32: what is promised is cut"
    record = lent(60.0, a=16, b=0)
    record.write(QUEUES, queue("a", 32))
    record.now += 100
    assert takes(record, "a3-0")


def test_inv7_q3_a_plan_across_a_limit_is_noticed() -> None:
    record = lent(a=16, b=16)
    record.write(QUEUES, queue("b", 16, limit=4))
    assert any("across the limit of b" in text for text in takes(record, "a3-0"))


def test_inv7_q5_queues_are_compared_where_their_paths_part() -> None:
    def tree() -> Record:
        record = Record()
        for each in (queue("p", 16), queue("q", 16), queue("a", 0, parent="p"), queue("b", 16, parent="p")):
            record.write(QUEUES, each)
        record.write(QUEUES, queue("c", 16, parent="q"))
        for number, name in enumerate("aacc"):
            record.bind(f"{name}{number}", (f"{name}{number}-0", f"n{number}"), minimum=1, queue=name)
        return record

    assert takes(tree(), "c3-0"), "q has what it is promised"
    assert takes(tree(), "a1-0") == []


def test_q1_the_judge_divides_as_the_contract_says() -> None:
    """Worked case 3: 12 and 20 of 32."""
    queues: dict[str, QueueFacts] = {
        name: read_queue(queue(name, 8, weight=weight)) for name, weight in (("a", 1), ("b", 3))
    }
    asked = {name: {"gpu": 32_000, "cpu": 0, "memory": 0} for name in queues}
    shares = fair_shares(queues, asked, {"gpu": 32_000, "cpu": 0, "memory": 0})
    assert (shares["a", "gpu"], shares["b", "gpu"]) == (12_000, 20_000)


@pytest.mark.parametrize("is_reserved", [True, False])
def test_inv7_q5_what_was_reserved_earlier_in_the_cycle_counts(is_reserved: bool) -> None:
    """The plan of the other gang is sent at the end of the cycle, when its pods above the minimum are placed too."""
    record = lent(60.0, a=32, b=0)
    record.pod("a9-0", "a9")
    record.gang("a9", minimum=1, queue="a")
    if is_reserved:
        record.dog.reserves("uid-of-a9-0")
    assert (takes(record, "a3-0") == []) == is_reserved


def test_inv7_q5_a_plan_for_a_pod_that_has_just_left_is_judged_by_what_it_asked_for() -> None:
    for quota, is_lawful in ((16, True), (32, False)):
        record = lent(60.0, a=quota, b=0)
        record.gang("taker", minimum=1, queue="b")
        record.pod("taker-0", "taker")
        record.pod("taker-0", "taker", gone=True)
        record.gang("taker", ("taker-0", "n3"), minimum=1, victims=("a3-0",), queue="b")
        found = [text for text in record.dog.violations if "INV7" in text]
        assert (found == []) == is_lawful
