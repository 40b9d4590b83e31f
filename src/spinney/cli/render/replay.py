"""The figures of replays as text for a terminal: a line for each figure, a column for each setting."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from spinney.cli.render.columns import plain
from spinney.core.placement.explain.reasons import many
from spinney.sim.replay.cluster import CLUSTER
from spinney.sim.replay.figures import Figures
from spinney.sim.replay.gang_shapes import Rule
from spinney.sim.replay.simulation import ReplayInputs
from spinney.sim.replay.trace import Schedule, Timing

_BETWEEN = 3
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

Column = tuple[tuple[str, ...], dict[str, str]]
"""The lines of its header, and its figures by title."""


def table(inputs: ReplayInputs, found: Sequence[Figures], files: tuple[str, str], width: int) -> str:
    """What was replayed, the figures, and who can never be placed."""
    parts = [_wrapped(_about(inputs, files), width)]
    columns = [(_header(figures.setting), dict(_rows(inputs, figures))) for figures in found]
    parts += [_block(block, width) for block in _blocks(columns, width)]
    never = _never(found[0])
    return "\n".join([*parts, _wrapped(never, width)] if never else parts)


def span(seconds: float) -> str:
    """A length of time in its largest unit."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.1f} min"
    return f"{seconds / _HOUR:.1f} h" if seconds < _DAY else f"{seconds / _DAY:,.1f} d"


def _about(inputs: ReplayInputs, files: tuple[str, str]) -> list[str]:
    schedule, capacity, shaping = inputs.schedule, inputs.capacity, inputs.shaping
    lasts = span(schedule.last_s - schedule.first_s)
    count = len(schedule.arrivals)
    gangs = f"{count:,} gangs" if count != 1 else "1 gang"
    nodes = f"{capacity.nodes:,} nodes" if capacity.nodes != 1 else "1 node"
    levels = ", ".join(f"{size.name} {size.domains:,}" for size in capacity.levels)
    return [
        f"{files[0]}: {gangs}, {schedule.gpus:,} GPUs, arriving within {lasts}; "
        f"{_times(schedule)}: a load of {schedule.load:.2f}",
        f"{files[1]}: {nodes}, {capacity.gpus:,} {shaping.resource}, pods of up to {shaping.gpus_per_pod}; "
        f"domains: {levels or 'none'}",
        f"levels: {'; '.join(_rule(inputs, rule) for rule in shaping.rules)}",
    ]


def _times(schedule: Schedule) -> str:
    match schedule.timing:
        case Timing.STEPS:
            return f"{schedule.stretch:g} s for each step"
        case Timing.SECONDS:
            return "run times as recorded" if schedule.stretch == 1 else f"run times multiplied by {schedule.stretch:g}"
        case Timing.NONE:
            return "arrivals and run times drawn"


def _rule(inputs: ReplayInputs, rule: Rule) -> str:
    names = {level.key: level.name for level in inputs.described.levels.levels}
    needs = f"need one {names[rule.required]}" if rule.required is not None else "need none"
    likes = f", would like one {names[rule.preferred]}" if rule.preferred is not None else ""
    return f"{'all others' if rule.up_to is None else f'up to {rule.up_to} GPUs'} {needs}{likes}"


def _header(setting: str) -> tuple[str, ...]:
    strategy, *added = setting.split("+")
    return strategy, *(f"+{word}" for word in added)


def _rows(inputs: ReplayInputs, found: Figures) -> Iterator[tuple[str, str]]:
    waits, mean = found.waits, found.mean
    yield "placed at once", _percent(found.at_once / found.gangs)
    yield "by the last arrival", _percent(found.in_time / found.gangs)
    yield "in all", _percent(found.placed / found.gangs)
    yield "waited, mean", span(waits.mean)
    for name, value in (("p50", waits.p50), ("p95", waits.p95), ("p99", waits.p99), ("max", waits.max)):
        yield f"waited, {name}", span(value)
    for size in found.sizes:
        yield f"mean, {size.name} GPU{'' if size.most == 1 else 's'}", span(size.mean_s)
    for name, count in found.levels:
        yield f"gangs in one {name}" if name != CLUSTER else "gangs in no one domain", f"{count:,}"
    yield "GPUs in use, mean", _percent(mean.used)
    yield "gangs waiting, mean", f"{mean.waiting:,.1f}"
    yield "stranded GPUs", _percent(mean.stranded)
    for level, share in reversed(list(zip(inputs.capacity.levels, mean.fragmentation, strict=True))):
        yield f"fragmentation, {level.name}", _percent(share)
    yield "pods moved", f"{found.moves:,}"
    for queue in found.queues:
        yield f"mean, queue {queue.name}", span(queue.mean_s)
    for queue in found.queues:
        yield f"reclaimed from queue {queue.name}", f"{queue.reclaimed:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _blocks(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """As many columns beside each other as there is room for."""
    left = room = width - max(map(len, columns[0][1]))
    block: list[Column] = []
    for column in columns:
        takes = _BETWEEN + _width(column)
        if block and takes > left:
            yield block
            block, left = [], room
        block.append(column)
        left -= takes
    yield block


def _block(block: Sequence[Column], width: int) -> str:
    titles = list(block[0][1])
    first = max(map(len, titles))
    deep = max(len(header) for header, _ in block)
    rows = [("", [header[at] if at < len(header) else "" for header, _ in block]) for at in range(deep)]
    rows += [(title, [figures[title] for _, figures in block]) for title in titles]
    widths = [_BETWEEN + _width(column) for column in block]
    return "".join(
        plain((title.ljust(first) + "".join(map(str.rjust, cells, widths))).rstrip()) + "\n" for title, cells in rows
    )


def _width(column: Column) -> int:
    return max(map(len, (*column[0], *column[1].values())))


def _never(found: Figures) -> list[str]:
    """Gangs that an empty cluster does not take, by reason."""
    reasons = Counter(reason for _, reason in found.impossible)
    example = {reason: gang for gang, reason in reversed(found.impossible)}
    return [
        f"never placed: {many(count, 'gang')}, the first of them {example[reason]}: {reason}"
        for reason, count in reasons.most_common()
    ]


def _wrapped(lines: Sequence[str], width: int) -> str:
    return "".join(
        textwrap.fill(plain(line), width, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in lines
    )
