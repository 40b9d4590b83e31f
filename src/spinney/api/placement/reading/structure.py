"""Names and types of a document: plain values to wire values, or a refusal that names field, found and allowed.

The decoder says where it stopped and what type it met; the value, and the key of a map, are looked up again here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spinney.api.documents.errors import show
from spinney.api.placement.problem import VERSION
from spinney.api.placement.reading.errors import Path, Unreadable, refused, too_deep
from spinney.api.placement.reading.wire import WireGang, WireProblem

_PLACE = re.compile(r"(.*?)(?: - at (`key` in )?`\$([^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
_TEXT = "a text"
_QUANTITY = "a quantity such as 8, 500m or 32Gi"
_ALLOWED = {
    "str": _TEXT,
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_TEXT_MAPS = ("labels", "nodeSelector")


def structured(document: Any) -> WireProblem:
    """The version is judged first: what else is wrong with a document of another version is not known here."""
    if not isinstance(document, dict):
        raise refused((), document, "an object with version, resources, nodes and gangs")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise refused(("version",), version, str(VERSION))
    try:
        return msgspec.convert(document, WireProblem)
    except RecursionError:
        raise too_deep(_endless(document)) from None
    except UnicodeEncodeError as error:
        raise refused((), error.object, "texts that can be written in UTF-8") from None
    except msgspec.ValidationError as error:
        raise _refusal(document, str(error)) from None


def _refusal(document: Any, words: str) -> Unreadable:
    place = _PLACE.fullmatch(words)
    assert place is not None  # every part of the pattern may be empty
    said, key, steps = place.groups()
    path = _path(steps or "")
    if unknown := _UNKNOWN.fullmatch(said):
        return Unreadable((*path, unknown[1]), "unknown field")
    if missing := _MISSING.fullmatch(said):
        return refused((*path, missing[1]), None, "it has to be there")
    container = _at(document, path)
    if key and isinstance(container, dict):
        found = next((one for one in container if type(one) is not str), None)
        return Unreadable(path, f"found the key {show(found)}, allowed: keys that are texts (in quotes)")
    if steps and steps.endswith("[...]") and isinstance(container, dict):
        return _bad_entry(container, path)
    expected = _EXPECTED.match(said)
    allowed = _ALLOWED.get(expected[1].removesuffix(" | null") if expected else "", said)
    return refused(path, container, _with_quotes(allowed, container))


def _path(steps: str) -> Path:
    """Without the last step where that is the unnamed value of a map."""
    return tuple(name or int(index) for name, index in _STEP.findall(steps) if name or index)


def _at(document: Any, path: Path) -> Any:
    for step in path:
        try:
            document = document[step]
        except (LookupError, TypeError):
            return None
    return document


def _bad_entry(entries: dict[str, Any], path: Path) -> Unreadable:
    """The decoder does not say which entry of a map it refused: the first one that is of no allowed type."""
    texts = path[-1] in _TEXT_MAPS
    for key, value in entries.items():
        if not isinstance(value, str if texts else (str, int, float)) or isinstance(value, bool):
            return refused((*path, key), value, _with_quotes(_TEXT, value) if texts else _QUANTITY)
    return refused(path, entries, "other values")


def _with_quotes(allowed: str, found: Any) -> str:
    return f"{allowed} (in quotes)" if allowed == _TEXT and isinstance(found, (bool, int, float)) else allowed


def _endless(document: dict[str, Any]) -> Path:
    """The first gang that is too deep for the decoder, or the gangs as a whole if none can be named."""
    gangs = document.get("gangs")
    for index, gang in enumerate(gangs if isinstance(gangs, list) else ()):
        try:
            msgspec.convert(gang, WireGang)
        except RecursionError:
            return ("gangs", index)
        except msgspec.ValidationError:
            continue
    return ("gangs",)
