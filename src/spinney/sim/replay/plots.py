"""The pictures of a replay: use and fragmentation over time, the line, and how long gangs waited."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from spinney.sim.replay.figures import Figures
from spinney.sim.replay.measurements import Averages
from spinney.sim.replay.simulation import ReplayInputs
from spinney.sim.replay.svg import Axis, Curve, Panel, draw, even_marks

DAY_S = 86_400
_UNITS = ((3 * DAY_S, DAY_S, "days"), (3 * 3600, 3600, "hours"), (180, 60, "minutes"), (0, 1, "seconds"))
_WAITS = (
    (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"),
    (4 * DAY_S, "4 d"), (40 * DAY_S, "40 d"), (400 * DAY_S, "400 d"), (4000 * DAY_S, "4,000 d"),
)  # fmt: skip
_LEAST_LONGEST_S = 60
_POINTS = 300
_SHARES = Axis(0.0, 1.0, tuple((share / 4, f"{share * 25} %") for share in range(5)))


def plots(scene: ReplayInputs, found: Sequence[Figures]) -> dict[str, str]:
    """SVG texts by file name."""
    names = [figures.setting for figures in found]
    return {
        "utilisation.svg": _utilisation(names, found),
        "fragmentation.svg": _fragmentation(scene, names, found),
        "line.svg": _line(names, found),
        "waiting.svg": _waiting(names, found),
    }


def _utilisation(names: Sequence[str], found: Sequence[Figures]) -> str:
    panel = Panel("GPUs in use", _time(found), _SHARES, _over_time(found, lambda means: means.used))
    return draw("GPUs in use", "Share of GPUs in use over simulated time, by setting.", names, [panel])


def _fragmentation(scene: ReplayInputs, names: Sequence[str], found: Sequence[Figures]) -> str:
    """A level that is one domain says no more than the cluster."""
    levels = [(at, size.name) for at, size in enumerate(scene.capacity.levels) if size.domains > 1]
    panels = [Panel("stranded", _time(found, ""), _SHARES, _over_time(found, lambda means: means.stranded))]
    panels += [_level(found, at, name) for at, name in reversed(levels)]
    panels[-1] = Panel(panels[-1].title, _time(found), _SHARES, panels[-1].curves)
    about = "Share of stranded GPUs and fragmentation of each level over simulated time, by setting."
    return draw("Fragmentation", about, names, panels)


def _level(found: Sequence[Figures], at: int, name: str) -> Panel:
    curves = _over_time(found, lambda means: means.fragmentation[at])
    return Panel(f"level {name}", _time(found, ""), _SHARES, curves)


def _line(names: Sequence[str], found: Sequence[Figures]) -> str:
    marks = even_marks(max(means.waiting for figures in found for _, means in figures.series))
    y = Axis(0.0, marks[-1], tuple((mark, f"{mark:g}") for mark in marks))
    panel = Panel("gangs waiting", _time(found), y, _over_time(found, lambda means: means.waiting))
    return draw("Gangs waiting", "Number of gangs in the line over simulated time, by setting.", names, [panel])


def _waiting(names: Sequence[str], found: Sequence[Figures]) -> str:
    """Which share of gangs waited at most so long; the scale is one of powers, its left end is not waiting at all."""
    longest = max(_LEAST_LONGEST_S, *(figures.waits.max for figures in found))
    shortest = min((wait for figures in found for wait in figures.all_waits_s if wait), default=1)
    low = max(seconds for seconds, _ in _WAITS if seconds <= shortest)
    marks = ((_power(low), "none"), *((_power(mark), text) for mark, text in _WAITS if low < mark <= longest))
    x = Axis(_power(low), _power(longest), marks, "waited at most")
    curves = tuple(Curve(_shares(figures, low), steps=True) for figures in found)
    about = "Share of gangs that waited at most so long before they were placed, by setting."
    return draw("Share of gangs placed within a time", about, names, [Panel("", x, _SHARES, curves)])


def _shares(figures: Figures, low: int) -> tuple[tuple[float, float], ...]:
    """Some hundred points of the curve are enough to see it; the first and the last are among them."""
    waits, first = figures.all_waits_s, figures.at_once
    step = max(1, (len(waits) - first) // _POINTS)
    chosen = sorted({*range(first, len(waits), step), len(waits) - 1} - set(range(first)) - {-1})
    later = ((_power(waits[at]), (at + 1) / figures.gangs) for at in chosen)
    return ((_power(low), first / figures.gangs), *later)


def _power(seconds: int) -> float:
    """Where a time stands on the scale: 0 for none."""
    return math.log10(1 + seconds)


def _time(found: Sequence[Figures], label: str | None = None) -> Axis:
    """Simulated time in the unit that suits it; the marks start at the first arrival."""
    first, last = found[0].series[0][0], found[0].series[-1][0]
    width = (last - first) / max(1, len(found[0].series) - 1)
    start, length = first - width / 2, last - first + width
    unit_s, unit = next((seconds, name) for least, seconds, name in _UNITS if length >= least)
    marks = [mark for mark in even_marks(length / unit_s, 8) if mark * unit_s <= length]
    text = f"{unit} since the first arrival" if label is None else label
    return Axis(start, start + length, tuple((start + mark * unit_s, f"{mark:g}") for mark in marks), text)


def _over_time(found: Sequence[Figures], value: Callable[[Averages], float]) -> tuple[Curve, ...]:
    return tuple(Curve(tuple((at_s, value(means)) for at_s, means in figures.series)) for figures in found)
