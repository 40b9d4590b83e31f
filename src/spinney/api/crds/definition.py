"""CRDs from typed objects: structural schemas from their markers, and the frame around them."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from spinney.api.meta import INT32_LIMIT, Kind, Removed, Rule, Slim

# Structural OpenAPI v3 schemas from typed objects and their markers.
#
# A field without words, or a list, map or string without a bound, is an error here and never reaches a server.

Schema = dict[str, Any]

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_OPAQUE = "x-kubernetes-preserve-unknown-fields"
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


class SchemaError(TypeError):
    """A type that cannot become a schema: our bug."""


def root_schema(kind: type[Kind]) -> Schema:
    """The schema of a whole object; the words are those of the type."""
    schema = object_schema(kind, path=kind.__name__, skip=("metadata",))
    schema["properties"] = {
        "apiVersion": {"description": "The group and version of this object's schema.", "type": "string"},
        "kind": {"description": "The kind of this object.", "type": "string"},
        "metadata": {"type": "object"},
        **schema["properties"],
    }
    return {"description": (kind.__doc__ or "").strip(), **schema}


def object_schema(kind: type[Slim], path: str, skip: tuple[str, ...] = ()) -> Schema:
    """The schema of a struct: its fields, its rules, and the fields that it once had."""
    fields = [one for one in msgspec.structs.fields(kind) if one.name not in skip]
    properties = {one.encode_name: field_schema(one.type, f"{path}.{one.encode_name}") for one in fields}
    removed: tuple[Removed, ...] = getattr(kind, "REMOVED", ())
    rules: tuple[Rule, ...] = (*getattr(kind, "RULES", ()), *(_refusal(one) for one in removed))
    properties |= {one.name: _removed_schema(one) for one in removed}
    schema: Schema = {"type": "object", "properties": properties}
    required = [one.encode_name for one in fields if one.required]
    if required:
        schema["required"] = required
    if rules:
        schema["x-kubernetes-validations"] = [_validation(rule) for rule in rules]
    return schema


def field_schema(annotation: Any, path: str) -> Schema:
    """The schema of one annotated type: the shape from the type, everything else from the markers."""
    base, given = _unwrap(annotation)
    rules: tuple[Rule, ...] = given.pop("rules", ())
    schema = _shape(base, given, path)
    opaque, quantity = given.pop("opaque", False), given.pop("quantity", False)
    schema.update(given)
    if rules:
        schema["x-kubernetes-validations"] = schema.get("x-kubernetes-validations", []) + [
            _validation(rule) for rule in rules
        ]
    if not (opaque or quantity):
        _check_bounds(schema, path)
    return _ordered(schema)


def _unwrap(annotation: Any) -> tuple[Any, dict[str, Any]]:
    """The bare type and all that markers say about it; outer markers win. `X | None` counts as X."""
    if get_origin(annotation) is Annotated:
        base, given = _unwrap(get_args(annotation)[0])
        for marker in annotation.__metadata__:
            given |= marker.extra_json_schema or {}
            if marker.description:
                given["description"] = marker.description
        return base, given
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not types.NoneType]
        if len(parts) == 1:
            return _unwrap(parts[0])
    return annotation, {}


def _shape(base: Any, given: dict[str, Any], path: str) -> Schema:
    if given.get("opaque"):
        return {"type": "object", _OPAQUE: True}
    if given.get("quantity"):
        return {"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": 64} | {
            "anyOf": [{"type": "integer"}, {"type": "string"}]
        }
    if base in _SCALARS:
        return _scalar(_SCALARS[base], given)
    if get_origin(base) is tuple:
        return {"type": "array", "items": _inner(get_args(base)[0], f"{path}[]")}
    if get_origin(base) is dict:
        return {"type": "object", "additionalProperties": _inner(get_args(base)[1], f"{path}{{}}")}
    if isinstance(base, type) and issubclass(base, Slim):
        return object_schema(base, path)
    raise SchemaError(f"{path}: no schema for {base!r}")


def _scalar(name: str, given: dict[str, Any]) -> Schema:
    if name != "integer":
        return {"type": name}
    if given.get("format") == "int64":
        return {"type": name}
    return {"type": name, "format": "int32", "maximum": INT32_LIMIT}


def _inner(annotation: Any, path: str) -> Schema:
    """The schema of items and map values; they need bounds but no words of their own."""
    _, given = _unwrap(annotation)
    schema = field_schema(annotation if given.get("description") else Annotated[annotation, _WORDLESS], path)
    if schema["description"] == _WORDLESS.description:
        del schema["description"]
    return schema


_WORDLESS = msgspec.Meta(description="-")


def _check_bounds(schema: Schema, path: str) -> None:
    if not schema.get("description"):
        raise SchemaError(f"{path}: a field needs a description")
    bound = {"array": "maxItems", "string": "maxLength"}.get(schema["type"])
    if schema["type"] == "object" and "additionalProperties" in schema:
        bound = "maxProperties"
    if bound and bound not in schema and "enum" not in schema and "format" not in schema:
        raise SchemaError(f"{path}: needs {bound}")


def _removed_schema(field: Removed) -> Schema:
    schema: Schema = {"type": field.type, "description": f"Removed. {field.message}."}
    if field.type == "array":
        return schema | {"maxItems": 1024, "items": {"type": "object", _OPAQUE: True}}
    return schema | {_OPAQUE: True}


def _refusal(field: Removed) -> Rule:
    return Rule(f"!has(self.{field.name})", field.message, reason="FieldValueForbidden", field_path=f".{field.name}")


def _validation(rule: Rule) -> Schema:
    shown = {"rule": rule.rule, "message": rule.message, "reason": rule.reason, "fieldPath": rule.field_path}
    validation: Schema = {key: value for key, value in shown.items() if value}
    if rule.optional_old_self:
        validation["optionalOldSelf"] = True
    return validation


_ORDER = ("description", "type", "format", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern")


def _ordered(schema: Schema) -> Schema:
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | {key: value for key, value in schema.items() if key not in known}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority above 0 is shown with -o wide only."""

    name: str
    type: str
    path: str
    priority: int = 0

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return shown | {"priority": self.priority} if self.priority else shown


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec: str
    status: str
    selector: str


