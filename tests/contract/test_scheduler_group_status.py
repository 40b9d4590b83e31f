"""What a PodGroup says of its use, as a user sees it, the same on the embedded and on a real API server."""

from __future__ import annotations

import json
from typing import Any

from contract.scheduler_stages import GPU, Hall, tree
from unit.scheduler.scheduler_world import podgroup, pods

Json = dict[str, Any]


def says(hall: Hall, name: str, wanted: Json) -> None:
    """Wait until it says exactly this; kubectl shows it."""

    def check() -> bool:
        assert resources(hall.group(name)) == wanted
        return True

    hall.eventually(check, f"PodGroup {name} says {wanted}")
    assert resources(json.loads(hall.kubectl("get", "podgroup", name, "-o", "json"))) == wanted


def resources(group: Json) -> Json:
    found: Json = (group.get("status") or {}).get("resourcesStatus", {})
    return found


def test_k14_a_podgroup_says_what_its_pods_ask_for_and_hold(hall: Hall) -> None:
    hall.build(tree(hosts=3))
    hall.make(podgroup("a", 2, preemptibility="non-preemptible"), *pods("a", 2))
    hall.make(podgroup("b", 2), *pods("b", 2))
    hall.running("a", 2)
    held = {GPU: "16"}
    says(hall, "a", {"requested": held, "allocated": held, "allocatedNonPreemptible": held})
    says(hall, "b", {"requested": held})
    hall.remove("pods", *hall.bound())
    hall.running("b", 2)
    says(hall, "a", {})
    says(hall, "b", {"requested": held, "allocated": held})
