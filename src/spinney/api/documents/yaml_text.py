"""YAML to values, from the parser's events: no recursion, every limit checked before a value is made.

Each alias becomes a copy of what it stands for, so that what comes out is a tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from spinney.api.documents.limits import MAX_DIGITS, MAX_DIRECTIVES, DocumentError, Limits, show

# What a plain word of YAML means: nothing, a boolean, a number, or itself.
#
# The rules are those of YAML 1.1 as Kubernetes reads it, less what JSON has no value for: dates and times stay text,
# `1:30` is no number, and neither is what a double cannot hold.

_FIRST = frozenset("0123456789+-.~nNyYtTfFoO")
_WORDS: dict[str, bool | None] = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_DECIMAL = r"[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*"
_FLOAT = re.compile(rf"[-+]?(?:{_DECIMAL}|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)")
_MISSING = object()


def plain(text: str) -> Any:
    """The value of a word without quotes and without a tag."""
    if text and text[0] not in _FIRST:
        return text
    known = _WORDS.get(text, _MISSING)
    if known is not _MISSING:
        return known
    if text[0] > "9":
        return text
    if _INT.fullmatch(text):
        return whole(text)
    return fraction(text) if _FLOAT.fullmatch(text) else text


def boolean(text: str) -> bool:
    known = _WORDS.get(text)
    if known is None:
        raise DocumentError(f"found {show(text)}, which is no boolean to be read")
    return known


def nothing(text: str) -> None:
    return None


def whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise DocumentError(f"found {show(text)}, which is no number to be read: allowed are {MAX_DIGITS} digits")
    digits = text.replace("_", "")
    try:
        return int(digits, 8 if re.fullmatch("[-+]?0[0-7]+", digits) else 0)
    except ValueError:
        raise DocumentError(f"found {show(text)}, which is no number to be read") from None


def fraction(text: str) -> float:
    try:
        value = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise DocumentError(f"found {show(text)}, which is no number to be read") from None
    if not math.isfinite(value):
        raise DocumentError(f"found {show(text)}, which is no number to be read: allowed is what a double can hold")
    return value


try:
    from yaml import CSafeLoader as _Parser
except ImportError:  # built without libyaml
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

_TAG = "tag:yaml.org,2002:"
_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": whole,
    f"{_TAG}float": fraction,
    f"{_TAG}bool": boolean,
    f"{_TAG}null": nothing,
    "!": str,
}
_DIRECTIVE = re.compile(rb"^%TAG", re.MULTILINE)
_MERGE: Any = object()
_NO_KEY: Any = object()


def read(body: bytes, limits: Limits) -> list[Any]:
    """Every document of a text in UTF-8."""
    if len(_DIRECTIVE.findall(body)) > MAX_DIRECTIVES:
        raise DocumentError(f"found more than {MAX_DIRECTIVES} lines %TAG, allowed: at most {MAX_DIRECTIVES}")
    builder = _Builder(limits)
    handlers: dict[type[Any], Callable[[Any], None]] = {
        yaml.ScalarEvent: builder.scalar,
        yaml.AliasEvent: builder.alias,
        yaml.MappingStartEvent: builder.opened,
        yaml.SequenceStartEvent: builder.opened,
        yaml.MappingEndEvent: builder.closed,
        yaml.SequenceEndEvent: builder.closed,
        yaml.DocumentStartEvent: builder.begun,
        yaml.DocumentEndEvent: builder.ended,
    }
    for event in events(body):
        handlers[event.__class__](event)
    return builder.documents


def events(body: bytes) -> Iterator[Any]:
    """The events of the parser but those of the stream; raises DocumentError."""
    parser = None
    try:
        parser = _Parser(body)
        take = parser.get_event
        take()
        while (event := take()).__class__ is not yaml.StreamEndEvent:
            yield event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise DocumentError(f"not YAML: {error.problem}", "", line, column) from None
    except yaml.YAMLError as error:
        raise DocumentError(f"not YAML: {str(error).partition(chr(10))[0]}") from None
    finally:
        if parser is not None:
            parser.dispose()


class _Open:
    """A collection whose end has not been seen. `begun`: how many values there were before it."""

    __slots__ = ("anchor", "begun", "height", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, begun: int) -> None:
        self.value = value
        self.anchor = anchor
        self.begun = begun
        self.key = _NO_KEY
        self.height = 1
        self.merged: list[Any] = []


class _Anchored:
    """What an alias stands for: the value, how many values it holds, how deep it is."""

    __slots__ = ("height", "size", "value")

    def __init__(self, value: Any, size: int, height: int) -> None:
        self.value = value
        self.size = size
        self.height = height


class _Builder:
    def __init__(self, limits: Limits) -> None:
        self.documents: list[Any] = []
        self._limits = limits
        self._above: list[_Open] = []
        self._open: _Open | None = None
        self._root: Any = None
        self._anchors: dict[str, _Anchored | None] = {}
        self._values = 0
        self._aliased = 0

    def begun(self, event: Any) -> None:
        if len(self.documents) >= self._limits.documents:
            raise _refused(event, f"not YAML: found one document more, allowed: {self._limits.documents}")
        self._root = None
        self._anchors = {}

    def ended(self, event: Any) -> None:
        self.documents.append(self._root)

    def scalar(self, event: Any) -> None:
        value = _scalar(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        merges = event.implicit[0] and event.tag is None and value == "<<"
        self._add(value, event, merges)

    def opened(self, event: Any) -> None:
        mapping = event.__class__ is yaml.MappingStartEvent
        if event.tag is not None and event.tag != "!":
            _check_tag(event, mapping)
        if self._open is not None:
            self._above.append(self._open)
        if len(self._above) >= self._limits.depth:
            raise _too_deep(event, self._limits)
        self._count(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open = _Open({} if mapping else [], event.anchor, self._values - 1)

    def closed(self, event: Any) -> None:
        done = self._open
        assert done is not None
        for value in done.merged:
            for key, child in value.items():
                done.value.setdefault(key, child)
        if done.anchor is not None:
            size = _size(done.value) if done.merged else self._values - done.begun
            self._anchors[done.anchor] = _Anchored(done.value, size, done.height)
        self._open = self._above.pop() if self._above else None
        self._grow(done.height)
        self._add(done.value, event, False, counted=True)

    def alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor, _NO_KEY)
        if found is _NO_KEY:
            raise _refused(event, f"not YAML: found undefined alias {show(event.anchor)}")
        if found is None:
            raise _refused(event, "found an alias inside what it stands for, allowed: aliases of other values")
        self._aliased += found.size
        if self._aliased > self._limits.aliased:
            most = self._limits.aliased
            raise _refused(event, f"found aliases for more than {most} values, allowed: at most {most}")
        if len(self._above) + 1 + found.height > self._limits.depth:
            raise _too_deep(event, self._limits)
        self._values += found.size - 1
        self._grow(found.height)
        self._add(msgspec.to_builtins(found.value), event, False)

    def _add(self, value: Any, event: Any, merges: bool, counted: bool = False) -> None:
        """Into the collection that is open; `merges`: as a key, it is the one that merges."""
        into = self._open
        if into is None:
            self._root = value
        elif into.value.__class__ is list:
            into.value.append(value)
        elif into.key is _NO_KEY:
            into.key = _MERGE if merges else self._key(into.value, value, event)
            return
        elif into.key is _MERGE:
            into.merged += _to_merge(value, event)
            into.key = _NO_KEY
        else:
            into.value[into.key] = value
            into.key = _NO_KEY
        if not counted:
            self._count(event)

    def _key(self, mapping: dict[str, Any], value: Any, event: Any) -> str:
        key = value if value.__class__ is str else self._text_of(value, event)
        if key in mapping:
            raise _refused(event, f"found the key {show(key)} again, allowed: each key once")
        mapping[key] = None
        return key

    def _text_of(self, key: Any, event: Any) -> str:
        """A key that is no text, as Kubernetes writes it."""
        if self._limits.text_keys or not isinstance(key, (bool, int, float)):
            raise _refused(event, f"found the key {show(key)}, allowed: a text (in quotes)")
        return msgspec.json.encode(key).decode()

    def _grow(self, height: int) -> None:
        if self._open is not None and self._open.height <= height:
            self._open.height = height + 1

    def _count(self, event: Any) -> None:
        self._values += 1
        if self._values > self._limits.values:
            most = self._limits.values
            raise _refused(event, f"found more than {most} values, allowed: at most {most}")


def _scalar(event: Any) -> Any:
    tag = event.tag
    try:
        if tag is None:
            return plain(event.value) if event.implicit[0] else event.value
        read_as = _SCALARS.get(tag)
        if read_as is not None:
            return read_as(event.value)
    except DocumentError as error:
        raise _refused(event, error.problem) from None
    if tag in (f"{_TAG}seq", f"{_TAG}map"):
        raise _refused(event, f"found a text that is tagged as {_named(tag)}")
    raise _unknown_tag(event)


def _check_tag(event: Any, mapping: bool) -> None:
    own = f"{_TAG}map" if mapping else f"{_TAG}seq"
    if event.tag == own:
        return
    if event.tag in _SCALARS or event.tag in (f"{_TAG}seq", f"{_TAG}map"):
        raise _refused(event, f"found {'an object' if mapping else 'a list'} that is tagged as {_named(event.tag)}")
    raise _unknown_tag(event)


def _named(tag: str) -> str:
    known = {"str": "a text", "seq": "a list", "map": "an object", "int": "a number", "float": "a number"}
    short = tag.removeprefix(_TAG)
    return known.get(short, short)


def _unknown_tag(event: Any) -> DocumentError:
    return _refused(event, f"found the tag {show(event.tag)}, allowed: plain values")


def _to_merge(value: Any, event: Any) -> list[dict[str, Any]]:
    """`<<`: keys of other objects that are not set here; the first object that has a key wins."""
    parts = value if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, dict):
            raise _refused(event, f"found {show(part)} to be merged, allowed: an object")
    return parts


def _size(value: Any) -> int:
    """How many values there are, where some were merged into others and do not count twice."""
    size = 0
    left = [value]
    while left:
        one = left.pop()
        size += 1
        if isinstance(one, (dict, list)):
            left += one.values() if isinstance(one, dict) else one
    return size


def _too_deep(event: Any, limits: Limits) -> DocumentError:
    return _refused(event, f"found nesting beyond {limits.depth} levels, allowed: at most {limits.depth}")


def _refused(event: Any, problem: str) -> DocumentError:
    mark = event.start_mark
    return DocumentError(problem, "", mark.line + 1, mark.column + 1)
