"""A world whose faults have ended: it comes to rest, stays there, and a fresh scheduler would do nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from kube_embedded.base.store import Event, Record
from simulation.processes import SchedulerProcess
from spinney.api.labels import FENCED
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World

Json = dict[str, Any]

QUIET_S = 330.0
"""Longer than pods of a lost node are left alone, and longer than any back-off."""


async def at_rest(world: World, dog: Watchdog, processes: list[SchedulerProcess]) -> list[str]:
    """Everything that is broken, on the way or now."""
    await world.settle(quiet_s=QUIET_S)
    broken = kept_for_nobody(processes)
    for _ in range(2):
        binds, plans = dog.binds, dog.plans
        written = await _restarted(world, processes)
        if (dog.binds, dog.plans) != (binds, plans):
            broken.append(f"LIVE4 a fresh scheduler makes {dog.plans - plans} plans and {dog.binds - binds} binds")
    acts = [what for what in written if not _is_said(what)]
    if acts:
        broken.append(f"LIVE1 {len(acts)} writes of a fresh scheduler at rest: {'; '.join(acts[:6])}")
    return dog.check_at_rest() + broken


async def _restarted(world: World, processes: list[SchedulerProcess]) -> list[str]:
    """What is written when every scheduler begins anew."""
    written: list[str] = []

    def note(collection: str, event: Event) -> None:
        if collection != "coordination.k8s.io/leases" and not _fences(event):
            written.append(f"{collection} {_what(event)}")

    forget = world.on_write(note)
    for process in processes:
        await process.kill()
    await world.settle(quiet_s=60.0)
    forget()
    return written


def _is_said(what: str) -> bool:
    """Who waits may be told the reason anew, in the words of now."""
    collection, *_, parts = what.split()
    return collection == "/events" or parts in ("metadata", "status")


def _fences(event: Event) -> bool:
    """A new leader makes every gang that may be planned another version; nothing else changes."""
    if event.new is None or event.old is None or FENCED.encode() not in event.new.body:
        return False
    return _plain(event.new) == _plain(event.old)


def _plain(record: Record) -> Json:
    """Without what any write changes."""
    found: Json = msgspec.json.decode(record.body)
    metadata = {
        key: value for key, value in found["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    metadata["annotations"] = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != FENCED
    }
    return {**found, "metadata": metadata}


def _what(event: Event) -> str:
    """The name, and which parts differ."""
    record = event.new or event.last or event.old
    assert record is not None
    name = f"{record.namespace}/{record.name}"
    if event.new is None or event.old is None:
        return f"{'deleted' if event.new is None else 'created'} {name}"
    after, before = _plain(event.new), _plain(event.old)
    return f"{name} {' '.join(key for key in after if after[key] != before.get(key))}"


def kept_for_nobody(processes: list[SchedulerProcess]) -> list[str]:
    """INV6: seats in memory belong to gangs that wait for room which others are leaving."""
    broken = []
    for process in processes:
        scheduler = process.scheduler
        if scheduler is None:
            continue
        for entry in scheduler.session.scheduling_queue.entries.values():
            if entry.assignments and entry.key not in scheduler.session.scheduling_queue.nominated:
                broken.append(f"INV6 {process.name} keeps {len(entry.assignments)} seats for {entry.name}")
    return broken
