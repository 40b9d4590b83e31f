"""What one version says and the other cannot, carried in an annotation so that the way back restores it.

A part that was not changed in between comes back exactly, known by its digest. A changed part is converted anew and
gets back the fields that nobody edited and those that have no counterpart: an edit is never undone by what was kept,
and an edit of one field changes no other.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from spinney.api.documents import BODY, DocumentError, read_json_as

Part = dict[str, Any]

_ENCODER = msgspec.json.Encoder(order="sorted")


class KeptPart(msgspec.Struct, frozen=True):
    """One service or component as it was, and the digest of what it became."""

    digest: str
    part: Part


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an object for its own version: single fields, parts, their order, or all of it."""

    of: str = ""
    rest: Part = msgspec.field(default_factory=dict)
    parts: dict[str, KeptPart] = msgspec.field(default_factory=dict)
    order: tuple[str, ...] = ()
    digest: str = ""
    whole: Part | None = None

    def restored(self, current: Part) -> Part | None:
        """The whole original, if what it became is unchanged."""
        return self.whole if self.whole is not None and self.digest == digest(current) else None


NOTHING = Kept()


def digest(part: Any) -> str:
    """The same for equal JSON values, whatever the order of their keys."""
    return hashlib.sha256(_ENCODER.encode(part)).hexdigest()[:16]


def take(metadata: Part, annotation: str, version: str) -> Kept:
    """Removes the annotation; its content if it was kept for that version and can be read, else nothing."""
    annotations = metadata.get("annotations") or {}
    if annotation not in annotations:
        return NOTHING
    text = annotations.pop(annotation)
    if not annotations:
        metadata.pop("annotations")
    try:
        kept = read_json_as(text, Kept, limits=BODY)
    except (DocumentError, TypeError):
        return NOTHING
    return kept if kept.of == version else NOTHING


def put(metadata: Part, annotation: str, kept: Kept) -> None:
    """Writes the annotation; nothing to keep leaves none."""
    if kept != NOTHING:
        metadata.setdefault("annotations", {})[annotation] = _ENCODER.encode(kept).decode()
