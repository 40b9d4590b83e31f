"""A result for people: a line per gang with its outcome, score, domains and reason."""

from __future__ import annotations

from spinney.api.placement.result import Decision, Domain, Result
from spinney.cli.render.columns import columns, plain

_HEAD = ("GANG", "OUTCOME", "SCORE", "PODS", "DOMAINS", "REASON")
_MOST_DOMAINS = 3


def table(result: Result) -> str:
    return columns([_HEAD, *(_row(one) for one in result.gangs)])


def _row(one: Decision) -> tuple[str, ...]:
    return (
        plain(one.name),
        one.outcome,
        "-" if one.score is None else f"{one.score:.2f}",
        str(len(one.placements)),
        _domains(one.domains) or "-",
        plain(_reason(one)) or "-",
    )


def _domains(domains: tuple[Domain, ...]) -> str:
    shown = [plain("/".join(one.path) if not one.group else f"{one.group}={'/'.join(one.path)}") for one in domains]
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
