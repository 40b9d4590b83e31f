"""The pictures of a replay as SVG: use and fragmentation over time, the queue, and how long gangs waited.

Light and dark as the reader likes it; a file asks for nothing from outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from spinney.sim.replay.figures import Figures
from spinney.sim.replay.measurements import Averages
from spinney.sim.replay.simulation import ReplayInputs

WIDTH = 760
_LEFT, _RIGHT, _TOP = 64, 24, 98
_LEGEND = 22
_PANEL, _BETWEEN, _BOTTOM = 190, 58, 56
_DASHES = ("none", "7 4", "2 3", "9 3 2 3", "4 2", "12 4")
_LIGHT = ("#1f6fb4", "#c4500c", "#20804f", "#8a3ab0", "#94741a", "#b3264a")
_DARK = ("#6db3f2", "#f2995c", "#5fcf95", "#cf97ee", "#dcbf5e", "#f08aa6")


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`, with marks where the text says."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]
    label: str = ""

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in the order of x; `steps`: it stays level until the next point."""

    points: tuple[tuple[float, float], ...]
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One curve for each name of the legend."""

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]


def draw(title: str, about: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """The whole picture; `about` is a sentence for those who do not see it."""
    rows = _legend_rows(names)
    top = _TOP + (len(rows) - 1) * _LEGEND
    height = top + len(panels) * _PANEL + (len(panels) - 1) * _BETWEEN + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title about">',
        f'<title id="title">{escape(title)}</title><desc id="about">{escape(about)}</desc>',
        f"<style>{_style(len(names))}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
        _text(_LEFT, 30, title, "head"),
        *_legend(rows),
    ]
    for at, panel in enumerate(panels):
        parts += _panel(panel, top + at * (_PANEL + _BETWEEN), is_alone=len(panels) == 1)
    return "\n".join([*parts, "</svg>"]) + "\n"


def even_marks(high: float, number: int = 5) -> tuple[float, ...]:
    """Round numbers from 0 up to the first that is not below `high`."""
    rough = high / number if high > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return tuple(step * at for at in range(math.ceil(high / step - 1e-9) + 1)) if high > 0 else (0.0, 1.0)


def _style(count: int) -> str:
    def colours(palette: Sequence[str]) -> str:
        return "".join(f".c{at}{{stroke:{palette[at % len(palette)]}}}" for at in range(count))

    dashes = "".join(f".c{at}{{stroke-dasharray:{_DASHES[at % len(_DASHES)]}}}" for at in range(count))
    return (
        "text{font:13px system-ui,sans-serif;fill:#25292e}.head{font-size:17px;font-weight:600}.name{font-weight:600}"
        ".mark{font-size:12px;fill:#565d66}.paper{fill:#ffffff}.grid{stroke:#dfe3e8}.axis{stroke:#8b939c}"
        f"path{{fill:none;stroke-width:2;stroke-linejoin:round}}{dashes}{colours(_LIGHT)}"
        "@media(prefers-color-scheme:dark){text{fill:#e6e9ed}.mark{fill:#a7aeb7}.paper{fill:#14181d}"
        f".grid{{stroke:#2b3138}}.axis{{stroke:#6b737c}}{colours(_DARK)}}}"
    )


def _legend_rows(names: Sequence[str]) -> list[list[tuple[int, str, int]]]:
    """Number, name and left end of each, as many in a row as there is room for."""
    rows: list[list[tuple[int, str, int]]] = [[]]
    x = _LEFT
    for at, name in enumerate(names):
        takes = 38 + 8 * len(name)
        if rows[-1] and x + takes > WIDTH - _RIGHT:
            rows.append([])
            x = _LEFT
        rows[-1].append((at, name, x))
        x += takes + 26
    return rows


def _legend(rows: Sequence[Sequence[tuple[int, str, int]]]) -> list[str]:
    parts = []
    for row, entries in enumerate(rows):
        y = 52 + row * _LEGEND
        for at, name, x in entries:
            parts.append(f'<path class="c{at}" d="M{x} {y}h30"/>')
            parts.append(_text(x + 38, y + 4, name, "name"))
    return parts


def _panel(panel: Panel, top: float, is_alone: bool) -> list[str]:
    bottom, right = top + _PANEL, WIDTH - _RIGHT
    parts = [] if is_alone else [_text(_LEFT, top - 8, panel.title, "name")]
    for value, text in panel.y.marks:
        y = bottom - _PANEL * panel.y.share(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, text, "mark", "end"))
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    for value, text in panel.x.marks:
        x = _LEFT + (right - _LEFT) * panel.x.share(value)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(_text(x, bottom + 18, text, "mark", "middle"))
    if panel.x.label:
        parts.append(_text((_LEFT + right) / 2, bottom + 38, panel.x.label, "mark", "middle"))
    parts += [
        f'<path class="c{at}" d="{_path(curve, panel, top, right)}"/>'
        for at, curve in enumerate(panel.curves)
        if curve.points
    ]
    return parts


def _path(curve: Curve, panel: Panel, top: float, right: float) -> str:
    spots = [
        (_LEFT + (right - _LEFT) * panel.x.share(x), top + _PANEL - _PANEL * panel.y.share(y)) for x, y in curve.points
    ]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (_stairs(spots) if curve.steps else spots))


def _stairs(spots: Sequence[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    for at, (x, y) in enumerate(spots):
        if at:
            yield x, spots[at - 1][1]
        yield x, y


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


DAY_S = 86_400
_UNITS = ((3 * DAY_S, DAY_S, "days"), (3 * 3600, 3600, "hours"), (180, 60, "minutes"), (0, 1, "seconds"))
_WAITS = (
    (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"),
    (4 * DAY_S, "4 d"), (40 * DAY_S, "40 d"), (400 * DAY_S, "400 d"), (4000 * DAY_S, "4,000 d"),
)  # fmt: skip
_LEAST_LONGEST_S = 60
_POINTS = 300
_SHARES = Axis(0.0, 1.0, tuple((share / 4, f"{share * 25} %") for share in range(5)))


def plots(inputs: ReplayInputs, found: Sequence[Figures]) -> dict[str, str]:
    """SVG texts by file name."""
    names = [figures.setting for figures in found]
    return {
        "utilisation.svg": _utilisation(names, found),
        "fragmentation.svg": _fragmentation(inputs, names, found),
        "line.svg": _queue(names, found),
        "waiting.svg": _waiting(names, found),
    }


def _utilisation(names: Sequence[str], found: Sequence[Figures]) -> str:
    panel = Panel("GPUs in use", _time(found), _SHARES, _over_time(found, lambda means: means.used))
    return draw("GPUs in use", "Share of GPUs in use over simulated time, by setting.", names, [panel])


def _fragmentation(inputs: ReplayInputs, names: Sequence[str], found: Sequence[Figures]) -> str:
    """A level that is one domain says no more than the cluster."""
    levels = [(at, size.name) for at, size in enumerate(inputs.capacity.levels) if size.domains > 1]
    panels = [Panel("stranded", _time(found, ""), _SHARES, _over_time(found, lambda means: means.stranded))]
    panels += [_level(found, at, name) for at, name in reversed(levels)]
    panels[-1] = Panel(panels[-1].title, _time(found), _SHARES, panels[-1].curves)
    about = "Share of stranded GPUs and fragmentation of each level over simulated time, by setting."
    return draw("Fragmentation", about, names, panels)


def _level(found: Sequence[Figures], at: int, name: str) -> Panel:
    curves = _over_time(found, lambda means: means.fragmentation[at])
    return Panel(f"level {name}", _time(found, ""), _SHARES, curves)


def _queue(names: Sequence[str], found: Sequence[Figures]) -> str:
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
