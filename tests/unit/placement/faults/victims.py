"""Planted in preemption: who may be evicted, who is chosen, and what becomes of the room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from unit.placement import test_preemption
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(
    rule(test_preemption.test_inv7_equal_higher_and_protected_gangs_are_never_victims),
    judged("violations", "preempt", 7, 11),
)
def a_protected_gang_is_a_victim(ground: Ground) -> None:
    def ruthless(original: Any) -> Any:
        def holders(inventory: Any, standings: Any) -> Any:
            gangs = [(one, msgspec.structs.replace(one.gang, preemptible=True)) for one in standings]
            return original(inventory, [replace(one, gang=gang) for one, gang in gangs])

        return holders

    ground.swap("placement.gang.running_gangs", "running_gangs", ruthless)


@caught_by(judged("violations", "preempt", 6, 8, 9))
def a_gang_may_be_left_below_its_minimum(ground: Ground) -> None:
    ground.answer("placement.gang.running_gangs", "is_satisfied", True)


@caught_by(
    rule(test_preemption.test_k10_elastic_pods_go_before_a_whole_gang), judged("victims not cheapest", "preempt", 7)
)
def gangs_are_evicted_only_whole(ground: Ground) -> None:
    ground.answer("placement.gang.running_gangs", "RunningGang.can_lose", False)


@caught_by(
    rule(test_preemption.test_k10_the_lowest_highest_priority_beats_fewer_gangs_and_pods),
    judged("victims not cheapest", "preempt", 8, 57),
)
def the_priority_of_victims_does_not_matter(ground: Ground) -> None:
    """As long as they are weaker: the highest of them may go as well as the lowest."""
    ground.swap(
        "placement.disrupt.preemption",
        "_VictimSelection._lowest",
        lambda _: lambda self, helped: len(self.priorities) - 1,
    )


@caught_by(
    rule(test_preemption.test_k4_asking_leaves_no_trace_and_evicting_turns_room_into_releasing),
    judged("violations", "preempt", 6, 10),
)
def the_room_of_a_victim_is_idle_at_once(ground: Ground) -> None:
    def hasty(_: Any) -> Any:
        return lambda inventory, slot, pods, count=1: inventory.give(slot, pods.request, pods.host_ports, count)

    ground.swap("placement.gang.running_gangs", "release", hasty)
