"""What a queue says of its use, as a user sees it, the same on the embedded and on a real API server."""

from __future__ import annotations

import json
from typing import Any

from contract.scheduler_stages import GPU, Hall, tree
from unit.scheduler.scheduler_world import podgroup, pods

Json = dict[str, Any]


def queue(name: str, parent: str = "") -> Json:
    free = {"quota": -1, "limit": -1}
    spec = {"parentQueue": parent, "resources": {"gpu": free, "cpu": free, "memory": free}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def says(hall: Hall, name: str, wanted: Json) -> None:
    """Wait until kubectl shows this of its status."""

    def check() -> bool:
        found = json.loads(hall.kubectl("get", "queue", name, "-o", "json")).get("status") or {}
        assert {field: found.get(field) for field in wanted} == wanted
        return True

    hall.eventually(check, f"queue {name} says {wanted}")


def amounts(gpus: int) -> Json:
    return {GPU: str(gpus), "cpu": "0", "memory": "0"}


def test_k16_a_queue_says_what_its_gangs_ask_for_and_hold_and_its_parent_adds_up(hall: Hall) -> None:
    hall.build(tree(hosts=3))
    root, one, two = (f"{hall.namespace}-{name}" for name in ("root", "one", "two"))
    hall.make(queue(root), queue(one, root), queue(two, root))
    hall.make(podgroup("a", 2, queue=one, preemptibility="non-preemptible"), *pods("a", 2))
    hall.make(podgroup("b", 2, queue=two), *pods("b", 2))
    hall.running("a", 2)
    says(hall, one, {name: amounts(16) for name in ("requested", "allocated", "allocatedNonPreemptible")})
    says(hall, two, {"requested": amounts(16), "childQueues": None})
    says(hall, root, {"requested": amounts(32), "allocated": amounts(16), "childQueues": [one, two]})
    hall.remove("pods", *hall.bound())
    hall.running("b", 2)
    says(hall, root, {"requested": amounts(16), "allocated": amounts(16), "allocatedNonPreemptible": amounts(0)})
    hall.remove("pods", *hall.bound())
    says(hall, root, {"requested": amounts(0), "allocated": amounts(0)})


def test_q8_a_queue_says_its_share_what_it_asks_for_and_what_it_has_borrowed(hall: Hall) -> None:
    hall.build(tree(hosts=2))
    lends, borrows = (f"{hall.namespace}-{name}" for name in ("lends", "borrows"))
    for name in (lends, borrows):
        made = queue(name)
        made["spec"]["resources"]["gpu"] = {"quota": 8, "overQuotaWeight": 1, "limit": -1}
        hall.make(made)
    hall.make(podgroup("a", 2, queue=borrows), *pods("a", 2))
    hall.running("a", 2)
    says(hall, borrows, {"fairShare": amounts(16), "asked": amounts(16), "borrowed": amounts(8)})
    hall.make(podgroup("b", 3, queue=lends), *pods("b", 3))
    says(hall, borrows, {"fairShare": amounts(8), "asked": amounts(16), "borrowed": amounts(8)})
    says(hall, lends, {"fairShare": amounts(8), "asked": amounts(24), "borrowed": None})
