"""An explanation for people: no wider than their terminal where names allow it.

Names come from servers: a terminal must not obey them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kube_apimachinery.quantity import format_bytes, read_number
from spinney.cli.options import Screen
from spinney.cli.render.columns import columns, narrowed, plain
from spinney.cli.render.queues import BAR_LEGEND, bars
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.scheduling.reporting.report import AT
from spinney.core.view.best_score import score_words
from spinney.core.view.explanation import FINISHED, GangExplanation, Member, Place, WorkloadExplanation

_MOST_PODS = 16
_MOST_GANGS = 12
_INDENT = "  "
_DOMAIN_LINE = "node-group "


@dataclass(frozen=True, slots=True)
class GangHeading:
    """How a gang is headed: a word with its colour, and what is known of it in short."""

    word: str
    color: str
    facts: Sequence[str]
    screen: Screen
    decided: str = ""


def shown(explained: WorkloadExplanation, screen: Screen | None = None) -> str:
    """The whole explanation; every line ends with a newline."""
    heading = screen or Screen()
    lines = [plain(_title(explained))]
    for gang in _chosen(explained.gangs):
        lines += ["", *gang_lines(gang, _heading(gang, heading))]
    if len(explained.gangs) > _MOST_GANGS:
        more = many(len(explained.gangs) - _MOST_GANGS, "gang")
        lines += ["", *wrapped(f"and {more} more: -o json has them all", heading.width)]
    if explained.queues:
        lines += ["", *(f"{_INDENT}{line}" for line in bars(explained.queues).splitlines()), f"{_INDENT}{BAR_LEGEND}"]
    if explained.notes:
        lines += ["", *(f"note: {plain(note)}" for note in explained.notes)]
    return "\n".join(lines) + "\n"


def _chosen(gangs: Sequence[GangExplanation]) -> Sequence[GangExplanation]:
    """All in their order; of too many those that wait come first, for they are what people look for."""
    return gangs if len(gangs) <= _MOST_GANGS else sorted(gangs, key=lambda gang: not gang.waits)[:_MOST_GANGS]


def _title(explained: WorkloadExplanation) -> str:
    name = f"{explained.kind} {explained.namespace}/{explained.name}"
    if explained.suspended:
        return f"{name} is suspended"
    waiting = sum(gang.waits for gang in explained.gangs)
    ended = sum(gang.state == FINISHED for gang in explained.gangs)
    if len(explained.gangs) == 1:
        return f"{name} {'waits' if waiting else 'has finished' if ended else 'is placed'}"
    if ended == len(explained.gangs):
        return f"{name}: all {ended} gangs have finished"
    if ended and not waiting:
        return (
            f"{name}: {ended} of {len(explained.gangs)} gangs {'has' if ended == 1 else 'have'} finished, no gang waits"
        )
    if not waiting:
        return f"{name}: all {len(explained.gangs)} gangs are placed"
    return f"{name}: {waiting} of {many(len(explained.gangs), 'gang')} {'waits' if waiting == 1 else 'wait'}"


def _heading(gang: GangExplanation, screen: Screen) -> GangHeading:
    bound = sum(bool(member.node) for member in gang.members)
    facts = [f"{bound} of {many(len(gang.members), 'pod')} bound"] if gang.state != FINISHED else []
    decided = f"as of {gang.explanation[AT]}" if AT in gang.explanation else ""
    return GangHeading(gang.state, "red" if gang.waits else "green", facts, screen, decided)


def gang_lines(gang: GangExplanation, heading: GangHeading) -> Iterator[str]:
    """Its name, what it was told, the domains that came close; where it is, as far as it is anywhere."""
    width = heading.screen.width
    word = click.style(heading.word, fg=heading.color) if heading.screen.color else heading.word
    bound = any(member.node for member in gang.members)
    facts = [*heading.facts]
    facts += [f"score {score_words(gang.score, gang.best_score)}"] if gang.score is not None and bound else []
    facts += [f"queue {gang.queue}"] if gang.queue else []
    facts += [f"topology {gang.topology}"] if gang.topology else []
    facts += [heading.decided] if heading.decided else []
    yield f"{plain(gang.name)}  {word}"
    yield from wrapped(", ".join(facts), width)
    best = _best(gang)
    lines = [line for line in gang.lines if not (best and line.startswith(_DOMAIN_LINE))]
    if lines:
        yield ""
        for line in lines:
            yield from wrapped(line, width)
    yield from _figures(gang, best, width)
    if bound:
        yield from _where(gang, width)
    yield from _own_reports(gang, width)


def _best(gang: GangExplanation) -> list[Mapping[str, Any]]:
    """Domains that came close; they stand in a table instead of a line each."""
    if not gang.explanation.get("level"):
        return []
    return [one for one in gang.explanation.get("best", ()) if isinstance(one, dict)]


def _figures(gang: GangExplanation, best: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    reported = gang.explanation
    if best:
        head = (_level(gang, str(reported["level"])).upper(), "HOLDS", "SHORT OF")
        yield ""
        yield from _table([head, *(_shortfall(one) for one in best)], width)
    for word, counts in (("blocked", reported.get("blocked")), ("occupied", reported.get("occupied"))):
        if isinstance(counts, dict) and counts:
            yield ""
            by = "by " if word == "occupied" else ""
            reasons = [f"{many(count, 'node')} {by}{name}" for name, count in counts.items()]
            yield from wrapped(f"{word}: {', '.join(reasons)}", width)


def _shortfall(one: Mapping[str, Any]) -> tuple[str, ...]:
    short = one.get("short") or {}
    lacks = enumerated([_amount(name, amount) for name, amount in short.items()])
    return "/".join(one.get("path", ())) or "the cluster", f"{one.get('holds')} of {one.get('of')}", lacks or "-"


def _amount(resource: str, amount: int | str) -> str:
    if resource in ("memory", "ephemeral-storage") and isinstance(amount, int):
        return f"{format_bytes(amount)} {resource}"
    return f"{amount} {resource}"


def _where(gang: GangExplanation, width: int) -> Iterator[str]:
    """Groups with their domains, then pods with their nodes."""
    places = [place for place in gang.places if place.pods and (place.group or len(gang.places) == 1 or place.domain)]
    yield ""
    yield from _table([("GROUP", "LEVEL", "DOMAIN", "PODS", "NODES"), *(_place(gang, one) for one in places)], width)
    members = [member for member in gang.members if member.node]
    members.sort(key=lambda one: (len(members) if (rank := read_number(one.rank)) is None else rank, one.name))
    extra = [name for name in ("segment", "zone") if any(getattr(one, name) for one in members)]
    yield ""
    head = ("RANK", "POD", "NODE", *(name.upper() for name in extra))
    rows = [(one.rank or "-", one.name, one.node, *(getattr(one, name) or "-" for name in extra)) for one in members]
    yield from _table([head, *rows[:_MOST_PODS]], width)
    if len(rows) > _MOST_PODS:
        yield f"{_INDENT}and {many(len(rows) - _MOST_PODS, 'pod')} more: -o json has them all"


def _place(gang: GangExplanation, one: Place) -> tuple[str, ...]:
    domain = "/".join(one.domain) or ("the cluster" if one.bound else "-")
    pods = str(one.pods) if one.bound == one.pods else f"{one.bound} of {one.pods}"
    return one.group or "(whole gang)", _level(gang, one.level) or "-", domain, pods, str(one.nodes)


def _own_reports(gang: GangExplanation, width: int) -> Iterator[str]:
    """Pods that were told something of their own."""
    own: dict[str, list[Member]] = {}
    for member in gang.members:
        if member.waits_for:
            own.setdefault(member.waits_for, []).append(member)
    for words, members in own.items():
        yield ""
        names = enumerated([member.name for member in members[:3]])
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        yield from wrapped(f"{names}{more}: {' '.join(words.split())}", width)


def _level(gang: GangExplanation, key: str) -> str:
    return gang.short.get(key) or key.rpartition("/")[2]


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    cells = [[plain(cell) for cell in row] for row in rows]
    return [f"{_INDENT}{line}" for line in columns(narrowed(cells, width - len(_INDENT))).splitlines()]


def wrapped(text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Lines of a width; names are never broken."""
    return textwrap.wrap(
        plain(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
