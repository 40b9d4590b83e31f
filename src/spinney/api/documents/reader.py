"""Bytes to values: the size first, then JSON where it looks like it, else YAML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, BinaryIO, TypeVar

import msgspec

from spinney.api.documents import json_text, yaml_text
from spinney.api.documents.errors import DocumentError
from spinney.api.documents.limits import FILE, Limits

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
        return json_text.read(_checked(body, "", limits), limits)
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
        return [json_text.read(body, limits)]
    except json_text.NotJson:
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
