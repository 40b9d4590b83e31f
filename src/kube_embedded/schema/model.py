"""The compiled schema of a kind: what every walk over an object (prune, default, merge, own) needs at each step.

Built-in kinds and custom resources compile to this one form, which is never changed afterwards. The schema of a custom
resource must have passed the checks of its definition. The schema of `metadata` and of objects embedded in others is
here too; names and labels of the object itself are checked by the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from kube_apimachinery import name_validation
from kube_apimachinery.field_errors import FieldError, invalid, required

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


def complete(schema: Schema) -> Schema:
    """Embedded objects have the metadata of any object; `additionalProperties: true` keeps scalars only."""
    if schema.additional is ANYTHING:
        schema.additional = Schema(shape=Shape.OBJECT)
    for child in (*schema.properties.values(), schema.additional, schema.items):
        if child is not None:
            complete(child)
    if schema.embedded:
        schema.properties = {**schema.properties, **TYPE_AND_META}
        schema.shape = Shape.OBJECT
    return schema


_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


# Paths to fields as definitions write them (`.spec.name`, `.labels['a.b']`), checked against a schema.


class BadFieldPath(ValueError):
    """A path that leads to no field of the schema."""


def resolve(path: str, raw: Raw, arrays: bool = True) -> tuple[str, Raw]:
    """The path as errors show it, and the schema it leads to; raises `BadFieldPath`."""
    tokens = _TOKEN.findall(path)
    shown, schema, at = "", raw, 0
    while at < len(tokens):
        token = tokens[at]
        if token == "[":
            if not arrays:
                raise BadFieldPath("array notation is not allowed")
            name = _quoted(_token(tokens, at + 1))
            if _token(tokens, at + 2) != "]":
                raise BadFieldPath(f"expected ] but got {tokens[at + 2]}")
            at += 3
        elif token == ".":
            name = _token(tokens, at + 1)
            at += 2
        else:
            raise BadFieldPath(f"expected [ or . but got: {token}")
        shown, schema = _step(shown, schema, name)
    return shown, schema


def _token(tokens: list[str], at: int) -> str:
    if at >= len(tokens):
        raise BadFieldPath("unexpected end of JSON path")
    return tokens[at]


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise BadFieldPath(f"expected single quoted string but got {token}")
    return re.sub(r"\\(.)", _unescaped, token[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    if found[1] not in _ESCAPES:
        raise BadFieldPath(f"invalid string literal: invalid escape char {found[0]}")
    return _ESCAPES[found[1]]


def _step(shown: str, schema: Raw, name: str) -> tuple[str, Any]:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise BadFieldPath("does not refer to a valid field")
        return f"{shown}.{name}" if shown else name, properties[name]
    if isinstance(additional, dict):
        return f"{shown}[{name}]", additional
    raise BadFieldPath("does not refer to a valid field")


_STRING: Raw = {"type": "string"}
_TIME: Raw = {"type": "string", "format": "date-time"}
_STRINGS: Raw = {"type": "object", "additionalProperties": _STRING}
OBJECT_META_RAW: Raw = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": {**_TIME, "nullable": True},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
        "deletionTimestamp": {**_TIME, "nullable": True},
        "finalizers": {
            "type": "array",
            "items": _STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _STRING,
        "generation": {"type": "integer", "format": "int64"},
        "labels": _STRINGS,
        "managedFields": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _STRING,
                    "fieldsType": _STRING,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "manager": _STRING,
                    "operation": _STRING,
                    "subresource": _STRING,
                    "time": _TIME,
                },
            },
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-merge-key": "uid",
            "x-kubernetes-patch-strategy": "merge",
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": _STRING,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": _STRING,
                    "name": _STRING,
                    "uid": _STRING,
                },
            },
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
OBJECT_META: Schema = Compiler().compile(OBJECT_META_RAW)
STRING: Schema = Compiler().compile(_STRING)
TYPE_AND_META: Mapping[str, Schema] = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META}


def validate_embedded(obj: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Every embedded resource has an apiVersion and a kind."""
    errors: list[FieldError] = []
    if isinstance(obj, dict):
        if schema.embedded:
            errors += _type_errors(obj, path)
        for key, child in obj.items():
            if key in schema.properties:
                errors += validate_embedded(child, schema.properties[key], f"{path}.{key}" if path else key)
            elif schema.additional is not None:
                errors += validate_embedded(child, schema.additional, f"{path}[{key}]")
    elif isinstance(obj, list) and schema.items is not None:
        for index, child in enumerate(obj):
            errors += validate_embedded(child, schema.items, f"{path}[{index}]")
    return errors


def _type_errors(obj: dict[str, Any], path: str) -> list[FieldError]:
    prefix = f"{path}." if path else ""
    errors = [required(f"{prefix}{key}") for key in ("apiVersion", "kind") if key not in obj]
    for key in ("apiVersion", "kind"):
        value = obj.get(key, "-")
        if not isinstance(value, str):
            errors.append(invalid(prefix + key, value, "must be a string"))
        elif not value:
            errors.append(invalid(prefix + key, value, "must not be empty"))
    kind = obj.get("kind")
    if isinstance(kind, str) and kind and (problems := name_validation.dns_1035_label(kind.lower())):
        words = "may have mixed case, but should otherwise match: "
        errors.append(invalid(f"{prefix}kind", kind, words + ",".join(problems)))
    version = obj.get("apiVersion")
    if isinstance(version, str) and version.count("/") > 1:
        errors.append(invalid(f"{prefix}apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return errors


def has_embedded(schema: Schema) -> bool:
    """Whether objects of this schema hold others; the schema must not recurse."""
    if schema.embedded:
        return True
    children = [*schema.properties.values(), schema.additional, schema.items]
    return any(has_embedded(child) for child in children if child is not None)
