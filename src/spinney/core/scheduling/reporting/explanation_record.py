"""The explanation of a gang in the annotation of its PodGroup: bounded, versioned JSON.

Holds the text of the events and the numbers behind it. Never larger than the limit: long lists are cut and say how long
they were. Reading never fails on untrusted text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from spinney.api.changes import Json
from spinney.api.documents import DocumentError, read_json
from spinney.api.placement.result import Decision, Explanation, Result
from spinney.api.placement.writing import write_result

VERSION = 1
LIMIT = 8192
"""Maximum size of the annotation, in bytes."""

_MOST = 8
_MOST_VICTIMS = 16
_LONGEST = 512
_GIVEN_UP = ("occupied", "fitsIf", "blocked", "best", "lines")
"""Fields that are left out, in this order, while the whole is too large."""


def record(state: str, lines: Iterable[str], found: Explanation | None = None, **more: Any) -> Json:
    """`lines` are those of the message; the rest are the numbers they are made of."""
    told: Json = {"version": VERSION, "state": state, "lines": [_cut(line) for line in lines][:_MOST]}
    if found is not None:
        told |= _figures(found)
    return _bounded(told | {name: value for name, value in more.items() if value})


def encode(told: Json) -> str:
    return msgspec.json.encode(told).decode()


def decode(text: str) -> Json | None:
    """None: there is no explanation, or not one of a known version."""
    try:
        told = read_json(text) if text else None
    except DocumentError:
        return None
    return told if isinstance(told, dict) and told.get("version") == VERSION else None


def _figures(found: Explanation) -> Json:
    written = write_result(Result((Decision("", "infeasible", explanation=found),)))["gangs"][0]["explanation"]
    blocked: Json = written["blocked"]
    occupied = blocked.pop("occupied", {})
    told: Json = {"reason": _cut(found.reason), "group": found.group, "level": found.level}
    told |= {"considered": found.considered, "best": written["best"][:_MOST]}
    told |= {"blocked": _most(blocked), "occupied": _most(occupied), "fitsIf": [_way(way) for way in written["fitsIf"]]}
    return {name: value for name, value in told.items() if value not in (None, [], {})}


def _most(counts: Mapping[str, int]) -> Json:
    """The largest counts; the rest as one sum."""
    order = sorted(counts, key=lambda name: (-counts[name], name))
    kept: Json = {_cut(name): counts[name] for name in order[:_MOST]}
    rest = sum(counts[name] for name in order[_MOST:])
    return kept | {"others": rest} if rest else kept


def _way(way: Json) -> Json:
    victims = way.get("victims")
    if victims is None:
        return way
    gangs = sorted({victim["gang"] for victim in victims})
    return {"victims": victims[:_MOST_VICTIMS], "victimCount": len(victims), "gangs": gangs[:_MOST]}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _bounded(told: Json) -> Json:
    for name in _GIVEN_UP:
        if len(msgspec.json.encode(told)) <= LIMIT:
            return told
        if name in told:
            told = {key: value for key, value in told.items() if key != name}
            told["leftOut"] = [*told.get("leftOut", ()), name]
    return told
