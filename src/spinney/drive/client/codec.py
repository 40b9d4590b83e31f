"""Decodes the server's answers: single objects, pages of lists, and lines of a watch.

Never lets one object of an unexpected shape hide the others: it is reported as broken, the rest is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from spinney.drive.client.errors import Status, Undecodable
from spinney.drive.client.paths import Key

T = TypeVar("T")


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """One change of one object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


@dataclass(frozen=True, slots=True)
class Broken:
    """An object that exists but cannot be decoded. `node` is the node of a bound pod."""

    key: Key
    version: str
    deleted: bool
    problem: str
    uid: str = ""
    node: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(slots=True)
class Batch(Generic[T]):
    """The content of some watch lines; the bookmark applies after the events, the failure ends the watch."""

    events: list[WatchEvent[T]] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    bookmark: str = ""
    failure: Status | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `first` starts a list, also after an earlier attempt was abandoned."""

    items: tuple[T, ...]
    version: str
    next_token: str
    broken: tuple[Broken, ...] = ()
    first: bool = False


class _ListMeta(msgspec.Struct, gc=False, rename={"resource_version": "resourceVersion", "next_token": "continue"}):
    resource_version: str = ""
    next_token: str = ""


class _List(msgspec.Struct, Generic[T], gc=False, rename="camel"):
    metadata: _ListMeta
    items: tuple[T, ...] | None = None
    kind: str = ""
    api_version: str = ""


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Headed(msgspec.Struct, gc=False):
    metadata: _Meta


class _Annotated(msgspec.Struct, gc=False):
    annotations: dict[str, str] = {}


class _BoundSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Annotations(msgspec.Struct, gc=False):
    metadata: _Annotated


class _Bound(msgspec.Struct, gc=False):
    spec: _BoundSpec


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_ENVELOPES = msgspec.json.Decoder(_Envelope)
_HEADS = msgspec.json.Decoder(_Headed)
_RAW_LISTS = msgspec.json.Decoder(_List[msgspec.Raw])
_STATUSES = msgspec.json.Decoder(Status)
_ANNOTATIONS = msgspec.json.Decoder(_Annotations)
_BINDINGS = msgspec.json.Decoder(_Bound)

_DEEPEST = 256
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_CUT = b'"\\u0000nested too deep"'
_UNREADABLE = (msgspec.ValidationError, RecursionError)

_CODECS: dict[type[Any], Codec[Any]] = {}


class Codec(Generic[T]):
    """The decoders for one kind, built once."""

    def __init__(self, kind: type[T]) -> None:
        self._objects: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._lists: msgspec.json.Decoder[_List[T]] = msgspec.json.Decoder(_List[kind])  # type: ignore[valid-type]
        self._events: msgspec.json.Decoder[WatchEvent[T]] = msgspec.json.Decoder(WatchEvent[kind])  # type: ignore[valid-type]

    def one(self, body: bytes, about: str) -> T:
        try:
            return self._objects.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Undecodable(f"{about}: {error}") from error

    def one_or_broken(self, body: bytes, about: str) -> T | Broken:
        """The object, or the identity of an object that cannot be decoded."""
        try:
            return self._object_or_broken(msgspec.Raw(body), about, deleted=False)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{about}: {error}") from error

    def page(self, body: bytes, about: str) -> Page[T]:
        try:
            read = self._lists.decode(body)
        except _UNREADABLE:
            return self._page_by_item(body, about)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{about}: {error}") from error
        items = read.items or ()
        if items and isinstance(items[0], dict):
            _name_kinds(cast(tuple[dict[str, Any], ...], items), read.kind, read.api_version)
        return Page(items, read.metadata.resource_version, read.metadata.next_token)

    def events(self, lines: bytes | memoryview, about: str) -> Batch[T]:
        """Whole lines of a watch. The fast decoder fails on bookmarks and errors; then each line is decoded alone."""
        try:
            return Batch(self._events.decode_lines(lines))
        except _UNREADABLE:
            return self._events_by_line(lines, about)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{about}: {error}") from error

    def _page_by_item(self, body: bytes, about: str) -> Page[T]:
        try:
            read = _with_depth(_RAW_LISTS.decode, body)
        except msgspec.MsgspecError as error:
            raise Undecodable(f"{about}: {error}") from error
        items: list[T] = []
        broken: list[Broken] = []
        for raw in read.items or ():
            found = self._object_or_broken(raw, about, deleted=False)
            if isinstance(found, Broken):
                broken.append(found)
            else:
                items.append(found)
        return Page(tuple(items), read.metadata.resource_version, read.metadata.next_token, tuple(broken))

    def _events_by_line(self, lines: bytes | memoryview, about: str) -> Batch[T]:
        batch: Batch[T] = Batch()
        try:
            envelopes = _with_depth(_ENVELOPES.decode_lines, lines)
            for envelope in envelopes:
                self._add_envelope(batch, envelope, about)
        except msgspec.MsgspecError as error:
            raise Undecodable(f"{about}: {error}") from error
        return batch

    def _add_envelope(self, batch: Batch[T], envelope: _Envelope, about: str) -> None:
        match envelope.type:
            case "BOOKMARK":
                batch.bookmark = _HEADS.decode(envelope.object).metadata.resource_version
            case "ERROR":
                batch.failure = batch.failure or _STATUSES.decode(envelope.object)
            case "ADDED" | "MODIFIED" | "DELETED" as change:
                found = self._object_or_broken(envelope.object, about, deleted=change == "DELETED")
                if isinstance(found, Broken):
                    batch.broken.append(found)
                else:
                    batch.events.append(WatchEvent(change, found))
            case other:
                raise Undecodable(f"{about}: watch event type: found {other!r}, expected one that Kubernetes has")

    def _object_or_broken(self, raw: msgspec.Raw, about: str, *, deleted: bool) -> T | Broken:
        try:
            if _CUT in bytes(raw):
                raise msgspec.ValidationError(f"Nested deeper than {_DEEPEST} levels")
            return self._objects.decode(raw)
        except _UNREADABLE as error:
            try:
                return _broken(raw, str(error), deleted=deleted)
            except msgspec.ValidationError:
                raise Undecodable(f"{about}: {error}") from error


def _broken(raw: msgspec.Raw, problem: str, *, deleted: bool) -> Broken:
    """The identity of an undecodable object, with its annotations and node as far as they can be decoded."""
    meta = _with_depth(_HEADS.decode, raw).metadata
    annotations: Mapping[str, str] = {}
    node = ""
    with suppress(*_UNREADABLE):
        annotations = _ANNOTATIONS.decode(raw).metadata.annotations
    with suppress(*_UNREADABLE):
        node = _BINDINGS.decode(raw).spec.node_name
    return Broken((meta.namespace, meta.name), meta.resource_version, deleted, problem, meta.uid, node, annotations)


def _with_depth(decode: Callable[[Any], T], text: Any) -> T:
    """Decode; if it is nested too deeply, decode it without the deepest parts."""
    try:
        return decode(text)
    except RecursionError:
        return decode(_shallow(bytes(text)))


def _shallow(text: bytes) -> bytes:
    """The same JSON without parts nested too deeply for the decoder. Linear and not recursive."""
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKENS.finditer(text):
        match text[token.start()]:
            case 0x5B | 0x7B:
                depth += 1
                if depth == _DEEPEST + 1:
                    kept.append(text[start : token.start()])
            case 0x5D | 0x7D:
                if depth == _DEEPEST + 1:
                    kept.append(_CUT)
                    start = token.end()
                depth -= 1
    return b"".join((*kept, text[start:])) if kept else text


def codec_for(kind: type[T]) -> Codec[T]:
    """The decoders of a kind, built once; `dict` gives plain JSON values."""
    found = _CODECS.get(kind)
    if found is None:
        found = _CODECS[kind] = Codec(cast(type[Any], dict[str, Any]) if kind is dict else kind)
    return found


def read_status(code: int, body: bytes) -> Status:
    """The server's Status, or one built from an answer that has none (a proxy's page, an empty body)."""
    try:
        status = _STATUSES.decode(body)
    except msgspec.MsgspecError:
        return Status(code=code, message=body[:200].decode("utf-8", "replace").strip())
    return status if status.code else msgspec.structs.replace(status, code=code)


def _name_kinds(items: tuple[dict[str, Any], ...], list_kind: str, api_version: str) -> None:
    """Set kind and apiVersion on list items: items of built-in lists lack them, single objects have them."""
    kind = list_kind.removesuffix("List")
    for item in items:
        item.setdefault("kind", kind)
        item.setdefault("apiVersion", api_version)
