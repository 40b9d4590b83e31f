"""A world whose faults have ended: it comes to rest, stays there, and a fresh scheduler would do nothing else."""

from __future__ import annotations

import msgspec

from simulation.processes import SchedulerProcess
from spinney.serve.apiserver.store import Event
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World

QUIET_S = 330.0
"""Longer than pods of a lost node are left alone, and longer than any back-off."""


async def at_rest(world: World, dog: Watchdog, processes: list[SchedulerProcess]) -> list[str]:
    """Everything that is broken, on the way or now."""
    await world.settle(quiet_s=QUIET_S)
    broken = kept_for_nobody(processes)
    binds, plans = dog.binds, dog.plans
    await _restarted(world, processes)
    if (dog.binds, dog.plans) != (binds, plans):
        broken.append(f"LIVE4 a fresh scheduler makes {dog.plans - plans} plans and {dog.binds - binds} binds")
    written = await _restarted(world, processes)
    if written:
        broken.append(f"LIVE1 {len(written)} writes at rest: {'; '.join(written[:6])}")
    return dog.check_at_rest() + broken


async def _restarted(world: World, processes: list[SchedulerProcess]) -> list[str]:
    """What is written when every scheduler begins anew."""
    written: list[str] = []

    def note(collection: str, event: Event) -> None:
        if collection != "coordination.k8s.io/leases":
            written.append(f"{collection} {_what(event)}")

    forget = world.on_write(note)
    for process in processes:
        await process.kill()
    await world.settle(quiet_s=60.0)
    forget()
    return written


def _what(event: Event) -> str:
    """The name, and which parts differ."""
    new, old = event.new, event.old
    if new is None or old is None:
        record = new or old
        return f"{'deleted' if new is None else 'created'} {record.namespace}/{record.name}" if record else "?"
    after, before = msgspec.json.decode(new.body), msgspec.json.decode(old.body)
    parts = [key for key in ("metadata", "spec", "status") if _plain(after.get(key)) != _plain(before.get(key))]
    return f"{new.namespace}/{new.name} {' '.join(parts)}"


def _plain(part: object) -> object:
    if not isinstance(part, dict):
        return part
    return {key: value for key, value in part.items() if key not in ("resourceVersion", "managedFields")}


def kept_for_nobody(processes: list[SchedulerProcess]) -> list[str]:
    """INV6: seats in memory belong to gangs that wait for room which others are leaving."""
    broken = []
    for process in processes:
        scheduler = process.scheduler
        for entry in scheduler.book.entries.values() if scheduler is not None else ():
            if entry.seats and entry.key not in scheduler.book.nominated:
                broken.append(f"INV6 {process.name} keeps {len(entry.seats)} seats for {entry.name}")
    return broken
