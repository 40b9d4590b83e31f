"""The types that CEL rules see, made from the schema of a custom resource, and values as CEL shall see them.

Names are those that CEL can spell; fields of unknown content have no type and cannot be named in a rule. Only the parts
of a value that an expression looks at are handed over.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_embedded.schema.model import Raw

RESERVED = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its name; lists and optionals have an element, maps a key and an element, objects fields."""

    name: str
    element: Type | None = None
    key: Type | None = None
    fields: Mapping[str, Type] = field(default_factory=dict)
    adapted: bool = False  # values differ from the JSON they come from
    unordered: bool = False  # a list that equals another whatever the order
    originals: Mapping[str, str] = field(default_factory=dict)  # of the fields whose names are escaped


DYN, BOOL, INT, STRING = Type("dyn"), Type("bool"), Type("int"), Type("string")
RAW_TIMESTAMP = Type("timestamp", adapted=True)  # still text; read as a time wherever it is named
RAW_DURATION = Type("duration", adapted=True)
_NUMBER = Type("double", adapted=True)  # JSON does not tell 1 from 1.0
_RAW_BYTES = Type("bytes", adapted=True)
_META = Type("object", fields={"name": STRING, "generateName": STRING})


def list_of(element: Type) -> Type:
    return Type("list", element, adapted=element.adapted)


def map_of(key: Type, element: Type) -> Type:
    return Type("map", element, key, adapted=element.adapted)


def optional_of(element: Type) -> Type:
    return Type("optional_type", element)


def escape(name: str) -> str | None:
    """A property name as rules write it; None when it cannot be written."""
    if not name or name[0].isdecimal():
        return None
    if name in RESERVED:
        return f"__{name}__"
    if re.search(r"[^a-zA-Z0-9_./-]", name):
        return None
    return re.sub(r"__|[-./]", lambda found: _ESCAPED[found.group()], name)


def declared(raw: Raw, root: bool = False) -> Type | None:
    """The type of a schema; `root` adds what every object has. None where rules cannot see the value."""
    if raw.get("x-kubernetes-int-or-string"):
        return DYN
    match raw.get("type"):
        case "array":
            items = raw.get("items")
            element = declared(items, bool(items.get("x-kubernetes-embedded-resource"))) if items else None
            if element is None:
                return None
            unordered = raw.get("x-kubernetes-list-type") == "set"
            return Type("list", element, adapted=element.adapted, unordered=unordered)
        case "object":
            return _declared_object(raw, root)
        case "string":
            return _FORMATS.get(raw.get("format", ""), STRING)
        case name:
            return {"boolean": BOOL, "number": _NUMBER, "integer": INT}.get(str(name))


_FORMATS = {"byte": _RAW_BYTES, "duration": RAW_DURATION, "date": RAW_TIMESTAMP, "date-time": RAW_TIMESTAMP}


def _declared_object(raw: Raw, root: bool) -> Type | None:
    additional = raw.get("additionalProperties")
    if isinstance(additional, dict):
        element = declared(additional, bool(additional.get("x-kubernetes-embedded-resource")))
        return map_of(STRING, element) if element is not None else None
    fields: dict[str, Type] = {}
    originals: dict[str, str] = {}
    adapted = False
    for name, value in raw.get("properties", {}).items():
        known = declared(value, bool(value.get("x-kubernetes-embedded-resource")))
        spelled = escape(name)
        if known is not None and spelled is not None:
            fields[spelled] = known
            adapted = adapted or known.adapted or spelled != name
            if spelled != name:
                originals[spelled] = name
    if root:
        fields |= {"apiVersion": STRING, "kind": STRING, "metadata": _metadata(fields.get("metadata"))}
    return Type("object", fields=fields, adapted=adapted, originals=originals)


def _metadata(known: Type | None) -> Type:
    """Of its metadata a rule sees the names only."""
    return known if known is not None and {"name", "generateName"} <= known.fields.keys() else _META


def adapt(value: Any, kind: Type) -> Any:
    """A JSON value as CEL shall see it: escaped names, floats for numbers, bytes for base64, times still as text."""
    if not kind.adapted or value is None:
        return value
    match kind.name:
        case "object" if isinstance(value, dict):
            return _adapt_object(value, kind)
        case "map" if isinstance(value, dict) and kind.element is not None:
            return {key: adapt(child, kind.element) for key, child in value.items()}
        case "list" if isinstance(value, list) and kind.element is not None:
            return [adapt(child, kind.element) for child in value]
        case "double" if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        case "bytes" | "timestamp" | "duration" if isinstance(value, str):
            return _adapt_text(value, kind.name)
        case _:
            return value


def _adapt_object(value: dict[str, Any], kind: Type) -> dict[str, Any]:
    adapted = {}
    for name, child in value.items():
        spelled = escape(name)
        if spelled is not None and (known := kind.fields.get(spelled)) is not None:
            adapted[spelled] = adapt(child, known)
            if name in RESERVED:
                adapted[name] = adapted[spelled]
    return adapted


def _adapt_text(value: str, name: str) -> Any:
    match name:
        case "bytes":
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error:
                return value
        case "timestamp":
            return f"{value}T00:00:00Z" if len(value) == 10 else value
        case _:
            return value


@dataclass(slots=True)
class Use:
    """A part of a value: looked at as a whole, by some of its fields, or through each of its elements."""

    whole: bool = False
    fields: dict[str, Use] = field(default_factory=dict)
    each: Use | None = None

    def at(self, name: str) -> Use:
        spelled = f"__{name}__" if name in RESERVED else name
        return self.fields.setdefault(spelled, Use())

    def element(self) -> Use:
        if self.each is None:
            self.each = Use()
        return self.each


_UNUSED = Use()


def project(value: Any, kind: Type, use: Use) -> Any:
    """The used part of a value, as CEL shall see it."""
    if use.whole or value is None:
        return adapt(value, kind)
    match kind.name:
        case "object" if isinstance(value, dict):
            return _project_object(value, kind, use)
        case "map" if isinstance(value, dict) and kind.element is not None:
            element, each = kind.element, use.each or _UNUSED
            return {key: project(child, element, each) for key, child in value.items()}
        case "list" if isinstance(value, list) and kind.element is not None:
            element, each = kind.element, use.each or _UNUSED
            return [project(child, element, each) for child in value]
        case _:
            return adapt(value, kind)


def _project_object(value: dict[str, Any], kind: Type, use: Use) -> dict[str, Any]:
    projected = {}
    for spelled, inner in use.fields.items():
        name = kind.originals.get(spelled, spelled)
        if name in value and spelled in kind.fields:
            projected[spelled] = project(value[name], kind.fields[spelled], inner)
            if name in RESERVED:
                projected[name] = projected[spelled]
    return projected
