"""From a definition to what the server serves: for each version a resource with its rules, scale and conversion.

Metadata is the server's: it is neither checked nor stamped here, but for the types of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, invalid
from kube_embedded.base.resource import Column, Context, Resource, ScalePaths
from kube_embedded.builtins import decode
from kube_embedded.customresources.jsonpath import BadPath, JsonPath, Table, parse, text_of
from kube_embedded.schema.cel.rules import Rules
from kube_embedded.schema.model import Raw, Schema, has_embedded, validate_embedded
from kube_embedded.schema.shaping import Defaulter, compile_structural, copied
from kube_embedded.schema.validate import Correlation, UniqueLists, Validator, same

_MAX_REPLICAS = 2**31 - 1
_GO_TYPES: dict[type, str] = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", int: "int64"}


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths as the definition spells them."""

    spec: str
    status: str
    selector: str = ""

    @staticmethod
    def of(definition: Mapping[str, str] | None) -> Scale | None:
        if definition is None:
            return None
        selector = definition.get("labelSelectorPath") or ""
        return Scale(definition["specReplicasPath"], definition["statusReplicasPath"], selector)

    def paths(self) -> ScalePaths:
        return ScalePaths(_keys(self.spec), _keys(self.status), _keys(self.selector) if self.selector else None)

    def errors(self, obj: Object) -> list[FieldError]:
        return _number_errors(obj, self.spec) + self.status_errors(obj)

    def status_errors(self, obj: Object) -> list[FieldError]:
        errors = _number_errors(obj, self.status)
        if self.selector:
            found = _at(obj, self.selector)
            if found is not None and not isinstance(found, str):
                errors.append(invalid(self.selector, "", _type_error(self.selector, found, "string")))
        return errors


def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _at(obj: Any, path: str) -> Any:
    for key in _keys(path):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def _number_errors(obj: Object, path: str) -> list[FieldError]:
    found = _at(obj, path)
    if found is None:
        return []
    if not isinstance(found, int) or isinstance(found, bool):
        return [invalid(path, 0, _type_error(path, found, "int64"))]
    if found < 0:
        return [invalid(path, found, "should be a non-negative integer")]
    if found > _MAX_REPLICAS:
        return [invalid(path, found, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _type_error(path: str, found: Any, expected: str) -> str:
    kind = _GO_TYPES.get(type(found), "map[string]interface {}")
    return f"{path} accessor error: {found} is of the type {kind}, expected {expected}"


_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GO_NAMES: dict[type, str] = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}
_holds_objects = lru_cache(maxsize=1024)(has_embedded)


def metadata_error(obj: Object, schema: Schema, original: Object | None = None) -> str:
    """The first complaint of the decoder about metadata, or nothing. The object is not changed.

    `original`: a stored object some of whose parts it has; those need no second look.
    """
    if complaint := _complaint(_new_metadata(obj.get("metadata"), original)):
        return complaint
    return next(_embedded(obj, schema, ""), "") if _holds_objects(schema) else ""


def _new_metadata(metadata: Any, original: Object | None) -> Any:
    """Metadata without what it has from a stored object."""
    if original is None or not isinstance(metadata, dict):
        return metadata
    known = original["metadata"]
    return {key: value for key, value in metadata.items() if value is not known.get(key)}


def _complaint(metadata: Any) -> str:
    if metadata is None:
        return ""
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_GO_NAMES.get(type(metadata), 'object')} into Go value of type v1.ObjectMeta"
    errors = decode.conform(copied(metadata), _OBJECT_META).errors
    return errors[0] if errors else ""


def _embedded(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list) and schema.items is not None:
        for index, child in enumerate(value):
            yield from _embedded(child, schema.items, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    if schema.embedded:
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key, ""), str):
                yield str(invalid(f"{path}.{key}", value[key], "must be a string"))
        if complaint := _complaint(value.get("metadata")):
            yield str(invalid(f"{path}.metadata", value["metadata"], complaint))
    for key, child in value.items():
        if (known := schema.properties.get(key)) is not None:
            yield from _embedded(child, known, f"{path}.{key}" if path else key)
        elif schema.additional is not None:
            yield from _embedded(child, schema.additional, f"{path}[{key}]")


