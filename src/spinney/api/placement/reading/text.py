"""Text to plain values: JSON, which is fast, or YAML."""

from __future__ import annotations

from typing import Any

from spinney.api import documents
from spinney.api.documents import DocumentError, Limits
from spinney.api.placement.reading.unreadable import Path, Unreadable

PROBLEM = Limits(bytes=1024 * 1024 * 1024, depth=500, values=100_000_000, aliased=1_000_000, text_keys=True)
"""A cluster of a hundred thousand nodes with all that runs on it, and groups in groups."""


def decode_json(body: bytes) -> Any:
    """The value of a JSON text; raises Unreadable."""
    try:
        return documents.read_json(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def decode_text(body: bytes) -> Any:
    """The value of a JSON or YAML text in UTF-8; raises Unreadable, with the line where one is known."""
    try:
        return documents.read_document(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def line_of(body: bytes, path: Path) -> int | None:
    """The line where a field is written, if it can be found."""
    return documents.line_of(body, path)
