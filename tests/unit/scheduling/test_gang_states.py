"""The whole table of gang states: each event in each state, and nothing beside it."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from spinney.core.scheduling.cycle.scheduling_queue import (
    ActionEnded,
    Changed,
    Due,
    GangEvent,
    GangState,
    GivenUp,
    Gone,
    Idle,
    InFlight,
    Nominated,
    NominatedTo,
    NothingToPlace,
    Pending,
    PlanEnded,
    PlanFound,
    Planned,
    Ready,
    Refused,
    Retry,
    SchedulingQueue,
    UnexpectedEvent,
    Unsettled,
    VictimsAwaited,
    VolumesAwaited,
    WaitingForVictims,
    WaitingForVolumes,
    step,
)

IDLE, PENDING, DUE, FLIGHT, VICTIMS = Idle(), Pending(7), Due(7), InFlight(), WaitingForVictims()
NOMINATED, REOPENED, VOLUMES = Nominated(7), Nominated(7, due=True), WaitingForVolumes(1.0)
STATES: tuple[GangState, ...] = (IDLE, PENDING, DUE, NOMINATED, REOPENED, FLIGHT, VICTIMS, VOLUMES)
CANNOT = None

TABLE: dict[GangEvent, tuple[GangState | None, ...]] = {
    # event: the state after it, for each of the states above
    Ready(): (Due(), Due(), Due(), Due(), Due(), CANNOT, CANNOT, CANNOT),
    NothingToPlace(): (IDLE, IDLE, IDLE, IDLE, IDLE, FLIGHT, FLIGHT, VOLUMES),
    Unsettled(): (IDLE, PENDING, PENDING, NOMINATED, NOMINATED, FLIGHT, VICTIMS, VOLUMES),
    Refused(9): (CANNOT, CANNOT, Pending(9), CANNOT, CANNOT, CANNOT, CANNOT, CANNOT),
    NominatedTo(9): (CANNOT, CANNOT, Nominated(9), CANNOT, CANNOT, CANNOT, CANNOT, CANNOT),
    Retry(): (IDLE, DUE, DUE, REOPENED, REOPENED, FLIGHT, VICTIMS, VOLUMES),
    GivenUp(): (CANNOT, CANNOT, CANNOT, DUE, DUE, CANNOT, CANNOT, CANNOT),
    Changed(): (IDLE, Pending(), Due(), Nominated(), Nominated(due=True), FLIGHT, VICTIMS, VOLUMES),
    Planned(): (CANNOT, CANNOT, FLIGHT, CANNOT, CANNOT, CANNOT, CANNOT, CANNOT),
    PlanFound(): (FLIGHT, FLIGHT, FLIGHT, FLIGHT, FLIGHT, FLIGHT, FLIGHT, VOLUMES),
    VictimsAwaited(): (CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, VICTIMS, CANNOT, VICTIMS),
    VolumesAwaited(2.0): (CANNOT, CANNOT, CANNOT, CANNOT, CANNOT, WaitingForVolumes(2.0), CANNOT, VOLUMES),
    ActionEnded(): (IDLE, PENDING, DUE, NOMINATED, REOPENED, FLIGHT, VICTIMS, FLIGHT),
    PlanEnded(): (IDLE, PENDING, DUE, NOMINATED, REOPENED, IDLE, IDLE, IDLE),
    Gone(): (IDLE,) * 8,
}

ROWS = [
    pytest.param(state, event, after, id=f"{type(event).__name__} in {state}")
    for event, row in TABLE.items()
    for state, after in zip(STATES, row, strict=True)
]


@pytest.mark.parametrize(("state", "event", "after"), ROWS)
def test_each_event_leads_to_one_state_or_cannot_be(
    state: GangState, event: GangEvent, after: GangState | None
) -> None:
    if after is None:
        with pytest.raises(UnexpectedEvent):
            step(state, event)
    else:
        assert step(state, event) == after


def test_the_table_has_every_state_and_every_event() -> None:
    assert {type(state) for state in STATES} == set(get_args(GangState))
    assert {type(event) for event in TABLE} == set(get_args(GangEvent))


@pytest.mark.parametrize(("state", "event", "after"), ROWS)
def test_a_gang_is_found_under_its_state_and_under_no_other(
    state: GangState, event: GangEvent, after: GangState | None
) -> None:
    """The keys by state are an index of the states: whatever happens, they say the same."""
    queue = SchedulingQueue()
    entry = queue.entry(("default", "a"))
    for each in _way_to(state):
        queue.apply(entry, each)
    assert entry.state == state
    if after is not None:
        queue.apply(entry, event)
    found = (queue.pending, queue.due, queue.nominated, queue.waits, queue.waits_for_volumes)
    expected = (
        isinstance(entry.state, (Pending, Due, Nominated)),
        isinstance(entry.state, Due) or (isinstance(entry.state, Nominated) and entry.state.due),
        isinstance(entry.state, Nominated),
        isinstance(entry.state, WaitingForVictims),
        isinstance(entry.state, WaitingForVolumes),
    )
    assert tuple(entry.key in keys for keys in found) == expected


def _way_to(state: GangState) -> list[GangEvent]:
    """Events that lead to a state from the beginning: so every one can be reached."""
    events: list[GangEvent] = [Ready(), Refused(7), Retry(), NominatedTo(7), Planned(), VictimsAwaited()]
    events += [VolumesAwaited(1.0)]
    for length in range(6):
        for way in itertools.product(events, repeat=length):
            at: GangState = Idle()
            try:
                for event in way:
                    at = step(at, event)
            except UnexpectedEvent:
                continue
            if at == state:
                return list(way)
    raise AssertionError(f"{state} can not be reached")
