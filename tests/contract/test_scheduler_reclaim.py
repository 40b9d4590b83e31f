"""Reclaim between queues, the same on the embedded and on a real API server: worked cases of Q5 and Q6."""

from __future__ import annotations

from collections import Counter
from typing import Any

from contract.scheduler_stages import Hall, tree
from unit.scheduler.preemption_world import priority_class
from unit.scheduler.scheduler_world import podgroup, pods

Json = dict[str, Any]


def share(hall: Hall, *quotas: int) -> list[str]:
    """Queues that promise so many GPUs, of a cluster of four hosts with eight each."""
    hall.build(tree(hosts=4))
    names = [f"{hall.namespace}-{letter}" for letter in "ab"]
    for name, gpus in zip(names, quotas, strict=True):
        free = {"quota": -1, "limit": -1}
        resources = {"gpu": {**free, "quota": gpus, "overQuotaWeight": 1}, "cpu": free, "memory": free}
        metadata = {"name": name}
        queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata}
        hall.make({**queue, "spec": {"resources": resources}})
    return names


def gang(hall: Hall, name: str, queue: str, count: int = 1, minimum: int = 0, **spec: Any) -> None:
    hall.make(podgroup(name, minimum or count, queue=queue, **spec), *pods(name, count))


def come_to(hall: Hall, **held: int) -> None:
    """Wait until each gang holds so many hosts, and nobody else any."""

    def check() -> bool:
        assert Counter(name.rpartition("-")[0] for name in hall.bound()) == Counter(held)
        return True

    hall.eventually(check, f"{held} are bound")


def test_q5_worked_case_1_what_was_lent_comes_back_from_the_youngest(hall: Hall) -> None:
    a, b = share(hall, 16, 16)
    for name in ("a1", "a2", "a3", "a4"):
        gang(hall, name, a)
        hall.running(name, 1)
    gang(hall, "b1", b)
    gang(hall, "b2", b)
    come_to(hall, a1=1, a2=1, b1=1, b2=1)

    def told() -> list[str]:
        found = [message for name in ("a3", "a4") for message in hall.events("PodGroup", name, "Evict")]
        assert len(found) == 2
        return found

    for message in hall.eventually(told, "both victims are told"):
        assert f"queue {a} keeps" in message
        assert f"Queue {b} gets" in message
    gang(hall, "b3", b)
    hall.says("b3", "short of 8")
    come_to(hall, a1=1, a2=1, b1=1, b2=1)


def test_q3_worked_case_2_gangs_that_are_not_preemptible_never_exceed_the_quota(hall: Hall) -> None:
    a, b = share(hall, 16, 16)
    for name in ("a1", "a2"):
        gang(hall, name, a, preemptibility="non-preemptible")
        hall.running(name, 1)
    gang(hall, "a3", a, preemptibility="non-preemptible")
    hall.says("a3", "Non-preemptible workload is over quota")
    gang(hall, "b1", b, 2)
    come_to(hall, a1=1, a2=1, b1=2)


def test_q4_worked_case_4_a_full_queue_does_not_take_from_another_for_a_higher_class(hall: Hall) -> None:
    a, b = share(hall, 16, 16)
    high = f"{hall.namespace}-high"
    hall.cluster.create("scheduling.k8s.io/v1/priorityclasses", priority_class(high, 60)).ok(201)
    gang(hall, "a1", a)
    gang(hall, "a2", a)
    gang(hall, "b1", b, 2)
    come_to(hall, a1=1, a2=1, b1=2)
    before = {each["metadata"]["uid"] for each in hall.pods("b1")}
    gang(hall, "a3", a, 2, priorityClassName=high)
    come_to(hall, a3=2, b1=2)
    assert {each["metadata"]["uid"] for each in hall.pods("b1")} == before


def test_q6_worked_case_6_an_elastic_gang_shrinks_to_its_minimum(hall: Hall) -> None:
    a, b = share(hall, 16, 16)
    gang(hall, "a1", a, 4, minimum=2)
    come_to(hall, a1=4)
    gang(hall, "b1", b, 2)
    come_to(hall, a1=2, b1=2)