@dataclass(frozen=True, slots=True)
class Version:
    """One served version of a kind."""

    type: type[Kind]
    columns: tuple[Column, ...]
    storage: bool = True
    deprecation: str = ""

    @property
    def name(self) -> str:
        return self.type.VERSION


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything a CustomResourceDefinition says; the names are those of the stored type."""

    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
    status: bool = True
    scale: Scale | None = None

    @property
    def stored(self) -> type[Kind]:
        return next(version.type for version in self.versions if version.storage)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Where the API server has objects converted: a URL, or a service with a path.

    `ca_bundle` is base64 of PEM; without it somebody else fills it in.
    """

    ca_bundle: str = ""
    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = "/convert"
    service_port: int = 443

    def client_config(self) -> dict[str, Any]:
        trust = {"caBundle": self.ca_bundle} if self.ca_bundle else {}
        if self.url:
            return {"url": self.url, **trust}
        service = {"namespace": self.service_namespace, "name": self.service_name, "path": self.service_path}
        return {"service": service | {"port": self.service_port}, **trust}


def render(definition: Definition, conversion: Conversion | None) -> dict[str, Any]:
    """The CRD object.

    Without a conversion only the stored version is served: the server would relabel objects of another version and
    prune what it does not know.
    """
    stored = definition.stored
    spec: dict[str, Any] = {
        "group": stored.GROUP,
        "names": _names(definition),
        "scope": "Namespaced" if stored.NAMESPACED else "Cluster",
        "versions": [
            _version(definition, version, served=version.storage or conversion is not None)
            for version in definition.versions
        ],
    }
    if len(definition.versions) > 1:
        spec["conversion"] = _conversion(conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{stored.PLURAL}.{stored.GROUP}"},
        "spec": spec,
    }


def _names(definition: Definition) -> dict[str, Any]:
    stored = definition.stored
    names: dict[str, Any] = {
        "kind": stored.KIND,
        "listKind": f"{stored.KIND}List",
        "plural": stored.PLURAL,
        "singular": stored.KIND.lower(),
    }
    return names | {"shortNames": list(definition.short_names)} if definition.short_names else names


def _version(definition: Definition, version: Version, served: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": version.name, "served": served, "storage": version.storage}
    if version.deprecation:
        shown |= {"deprecated": True, "deprecationWarning": version.deprecation}
    shown["schema"] = {"openAPIV3Schema": root_schema(version.type)}
    subresources = _subresources(definition)
    if subresources:
        shown["subresources"] = subresources
    shown["additionalPrinterColumns"] = [column.to_json() for column in version.columns]
    return shown


def _subresources(definition: Definition) -> dict[str, Any]:
    shown: dict[str, Any] = {"status": {}} if definition.status else {}
    if definition.scale:
        shown["scale"] = {
            "specReplicasPath": definition.scale.spec,
            "statusReplicasPath": definition.scale.status,
            "labelSelectorPath": definition.scale.selector,
        }
    return shown


def _conversion(conversion: Conversion | None) -> dict[str, Any]:
    if conversion is None:
        return {"strategy": "None"}
    webhook = {"clientConfig": conversion.client_config(), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}
