"""What a replay comes to: counts, waiting times, levels and means over time, fit to be printed, compared and drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spinney.sim.replay.cluster import CLUSTER
from spinney.sim.replay.measurements import Averages, Timeline
from spinney.sim.replay.simulation import Outcome, ReplayInputs

SAMPLES = 120


@dataclass(frozen=True, slots=True)
class Waits:
    """Of gangs that were placed, in seconds."""

    mean: float
    p50: int
    p95: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class Size:
    """Placed gangs of so many GPUs, above one power of two up to the next, and how long they waited.

    Those without any count with those of one.
    """

    least: int
    most: int
    gangs: int
    at_once: int
    mean_s: float
    max_s: int

    @property
    def name(self) -> str:
        return str(self.most) if self.least == self.most else f"{self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Placed gangs of one queue, how long they waited, and how often one was reclaimed."""

    name: str
    gangs: int
    mean_s: float
    reclaimed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """`at_once`: without waiting; `in_time`: by the last arrival, these included; `placed`: at all."""

    setting: str
    gangs: int
    at_once: int
    in_time: int
    placed: int
    impossible: tuple[tuple[str, str], ...]
    waits: Waits
    sizes: tuple[Size, ...]
    all_waits_s: tuple[int, ...]
    levels: tuple[tuple[str, int], ...]
    mean: Averages
    longest_line: int
    moves: int
    queues: tuple[QueueFigures, ...]
    ended_s: int
    series: tuple[tuple[float, Averages], ...]


def figures(inputs: ReplayInputs, outcome: Outcome) -> Figures:
    schedule = inputs.schedule
    waits = tuple(sorted(start.waited_s for start in outcome.starts))
    is_long = schedule.last_s > schedule.first_s
    timeline = Timeline(outcome.moments, schedule.first_s, schedule.last_s if is_long else outcome.ended_s)
    reached = Counter(start.level for start in outcome.starts)
    names = [level.name for level in reversed(inputs.described.levels.levels)]
    return Figures(
        setting=outcome.setting.name,
        gangs=len(schedule.arrivals),
        at_once=waits.count(0),
        in_time=sum(start.at_s <= schedule.last_s for start in outcome.starts),
        placed=len(outcome.starts),
        impossible=outcome.impossible,
        waits=_waits(waits),
        sizes=_sizes(inputs, outcome),
        all_waits_s=waits,
        levels=tuple((name, reached[name]) for name in (*names, CLUSTER)),
        mean=timeline.mean,
        longest_line=max(moment.waiting for moment in outcome.moments),
        moves=outcome.moves,
        queues=_queues(inputs, outcome) if inputs.queues else (),
        ended_s=outcome.ended_s,
        series=tuple(timeline.sampled(SAMPLES)),
    )


def quantile(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that so many in a hundred do not exceed; 0 if there are none."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0


def _waits(ordered: Sequence[int]) -> Waits:
    mean = sum(ordered) / len(ordered) if ordered else 0.0
    return Waits(mean, *(quantile(ordered, percent) for percent in (50, 95, 99, 100)))


def _sizes(inputs: ReplayInputs, outcome: Outcome) -> tuple[Size, ...]:
    gpus = {arrival.job.name: arrival.job.gpus for arrival in inputs.schedule.arrivals}
    waits: dict[int, list[int]] = {}
    for start in outcome.starts:
        waits.setdefault(max(0, gpus[start.gang] - 1).bit_length(), []).append(start.waited_s)
    return tuple(
        Size(2**power // 2 + 1, 2**power, len(one), one.count(0), sum(one) / len(one), max(one))
        for power, one in sorted(waits.items())
    )


def _queues(inputs: ReplayInputs, outcome: Outcome) -> tuple[QueueFigures, ...]:
    queues = {arrival.job.name: arrival.job.queue for arrival in inputs.schedule.arrivals}
    waits: dict[str, list[int]] = {queue: [] for queue in sorted(set(queues.values()))}
    for start in outcome.starts:
        waits[queues[start.gang]].append(start.waited_s)
    lost = Counter(entry.queue for entry in outcome.reclaims)
    return tuple(
        QueueFigures(name, len(own), sum(own) / len(own) if own else 0.0, lost[name]) for name, own in waits.items()
    )


def to_json(inputs: ReplayInputs, trace: str, all_figures: Sequence[Figures]) -> dict[str, Any]:
    """Plain values; the same input always gives the same."""
    schedule, capacity, shaping = inputs.schedule, inputs.capacity, inputs.shaping
    names = {level.key: level.name for level in inputs.described.levels.levels}
    return {
        "trace": {
            "file": trace,
            "gangs": len(schedule.arrivals),
            "gpus": schedule.gpus,
            "firstArrivalS": schedule.first_s,
            "lastArrivalS": schedule.last_s,
            "timing": schedule.timing.value,
            "stretch": schedule.stretch,
            "load": round(schedule.load, 4),
        },
        "cluster": {
            "nodes": capacity.nodes,
            "resource": shaping.resource,
            "amount": capacity.gpus,
            "perPod": shaping.gpus_per_pod,
            "topology": inputs.described.levels.name,
            "levels": [
                {"level": size.name, "key": size.key, "domains": size.domains, "largest": size.largest}
                for size in capacity.levels
            ],
        },
        "rules": [
            {
                "upTo": rule.up_to,
                "required": names.get(rule.required or ""),
                "preferred": names.get(rule.preferred or ""),
            }
            for rule in shaping.rules
        ],
        "settings": [_setting(inputs, figures) for figures in all_figures],
    }


def _setting(inputs: ReplayInputs, found: Figures) -> dict[str, Any]:
    waits = found.waits
    return {
        "setting": found.setting,
        "gangs": found.gangs,
        "placed": {
            "atOnce": found.at_once,
            "byTheLastArrival": found.in_time,
            "inAll": found.placed,
            "never": len(found.impossible),
            "share": round(found.placed / found.gangs, 6),
        },
        "waitingS": {
            "mean": round(waits.mean, 1),
            "p50": waits.p50,
            "p95": waits.p95,
            "p99": waits.p99,
            "max": waits.max,
        },
        "waitingByGpus": [
            {
                "least": size.least,
                "most": size.most,
                "gangs": size.gangs,
                "atOnce": size.at_once,
                "meanS": round(size.mean_s, 1),
                "maxS": size.max_s,
            }
            for size in found.sizes
        ],
        "levels": dict(found.levels),
        "moves": found.moves,
        **({"queues": [_queue(queue) for queue in found.queues]} if found.queues else {}),
        "longestLine": found.longest_line,
        "endedS": found.ended_s,
        "mean": _averages(inputs, found.mean),
        "impossible": [{"gang": gang, "reason": reason} for gang, reason in found.impossible],
        "series": [{"atS": round(at_s), **_averages(inputs, means)} for at_s, means in found.series],
    }


def _queue(found: QueueFigures) -> dict[str, Any]:
    mean_s = round(found.mean_s, 1)
    return {"queue": found.name, "placed": found.gangs, "meanS": mean_s, "reclaimed": found.reclaimed}


def _averages(inputs: ReplayInputs, means: Averages) -> dict[str, Any]:
    levels = [level.name for level in inputs.described.levels.levels]
    return {
        "utilisation": round(means.used, 4),
        "waiting": round(means.waiting, 2),
        "stranded": round(means.stranded, 4),
        "fragmentation": {name: round(share, 4) for name, share in zip(levels, means.fragmentation, strict=True)},
    }
