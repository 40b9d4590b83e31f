"""Warnings as the Warning headers of an answer: each once, and never more than a client can be expected to read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_TOTAL = 4 * 1024
_EACH = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    """The values of the headers, in order.

    All in full where they fit together, else the beginning of each until the room is used up. A text with control
    characters cannot be a header and is left out.
    """
    unique = [text for text in dict.fromkeys(texts) if text and not _has_control(text)]
    if sum(map(len, unique)) <= _TOTAL:
        return [_header(text) for text in unique]
    headers, used = [], 0
    for text in unique:
        if used >= _TOTAL:
            break
        headers.append(_header(text[:_EACH]))
        used += min(len(text), _EACH)
    return headers


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in text)


def _header(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
