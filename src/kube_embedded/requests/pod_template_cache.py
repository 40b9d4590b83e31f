"""Pods like others before them: what the server found out about a spec is kept for the next pod that brings it.

Kept is only what passed every rule without a warning, and it is found by its whole text, never by likeness. What
admission makes of a spec depends on other objects too: `forget` must be called when one of those changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_embedded.base.http import JSON_TYPE, decode_json, encode_json
from kube_embedded.builtins.decode import node_of
from kube_embedded.builtins.scalars import TypeMismatch
from kube_embedded.requests.bodies import TooDeep, count_keys, media_type
from kube_embedded.requests.kernel import Call

MAX_KEPT = 256
MAX_SEEN = 4096
MAX_BODY_BYTES = 16 * 1024
_POD = "io.k8s.api.core.v1.Pod"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LABEL = rb"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOLE = re.compile(rb'("(?:value": ?"(?=[ !#-\[\]-~]++"\})|(?:hostname|subdomain)": ?"(?=' + _LABEL + rb'")))([^"]++)')
"""What differs between the pods of a workload: values of variables, which may be any text, and names of hosts."""

Admits = Callable[[AdmissionRequest], bool]
"""Whether admission looks at nothing but the spec and what `forget` is called for; the object has metadata alone."""


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: Literal["v1"]
    kind: Literal["Pod"]
    metadata: dict[str, Any]
    spec: msgspec.Raw


_sent = msgspec.json.Decoder(_Sent)
_KEYS = len(_Sent.__struct_fields__)
Key = tuple[str, tuple[bytes, ...]]


class CachedTemplate(msgspec.Struct, frozen=True, eq=False):
    """What became of a spec."""

    stored: tuple[bytes, ...]  # the text before a hole, its name, its content; and so on
    owned: msgspec.Raw  # the fields of the spec in managedFields
    spec: Object  # of the first such pod, as stored; must not be changed
    selectable: dict[str, str]
    colons: int  # behind quotes, in the text that was sent: as many as there are keys, unless some are in values


class CachedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod to be created whose spec differs from a known one in nothing that matters."""

    metadata: Object
    spec: msgspec.Raw
    known: CachedTemplate


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A pod whose spec is to be known from now on, if nothing is found against it."""

    key: Key
    text: bytes


class PodTemplateCache:
    """Knows specs that came more than once. The oldest is dropped when there are too many."""

    def __init__(self, admits: Admits) -> None:
        self._admits = admits
        self._known: dict[Key, CachedTemplate] = {}
        self._seen: set[int] = set()  # hashes: they only tell what may be worth keeping

    def forget(self) -> None:
        self._known.clear()

    def find(self, call: Call, body: bytes) -> CachedPod | Candidate | None:
        """What the pod in a body is; None where something about it is out of the ordinary."""
        if not _is_usual(call, body):
            return None
        try:
            sent = _sent.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        text = bytes(sent.spec)
        shape, contents = _cut(text)
        key = (call.target.namespace, shape)
        known = self._known.get(key)
        if known is not None:
            found = _cached_pod(known, sent.metadata, contents, body)
            return found if found is not None and self._goes_by_spec(call, found.metadata) else None
        return Candidate(key, text) if self._came_before(key) and self._goes_by_spec(call, sent.metadata) else None

    def _came_before(self, key: Key) -> bool:
        mark = hash(key)
        if mark in self._seen:
            return True
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        self._seen.add(mark)
        return False

    def _goes_by_spec(self, call: Call, metadata: Object) -> bool:
        """Whether another pod with this spec would fare as this one does, and nobody minds what its metadata says."""
        if call.query.get("fieldValidation") == "Ignore":
            return False
        place, who = call.target.namespace, call.identity
        return self._admits(
            AdmissionRequest(
                *("", "CREATE", "", "v1", "Pod", "pods", "", place, "", who.name, who.groups),
                {"metadata": metadata},
                None,
            )
        )

    def keep(self, call: Call, candidate: Candidate, pod: Object) -> None:
        """Remember what became of a candidate. Nothing else may have happened since it was found."""
        entries, stored = pod["metadata"].get("managedFields"), encode_json(pod["spec"])
        if call.warnings or not entries or not _is_free(candidate.text, stored):
            return
        if len(self._known) >= MAX_KEPT:
            del self._known[next(iter(self._known))]
        owned = msgspec.Raw(encode_json(entries[0]["fieldsV1"]["f:spec"]))
        selectable = call.resource.strategy.selectable(pod)
        colons = candidate.text.count(b'":')
        self._known[candidate.key] = CachedTemplate(tuple(_HOLE.split(stored)), owned, pod["spec"], selectable, colons)


def is_pod(call: Call) -> bool:
    return call.resource.schema_name == _POD


def _is_usual(call: Call, body: bytes) -> bool:
    return len(body) <= MAX_BODY_BYTES and not call.dry_run and media_type(call.content_type) in ("", JSON_TYPE)


def _cached_pod(known: CachedTemplate, metadata: Object, contents: list[bytes], body: bytes) -> CachedPod | None:
    try:
        if body.count(b'":') != _KEYS + count_keys(metadata) + known.colons:
            return None  # a key may be there twice
        metadata = node_of(_META).walk(metadata)
    except (TooDeep, TypeMismatch):
        return None
    return CachedPod(metadata, _filled(known.stored, contents), known)


def _cut(text: bytes) -> tuple[tuple[bytes, ...], list[bytes]]:
    """A spec without what is in its holes, and that."""
    parts: list[bytes] = _HOLE.split(text)
    contents = parts[2::3]
    del parts[2::3]
    return tuple(parts), contents


def _filled(stored: tuple[bytes, ...], contents: list[bytes]) -> msgspec.Raw:
    parts = list(stored)
    parts[2::3] = contents
    return msgspec.Raw(b"".join(parts))


def _is_free(sent: bytes, stored: bytes) -> bool:
    """Whether every hole is what it looks like and only moves its content: put a mark into each and look for it."""
    cuts = _HOLE.split(sent), _HOLE.split(stored)
    marks = [f"mark{number}" for number in range(len(cuts[0]) // 3)]
    if len(cuts[0]) != len(cuts[1]):
        return False
    for parts in cuts:
        parts[2::3] = [mark.encode() for mark in marks]
    try:
        before, after = (decode_json(b"".join(parts)) for parts in cuts)
    except UnicodeDecodeError:
        return False
    found = _contents(before)
    return found == _contents(after) and set(marks) <= set(found)


def _contents(spec: Object) -> list[str | None]:
    """What is where holes may be."""
    values = [one.get("value") for env in _environments(spec) for one in env]
    return [one or None for one in (spec.get("hostname"), spec.get("subdomain"), *values)]


def _environments(spec: Object) -> list[list[Object]]:
    return [
        container.get("env") or [] for name in ("initContainers", "containers") for container in spec.get(name) or ()
    ]
