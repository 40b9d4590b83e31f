"""The line where a field is written, for a message."""

from __future__ import annotations

from typing import Any

import yaml

from spinney.api.documents.errors import DocumentError
from spinney.api.documents.yaml_text import events

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
