"""A survey of moves as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from spinney.cli.render.columns import columns, plain
from spinney.core.placement.explain.reasons import amounts, many
from spinney.whatif.consolidation import ConsolidationOffer, LargestGang, Survey

_OFFERS = ("GANG", "PRIORITY", "PODS", "MOVES", "LOSS")
_MOVES = ("POD", "OF GANG", "FROM", "TO")
_REACHES = ("TOPOLOGY", "LEVEL", "NOW", "AFTER", "MOVES", "LOSS")


def shown(found: Survey) -> str:
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
