"""The snapshot of Kubernetes' built-in kinds: their schemas, and the facts of their Go types.

It is read once, on first use, and never changed afterwards. Written by `tools/openapi_snapshot.py`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from kube_embedded.schema.model import Compiler, Raw, Schema

GoField = tuple[str, str, Any]
"""Go type, `o` for omitempty and `z` for omitzero, protobuf number (or `[outer, inner, struct]` when embedded)."""


_REF = "#/components/schemas/"


class _Snapshot(msgspec.Struct):
    components: dict[str, Raw]
    fields: dict[str, dict[str, GoField]]


@cache
def _snapshot() -> _Snapshot:
    packed = resources.files(__package__).joinpath("openapi.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=_Snapshot)


def components() -> dict[str, Raw]:
    """All component schemas by name, in OpenAPI form."""
    return _snapshot().components


def components_for(names: Iterable[str]) -> dict[str, Raw]:
    """These components and every one that they refer to."""
    everything = components()
    found: dict[str, Raw] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name not in found and name in everything:
            found[name] = everything[name]
            wanted.extend(_references(everything[name]))
    return found


def _references(raw: Any) -> Iterator[str]:
    if isinstance(raw, dict):
        for key, value in raw.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(raw, list):
        for one in raw:
            yield from _references(one)


def go_fields(component: str) -> dict[str, GoField]:
    """The fields of a component's Go struct; empty for a component that is no struct."""
    return _snapshot().fields.get(component, {})


@cache
def _compiler() -> Compiler:
    return Compiler(components())


def schema(component: str) -> Schema:
    """The compiled schema of a component."""
    return _compiler().named(component)


@cache
def _by_kind() -> dict[tuple[str, str, str], str]:
    return {
        (one["group"], one["version"], one["kind"]): name
        for name, raw in components().items()
        for one in raw.get("x-kubernetes-group-version-kind", ())
    }


def component_of(group: str, version: str, kind: str) -> str | None:
    """The component of a kind that the snapshot knows, or None."""
    return _by_kind().get((group, version, kind))
