"""The compiled schema of a kind: what every walk over an object (prune, default, merge, own) needs at each step.

Built-in kinds and custom resources compile to this one form. A schema is never changed after it was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

Json = Any
Raw = dict[str, Any]


class Shape(Enum):
    """What a value is, as far as walking it is concerned."""

    OBJECT = "object"  # named properties, and further ones by `additional`
    MAP = "map"  # only `additional`
    LIST = "list"
    SCALAR = "scalar"  # string, integer, number, boolean
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"  # a resource.Quantity: stored as its canonical string
    ANY = "any"  # arbitrary JSON


class ListType(Enum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(slots=True, eq=False, weakref_slot=True)
class Schema:
    """One node of the tree (a graph where kinds recurse). `raw` is the OpenAPI form it came from."""

    shape: Shape = Shape.ANY
    type: str = ""  # the JSON type of a scalar: string, integer, number, boolean
    format: str = ""
    properties: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Schema | None = None
    items: Schema | None = None
    list_type: ListType = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False  # x-kubernetes-map-type: atomic
    patch_merge_key: str = ""  # strategic merge: key of a merged list
    patch_strategies: frozenset[str] = frozenset()  # merge, replace, retainKeys
    has_default: bool = False
    default: Json = None
    nullable: bool = False
    preserve_unknown: bool = False
    embedded: bool = False  # x-kubernetes-embedded-resource
    defaulted: tuple[str, ...] = ()  # properties that have a default
    knows_all: Callable[[Json], bool] | None = None  # fast check that there is nothing to prune; may say no in doubt
    raw: Raw = field(default_factory=dict)


ANYTHING = Schema()
_QUANTITY_REF = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_ANY_REFS = ("io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1")
_REF_PREFIX = "#/components/schemas/"


class Compiler:
    """Turns OpenAPI v3 schemas into `Schema`s; references are resolved once and may be recursive."""

    def __init__(self, components: Mapping[str, Raw] | None = None) -> None:
        self._components = components or {}
        self._done: dict[str, Schema] = {}

    def named(self, name: str) -> Schema:
        """The schema of a component, for instance `io.k8s.api.core.v1.Pod`."""
        found = self._done.get(name)
        if found is None:
            found = self._done[name] = Schema()
            self._fill(found, self._components[name], name)
        return found

    def compile(self, raw: Raw) -> Schema:
        """The schema of an inline description; a pure reference gives the shared schema of its target."""
        target, overrides = _reference(raw)
        if target and not overrides:
            return self.named(target)
        schema = Schema()
        if target:
            base = self.named(target)
            for one in fields(Schema):
                setattr(schema, one.name, getattr(base, one.name))
            schema.raw = {**base.raw, **overrides}
            _fill_options(schema, overrides)
            return schema
        self._fill(schema, raw, "")
        return schema

    def _fill(self, schema: Schema, raw: Raw, name: str) -> None:
        schema.raw = raw
        _fill_options(schema, raw)
        if name == _QUANTITY_REF:
            schema.shape = Shape.QUANTITY
            return
        if name in _ANY_REFS:
            schema.preserve_unknown = True
            return
        schema.type = raw.get("type", "")
        schema.format = raw.get("format", "")
        if raw.get("x-kubernetes-int-or-string") or schema.format == "int-or-string":
            schema.shape = Shape.INT_OR_STRING
            return
        if schema.type == "array":
            schema.shape = Shape.LIST
            schema.items = self.compile(raw.get("items", {}))
            return
        additional = raw.get("additionalProperties")
        if schema.type == "object" or "properties" in raw or additional:
            schema.properties = {key: self.compile(value) for key, value in raw.get("properties", {}).items()}
            schema.required = tuple(raw.get("required", ()))
            schema.defaulted = tuple(key for key, value in schema.properties.items() if value.has_default)
            if isinstance(additional, dict):
                schema.additional = self.compile(additional)
            elif additional is True:
                schema.additional = ANYTHING
            if schema.properties or schema.additional is None:
                schema.shape = Shape.OBJECT
            else:
                schema.shape = Shape.MAP
            return
        if schema.type in ("string", "integer", "number", "boolean"):
            schema.shape = Shape.SCALAR


def _reference(raw: Raw) -> tuple[str, Raw]:
    """The component that a description refers to, and what it says beside the reference."""
    ref = raw.get("$ref")
    rest = {key: value for key, value in raw.items() if key not in ("$ref", "allOf", "description")}
    if ref is None and len(raw.get("allOf", ())) == 1:
        ref = raw["allOf"][0].get("$ref")
    if ref is None:
        return "", raw
    if rest.get("default") == {}:  # the generator's way to say "not a pointer"; real defaults are never empty
        rest.pop("default")
    return str(ref).removeprefix(_REF_PREFIX), rest


def _fill_options(schema: Schema, raw: Raw) -> None:
    if "default" in raw:
        schema.has_default = True
        schema.default = raw["default"]
    schema.nullable = bool(raw.get("nullable", schema.nullable))
    schema.preserve_unknown = bool(raw.get("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown))
    schema.embedded = bool(raw.get("x-kubernetes-embedded-resource", schema.embedded))
    if "x-kubernetes-list-type" in raw:
        schema.list_type = ListType(raw["x-kubernetes-list-type"])
        schema.list_keys = tuple(raw.get("x-kubernetes-list-map-keys", ()))
    if raw.get("x-kubernetes-map-type") == "atomic":
        schema.atomic_map = True
    if "x-kubernetes-patch-strategy" in raw:
        schema.patch_strategies = frozenset(str(raw["x-kubernetes-patch-strategy"]).split(","))
        schema.patch_merge_key = str(raw.get("x-kubernetes-patch-merge-key", ""))
