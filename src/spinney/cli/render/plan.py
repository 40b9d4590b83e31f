"""Results of the engine for people, fitted to their terminal: plans, placements, and surveys of moves.

Names come from manifests and servers: a terminal must not obey them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from spinney.api.placement.result import Decision, Domain, Result
from spinney.cli.options import Screen
from spinney.cli.render.columns import columns, plain
from spinney.cli.render.explanation import GangHeading, gang_lines, wrapped
from spinney.core.placement.explain.reasons import amounts, many
from spinney.core.view.plan_result import Copies, DisplacedPod, GangResult, PlanResult, WorkloadResult

if TYPE_CHECKING:
    from spinney.whatif.consolidation import ConsolidationOffer, LargestGang, Survey

_OFFERS = ("GANG", "PRIORITY", "PODS", "MOVES", "LOSS")
_MOVES = ("POD", "OF GANG", "FROM", "TO")
_REACHES = ("TOPOLOGY", "LEVEL", "NOW", "AFTER", "MOVES", "LOSS")


def survey_shown(found: Survey) -> str:
    """What would fit after moves, what would not, and how large a gang each level takes."""
    parts = [_offers(found)]
    parts += [_moves(offer) for offer in found.offers]
    if found.stuck:
        parts.append("".join(f"{plain(gang)} would not fit: {plain(reason)}\n" for gang, reason in found.stuck))
    if found.reaches:
        parts.append(_reaches(found))
    return "\n".join(parts)


def _offers(found: Survey) -> str:
    if not found.offers:
        return f"No gang that waits would fit after {many(found.limits.max_moves, 'move')} or fewer.\n"
    return columns([_OFFERS, *(_offer(offer) for offer in found.offers)])


def _offer(offer: ConsolidationOffer) -> tuple[str, ...]:
    return (plain(offer.gang), str(offer.priority), str(offer.pods), str(len(offer.moves)), f"{offer.loss:.2f}")


def _moves(offer: ConsolidationOffer) -> str:
    rows = [(plain(each.pod), plain(each.gang), plain(each.source), plain(each.target)) for each in offer.moves]
    return f"For {plain(offer.gang)}:\n{columns([_MOVES, *rows])}"


def _reaches(found: Survey) -> str:
    head = f"Largest gang of pods that ask for {_asking(found.asking)}:\n"
    return head + columns([_REACHES, *(_reach(reach) for reach in found.reaches)])


def _reach(reach: LargestGang) -> tuple[str, ...]:
    where = (plain(reach.topology), plain(reach.level))
    return (*where, str(reach.now), str(reach.after), str(len(reach.moves)), f"{reach.loss:.2f}")


def _asking(asked: Mapping[str, int]) -> str:
    """Devices say enough; without any, everything does."""
    devices = {name: amount for name, amount in asked.items() if "/" in name}
    return amounts(devices or asked)


_HEAD = ("GANG", "OUTCOME", "SCORE", "PODS", "DOMAINS", "REASON")
_MOST_DOMAINS = 3


def placement_table(result: Result) -> str:
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


_MOST_GANGS = 12
_MOST_VICTIMS = 8
_COLORS = {"fits": "green", "partly": "yellow", "no": "red"}


def shown(result: PlanResult, screen: Screen) -> str:
    """The whole answer; every line ends with a newline."""
    lines: list[str] = []
    for workload in result.workloads:
        lines += [*_workload(workload, screen), ""]
    if result.copies is not None:
        lines += [*_copies(result.copies, screen), ""]
    lines += [line for note in result.notes for line in wrapped(f"note: {note}", screen.width, "")]
    lines += wrapped(_last(result), screen.width, "")
    return "\n".join(lines) + "\n"


def _last(result: PlanResult) -> str:
    place = f"{result.against}, {many(result.nodes, 'node')}" if result.against else many(result.nodes, "node")
    return f"asked about {place}; nothing was written"


def _workload(workload: WorkloadResult, screen: Screen) -> Iterator[str]:
    verdict, word = _word(workload)
    yield f"{plain(workload.title)}  {_styled(word, verdict, screen)}"
    for refusal in workload.refusals:
        yield from wrapped(refusal, screen.width)
    for warning in workload.warnings:
        yield from wrapped(f"warning: {warning}", screen.width)
    if not workload.gangs and not workload.refusals:
        yield from wrapped("nothing is to be placed for it", screen.width)
    first = sorted(workload.gangs, key=lambda gang: gang.fits)  # what does not fit is what people look for
    for gang in first[:_MOST_GANGS]:
        yield ""
        yield from _gang(gang, screen)
    if len(first) > _MOST_GANGS:
        yield ""
        yield from wrapped(f"and {many(len(first) - _MOST_GANGS, 'gang')} more: -o json has them all", screen.width)


def _word(workload: WorkloadResult) -> tuple[str, str]:
    if workload.refusals:
        return "no", "is refused"
    missing = sum(not gang.fits for gang in workload.gangs)
    if missing:
        total = many(len(workload.gangs), "gang")
        return "no", "does not fit" if missing == len(workload.gangs) else f"{missing} of {total} do not fit"
    if any(gang.verdict == "partly" for gang in workload.gangs):
        return "partly", "fits, but not all pods beyond its minimum do"
    return "fits", "fits"


def _gang(gang: GangResult, screen: Screen) -> Iterator[str]:
    facts = [f"{gang.placed} of {many(gang.pods, 'pod')} placed"]
    facts += [f"minimum {gang.minimum}"] if gang.minimum != gang.pods else []
    facts += [] if gang.is_new else ["exists: these are its pods without a node"]
    yield from gang_lines(gang.explained, GangHeading(gang.verdict, _COLORS[gang.verdict], facts, screen))
    if gang.waits_for_leaving:
        yield from wrapped("its room is that of pods on their way out: it starts when they are gone", screen.width)
    yield from _evicted([one for one in gang.victims if not one.to], screen)
    yield from _victims([one for one in gang.victims if one.to], "moved for it", screen)
    yield from _victims(gang.moves, f"it would fit after {many(len(gang.moves), 'move')}", screen)


def _evicted(victims: Sequence[DisplacedPod], screen: Screen) -> Iterator[str]:
    """By queue; with what both queues have then, where they are reclaimed."""
    for queue in dict.fromkeys(one.queue for one in victims):
        own = [one for one in victims if one.queue == queue]
        yield from _victims(own, f"evicted for it from queue {queue}" if queue else "evicted for it", screen)
        for figures in dict.fromkeys(one.figures for one in own if one.figures):
            yield from wrapped(figures, screen.width)


def _victims(victims: Sequence[DisplacedPod], word: str, screen: Screen) -> Iterator[str]:
    if not victims:
        return
    named = [f"{one.pod} on {one.node}" + (f" to {one.to}" if one.to else "") for one in victims[:_MOST_VICTIMS]]
    more = [f"{len(victims) - _MOST_VICTIMS} more"] if len(victims) > _MOST_VICTIMS else []
    yield ""
    yield from wrapped(f"{word}: {', '.join([*named, *more])}", screen.width)


def _copies(copies: Copies, screen: Screen) -> Iterator[str]:
    if copies.asked is None:
        text = "1 copy fits" if copies.fitting == 1 else f"{copies.fitting} copies fit"
        text += f"; {copies.bound}, more may" if copies.bound else ""
        verdict = "fits" if copies.fitting else "no"
    else:
        text = f"{copies.fitting} of {copies.asked} copies fit"
        text += f"; {copies.bound}, the most that are planned" if copies.bound else ""
        verdict = "fits" if copies.fitting == copies.asked else "no"
    yield _styled(text, verdict, screen)
    if copies.blocker is not None:
        yield from wrapped(f"the next one is stopped by {copies.blocker.name}:", screen.width)
        for line in copies.blocker.explained.lines:
            yield from wrapped(line, screen.width)


def _styled(text: str, verdict: str, screen: Screen) -> str:
    return click.style(text, fg=_COLORS[verdict], bold=True) if screen.color else text
