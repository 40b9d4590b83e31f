"""What a queue is charged for a gang: each of its pods once, wherever the gang is between decision and last bind."""

from __future__ import annotations

import pytest

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.core.scheduling.cycle.queue_accounting import QueueAccounting
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.gang.podsets import WaitingPod

RESOURCES = ("nvidia.com/gpu", "pods")
MEMBERS = ("first", "second")


def charged(*bound: str, assigned: tuple[str, ...]) -> tuple[int, ...]:
    """What a gang of two pods of eight GPUs is charged while a plan for `assigned` is carried out."""
    running = tuple(Running("workers", "node") for _ in bound)
    root = Group("", pods=(PodSet("workers", (8, 1), 2, 1),))
    left = tuple(WaitingPod(uid, ("default", uid)) for uid in MEMBERS if uid not in bound)
    waiting = {"workers": left} if left else {}
    entry = QueuedGang(("default", "gang"))
    members = dict.fromkeys(MEMBERS, "workers")
    entry.reading = ParsedGang(Gang("default/gang", root, running=running), "team", waiting, members)
    entry.assignments = dict.fromkeys(assigned, "node")
    accounting = QueueAccounting()
    accounting.renew(RESOURCES, [])
    accounting.charge(entry)
    return tuple(entry.charge.amounts) if entry.charge is not None else ()


@pytest.mark.parametrize(
    ("bound", "assigned", "amounts"),
    [
        ((), (), ()),
        ((), ("first",), (8, 1)),
        ((), MEMBERS, (16, 2)),
        (("first",), ("first",), (8, 1)),
        (("first",), MEMBERS, (16, 2)),
        (MEMBERS, MEMBERS, (16, 2)),
        (("first",), (), (8, 1)),
    ],
)
def test_k16_live4_a_pod_that_has_its_node_while_its_plan_is_carried_out_is_charged_once(
    bound: tuple[str, ...], assigned: tuple[str, ...], amounts: tuple[int, ...]
) -> None:
    """Counted twice, gangs of others were refused for a usage that nobody had (seed 771302710)."""
    assert charged(*bound, assigned=assigned) == amounts
