"""Bytes to values: the size first, then JSON where it looks like it, else YAML; the line of a field, for messages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar

import msgspec
import yaml

from spinney.api.documents import yaml_text
from spinney.api.documents.limits import FILE, MAX_DIGITS, DocumentError, Limits, show
from spinney.api.documents.yaml_text import events

# The line where a field is written, for a message.

Path = tuple[str | int, ...]

_MOST_BYTES = 2_000_000  # finding a line means parsing once more
_NO_KEY: Any = object()


def line_of(body: bytes, path: Path, document: int = 0) -> int | None:
    """The line of a field, or of the nearest thing around it that is there; None where it is not to be found."""
    if len(body) > _MOST_BYTES:
        return None
    search = _Search(path)
    passed = -1
    try:
        for event in events(body):
            passed += event.__class__ is yaml.DocumentStartEvent
            if passed > document or (passed == document and search.ends_with(event)):
                break
    except DocumentError:
        return search.line
    return search.line


class _Inside:
    """A collection that is being passed. `on_path`: the field is in it, if it is there at all."""

    __slots__ = ("is_mapping", "on_path", "step")

    def __init__(self, is_mapping: bool, on_path: bool) -> None:
        self.is_mapping = is_mapping
        self.on_path = on_path
        self.step: Any = _NO_KEY if is_mapping else 0


class _Search:
    """Follows one path through the events of a document; what is beside it is passed over."""

    def __init__(self, path: Path) -> None:
        self.line: int | None = None
        self._path = path
        self._inside: list[_Inside] = []

    def ends_with(self, event: Any) -> bool:
        match event:
            case yaml.CollectionStartEvent():
                on_path = self._passes(event, "")
                self._inside.append(_Inside(isinstance(event, yaml.MappingStartEvent), on_path))
                return on_path and len(self._inside) > len(self._path)
            case yaml.CollectionEndEvent():
                self._inside.pop()
                self._step_on(_NO_KEY)
            case yaml.ScalarEvent() | yaml.AliasEvent():
                text = getattr(event, "value", "")
                on_path = self._passes(event, text)
                self._step_on(text)
                return on_path and len(self._inside) >= len(self._path)
        return False

    def _passes(self, event: Any, key: str) -> bool:
        """Whether a value on the path begins here."""
        top = self._inside[-1] if self._inside else None
        if top is not None:
            wanted = self._path[len(self._inside) - 1] if len(self._inside) <= len(self._path) else None
            if not top.on_path or top.step is _NO_KEY or top.step != wanted:
                return False
        self.line = event.start_mark.line + 1
        return True

    def _step_on(self, key: Any) -> None:
        """A key, a value or an entry has ended."""
        if not self._inside:
            return
        top = self._inside[-1]
        if not top.is_mapping:
            top.step += 1
        else:
            top.step = _NO_KEY if top.step is not _NO_KEY else key if key is not _NO_KEY else None


# JSON to values: decoded first, which is fast and safe at any depth, then measured.

_KEY = re.compile(rb'"\s*:')
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)  # matches from every quote: one pass
_COLLECTION = re.compile(rb"[ \t\r\n]*[\[{]")
_TOO_LARGE = 10**MAX_DIGITS


class NotJson(DocumentError):
    """It may still be YAML."""


def read(body: bytes, limits: Limits) -> Any:
    """The value of a text; raises NotJson for what is none, another DocumentError for what is too much."""
    _check_values(body, limits)
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep(limits) from None
    except msgspec.ValidationError:
        raise DocumentError(f"found a number beyond what a double can hold, allowed: {MAX_DIGITS} digits") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson(f"not JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
    if len(_KEY.findall(body)) != _measure(value, limits):
        _refuse_repeated_keys(body)
    return value


def _check_values(body: bytes, limits: Limits) -> None:
    """Each value is the first of its collection or stands behind a comma; texts may hold commas as well."""
    if not _COLLECTION.match(body) or _separators(body) <= limits.values:
        return
    if _separators(_TEXT.sub(b"", body)) > limits.values:
        raise DocumentError(f"found more than {limits.values} values, allowed: at most {limits.values}")


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{") + 1


def _measure(value: Any, limits: Limits) -> int:
    """The number of keys, level by level."""
    keys = depth = 0
    level = [value]
    while level:
        if depth >= limits.depth and any(one.__class__ in (dict, list) for one in level):
            raise _too_deep(limits)
        below: list[Any] = []
        for one in level:
            kind = one.__class__
            if kind is dict:
                keys += len(one)
                below += one.values()
            elif kind is list:
                below += one
            elif kind is int and not -_TOO_LARGE < one < _TOO_LARGE:
                raise DocumentError(f"found {show(one)}, allowed: {MAX_DIGITS} digits")
        level = below
        depth += 1
    return keys


def _refuse_repeated_keys(body: bytes) -> None:
    """The decoder takes the last of equal keys. Texts that hold `":` look the same from afar, and pass here."""
    json.loads(body, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DocumentError(f"found the key {show(key)} again, allowed: each key once")
        seen.add(key)


def _too_deep(limits: Limits) -> DocumentError:
    return DocumentError(f"found nesting beyond {limits.depth} levels, allowed: at most {limits.depth}")


T = TypeVar("T")

_PIECE = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def read_bounded(stream: BinaryIO, where: str = "", limits: Limits = FILE) -> bytes:
    """The content of a file that was opened for reading; no more is read than may be, nor room made for it before."""
    body = bytearray()
    while len(body) <= limits.bytes and (piece := stream.read(min(_PIECE, limits.bytes + 1 - len(body)))):
        body += piece
    return _checked(bytes(body), where, limits)


def read_documents(body: bytes | str, where: str = "", limits: Limits = FILE) -> list[Any]:
    """Every document of a YAML or JSON text, in order; an empty document is None. Raises DocumentError."""
    try:
        return _documents(_checked(body, "", limits), limits)
    except DocumentError as error:
        raise error.at(where) from None


def read_document(body: bytes | str, where: str = "", limits: Limits = FILE) -> Any:
    """The one document of a YAML or JSON text, None where there is none. Raises DocumentError."""
    try:
        found = _documents(_checked(body, "", limits), replace(limits, documents=1))
    except DocumentError as error:
        raise error.at(where) from None
    return found[0] if found else None


def read_json(body: bytes | str, where: str = "", limits: Limits = FILE) -> Any:
    """The value of a JSON text. Raises DocumentError."""
    try:
        return read(_checked(body, "", limits), limits)
    except DocumentError as error:
        raise error.at(where) from None


def read_json_as(body: bytes | str, shape: type[T], where: str = "", limits: Limits = FILE) -> T:
    """A JSON text as a value of this type. Raises DocumentError."""
    value = read_json(body, where, limits)
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise DocumentError(str(error), where) from None


def _documents(body: bytes, limits: Limits) -> list[Any]:
    """JSON is YAML too and read a hundred times faster; where it cannot be read, the other reader knows the line."""
    try:
        return [read(body, limits)]
    except NotJson:
        return yaml_text.read(body, limits)
    except DocumentError as error:
        yaml_text.read(body, limits)
        raise error from None


def _checked(body: bytes | str, where: str, limits: Limits) -> bytes:
    """UTF-8 of an allowed size, without the mark that says so."""
    if len(body) > limits.bytes:
        raise DocumentError(f"found more than {limits.size}, allowed: at most {limits.size}", where)
    try:
        if isinstance(body, str):
            return _checked(body.encode(), where, limits)
        body.decode()
    except UnicodeEncodeError as error:
        raise DocumentError(f"is not UTF-8 text: {error.reason} at character {error.start}", where) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"is not UTF-8 text: {error.reason} at byte {error.start}", where, line) from None
    return body.removeprefix(_BOM)
