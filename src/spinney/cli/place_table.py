"""A result for people: a line per gang with its outcome, score, domains and reason."""

from __future__ import annotations

from spinney.api.placement.result import Decision, Domain, Result

_HEAD = ("GANG", "OUTCOME", "SCORE", "PODS", "DOMAINS", "REASON")
_MOST_DOMAINS = 3


def table(result: Result) -> str:
    rows = [_HEAD, *(_row(one) for one in result.gangs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "".join(_line(row, widths) for row in rows)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "   ".join(cells).rstrip() + "\n"


def _row(one: Decision) -> tuple[str, ...]:
    return (
        _plain(one.name),
        one.outcome,
        "-" if one.score is None else f"{one.score:.2f}",
        str(len(one.placements)),
        _domains(one.domains) or "-",
        _plain(_reason(one)) or "-",
    )


def _domains(domains: tuple[Domain, ...]) -> str:
    shown = [_plain("/".join(one.path) if not one.group else f"{one.group}={'/'.join(one.path)}") for one in domains]
    more = len(shown) - _MOST_DOMAINS
    return ", ".join(shown[:_MOST_DOMAINS]) + (f", {more} more" if more > 0 else "")


def _reason(one: Decision) -> str:
    notes = [one.explanation.reason] if one.explanation else []
    if one.waits:
        notes.append("waits for pods that have to go first")
    if one.victims:
        notes.append(f"evicts {len(one.victims)}")
    if one.moves:
        notes.append(f"moves {len(one.moves)}")
    if not one.proved:
        notes.append("the budget ended before the best place was certain")
    return "; ".join(notes)


def _plain(text: str) -> str:
    """Names come from a file; a terminal must not obey them."""
    return "".join(char if char.isprintable() else "?" for char in text)
