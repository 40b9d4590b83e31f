"""From what was read to what every setting is replayed on."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.sim.replay.capacity import capacity_of
from spinney.sim.replay.hosts import Described
from spinney.sim.replay.lengths import schedule
from spinney.sim.replay.run import DEFAULT_MOVING, Moving, Scene
from spinney.sim.replay.shapes import Shaping, default_rules, read_rules
from spinney.sim.replay.sheets import InputError
from spinney.sim.replay.trace import Trace


def scene_of(
    described: Described,
    trace: Trace,
    *,
    resource: str,
    gpus_per_pod: int | None = None,
    rules: Sequence[str] = (),
    load: float | None = None,
    stretch: float | None = None,
    seed: int = 0,
    moving: Moving = DEFAULT_MOVING,
) -> Scene:
    """What is not given is what the cluster suggests: pods of the largest node's size, and rules by its levels."""
    capacity = capacity_of(described, resource)
    if not capacity.gpus:
        raise InputError(f"no node takes pods with {resource}: those that have it are tainted, cordoned or not ready")
    size = gpus_per_pod or capacity.host
    levels = described.levels
    chosen = read_rules(rules, levels) or default_rules(levels, size, [level.largest for level in capacity.levels])
    shaping = Shaping(levels.name, resource, size, chosen)
    times = schedule(trace, capacity.gpus, load=load, stretch=stretch, seed=seed)
    return Scene(described, capacity, shaping, times, moving)