_BLOCKING = {
    ErrorType.NOT_SUPPORTED,
    ErrorType.REQUIRED,
    ErrorType.TOO_LONG,
    ErrorType.TOO_MANY,
    ErrorType.TYPE_INVALID,
}
_UNCHECKED = invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomStrategy:
    """Defaulting, validation and printing of the objects of one version."""

    def __init__(self, group: str, kind: str, version: Mapping[str, Any]) -> None:
        raw: Raw = (version.get("schema") or {}).get("openAPIV3Schema") or _ANY_OBJECT
        subresources = version.get("subresources") or {}
        self.schema: Schema = compile_structural(raw)
        self._api_version = f"{group}/{version['name']}"
        self._kind = kind
        self._has_status = subresources.get("status") is not None
        self._scale = Scale.of(subresources.get("scale"))
        self._table = Table(version.get("additionalPrinterColumns") or ())
        self.columns: Sequence[Column] = self._table.columns
        self._validator = Validator(raw)
        status = raw.get("properties", {}).get("status")
        self._status_validator = Validator(status, "status") if status is not None else None
        self._defaulter = Defaulter(self.schema)
        self._lists = UniqueLists(self.schema)
        self._embedded = has_embedded(self.schema)
        self._rules = Rules.of(raw, self.schema)
        self._selectable = _selectable_paths(version.get("selectableFields") or ())

    def default(self, obj: Object) -> None:
        self._defaulter.apply(obj)

    def prepare_create(self, obj: Object, context: Context) -> None:
        if self._has_status:
            obj.pop("status", None)

    def prepare_update(self, obj: Object, old: Object, context: Context) -> None:
        if not self._has_status:
            return
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = copied(old["status"])

    def prepare_status_update(self, obj: Object, old: Object, context: Context) -> None:
        """Everything of the old object stays but the status, and who manages which field."""
        changed = {"status": obj["status"]} if "status" in obj else {}
        managed = (obj.get("metadata") or {}).get("managedFields")
        obj.clear()
        obj.update({key: copied(value) for key, value in old.items() if key != "status"}, **changed)
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def generation_changes(self, obj: Object, old: Object) -> bool:
        keys = (obj.keys() | old.keys()) - {"metadata", "apiVersion", "kind"}
        if self._has_status:
            keys.discard("status")
        return any(not same(obj.get(key), old.get(key)) or (key in obj) != (key in old) for key in keys)

    def validate_create(self, obj: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        errors = self._validator.validate(obj) + self._scale_errors(obj)
        if self._embedded:
            errors += validate_embedded(obj, self.schema)
        errors += self._lists.validate(obj)
        return errors + self._rule_errors(obj, None, errors)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        errors = self._validator.validate_update(obj, old, self.schema) + self._scale_errors(obj)
        if self._embedded:
            errors += validate_embedded(obj, self.schema)
        errors += self._list_errors(obj, old)
        return errors + self._rule_errors(obj, old, errors)

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        if errors := self._type_errors(obj):
            return errors
        if self._status_validator is not None and "status" in obj:
            status = self.schema.properties["status"]
            errors = self._status_validator.validate_update(obj["status"], old.get("status"), status)
        if self._scale is not None:
            errors += self._scale.status_errors(obj)
        errors += self._list_errors(obj, old)
        return errors + self._rule_errors(obj, old, errors)

    def row(self, obj: Object, context: Context) -> list[Any]:
        return self._table.row(obj, context)

    def selectable(self, obj: Object) -> dict[str, str]:
        found = {name: path.find(obj) for name, path in self._selectable}
        return {name: text_of(values[0]) if values and values[0] is not None else "" for name, values in found.items()}

    def _type_errors(self, obj: Object) -> list[FieldError]:
        wanted = (("kind", self._kind), ("apiVersion", self._api_version))
        return [invalid(key, obj.get(key, ""), f"must be {value}") for key, value in wanted if obj.get(key) != value]

    def _scale_errors(self, obj: Object) -> list[FieldError]:
        return self._scale.errors(obj) if self._scale is not None else []

    def _list_errors(self, obj: Object, old: Object) -> list[FieldError]:
        """Duplicates are refused unless there were some before."""
        errors = self._lists.validate(obj)
        return errors if errors and not self._lists.validate(old) else []

    def _rule_errors(self, obj: Object, old: Object | None, errors: list[FieldError]) -> list[FieldError]:
        if self._rules is None:
            return []
        if any(error.type in _BLOCKING for error in errors):
            return [_UNCHECKED]
        related = Correlation(old is not None, old, self.schema)
        return self._rules.validate(obj, old, related)


_ANY_OBJECT: Raw = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _selectable_paths(fields: Sequence[Mapping[str, str]]) -> tuple[tuple[str, JsonPath], ...]:
    paths = []
    for field in fields:
        try:
            paths.append((field["jsonPath"].removeprefix("."), parse(field["jsonPath"])))
        except BadPath:
            continue
    return tuple(paths)


"""An object and the apiVersion it shall have, to the object in that version. It must not change the one given."""


def resources(crd: Mapping[str, Any]) -> list[Resource]:
    """The served resources of an established definition, in the order of its versions."""
    spec = crd["spec"]
    storage = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    return [_resource(spec, version, storage) for version in spec["versions"] if version.get("served")]


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> Resource:
    group, names, name = spec["group"], spec["names"], version["name"]
    subresources = version.get("subresources") or {}
    scale = Scale.of(subresources.get("scale"))
    strategy = _strategy(group, names["kind"], version)
    return Resource(
        group=group,
        version=name,
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        schema=strategy.schema,
        strategy=strategy,
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(key for key in ("status", "scale") if subresources.get(key) is not None),
        scale=scale.paths() if scale is not None else None,
        schema_name=_component(group, name, names["kind"]),
        storage_version=storage,
        builtin=False,
        plain_metadata=True,
        unconditional_update=False,
        deprecated=_deprecation(spec, version),
    )


def _strategy(group: str, kind: str, version: Mapping[str, Any]) -> CustomStrategy:
    """Equal definitions have one strategy in a process: to make one compiles the schema and its rules."""
    return _compiled(json.dumps([group, kind, version]))


@lru_cache(maxsize=64)
def _compiled(content: str) -> CustomStrategy:
    return CustomStrategy(*json.loads(content))


def _component(group: str, version: str, kind: str) -> str:
    """The name in the OpenAPI document: the group reversed, as Java writes packages."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    given = version.get("deprecationWarning")
    return given or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
